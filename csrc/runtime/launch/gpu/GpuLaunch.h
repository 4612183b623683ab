// Launches kernels on the current stream of a CUDA device. Knows torch's device-generic interfaces alone, so that the
// same source builds against torch with and without CUDA.
#pragma once

#include "runtime/launch/gpu/GpuKernel.h"

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/DeviceGuard.h>

#include <array>
#include <optional>

namespace torch_tile::runtime {

/// A device made current for a while: torch's guard, the driver's context, and the current stream.
class GpuScope {
public:
  explicit GpuScope(c10::Device device);

  /// Asks torch for the current stream again, after other code has run.
  void refreshStream();

  int device() const { return deviceIndex; }
  CudaStream stream() const { return currentStream; }
  c10::Allocator *allocator() const { return deviceAllocator; }

private:
  c10::DeviceGuard guard;
  int deviceIndex;
  CudaStream currentStream = nullptr;
  c10::Allocator *deviceAllocator;
};

/// Whether all pointers that the kernel takes to be aligned are.
inline bool areAligned(const GpuKernel &kernel, std::span<void *const> pointers) {
  uintptr_t bits = 0;
  for (artifact::AlignedArgument argument : kernel.alignedArguments())
    bits |= reinterpret_cast<uintptr_t>(pointers[argument.index]);
  return bits % GpuKernel::alignment == 0;
}

struct GpuGrid {
  int64_t numPrograms;
  int64_t scratchBytes; // of one program
  /// Sizes along x, y and z, if the programs are not numbered along x alone.
  std::optional<std::array<int64_t, 3>> sizes = {};
};

/// A grid of up to three axes; `values` are the kernel's arguments in its own order, as 64 bits each.
void launchGpu(const GpuKernel &kernel, const GpuScope &scope, std::span<uint64_t> values, const int64_t (&grid)[3]);

/// `pointers` and `integers` in the order of the kernel's arguments: first all pointers, then all integers. Returns
/// when the kernel is in the stream; what it does wrong surfaces as eager's errors do, at a later synchronization.
void launchGpu(const GpuKernel &kernel, const GpuScope &scope, std::span<void *const> pointers,
               std::span<const int64_t> integers, const GpuGrid &grid);

} // namespace torch_tile::runtime
