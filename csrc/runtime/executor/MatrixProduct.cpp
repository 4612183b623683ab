#include "runtime/executor/MatrixProduct.h"
#include "runtime/memory/BufferPool.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <array>
#include <cstring>
#include <optional>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

// torch exports it but installs no header for it; null in a build that lacks it.
namespace at::native {
/// result = alpha * (a @ b) + beta * result, for two matrices or two batches of them.
__attribute__((weak)) void mkldnn_matmul(const Tensor &a, const Tensor &b, const Tensor &result, float beta,
                                         float alpha);
} // namespace at::native

namespace torch_tile::runtime {
namespace {

/// oneDNN takes some 10 us to find its code for a problem; below this number of multiplications that is not won back.
constexpr int64_t minMultiplications = 1 << 21;
/// Narrower products are bound by memory, where both are equal, or fill no register.
constexpr int64_t minSide = 8;

//===-- whether ------------------------------------------------------------------------------------------------===//

using LinearSignature = at::Tensor(const at::Tensor &, const at::Tensor &, const std::optional<at::Tensor> &,
                                   c10::string_view, c10::List<std::optional<at::Scalar>>,
                                   std::optional<c10::string_view>);

#if defined(__x86_64__)
bool isIntel() {
  unsigned top = 0, vendor[3] = {};
  if (!__get_cpuid(0, &top, &vendor[0], &vendor[2], &vendor[1]))
    return false;
  return std::memcmp(vendor, "GenuineIntel", sizeof(vendor)) == 0;
}
#endif

/// The instructions without which torch's wrapper refuses.
bool hasInstructions() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

bool isFaster() {
#if defined(__x86_64__)
  return !isIntel();
#else
  return false;
#endif
}

bool isFloatOnCpu(const at::Tensor &tensor) {
  return tensor.defined() && tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.layout() == at::kStrided;
}

/// Of two matrices or two batches, with sizes that fit and enough work.
bool isWorthIt(const at::Tensor &a, const at::Tensor &b) {
  if (!isFloatOnCpu(a) || !isFloatOnCpu(b) || a.dim() != b.dim() || !at::globalContext().userEnabledMkldnn())
    return false;
  int64_t rank = a.dim(), batch = rank == 3 ? a.size(0) : 1;
  int64_t rows = a.size(-2), inner = a.size(-1), columns = b.size(-1);
  if (inner != b.size(-2) || (rank == 3 && batch != b.size(0)) || rows < minSide || columns < minSide)
    return false; // what does not fit gets ATen's message
  return static_cast<double>(batch) * rows * inner * columns >= minMultiplications;
}

//===-- calls --------------------------------------------------------------------------------------------------===//

at::Tensor emptyResult(const at::Tensor &a, const at::Tensor &b) {
  int64_t rows = a.size(-2), columns = b.size(-1);
  if (a.dim() == 2)
    return emptyOnCpu({rows, columns}, {columns, 1}, at::kFloat);
  return emptyOnCpu({a.size(0), rows, columns}, {rows * columns, columns, 1}, at::kFloat);
}

void replaceArguments(torch::jit::Stack &stack, size_t numArguments, at::Tensor result) {
  torch::jit::drop(stack, numArguments);
  stack.emplace_back(std::move(result));
}

/// mm and bmm: (a, b).
bool product(torch::jit::Stack &stack) {
  const at::Tensor &a = stack[stack.size() - 2].toTensor(), &b = stack[stack.size() - 1].toTensor();
  if (!isWorthIt(a, b))
    return false;
  RECORD_FUNCTION("onednn::matmul", c10::ArrayRef<const c10::IValue>{});
  at::Tensor result = emptyResult(a, b);
  at::native::mkldnn_matmul(a, b, result, /*beta=*/0, /*alpha=*/1);
  replaceArguments(stack, 2, std::move(result));
  return true;
}

/// oneDNN's form with a bias adds it while the product is in registers. It wants the second matrix stored by columns,
/// as a linear layer's transposed weight is.
std::optional<at::Tensor> linear(const at::Tensor &bias, const at::Tensor &a, const at::Tensor &b) {
  static const auto op = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
  if (!op || bias.dim() != 1 || bias.size(0) != b.size(1) || !bias.is_contiguous() || !a.is_contiguous() ||
      b.stride(0) != 1 || b.stride(1) != b.size(0))
    return std::nullopt;
  at::Tensor weight = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(b.storage()),
                                                               b.key_set(), b.dtype());
  std::array<int64_t, 2> sizes{b.size(1), b.size(0)}, strides{b.size(0), 1};
  weight.unsafeGetTensorImpl()->set_sizes_and_strides(at::IntArrayRef(sizes), at::IntArrayRef(strides),
                                                      b.storage_offset());
  return op->typed<LinearSignature>().call(a, weight, bias, "none", c10::List<std::optional<at::Scalar>>(), "");
}

/// addmm and baddbmm: (addend, a, b, beta, alpha).
bool productWithAddend(torch::jit::Stack &stack) {
  size_t first = stack.size() - 5;
  const at::Tensor &addend = stack[first].toTensor(), &a = stack[first + 1].toTensor(),
                   &b = stack[first + 2].toTensor();
  if (!isFloatOnCpu(addend) || addend.dim() > a.dim() || !isWorthIt(a, b))
    return false;
  double beta = stack[first + 3].toScalar().toDouble(), alpha = stack[first + 4].toScalar().toDouble();
  if (alpha == 0)
    return false;
  RECORD_FUNCTION("onednn::matmul", c10::ArrayRef<const c10::IValue>{});
  if (beta == 1 && alpha == 1 && a.dim() == 2) {
    if (std::optional<at::Tensor> result = linear(addend, a, b)) {
      replaceArguments(stack, 5, std::move(*result));
      return true;
    }
  }
  at::Tensor result = emptyResult(a, b);
  if (beta != 0) // else the addend is not read, NaN or not
    result.copy_(addend.expand_as(result));
  if (beta != 0 && beta != 1)
    result.mul_(beta);
  at::native::mkldnn_matmul(a, b, result, beta != 0 ? 1.0f : 0.0f, static_cast<float>(alpha));
  replaceArguments(stack, 5, std::move(result));
  return true;
}

} // namespace

MatmulLibrary parseMatmulLibrary(std::string_view name) {
  if (name == "auto")
    return MatmulLibrary::Auto;
  if (name == "aten")
    return MatmulLibrary::Aten;
  TORCH_CHECK(name == "onednn", "matmul library expected to be auto, aten or onednn, got '", name, "'");
  return MatmulLibrary::OneDnn;
}

bool prefersOneDnn(MatmulLibrary library) {
  return library != MatmulLibrary::Aten && hasInstructions() && (library == MatmulLibrary::OneDnn || isFaster());
}

DirectCall findMatrixProduct(const c10::OperatorName &op, MatmulLibrary library) {
  if (!prefersOneDnn(library) || !at::native::mkldnn_matmul)
    return nullptr;
  if (!op.overload_name.empty())
    return nullptr;
  if (op.name == "aten::mm" || op.name == "aten::bmm")
    return product;
  if (op.name == "aten::addmm" || op.name == "aten::baddbmm")
    return productWithAddend;
  return nullptr;
}

} // namespace torch_tile::runtime
