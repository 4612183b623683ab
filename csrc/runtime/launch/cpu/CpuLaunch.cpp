#include "runtime/launch/cpu/CpuLaunch.h"

#include "runtime/launch/cpu/FloatEnvironment.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>

#ifndef _OPENMP
#error "without -fopenmp at::parallel_for silently runs everything on one thread"
#endif

namespace torch_tile::runtime {
namespace {

/// Work for one task. Handing tasks to the pool costs about 1.5 us, so smaller ones would not gain.
constexpr int64_t taskCostNs = 10000;
/// Below this total a launch stays on the calling thread.
constexpr int64_t serialCostNs = 20000;

/// Memory of one thread for kernels, grown on demand and kept until the thread ends.
class Scratch {
public:
  ~Scratch() { std::free(memory); }

  void *get(int64_t wantedBytes) {
    if (wantedBytes <= sizeBytes)
      return memory;
    std::free(memory);
    sizeBytes = 0;
    int64_t rounded = (wantedBytes + 4095) / 4096 * 4096;
    memory = std::aligned_alloc(64, static_cast<size_t>(rounded));
    if (memory)
      sizeBytes = rounded;
    return memory;
  }

private:
  void *memory = nullptr;
  int64_t sizeBytes = 0;
};

void *threadScratch(int64_t sizeBytes) {
  if (sizeBytes <= 0)
    return nullptr;
  thread_local Scratch scratch;
  return scratch.get(sizeBytes);
}

/// What went wrong in a range of programs; code -1 stands for memory that could not be had.
struct Failure {
  int32_t code = 0;
  int64_t details[3] = {};
};

Failure runRange(KernelFn kernel, const KernelArgs &args, int64_t scratchBytes, int64_t begin, int64_t end) noexcept {
  KernelContext context{threadScratch(scratchBytes), {}};
  Failure failure;
  if (scratchBytes > 0 && !context.scratch) {
    failure.code = -1;
    return failure;
  }
  failure.code = kernel(&args, &context, begin, end);
  std::copy(std::begin(context.error), std::end(context.error), std::begin(failure.details));
  return failure;
}

[[noreturn]] void raise(const Failure &failure) {
  if (failure.code == static_cast<int32_t>(KernelError::IndexOutOfRange))
    TORCH_CHECK_INDEX(false, "index ", failure.details[0], " is out of bounds for dimension with size ",
                      failure.details[1]);
  if (failure.code == static_cast<int32_t>(KernelError::DivisionByZero))
    TORCH_CHECK(false, "ZeroDivisionError");
  TORCH_CHECK(failure.code != -1, "no memory for the scratch space of a kernel");
  if (failure.code == static_cast<int32_t>(KernelError::Assertion)) {
    auto message = reinterpret_cast<const char *>(failure.details[0]);
    TORCH_CHECK(false, "a kernel's assertion failed", message ? ": " : "", message ? message : "");
  }
  TORCH_CHECK(false, "a kernel failed with unknown code ", failure.code);
}

} // namespace

void launchCpu(KernelFn kernel, const KernelArgs &args, const CpuGrid &grid) {
  if (grid.numPrograms <= 0)
    return;
  if (grid.totalCostNs() <= serialCostNs || grid.numPrograms == 1 || at::in_parallel_region() ||
      at::get_num_threads() == 1) {
    Failure failure = runRange(kernel, args, grid.scratchBytes, 0, grid.numPrograms);
    if (C10_UNLIKELY(failure.code != 0))
      raise(failure);
    return;
  }

  int64_t grain = std::max<int64_t>(1, taskCostNs / std::max<int64_t>(1, grid.programCostNs));
  FloatEnvironment environment = FloatEnvironment::current();
  std::mutex mutex;
  Failure first;
  int64_t firstBegin = INT64_MAX;
  at::parallel_for(0, grid.numPrograms, grain, [&](int64_t begin, int64_t end) {
    FloatEnvironmentGuard guard(environment);
    Failure failure = runRange(kernel, args, grid.scratchBytes, begin, end);
    if (C10_LIKELY(failure.code == 0))
      return;
    // The lowest range speaks, so that the message does not depend on timing.
    std::lock_guard lock(mutex);
    if (begin < firstBegin) {
      firstBegin = begin;
      first = failure;
    }
  });
  if (C10_UNLIKELY(firstBegin != INT64_MAX))
    raise(first);
}

} // namespace torch_tile::runtime
