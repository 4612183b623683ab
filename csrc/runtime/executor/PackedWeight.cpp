#include "runtime/executor/PackedWeight.h"

#include <ATen/Context.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/record_function.h>

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <array>

namespace torch_tile::runtime {
namespace {

/// The user's modes do not see packing: in Python the error of a refusal would stay pending.
struct WithoutModes {
  c10::impl::ExcludeDispatchKeyGuard guard{
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot})};
};

/// A call through oneDNN's operators takes some 8 us more than one to ATen's own product of float32 matrices.
constexpr int64_t minMultiplications = 1 << 20;
/// A product with one row is bound by the memory of the weight; packing it changes nothing in float32 but for large
/// ones, which ATen reads slowly.
constexpr int64_t minVectorMultiplications = 1 << 22;

using Scalars = c10::List<std::optional<at::Scalar>>;
using Text = std::optional<c10::string_view>;
using LinearSignature = at::Tensor(const at::Tensor &, const at::Tensor &, const std::optional<at::Tensor> &,
                                   c10::string_view, Scalars, Text);
using ConvolutionSignature = at::Tensor(const at::Tensor &, const at::Tensor &, const std::optional<at::Tensor> &,
                                        at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, int64_t, c10::string_view,
                                        Scalars, Text);

std::optional<c10::OperatorHandle> find(const char *name) {
  return c10::Dispatcher::singleton().findSchema({name, ""});
}

bool isLowPrecision(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; }

bool isPlainOnCpu(const at::Tensor &tensor, at::ScalarType type) {
  return tensor.defined() && tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.scalar_type() == type;
}

std::optional<at::Tensor> optionalTensor(const c10::IValue &value) {
  return value.isNone() || !value.toTensor().defined() ? std::nullopt : std::optional(value.toTensor());
}

void replaceArguments(torch::jit::Stack &stack, size_t numArguments, at::Tensor result) {
  torch::jit::drop(stack, numArguments);
  stack.emplace_back(std::move(result));
}

} // namespace

std::optional<WeightUse> findWeight(const c10::OperatorName &op) {
  using Kind = WeightUse::Kind;
  struct Entry {
    const char *name, *overload;
    WeightUse use;
  };
  static constexpr Entry entries[] = {
      {"aten::mm", "", {Kind::Matrix, 1, 2}},
      {"aten::addmm", "", {Kind::Matrix, 2, 5}},
      {"mkldnn::_linear_pointwise", "", {Kind::Linear, 1, 6}},
      {"mkldnn::_linear_pointwise", "binary", {Kind::Linear, 2, 5}},
      {"aten::convolution", "", {Kind::Convolution, 1, 9}},
      {"mkldnn::_convolution_pointwise", "", {Kind::ConvolutionPointwise, 1, 10}},
      {"mkldnn::_convolution_pointwise", "binary", {Kind::ConvolutionPointwise, 2, 13}},
      {"mkldnn::_convolution_pointwise_", "binary", {Kind::ConvolutionPointwise, 2, 13}},
  };
  for (const Entry &entry : entries)
    if (op.name == entry.name && op.overload_name == entry.overload)
      return entry.use;
  return std::nullopt;
}

PackedWeight::PackedWeight(at::Tensor plainWeight, WeightUse use, MatmulLibrary library)
    : plain(std::move(plainWeight)), use(use) {
  at::ScalarType type = plain.scalar_type();
  bool isMatrix = use.kind == WeightUse::Kind::Matrix || use.kind == WeightUse::Kind::Linear;
  isAllowed = isPlainOnCpu(plain, type) && (type == at::kFloat || isLowPrecision(type)) && !plain.is_inference() &&
              at::globalContext().userEnabledMkldnn() && library != MatmulLibrary::Aten &&
              (!isMatrix || (plain.dim() == 2 && plain.numel() > 0)) &&
              (isMatrix || (plain.dim() == 4 && plain.numel() > 0));
  // Packing is also a choice of the library, and in float32 on Intel's processors MKL is the faster one. Low precision
  // is oneDNN's in ATen too.
  if (use.kind == WeightUse::Kind::Matrix && type == at::kFloat)
    isAllowed = isAllowed && prefersOneDnn(library);
}

bool PackedWeight::call(torch::jit::Stack &stack) const {
  // The slot may hold another tensor where the graph has more to do with the weight first.
  if (!isAllowed ||
      !stack[stack.size() - use.numArguments + use.position].toTensor().unsafeGetTensorImpl()->has_storage() ||
      !stack[stack.size() - use.numArguments + use.position].toTensor().is_same(plain))
    return false;
  switch (use.kind) {
  case WeightUse::Kind::Matrix:
    return callMatrix(stack);
  case WeightUse::Kind::Linear:
    if (const at::Tensor &weight = packMatrix(); weight.defined())
      stack[stack.size() - use.numArguments + use.position] = weight;
    return false;
  default:
    return callConvolution(stack);
  }
}

//===-- products ------------------------------------------------------------------------------------------------===//

