// A kernel for GPU: its code, loaded on each device when it is first launched there.
#pragma once

#include "artifact/Artifact.h"
#include "runtime/launch/gpu/CudaDriver.h"
#include "runtime/launch/gpu/Resources.h"

#include <array>
#include <atomic>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace torch_tile::runtime {

class GpuKernel {
public:
  /// `code` is a cubin or the text of PTX.
  GpuKernel(std::span<const uint8_t> code, std::string symbol, uint32_t numThreads, uint32_t programsPerBlock,
            uint32_t sharedBytes = 0, std::vector<artifact::AlignedArgument> aligned = {});

  /// The function on a device, whose context is current.
  CudaFunction on(int device) const {
    CudaFunction function = static_cast<size_t>(device) < functions.size()
                                ? functions[static_cast<size_t>(device)].load(std::memory_order_acquire)
                                : nullptr;
    return C10_LIKELY(function != nullptr) ? function : load(device);
  }
  uint32_t numThreads() const { return threads; }
  uint32_t programsPerBlock() const { return programs; }
  /// Shared memory of a block that its launch provides.
  uint32_t sharedBytes() const { return shared; }
  /// What its code says.
  GpuResources resources() const { return readResources(code); }
  /// What the driver says on a device, whose context is current.
  GpuResources resourcesOn(int device) const;
  /// Blocks that a multiprocessor of the device, whose context is current, holds at once.
  int occupancyOn(int device) const;
  /// Pointers that must be multiples of `alignment`.
  std::span<const artifact::AlignedArgument> alignedArguments() const { return aligned; }
  static constexpr uintptr_t alignment = 16;

private:
  CudaFunction load(int device) const;

  std::vector<uint8_t> code;
  std::string symbol;
  uint32_t threads, programs, shared;
  std::vector<artifact::AlignedArgument> aligned;
  mutable std::mutex mutex;
  // Modules are never unloaded: a kernel may still wait in a stream when its last program dies.
  mutable std::array<std::atomic<CudaFunction>, 64> functions{};
};

} // namespace torch_tile::runtime
