// torch's type promotion: tensors with dimensions before 0-d tensors before Python scalars.
#pragma once

#include "runtime/fx/Value.h"

#include <c10/core/ScalarType.h>

#include <optional>

namespace torch_tile::runtime::fx {

/// Collects operands, then says in which dtype torch computes with them.
class TypePromotion {
public:
  void addTensor(at::ScalarType dtype, size_t rank) { join(rank == 0 ? zeroDim : dim, dtype); }
  void addBool() { join(scalar, at::kBool); }
  void addInt() { join(scalar, at::kLong); }
  void addFloat();

  at::ScalarType result() const;

private:
  static void join(std::optional<at::ScalarType> &category, at::ScalarType dtype);

  std::optional<at::ScalarType> dim, zeroDim, scalar;
};

/// The dtype of a float op over operands of this one: integers and bools become the default dtype.
at::ScalarType floatTypeOf(at::ScalarType dtype);

/// Whether the number is exact in the dtype; matters for f16 and bf16, where torch computes with scalars in f32.
bool isExact(double value, at::ScalarType dtype);

/// Whether ATen converts the number to the dtype. It refuses what lies outside the range; infinities and NaN lie inside
/// that of floats, and the negative of an element inside that of unsigned integers. A size is not known here.
bool isInRange(const Scalar &value, at::ScalarType dtype);

/// Kernels can be generated for it.
bool isGenerated(at::ScalarType dtype);

/// Whether kernels read and write it, converted to and from a dtype that they compute in.
bool isConverted(at::ScalarType dtype);

} // namespace torch_tile::runtime::fx