const at::Tensor &PackedWeight::packMatrix() const {
  once.run([&] {
    static const auto op = find("mkldnn::_reorder_linear_weight");
    if (!op)
      return;
    at::Tensor weight = use.kind == WeightUse::Kind::Matrix ? plain.t() : plain;
    const WithoutModes guard;
    try {
      // One order serves any number of rows.
      packed = op->typed<at::Tensor(const at::Tensor &, std::optional<int64_t>)>().call(weight, std::nullopt);
    } catch (const std::exception &) {
      // The processor lacks instructions for this type, or memory is short: the plain weight serves.
    }
  });
  return packed;
}

/// mm: (x, weight); addmm: (bias, x, weight, beta, alpha).
bool PackedWeight::callMatrix(torch::jit::Stack &stack) const {
  size_t first = stack.size() - use.numArguments;
  bool hasBias = use.numArguments == 5;
  const at::Tensor &x = stack[first + use.position - 1].toTensor();
  if (x.dim() != 2 || !isPlainOnCpu(x, plain.scalar_type()) || x.size(1) != plain.size(0) || x.numel() == 0)
    return false;
  std::optional<at::Tensor> bias;
  if (hasBias) {
    bias = stack[first].toTensor();
    if (bias->dim() != 1 || bias->size(0) != plain.size(1) || !isPlainOnCpu(*bias, plain.scalar_type()) ||
        stack[first + 3].toScalar().toDouble() != 1 || stack[first + 4].toScalar().toDouble() != 1)
      return false;
  }
  if (plain.scalar_type() == at::kFloat &&
      x.size(0) * plain.numel() < (x.size(0) == 1 ? minVectorMultiplications : minMultiplications))
    return false;
  static const auto op = find("mkldnn::_linear_pointwise");
  if (!op)
    return false;
  const at::Tensor &weight = packMatrix();
  if (!weight.defined())
    return false;
  RECORD_FUNCTION("onednn::packed_linear", c10::ArrayRef<const c10::IValue>{});
  at::Tensor result = op->typed<LinearSignature>().call(x, weight, bias, "none", Scalars(), "");
  replaceArguments(stack, use.numArguments, std::move(result));
  return true;
}

//===-- convolutions --------------------------------------------------------------------------------------------===//

const at::Tensor &PackedWeight::packFilters(const at::Tensor &x, at::IntArrayRef padding, at::IntArrayRef stride,
                                            at::IntArrayRef dilation, int64_t groups) const {
  once.run([&] {
    static const auto op = find("mkldnn::_reorder_convolution_weight");
    if (!op)
      return;
    using Signature = at::Tensor(const at::Tensor &, at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, int64_t,
                                 at::OptionalIntArrayRef);
    const WithoutModes guard;
    try {
      packed = op->typed<Signature>().call(plain, padding, stride, dilation, groups, x.sizes());
    } catch (const std::exception &) {
    }
  });
  return packed;
}

/// aten: (x, weight, bias, stride, padding, dilation, transposed, output padding, groups); oneDNN's have padding,
/// stride, dilation and groups behind the bias.
bool PackedWeight::callConvolution(torch::jit::Stack &stack) const {
  size_t first = stack.size() - use.numArguments;
  bool isAten = use.kind == WeightUse::Kind::Convolution;
  // Of the forms with a second operand one has it before the image, one behind; they differ in rank at most.
  const at::Tensor &x = stack[first].toTensor();
  if (x.dim() != 4 || !isPlainOnCpu(x, plain.scalar_type()) || x.numel() == 0)
    return false;
  size_t after = first + use.position + 2; // behind the bias
  if (isAten && (stack[after + 3].toBool() || x.size(1) != plain.size(1) * stack[after + 5].toInt()))
    return false;
  // What is packed gives results with channels last.
  if (isAten && !at::native::mkldnn_conv_use_channels_last(x, plain))
    return false;
  std::vector<int64_t> stride = stack[after + (isAten ? 0 : 1)].toIntVector(),
                       padding = stack[after + (isAten ? 1 : 0)].toIntVector(),
                       dilation = stack[after + 2].toIntVector();
  int64_t groups = stack[after + (isAten ? 5 : 3)].toInt();
  const at::Tensor &weight = packFilters(x, padding, stride, dilation, groups);
  if (!weight.defined())
    return false;
  if (!isAten) {
    stack[first + use.position] = weight;
    return false;
  }
  static const auto op = find("mkldnn::_convolution_pointwise");
  if (!op)
    return false;
  std::optional<at::Tensor> bias = optionalTensor(stack[first + 2]);
  if (bias && !isPlainOnCpu(*bias, plain.scalar_type()))
    return false;
  RECORD_FUNCTION("onednn::packed_convolution", c10::ArrayRef<const c10::IValue>{});
  at::Tensor result =
      op->typed<ConvolutionSignature>().call(x, weight, bias, padding, stride, dilation, groups, "none", Scalars(), "");
  replaceArguments(stack, use.numArguments, std::move(result));
  return true;
}

} // namespace torch_tile::runtime
