// One call of an ATen op while it is imported: its arguments by position, and how its results are set.
#pragma once

#include "runtime/fx/Importer.h"
#include "runtime/fx/OpTable.h"

#include <optional>
#include <span>

namespace torch_tile::runtime::fx {

/// A reason to leave a call to ATen, which raises an error.
inline constexpr const char *kOutOfRange = "the dtype does not hold a number";

class Call {
public:
  Call(Importer &importer, pybind11::handle node, const OpInfo &op, pybind11::object meta);

  const char *op() const { return info.rule->op; }

  //===-- arguments: default values are filled in ---------------------------------------------------------------===//

  size_t numArguments() const { return arguments.size(); }
  pybind11::handle argument(size_t i) const { return arguments[i]; }
  bool isNone(size_t i) const { return i >= arguments.size() || arguments[i].is_none(); }
  /// Null unless the argument is a node with exactly one tensor.
  const Value *tensor(size_t i) const { return i < arguments.size() ? tensorOf(arguments[i]) : nullptr; }
  const Value *tensorOf(pybind11::handle object) const;
  std::optional<Scalar> scalar(size_t i) const;
  bool flag(size_t i) const { return !isNone(i) && PyObject_IsTrue(arguments[i].ptr()) == 1; }
  SizeExpr size(size_t i) const { return sizeOf(arguments[i]); }
  SizeExpr sizeOf(pybind11::handle object) const;
  std::vector<SizeExpr> sizeList(size_t i) const;
  /// A dimension, made non-negative for a tensor of `rank` dimensions.
  int64_t dim(size_t i, size_t rank) const;
  /// Dimensions, non-negative and ascending; None gives none.
  std::vector<int64_t> dims(size_t i, size_t rank) const;
  std::string text(size_t i) const { return pybind11::str(arguments[i]).cast<std::string>(); }
  double number(size_t i) const { return arguments[i].cast<double>(); }

  /// False if a tensor of sizes `from` is known not to have the sizes `to`, or not to broadcast to them, or if a size
  /// may be 1 when the graph runs. Emits checks of the sizes that only a run tells.
  bool requireSizes(std::span<const SizeExpr> from, std::span<const SizeExpr> to, bool mayBroadcast = false);

  //===-- results -----------------------------------------------------------------------------------------------===//

  const TensorType &type(size_t i = 0) const { return results.leaves[i].type; }
  size_t numResults() const { return results.leaves.size(); }
  const Value &result(size_t i = 0) const { return results.leaves[i]; }
  bool hasResult(size_t i) const { return i < results.leaves.size() && results.leaves[i].isTensor(); }

  /// Names the value as a result, after a cast if it has another dtype. A result is new memory: what was there before
  /// the call is copied.
  void set(Value value, size_t i = 0);
  /// The result is a view over the storage of `base`.
  void setView(Value value, const Value &base, size_t i = 0);

  /// An op in computation dtype `dtype` whose value becomes result 0.
  void setPointwise(std::string_view op, std::span<const Value> operands, at::ScalarType dtype,
                    std::string_view attrs = "");
  /// A value on the way to the result: its sizes, the given dtype.
  Value pointwise(std::string_view op, std::initializer_list<Value> operands, at::ScalarType dtype);

  Importer &importer;
  const OpInfo &info;
  NodeValues results;

private:
  void name(Value value, size_t i);
  std::vector<pybind11::handle> arguments;
  int firstName = 0; // of the values that the rule makes
  friend class Importer;
};

/// Operands of a pointwise op: tensors and scalars, promoted together.
class Operands {
public:
  explicit Operands(Call &call) : call(call) {}

  /// False if argument i is neither a tensor nor a number.
  bool add(size_t i);
  void add(const Scalar &value) { items.push_back({{}, value}); }
  void add(const Value &value) { items.push_back({value, {}}); }

  at::ScalarType promoted() const;
  /// f32 instead of f16 or bf16 where a Python number is not exact there: torch computes with it unrounded.
  at::ScalarType widened(at::ScalarType dtype) const;
  /// The same for products and quotients. Their kernels in ATen read a factor or divisor that is a 0-d tensor on the
  /// CPU, of another dtype, as they read a number; on a GPU either factor, on the CPU the second operand.
  at::ScalarType widenedFactor(at::ScalarType dtype) const;
  /// ATen converts each number to the dtype.
  bool areInRange(at::ScalarType dtype) const;
  std::vector<Value> castTo(at::ScalarType dtype);
  std::optional<Scalar> scalar(size_t i) const { return items[i].scalar; }

private:
  struct Item {
    Value value;
    std::optional<Scalar> scalar;
  };
  Call &call;
  std::vector<Item> items;
};

} // namespace torch_tile::runtime::fx
