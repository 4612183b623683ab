// Launches that need nothing of each other share one parallel region: the many small kernels of an optimizer's step
// cost one hand-over to the other threads, and those too small for a region of their own use all threads.
#include "runtime/executor/MemoryWalk.h"
#include "runtime/executor/Program.h"
#include "runtime/executor/SharedMemory.h"
#include "runtime/launch/cpu/CpuLaunch.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <unordered_map>

namespace torch_tile::runtime {
namespace {

/// A launch beyond this fills the threads by itself.
constexpr int64_t mostCostNs = 200000;
constexpr size_t mostLaunches = 512;
/// What a run of launches allocates lives until its end.
constexpr int64_t mostBytes = 4 << 20;
/// Up to here it does not matter by how much a run raises the peak of a program.
constexpr int64_t negligibleBytes = 64 << 10;

/// Launches in their order and the level of each: one more than that of the last before it which it must not pass.
class Levels {
public:
  void add(uint32_t launch, const std::vector<Place> &used, const std::vector<Place> &written) {
    size_t level = 0;
    for (Place place : used)
      if (auto it = lastWrite.find(place); it != lastWrite.end())
        level = std::max(level, it->second + 1);
    for (Place place : written)
      if (auto it = lastUse.find(place); it != lastUse.end())
        level = std::max(level, it->second + 1);
    for (Place place : used)
      keepLargest(lastUse, place, level);
    for (Place place : written)
      keepLargest(lastWrite, place, level);
    if (level >= levels.size())
      levels.resize(level + 1);
    levels[level].push_back(launch);
    ++count;
  }
  size_t size() const { return count; }
  bool isChain() const { return levels.size() == count; }
  std::vector<std::vector<uint32_t>> levels;

private:
  static void keepLargest(std::unordered_map<Place, size_t> &map, Place place, size_t level) {
    auto [it, isNew] = map.emplace(place, level);
    it->second = std::max(it->second, level);
  }
  std::unordered_map<Place, size_t> lastUse, lastWrite;
  size_t count = 0;
};

} // namespace

static bool hasConstantGrid(const SizeProgram &sizes, const artifact::Launch &launch) {
  return sizes.isConstant(launch.numPrograms) && sizes.isConstant(launch.programCostNs) &&
         sizes.isConstant(launch.scratchBytes);
}

static CpuGrid constantGrid(const SizeProgram &sizes, const artifact::Launch &launch) {
  const std::vector<int64_t> &values = sizes.constants();
  return {values[launch.numPrograms], values[launch.programCostNs], values[launch.scratchBytes]};
}

/// Steps between two that keep their place become: what is made, the launches by levels, what is freed. What a run
/// keeps until its end does not raise the peak of the program.
void Program::groupLaunches() {
  const Places places(source);
  MemoryWalk walk(*this), oneByOne(*this);
  for (StepRef step : steps)
    oneByOne.take(step);
  const int64_t mostHeld = std::max(oneByOne.peak(), negligibleBytes);
  int64_t keptBytes = 0;
  std::vector<StepRef> run, result;
  std::vector<uint32_t> freed;
  Levels levels;
  int64_t bytes = 0;
  auto flush = [&] {
    if (levels.size() < 2 || levels.isChain()) {
      result.insert(result.end(), run.begin(), run.end());
    } else {
      GroupStep group;
      auto place = [&](auto &&belongs) {
        for (StepRef step : run)
          if (belongs(step.kind))
            result.push_back(step);
      };
      place([](StepKind kind) { return kind == StepKind::Alloc || kind == StepKind::Alias; });
      for (StepRef step : run)
        if (step.kind == StepKind::Launch)
          group.launches.push_back(step.index);
      for (std::vector<uint32_t> &launches : levels.levels) {
        int64_t cost = 0;
        for (uint32_t number : launches)
          cost += constantGrid(sizes, *this->launches[number].launch).totalCostNs();
        group.levels.push_back({std::move(launches), cost});
        group.costNs += cost;
      }
      result.push_back(
          {StepKind::Group, static_cast<uint32_t>(groups.size()), this->launches[group.launches[0]].source});
      groups.push_back(std::move(group));
      place([](StepKind kind) { return kind == StepKind::Free; });
    }
    run.clear();
    freed.clear();
    levels = {};
    bytes = keptBytes = 0;
  };
  // A slot that is used again would be made before the launches that use its first value.
  auto isFreed = [&](uint32_t slot) { return std::find(freed.begin(), freed.end(), slot) != freed.end(); };
  for (StepRef step : steps) {
    const int64_t returned = walk.take(step);
    switch (step.kind) {
    case StepKind::Alloc: {
      const AllocStep &alloc = allocs[step.index];
      int64_t size = mostBytes;
      if (alloc.shape.isConstant)
        size = static_cast<int64_t>(
            at::detail::computeStorageNbytes(alloc.shape.sizes, alloc.shape.strides, c10::elementSize(alloc.type)));
      if (isFreed(alloc.slot) || bytes + size > mostBytes || walk.current() + keptBytes > mostHeld)
        flush();
      bytes += size;
      break;
    }
    case StepKind::Alias: {
      const AliasStep &alias = aliases[step.index];
      if (isFreed(alias.result) || isFreed(alias.source))
        flush();
      break;
    }
    case StepKind::Free:
      if (levels.size() == 0) { // no launch of this run uses it
        result.insert(result.end(), run.begin(), run.end());
        result.push_back(step);
        run.clear();
        continue;
      }
      freed.push_back(step.index);
      keptBytes += returned;
      break;
    case StepKind::Launch: {
      const LaunchStep &launch = launches[step.index];
      if (!launch.hasConstantIntegers || !hasConstantGrid(sizes, *launch.launch) ||
          constantGrid(sizes, *launch.launch).totalCostNs() > mostCostNs) {
        flush();
        result.push_back(step);
        continue;
      }
      if (levels.size() == mostLaunches)
        flush();
      std::vector<Place> used, written;
      for (uint32_t slot : launch.launch->pointers)
        places.append(slot, used);
      for (uint32_t number : launch.launch->written)
        places.append(launch.launch->pointers[number], written);
      levels.add(step.index, used, written);
      break;
    }
    case StepKind::Extern:
    case StepKind::PyCall:
    case StepKind::Group:
    case StepKind::Check:
    case StepKind::Control:
      flush();
      result.push_back(step);
      continue;
    }
    run.push_back(step);
  }
  flush();
  steps = std::move(result);
}

std::vector<std::vector<size_t>> Program::launchGroups() const {
  std::vector<std::vector<size_t>> sizes;
  for (const GroupStep &group : groups) {
    sizes.emplace_back();
    for (const GroupStep::Level &level : group.levels)
      sizes.back().push_back(level.launches.size());
  }
  return sizes;
}

void Call::launchGroup(const Program::GroupStep &step) {
  auto launchOne = [&](uint32_t number) {
    currentStep = program.launches[number].source;
    launch(program.launches[number]);
  };
  if (step.costNs <= serialCostNs || at::get_num_threads() == 1 || at::in_parallel_region()) {
    std::for_each(step.launches.begin(), step.launches.end(), launchOne);
    return;
  }
  for (const Program::GroupStep::Level &level : step.levels) {
    if (level.costNs <= serialCostNs || level.launches.size() == 1) {
      std::for_each(level.launches.begin(), level.launches.end(), launchOne);
      continue;
    }
    c10::SmallVector<CpuLaunch, 64> together;
    c10::SmallVector<void *, 256> pointers;
    for (uint32_t number : level.launches)
      for (uint32_t slot : program.launches[number].launch->pointers)
        pointers.push_back(slots[slot].unsafeGetTensorImpl()->mutable_data());
    void *const *next = pointers.data();
    for (uint32_t number : level.launches) {
      const Program::LaunchStep &one = program.launches[number];
      together.push_back({one.kernel->function, {next, one.integers.data()}, constantGrid(program.sizes, *one.launch)});
      next += one.launch->pointers.size();
    }
    if (!isReleased)
      releaseHost();
    // Profilers see each kernel once, where its first program runs, and what other threads do of it under its own name.
    auto recordPart = [&](at::RecordFunction &event, size_t k, bool isFirst) {
      const Program::LaunchStep &one = program.launches[level.launches[k]];
      if (isFirst)
        record(event, one, one.name);
      else
        event.before(one.continuedName);
    };
    size_t failed = 0;
    try {
      launchCpuTogether({together.data(), together.size()}, recordPart, failed);
    } catch (...) {
      currentStep = program.launches[level.launches[failed]].source;
      throw;
    }
  }
}

} // namespace torch_tile::runtime
