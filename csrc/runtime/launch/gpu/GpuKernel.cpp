#include "runtime/launch/gpu/GpuKernel.h"

namespace torch_tile::runtime {

/// CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES and so on.
static constexpr int sharedSizeBytes = 1, localSizeBytes = 3, registersOfThread = 4, maxDynamicSharedBytes = 8;

GpuKernel::GpuKernel(std::span<const uint8_t> code, std::string symbol, uint32_t numThreads, uint32_t programsPerBlock,
                     uint32_t sharedBytes, std::vector<artifact::AlignedArgument> aligned)
    : code(code.begin(), code.end()), symbol(std::move(symbol)), threads(numThreads), programs(programsPerBlock),
      shared(sharedBytes), aligned(std::move(aligned)) {
  this->code.push_back(0); // PTX is a C string to the driver
}

CudaFunction GpuKernel::load(int device) const {
  TORCH_CHECK(device >= 0 && static_cast<size_t>(device) < functions.size(), "expected a device below ",
              functions.size(), ", got ", device);
  std::lock_guard lock(mutex);
  std::atomic<CudaFunction> &slot = functions[static_cast<size_t>(device)];
  if (CudaFunction function = slot.load())
    return function;
  const CudaDriver &driver = CudaDriver::get();
  // CU_JIT_ERROR_LOG_BUFFER and its size: what the driver's assembler says of PTX.
  std::vector<char> log(4096);
  int options[] = {5, 6};
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
  CudaModule module = nullptr;
  int status = driver.cuModuleLoadDataEx(&module, code.data(), 2, options, values);
  if (status != 0 && log[0])
    TORCH_WARN("the driver refused kernel ", symbol, ": ", log.data());
  driver.check(status, "loading a kernel");
  CudaFunction function = nullptr;
  driver.check(driver.cuModuleGetFunction(&function, module, symbol.c_str()), "looking up a kernel");
  // Without leave a block has 48 KB, and of these what the kernel itself declares counts.
  if (shared > 0)
    driver.check(driver.cuFuncSetAttribute(function, maxDynamicSharedBytes, static_cast<int>(shared)),
                 "asking for shared memory");
  slot.store(function, std::memory_order_release);
  return function;
}

GpuResources GpuKernel::resourcesOn(int device) const {
  auto ask = [&](int attribute) {
    int value = 0;
    CudaDriver::get().check(CudaDriver::get().cuFuncGetAttribute(&value, attribute, on(device)),
                            "asking for what a kernel needs");
    return static_cast<uint32_t>(value);
  };
  return {ask(sharedSizeBytes), ask(registersOfThread), ask(localSizeBytes)};
}

int GpuKernel::occupancyOn(int device) const {
  int count = 0;
  CudaDriver::get().check(CudaDriver::get().cuOccupancyMaxActiveBlocksPerMultiprocessor(
                              &count, on(device), static_cast<int>(threads), shared),
                          "asking for a kernel's occupancy");
  return count;
}

} // namespace torch_tile::runtime
