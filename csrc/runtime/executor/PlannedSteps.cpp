// What a call of a program does, with its sizes in numbers: for reports of launches, memory and bytes moved.
#include "runtime/executor/Program.h"
#include "runtime/executor/SharedMemory.h"

#include <ATen/EmptyTensor.h>

#include <unordered_map>

namespace torch_tile::runtime {

using namespace artifact;

std::vector<PlannedStep> Program::plannedSteps(std::span<const int64_t> symbols) const {
  std::vector<int64_t> values = sizes.constants();
  sizes.evaluate(sizes.dynamic(), symbols.data(), values.data());
  auto numbers = [&](const std::vector<ExprId> &ids) {
    std::vector<int64_t> result;
    for (ExprId id : ids)
      result.push_back(values[id]);
    return result;
  };
  auto storageBytes = [&](const std::vector<ExprId> &sizeIds, const std::vector<ExprId> &strideIds, size_t itemBytes) {
    return static_cast<int64_t>(at::detail::computeStorageNbytes(numbers(sizeIds), numbers(strideIds), itemBytes));
  };

  using Kind = PlannedStep::Kind;
  std::vector<PlannedStep> planned;
  const Places places(source);
  std::unordered_map<Place, SlotId> owners; // the first slot that may lie there
  auto ownerOf = [&](SlotId slot) {
    std::vector<Place> own;
    places.append(slot, own);
    SlotId owner = slot;
    for (Place place : own)
      if (auto [it, isNew] = owners.emplace(place, slot); !isNew && owner == slot)
        owner = it->second;
    return owner;
  };
  for (const InputCheck &input : tensorInputs) {
    int64_t bytes = storageBytes(input.shape.sizeIds, input.shape.strideIds, c10::elementSize(input.type));
    planned.push_back({Kind::Input, input.number, input.slot, ownerOf(input.slot), bytes});
  }
  auto addResults = [&](uint32_t step, const std::vector<Result> &results) {
    for (uint32_t i = 0; i < results.size(); ++i)
      if (const Result &result = results[i]; result.used)
        planned.push_back(
            {Kind::Result, step, result.slot, ownerOf(result.slot), storageBytes(result.sizes, result.strides, 1), i});
  };
  auto addLaunch = [&](const LaunchStep &step) {
    planned.push_back({Kind::Launch, step.source, 0, step.launch->kernel, values[step.launch->bytesMoved]});
  };
  for (StepRef step : steps) {
    switch (step.kind) {
    case StepKind::Alloc: {
      const AllocStep &alloc = allocs[step.index];
      ownerOf(alloc.slot);
      int64_t bytes = storageBytes(alloc.shape.sizeIds, alloc.shape.strideIds, c10::elementSize(alloc.type));
      planned.push_back({Kind::Alloc, step.source, alloc.slot, alloc.slot, bytes});
      break;
    }
    case StepKind::Free:
      planned.push_back({Kind::Free, step.source, step.index});
      break;
    case StepKind::Alias:
      planned.push_back({Kind::Alias, step.source, aliases[step.index].result, aliases[step.index].source});
      break;
    case StepKind::Launch:
      addLaunch(launches[step.index]);
      break;
    case StepKind::Group:
      for (uint32_t number : groups[step.index].launches)
        addLaunch(launches[number]);
      break;
    case StepKind::Extern:
      planned.push_back({Kind::Extern, step.source});
      addResults(step.source, *externs[step.index].results);
      break;
    case StepKind::PyCall:
      planned.push_back({Kind::PyCall, step.source});
      addResults(step.source, pyCalls[step.index].call->results);
      break;
    case StepKind::Control:
      planned.push_back({Kind::Control, step.source});
      addResults(step.source, controls[step.index].control->results);
      break;
    case StepKind::Check:
      break;
    }
  }
  for (uint32_t i = 0; i < source.outputs.size(); ++i)
    if (source.outputs[i].kind == Output::Kind::Tensor)
      planned.push_back({Kind::Output, i, source.outputs[i].ref});
  return planned;
}

} // namespace torch_tile::runtime
