#include "runtime/launch/gpu/GpuLaunch.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/SmallVector.h>

#include <dlfcn.h>

#include <array>
#include <atomic>

namespace torch_tile::runtime {
namespace {

/// c10::cuda::CUDAStream::stream() const. A CUDAStream is a c10::Stream and nothing more; asking it for the driver's
/// handle through the symbol needs no headers of CUDA, and works for every version of torch.
using StreamHandleFn = CudaStream (*)(const c10::Stream *);

StreamHandleFn streamHandleFunction() {
  static const auto function = [] {
    void *library = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    TORCH_CHECK(library, "kernels for CUDA need a torch with CUDA");
    void *symbol = dlsym(library, "_ZNK3c104cuda10CUDAStream6streamEv");
    TORCH_CHECK(symbol, "libc10_cuda.so has no c10::cuda::CUDAStream::stream: this version of torch is not supported");
    return reinterpret_cast<StreamHandleFn>(symbol);
  }();
  return function;
}

/// A thread that torch has not used CUDA on has no context yet. The primary one is torch's.
void makeContextCurrent(int device) {
  static std::array<std::atomic<CudaContext>, 64> contexts;
  TORCH_CHECK(device >= 0 && static_cast<size_t>(device) < contexts.size(), "expected a device below ", contexts.size(),
              ", got ", device);
  const CudaDriver &driver = CudaDriver::get();
  std::atomic<CudaContext> &slot = contexts[static_cast<size_t>(device)];
  CudaContext wanted = slot.load(std::memory_order_acquire);
  if (!wanted) {
    driver.check(driver.cuDevicePrimaryCtxRetain(&wanted, device), "retaining the primary context");
    slot.store(wanted, std::memory_order_release); // twice at once retains twice, which does no harm
  }
  CudaContext current = nullptr;
  driver.check(driver.cuCtxGetCurrent(&current), "asking for the context");
  if (current != wanted)
    driver.check(driver.cuCtxSetCurrent(wanted), "setting the context");
}

} // namespace

GpuScope::GpuScope(c10::Device device)
    : guard(device), deviceIndex(device.index()), deviceAllocator(c10::GetAllocator(device.type())) {
  makeContextCurrent(deviceIndex);
  refreshStream();
}

void GpuScope::refreshStream() {
  c10::Stream stream = c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStream(guard.current_device());
  currentStream = streamHandleFunction()(&stream);
}

static void launchBlocks(const GpuKernel &kernel, const GpuScope &scope, std::span<uint64_t> values, unsigned x,
                         unsigned y, unsigned z) {
  c10::SmallVector<void *, 32> parameters;
  for (uint64_t &value : values)
    parameters.push_back(&value);
  const CudaDriver &driver = CudaDriver::get();
  driver.check(driver.cuLaunchKernel(kernel.on(scope.device()), x, y, z, kernel.numThreads(), 1, 1,
                                     kernel.sharedBytes(), scope.stream(), parameters.data(), nullptr),
               "launching a kernel");
}

void launchGpu(const GpuKernel &kernel, const GpuScope &scope, std::span<uint64_t> values, const int64_t (&grid)[3]) {
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0)
    return;
  constexpr int64_t maxOuter = 65535;
  TORCH_CHECK_VALUE(grid[0] <= INT32_MAX && grid[1] <= maxOuter && grid[2] <= maxOuter,
                    "a device expected a grid of at most (", INT32_MAX, ", ", maxOuter, ", ", maxOuter,
                    ") programs, got (", grid[0], ", ", grid[1], ", ", grid[2], ")");
  launchBlocks(kernel, scope, values, static_cast<unsigned>(grid[0]), static_cast<unsigned>(grid[1]),
               static_cast<unsigned>(grid[2]));
}

void launchGpu(const GpuKernel &kernel, const GpuScope &scope, std::span<void *const> pointers,
               std::span<const int64_t> integers, const GpuGrid &grid) {
  if (grid.numPrograms <= 0)
    return;
  TORCH_CHECK(grid.sizes || grid.numPrograms <= INT32_MAX, "a kernel expected at most ", INT32_MAX, " programs, got ",
              grid.numPrograms);
  c10::SmallVector<uint64_t, 32> values;
  for (void *pointer : pointers)
    values.push_back(reinterpret_cast<uint64_t>(pointer));
  for (int64_t integer : integers)
    values.push_back(static_cast<uint64_t>(integer));
  // Freed at the end of this function: the next user of the memory runs later in the same stream.
  c10::DataPtr scratch;
  if (grid.scratchBytes > 0) {
    int64_t total;
    TORCH_CHECK(!__builtin_mul_overflow(grid.numPrograms, grid.scratchBytes, &total), "scratch memory of ",
                grid.numPrograms, " programs overflows");
    scratch = scope.allocator()->allocate(static_cast<size_t>(total));
    values.push_back(reinterpret_cast<uint64_t>(scratch.get()));
    values.push_back(static_cast<uint64_t>(grid.scratchBytes));
  }
  if (grid.sizes) {
    const auto [x, y, z] = *grid.sizes;
    return launchGpu(kernel, scope, values, {x, y, z});
  }
  int64_t perBlock = kernel.programsPerBlock();
  if (perBlock > 1)
    values.push_back(static_cast<uint64_t>(grid.numPrograms));
  launchBlocks(kernel, scope, values, static_cast<unsigned>((grid.numPrograms + perBlock - 1) / perBlock), 1, 1);
}

} // namespace torch_tile::runtime
