// Launches that need nothing of each other share one parallel region: the many small kernels of an optimizer's step
// cost one hand-over to the other threads, and those too small for a region of their own use all threads.
#include "runtime/executor/Program.h"
#include "runtime/launch/cpu/CpuLaunch.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace torch_tile::runtime {
namespace {

/// A launch beyond this fills the threads by itself.
constexpr int64_t mostCostNs = 200000;
constexpr size_t mostLaunches = 512;
/// What a run of launches allocates lives until its end.
constexpr int64_t mostBytes = 4 << 20;

/// Which memory slots are, as far as the order of launches is concerned.
class Memory {
public:
  using Root = uint32_t;
  /// All that calls outside have seen, of which some may be views of others.
  static constexpr Root seenOutside = UINT32_MAX;

  Root of(uint32_t slot) const {
    Root root = ownRootOf(slot);
    return seen.contains(root) ? seenOutside : root;
  }
  void setAlias(uint32_t result, uint32_t source) { roots[result] = ownRootOf(source); }
  void setOwn(uint32_t slot) { roots.erase(slot); }
  void setSeenOutside(uint32_t slot) { seen.insert(ownRootOf(slot)); }

private:
  Root ownRootOf(uint32_t slot) const {
    auto it = roots.find(slot);
    return it == roots.end() ? slot : it->second;
  }

  std::unordered_map<uint32_t, Root> roots; // of slots that Alias made
  std::unordered_set<Root> seen;
};

/// Launches in their order and the level of each: one more than that of the last before it which it must not pass.
class Levels {
public:
  void add(uint32_t launch, const std::vector<Memory::Root> &used, const std::vector<Memory::Root> &written) {
    size_t level = 0;
    for (Memory::Root root : used)
      if (auto it = lastWrite.find(root); it != lastWrite.end())
        level = std::max(level, it->second + 1);
    for (Memory::Root root : written)
      if (auto it = lastUse.find(root); it != lastUse.end())
        level = std::max(level, it->second + 1);
    for (Memory::Root root : used)
      keepLargest(lastUse, root, level);
    for (Memory::Root root : written)
      keepLargest(lastWrite, root, level);
    if (level >= levels.size())
      levels.resize(level + 1);
    levels[level].push_back(launch);
    ++count;
  }
  size_t size() const { return count; }
  bool isChain() const { return levels.size() == count; }
  std::vector<std::vector<uint32_t>> levels;

private:
  static void keepLargest(std::unordered_map<Memory::Root, size_t> &map, Memory::Root root, size_t level) {
    auto [it, isNew] = map.emplace(root, level);
    it->second = std::max(it->second, level);
  }
  std::unordered_map<Memory::Root, size_t> lastUse, lastWrite;
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

static void collectSlots(const std::vector<artifact::Value> &values, std::vector<uint32_t> &slots) {
  for (const artifact::Value &value : values) {
    if (value.kind == artifact::Value::Kind::Tensor)
      slots.push_back(value.ref);
    collectSlots(value.items, slots);
  }
}

/// Steps between two that keep their place become: what is made, the launches by levels, what is freed.
void Program::groupLaunches() {
  Memory memory;
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
      result.push_back({StepKind::Group, static_cast<uint32_t>(groups.size())});
      groups.push_back(std::move(group));
      place([](StepKind kind) { return kind == StepKind::Free; });
    }
    run.clear();
    freed.clear();
    levels = {};
    bytes = 0;
  };
  // A slot that is used again would be made before the launches that use its first value.
  auto isFreed = [&](uint32_t slot) { return std::find(freed.begin(), freed.end(), slot) != freed.end(); };
  auto seeOutside = [&](const std::vector<artifact::Value> &args, const std::vector<artifact::Result> &results) {
    std::vector<uint32_t> slots;
    collectSlots(args, slots);
    for (const artifact::Result &one : results)
      if (one.used)
        slots.push_back(one.slot);
    for (uint32_t slot : slots)
      memory.setSeenOutside(slot);
  };
  size_t place = 0;
  for (StepRef step : steps) {
    const artifact::Step &origin = source.steps[place++];
    switch (step.kind) {
    case StepKind::Alloc: {
      const AllocStep &alloc = allocs[step.index];
      int64_t size = mostBytes;
      if (alloc.shape.isConstant)
        size = static_cast<int64_t>(
            at::detail::computeStorageNbytes(alloc.shape.sizes, alloc.shape.strides, c10::elementSize(alloc.type)));
      if (isFreed(alloc.slot) || bytes + size > mostBytes)
        flush();
      bytes += size;
      memory.setOwn(alloc.slot);
      break;
    }
    case StepKind::Alias: {
      const AliasStep &alias = aliases[step.index];
      if (isFreed(alias.result) || isFreed(alias.source))
        flush();
      memory.setAlias(alias.result, alias.source);
      break;
    }
    case StepKind::Free:
      freed.push_back(step.index);
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
      std::vector<Memory::Root> used, written;
      for (uint32_t slot : launch.launch->pointers)
        used.push_back(memory.of(slot));
      for (uint32_t number : launch.launch->written)
        written.push_back(used[number]);
      levels.add(step.index, used, written);
      break;
    }
    case StepKind::Extern: {
      flush();
      const auto &call = std::get<artifact::Extern>(origin.action);
      seeOutside(call.args, call.results);
      result.push_back(step);
      continue;
    }
    case StepKind::PyCall: {
      flush();
      const artifact::PyCall &call = *pyCalls[step.index].call;
      seeOutside(call.args, call.results);
      result.push_back(step);
      continue;
    }
    case StepKind::Group:
    case StepKind::Check:
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
  // Profilers want to see each kernel.
  if (step.costNs <= serialCostNs || at::get_num_threads() == 1 || at::in_parallel_region() || at::hasCallbacks()) {
    for (uint32_t number : step.launches)
      launch(program.launches[number]);
    return;
  }
  for (const Program::GroupStep::Level &level : step.levels) {
    if (level.costNs <= serialCostNs || level.launches.size() == 1) {
      for (uint32_t number : level.launches)
        launch(program.launches[number]);
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
    if (!isReleased) {
      host.release();
      isReleased = true;
    }
    launchCpuTogether({together.data(), together.size()});
  }
}

} // namespace torch_tile::runtime
