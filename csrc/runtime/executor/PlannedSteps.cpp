// What a call of a program does, with its sizes in numbers: for reports of launches, memory and bytes moved.
#include "runtime/executor/Program.h"
#include "runtime/executor/SharedMemory.h"

#include <ATen/EmptyTensor.h>

#include <unordered_map>

namespace torch_tile::runtime {

using namespace artifact;

//===-- bodies --------------------------------------------------------------------------------------------------===//

void Program::planBodies(const ControlStep &step, uint32_t planStep, std::span<const int64_t> values,
                         const PlannedSizes &known, bool isUncertain, std::vector<PlannedStep> &planned) const {
  const Control &control = *step.control;
  isUncertain |= control.kind != Control::Kind::Call;
  std::vector<PlannedArgument> arguments;
  for (size_t i = control.kind == Control::Kind::Cond; i < control.args.size(); ++i) {
    const Value &value = control.args[i];
    PlannedArgument argument;
    if (value.kind == Value::Kind::Tensor) {
      if (auto sizes = known.find(value.ref); sizes != known.end())
        argument.sizes = sizes->second;
      bool isSliced = i >= control.numCarried && i < control.numCarried + control.numSliced;
      if (isSliced && !argument.sizes.empty())
        argument.sizes.erase(argument.sizes.begin());
    } else if (value.kind == Value::Kind::Int) {
      argument.number = values[value.ref];
    }
    arguments.push_back(std::move(argument));
  }
  for (uint32_t number : control.bodies)
    bodies[number]->planBody(arguments, planStep, isUncertain, planned);
}

void Program::planBody(std::span<const PlannedArgument> arguments, uint32_t planStep, bool isUncertain,
                       std::vector<PlannedStep> &planned) const {
  std::vector<int64_t> symbols(source.symbols.size()), values = sizes.constants();
  for (size_t i = 0; i < symbols.size(); ++i) {
    const SymbolSource &origin = source.symbolSources[i];
    if (origin.kind == SymbolSource::Kind::ExternResult || origin.index >= arguments.size())
      continue;
    const PlannedArgument &argument = arguments[origin.index];
    if (origin.kind == SymbolSource::Kind::Scalar)
      symbols[i] = argument.number;
    else if (origin.kind == SymbolSource::Kind::Size && origin.dim < argument.sizes.size())
      symbols[i] = argument.sizes[origin.dim];
  }
  sizes.evaluate(sizes.dynamic(), symbols.data(), values.data());

  PlannedSizes known;
  auto note = [&](SlotId slot, const std::vector<ExprId> &ids) {
    std::vector<int64_t> &list = known[slot];
    list.clear();
    for (ExprId id : ids)
      list.push_back(values[id]);
  };
  for (const InputCheck &input : tensorInputs)
    note(input.slot, input.shape.sizeIds);
  for (const Step &step : source.steps) {
    if (auto *launch = std::get_if<Launch>(&step.action))
      planned.push_back({PlannedStep::Kind::BodyLaunch, planStep, 0, launch->kernel, values[launch->bytesMoved],
                         static_cast<uint32_t>(isUncertain)});
    else if (auto *alloc = std::get_if<Alloc>(&step.action))
      note(alloc->slot, alloc->sizes);
    else if (auto *alias = std::get_if<Alias>(&step.action))
      note(alias->result, alias->sizes);
    const std::vector<Result> *results = nullptr;
    if (auto *call = std::get_if<Extern>(&step.action))
      results = &call->results;
    else if (auto *call = std::get_if<PyCall>(&step.action))
      results = &call->results;
    else if (auto *control = std::get_if<Control>(&step.action)) {
      planBodies({control, {}}, planStep, values, known, isUncertain, planned);
      results = &control->results;
    }
    for (size_t i = 0; results && i < results->size(); ++i)
      if ((*results)[i].used)
        note((*results)[i].slot, (*results)[i].sizes);
  }
}

//===-- the whole -----------------------------------------------------------------------------------------------===//

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
  PlannedSizes known;
  auto note = [&](SlotId slot, const std::vector<ExprId> &sizeIds) {
    if (!bodies.empty())
      known[slot] = numbers(sizeIds);
  };
  for (const InputCheck &input : tensorInputs)
    note(input.slot, input.shape.sizeIds);
  auto addResults = [&](uint32_t step, const std::vector<Result> &results) {
    for (uint32_t i = 0; i < results.size(); ++i)
      if (const Result &result = results[i]; result.used) {
        planned.push_back(
            {Kind::Result, step, result.slot, ownerOf(result.slot), storageBytes(result.sizes, result.strides, 1), i});
        note(result.slot, result.sizes);
      }
  };
  auto addLaunch = [&](const LaunchStep &step) {
    planned.push_back({Kind::Launch, step.source, 0, step.launch->kernel, values[step.launch->bytesMoved]});
  };
  for (StepRef step : steps) {
    switch (step.kind) {
    case StepKind::Alloc: {
      const AllocStep &alloc = allocs[step.index];
      ownerOf(alloc.slot);
      note(alloc.slot, alloc.shape.sizeIds);
      int64_t bytes = storageBytes(alloc.shape.sizeIds, alloc.shape.strideIds, c10::elementSize(alloc.type));
      planned.push_back({Kind::Alloc, step.source, alloc.slot, alloc.slot, bytes});
      break;
    }
    case StepKind::Free:
      planned.push_back({Kind::Free, step.source, step.index});
      break;
    case StepKind::Alias:
      planned.push_back({Kind::Alias, step.source, aliases[step.index].result, aliases[step.index].source});
      note(aliases[step.index].result, aliases[step.index].shape.sizeIds);
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
      planBodies(controls[step.index], step.source, values, known, /*isUncertain=*/false, planned);
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
