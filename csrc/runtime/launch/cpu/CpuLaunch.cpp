#include "runtime/launch/cpu/CpuLaunch.h"

#include "runtime/launch/cpu/FloatEnvironment.h"
#include "runtime/launch/cpu/KernelRange.h"
#include "runtime/launch/cpu/ParallelFor.h"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace torch_tile::runtime {
namespace {

using Failure = KernelFailure;

template <typename Error> class RaisedByCheck final : public Error, public FailedCheck {
public:
  using Error::Error;
};

template <typename Error> [[noreturn]] void raiseAs(const Failure &failure) {
  RaisedByCheck<Error> error({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, failure.text());
  error.line = failure.line();
  throw error;
}

[[noreturn]] void raise(const Failure &failure) {
  if (failure.isIndexError())
    raiseAs<c10::IndexError>(failure);
  raiseAs<c10::Error>(failure);
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
  parallelFor(0, grid.numPrograms, grain, [&](int64_t begin, int64_t end) {
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

void launchCpuTogether(std::span<const CpuLaunch> launches,
                       c10::function_ref<void(at::RecordFunction &event, size_t launch, bool isFirst)> record,
                       size_t &failed) {
  // Launch k costs starts[k + 1] - starts[k]; a program belongs to the task in whose share it begins.
  std::vector<int64_t> starts{0};
  for (const CpuLaunch &launch : launches)
    starts.push_back(starts.back() + (launch.grid.numPrograms > 0 ? launch.grid.totalCostNs() : 0));
  int64_t total = starts.back(), numTasks = std::clamp<int64_t>(total / taskCostNs, 1, 8 * at::get_num_threads());
  FloatEnvironment environment = FloatEnvironment::current();
  std::mutex mutex;
  Failure first;
  std::pair<size_t, int64_t> firstPlace{SIZE_MAX, 0};
  // A profiler listens to the threads that have its state, which those of OpenMP have not by themselves.
  std::optional<at::ThreadLocalState> profiled;
  if (C10_UNLIKELY(at::hasCallbacks()))
    profiled.emplace();
  parallelFor(0, numTasks, 1, [&](int64_t beginTask, int64_t endTask) {
    FloatEnvironmentGuard guard(environment);
    std::optional<at::ThreadLocalStateGuard> state;
    if (C10_UNLIKELY(profiled.has_value()))
      state.emplace(*profiled);
    int64_t from = total / numTasks * beginTask, to = endTask == numTasks ? total : total / numTasks * endTask;
    auto containing = std::upper_bound(starts.begin(), starts.end(), from) - 1;
    for (auto k = static_cast<size_t>(containing - starts.begin()); k < launches.size() && starts[k] < to; ++k) {
      const CpuLaunch &launch = launches[k];
      int64_t cost = std::max<int64_t>(1, launch.grid.programCostNs);
      auto firstFrom = [&](int64_t place) {
        return std::clamp<int64_t>((place - starts[k] + cost - 1) / cost, 0, launch.grid.numPrograms);
      };
      int64_t begin = from <= starts[k] ? 0 : firstFrom(from), end = firstFrom(to);
      if (begin >= end)
        continue;
      std::optional<at::RecordFunction> event;
      if (C10_UNLIKELY(profiled.has_value()))
        event.emplace(at::RecordScope::FUNCTION);
      if (C10_UNLIKELY(event && event->isActive()))
        record(*event, k, begin == 0);
      Failure failure = runRange(launch.kernel, launch.args, launch.grid.scratchBytes, begin, end);
      if (C10_LIKELY(failure.code == 0))
        continue;
      std::lock_guard lock(mutex);
      if (std::pair place(k, begin); place < firstPlace) {
        firstPlace = place;
        first = failure;
      }
    }
  });
  if (C10_LIKELY(first.code == 0))
    return;
  failed = firstPlace.first;
  raise(first);
}

} // namespace torch_tile::runtime
