// Kernels for GPU read and write 16 bytes at a time. A tensor that does not start at a multiple of that, such as a
// slice of another one, takes part as a copy.
#include "runtime/executor/Program.h"

#include <ATen/ops/copy.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <utility>
#include <vector>

namespace torch_tile::runtime {

/// Bytes from the first element to the end of the last one.
static size_t extentOf(const at::Tensor &tensor) {
  int64_t elements = 1;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim)
    elements += (tensor.size(dim) - 1) * tensor.stride(dim);
  return tensor.numel() == 0 ? 0 : static_cast<size_t>(elements) * tensor.element_size();
}

void Call::launchOnCopies(const GpuKernel &kernel, const artifact::Launch &launch, std::span<void *> pointers,
                          std::span<const int64_t> integers, const GpuGrid &grid) {
  const CudaDriver &driver = CudaDriver::get();
  struct Copy {
    at::Tensor original, aligned;
    bool isWritten;
  };
  std::vector<Copy> copies;
  for (artifact::AlignedArgument argument : kernel.alignedArguments()) {
    void *&pointer = pointers[argument.index];
    if (reinterpret_cast<uintptr_t>(pointer) % GpuKernel::alignment == 0)
      continue;
    const at::Tensor &original = slots[launch.pointers[argument.index]];
    at::Tensor aligned = allocate(original.sizes(), original.strides(), original.scalar_type());
    if (size_t size = extentOf(original); size > 0)
      driver.check(driver.cuMemcpyDtoDAsync(reinterpret_cast<uint64_t>(aligned.mutable_data_ptr()),
                                            reinterpret_cast<uint64_t>(pointer), size, gpu->stream()),
                   "copying an argument that is not aligned");
    pointer = aligned.mutable_data_ptr();
    copies.push_back({original, std::move(aligned), argument.isWritten});
  }
  launchGpu(kernel, *gpu, pointers, integers, grid);
  // Element by element: what lies between them may belong to another tensor that the kernel writes.
  c10::impl::ExcludeDispatchKeyGuard guard(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  for (const Copy &copy : copies)
    if (copy.isWritten)
      copy.original.copy_(copy.aligned);
}

} // namespace torch_tile::runtime
