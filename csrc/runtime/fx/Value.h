// What the importer knows about a value of the FX graph.
#pragma once

#include "support/SizeExpr.h"

#include <Python.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace torch_tile::runtime::fx {

/// A value the graph dialect cannot say; ends the import of the graph.
struct UnsupportedGraph {
  std::string text;
};

struct TensorType {
  at::ScalarType dtype = at::kFloat;
  std::vector<SizeExpr> sizes;
  std::vector<SizeExpr> strides;
  std::string text; // "!graph.tensor<...>"
  c10::Device device{c10::DeviceType::CPU};

  size_t rank() const { return sizes.size(); }
};

struct Value {
  enum class Kind : uint8_t { None, Tensor, Size, Opaque };
  Kind kind = Kind::None;
  /// A Python float held in a 0-d f64 tensor, which takes part in promotion as a scalar does, or what a comparison of
  /// such floats gives.
  bool isPythonFloat = false;
  /// A Python bool that depends on sizes, as an integer that is 0 or 1.
  bool isTruth = false;
  /// Lies over the storage of a graph input or of an outside call, whose offset is not ours to know.
  bool isForeignStorage = false;
  std::string name; // "%3"
  TensorType type;
  SizeExpr size;
  PyObject *meta = nullptr; // the fake tensor or integer; borrowed from the graph

  bool isTensor() const { return kind == Kind::Tensor; }
};

/// A number in the arguments of a call.
struct Scalar {
  enum class Kind : uint8_t { Bool, Int, Float, Size };
  Kind kind = Kind::Int;
  int64_t integer = 0;
  double number = 0;
  SizeExpr size;
  bool isTruth = false; // of a size: 0 or 1

  static Scalar of(int64_t value) { return {Kind::Int, value, static_cast<double>(value), {}, false}; }
  static Scalar of(double value) { return {Kind::Float, 0, value, {}, false}; }
  bool isConstant() const { return kind != Kind::Size; }
  bool is(double value) const { return isConstant() && number == value; }
};

} // namespace torch_tile::runtime::fx
