// Weights that never change, in the order in which oneDNN reads them: matrices of products, filters of convolutions.
#pragma once

#include "runtime/executor/MatrixProduct.h"
#include "support/OncePerProcess.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <optional>

namespace torch_tile::runtime {

/// Where an operator has its weight, and what it does with it.
struct WeightUse {
  enum class Kind : uint8_t {
    Matrix,               // aten::mm, aten::addmm: the weight as it is multiplied
    Linear,               // mkldnn::_linear_pointwise: the weight transposed
    Convolution,          // aten::convolution
    ConvolutionPointwise, // mkldnn::_convolution_pointwise
  } kind;
  uint32_t position = 0;     // of the weight among the operator's arguments
  uint32_t numArguments = 0; // of the operator
};

/// Nothing for operators whose weights cannot be packed.
std::optional<WeightUse> findWeight(const c10::OperatorName &op);

/// The weight of one call. The first call that gains by it packs it; the plain one stays for those that do not. Calls
/// on several threads may share it.
class PackedWeight {
public:
  PackedWeight(at::Tensor plain, WeightUse use, MatmulLibrary library);

  /// With the operator's arguments on the stack: true if the result has taken their place. Otherwise the operator is
  /// to be called with what is on the stack then.
  bool call(torch::jit::Stack &stack) const;

  bool isPacked() const { return once.isDone() && packed.defined(); }

private:
  bool callMatrix(torch::jit::Stack &stack) const;
  bool callConvolution(torch::jit::Stack &stack) const;
  /// Undefined where oneDNN refuses.
  const at::Tensor &packMatrix() const;
  const at::Tensor &packFilters(const at::Tensor &x, at::IntArrayRef padding, at::IntArrayRef stride,
                                at::IntArrayRef dilation, int64_t groups) const;

  at::Tensor plain;
  WeightUse use;
  bool isAllowed;
  mutable OncePerProcess once;
  mutable at::Tensor packed;
};

} // namespace torch_tile::runtime
