// Runs the programs of a kernel's grid on torch's thread pool.
#pragma once

#include "artifact/KernelAbi.h"
#include "runtime/launch/cpu/CpuGrid.h"

#include <c10/util/FunctionRef.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace at {
struct RecordFunction;
}

namespace torch_tile::runtime {

/// Beside the exception that a check of a kernel raises.
struct FailedCheck {
  virtual ~FailedCheck() = default;
  std::optional<int64_t> line; // its position among the lines of the launch
};

/// Programs are independent, so how they are split over threads changes no result. Throws c10::IndexError for an index
/// out of range and c10::Error for the other kernel errors; both are a FailedCheck too.
void launchCpu(KernelFn kernel, const KernelArgs &args, const CpuGrid &grid);

struct CpuLaunch {
  KernelFn kernel;
  KernelArgs args;
  CpuGrid grid;
};

/// Launches that need nothing of each other, all in one parallel region: each thread takes an equal share of their
/// whole cost. As for one launch, the split changes no result, and the first failure in their order is the one raised;
/// `failed` is then its number. Where a profiler listens, `record` starts the event of each part of a launch, on the
/// thread that runs it; `isFirst` for the part that begins with the launch's first program.
void launchCpuTogether(std::span<const CpuLaunch> launches,
                       c10::function_ref<void(at::RecordFunction &event, size_t launch, bool isFirst)> record,
                       size_t &failed);

} // namespace torch_tile::runtime
