#include "runtime/executor/Program.h"

#include "runtime/executor/SharedMemory.h"

#include <algorithm>
#include <optional>

namespace torch_tile::runtime {

using namespace artifact;

Program::Program(Artifact artifact, std::vector<std::shared_ptr<const LoadedKernel>> loadedKernels,
                 ProgramOptions options, std::vector<std::shared_ptr<const Program>> earlierBodies)
    : source(std::move(artifact)), kernels(std::move(loadedKernels)), options(options), sizes(source),
      bodies(std::move(earlierBodies)) {
  TORCH_CHECK(kernels.size() == source.kernels.size(), "expected ", source.kernels.size(), " kernels, got ",
              kernels.size());
  for (Kernel &kernel : source.kernels) {
    kernel.code = {};
    bool isForGpu = kernel.target != "cpu";
    TORCH_CHECK(isForGpu == options.device.is_cuda(), "kernel '", kernel.name, "' for ", kernel.target,
                " cannot run on device ", options.device);
    usesGpu |= isForGpu;
  }
  for (const Body &body : source.bodies) {
    Artifact nested;
    static_cast<Body &>(nested) = body;
    nested.kernels = source.kernels;
    bodies.push_back(std::shared_ptr<const Program>(new Program(std::move(nested), kernels, options, bodies)));
  }

  std::vector<bool> isKnown(source.symbols.size());
  for (size_t i = 0; i < isKnown.size(); ++i)
    isKnown[i] = source.symbolSources[i].kind != SymbolSource::Kind::ExternResult;
  for (ExprId id : sizes.dynamic()) {
    std::vector<uint32_t> needed = sizes.symbolsOf(id);
    if (std::all_of(needed.begin(), needed.end(), [&](uint32_t symbol) { return isKnown[symbol]; }))
      earlyExprs.push_back(id);
  }

  for (uint32_t i = 0; i < source.inputs.size(); ++i) {
    const Input &input = source.inputs[i];
    if (input.kind == Input::Kind::Tensor)
      tensorInputs.push_back({i, input.slot, toScalarType(input.type), shapeOf(input.sizes, input.strides)});
  }
  for (uint32_t number = 0; number < source.steps.size(); ++number) {
    const Step &step = source.steps[number];
    auto push = [&](StepKind kind, size_t index) { steps.push_back({kind, static_cast<uint32_t>(index), number}); };
    if (auto *alloc = std::get_if<Alloc>(&step.action)) {
      push(StepKind::Alloc, allocs.size());
      allocs.push_back({alloc->slot, toScalarType(alloc->type), shapeOf(alloc->sizes, alloc->strides)});
    } else if (auto *free = std::get_if<Free>(&step.action)) {
      push(StepKind::Free, free->slot);
    } else if (auto *alias = std::get_if<Alias>(&step.action)) {
      push(StepKind::Alias, aliases.size());
      aliases.push_back({alias->result, alias->source, shapeOf(alias->sizes, alias->strides), alias->offset});
    } else if (auto *launch = std::get_if<Launch>(&step.action)) {
      push(StepKind::Launch, launches.size());
      LaunchStep compiled{kernels[launch->kernel].get(),
                          launch,
                          source.kernels[launch->kernel].name.c_str(),
                          {},
                          true,
                          number,
                          source.kernels[launch->kernel].name + " (continued)"};
      for (ExprId id : launch->integers) {
        compiled.hasConstantIntegers &= sizes.isConstant(id);
        compiled.integers.push_back(sizes.constants()[id]);
      }
      launches.push_back(std::move(compiled));
    } else if (auto *call = std::get_if<Extern>(&step.action)) {
      push(StepKind::Extern, externs.size());
      externs.push_back(
          {ExternCall(*call, sizes, options.matmul), &call->results, lateSymbolsOf(call->results, isKnown)});
      callsDispatcher = true;
    } else if (auto *call = std::get_if<PyCall>(&step.action)) {
      push(StepKind::PyCall, pyCalls.size());
      pyCalls.push_back({call, lateSymbolsOf(call->results, isKnown)});
      callsDispatcher = true;
    } else if (auto *check = std::get_if<Check>(&step.action)) {
      push(StepKind::Check, checks.size());
      checks.push_back(check);
    } else if (auto *control = std::get_if<Control>(&step.action)) {
      push(StepKind::Control, controls.size());
      controls.push_back({control, lateSymbolsOf(control->results, isKnown)});
      callsDispatcher = true;
    }
  }
  writtenInputs = findWrittenInputs();
  for (uint32_t written : writtenInputs)
    tensorInputs[written].isWritten = true;
  findCopyableInputs();
  findViewsWithinBounds();
  if (!usesGpu)
    groupLaunches();
}

std::vector<uint32_t> Program::findWrittenInputs() const {
  const Places places(source);
  std::vector<Place> written;
  for (const LaunchStep &step : launches)
    for (uint32_t number : step.launch->written)
      places.append(step.launch->pointers[number], written);
  for (const ExternStep &step : externs)
    for (uint32_t slot : step.call.writtenSlots())
      places.append(slot, written);
  for (const ControlStep &step : controls)
    for (uint32_t slot : slotsWrittenBy(*step.control))
      places.append(slot, written);
  std::sort(written.begin(), written.end());
  std::vector<uint32_t> inputs;
  for (uint32_t i = 0; i < tensorInputs.size(); ++i) {
    std::vector<Place> own;
    places.append(tensorInputs[i].slot, own);
    if (std::any_of(own.begin(), own.end(),
                    [&](Place place) { return std::binary_search(written.begin(), written.end(), place); }))
      inputs.push_back(i);
  }
  return inputs;
}

void Program::findCopyableInputs() {
  if (callsDispatcher)
    return;
  for (uint32_t i = 0; i < tensorInputs.size(); ++i) {
    InputCheck &check = tensorInputs[i];
    bool isViewed =
        std::any_of(aliases.begin(), aliases.end(), [&](const AliasStep &step) { return step.source == check.slot; });
    bool isReturned = std::any_of(source.outputs.begin(), source.outputs.end(), [&](const Output &output) {
      return output.kind == Output::Kind::Tensor && output.ref == check.slot;
    });
    check.mayBeCopied = !isViewed && !isReturned;
  }
}

std::vector<uint32_t> Program::slotsWrittenBy(const Control &control) const {
  std::vector<uint32_t> slots;
  size_t first = control.kind == Control::Kind::Cond ? 1 : 0;
  for (uint32_t number : control.bodies) {
    const Program &body = *bodies[number];
    for (uint32_t written : body.writtenInputs)
      slots.push_back(control.args[first + body.tensorInputs[written].number].ref);
  }
  return slots;
}

/// Elements from the first one on that sizes and strides reach; nothing where they are not constant.
static std::optional<int64_t> extentOf(at::IntArrayRef sizes, at::IntArrayRef strides) {
  int64_t extent = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0)
      return 0;
    int64_t reached = 0;
    if (strides[i] < 0 || __builtin_mul_overflow(sizes[i] - 1, strides[i], &reached) ||
        __builtin_add_overflow(extent, reached, &extent))
      return {};
  }
  return extent;
}

void Program::findViewsWithinBounds() {
  std::vector<std::optional<int64_t>> extents(source.numSlots);
  auto note = [&](uint32_t slot, const Shape &shape) {
    extents[slot] = shape.isConstant ? extentOf(shape.sizes, shape.strides) : std::nullopt;
  };
  for (const InputCheck &input : tensorInputs)
    note(input.slot, input.shape);
  for (StepRef step : steps) {
    if (step.kind == StepKind::Alloc)
      note(allocs[step.index].slot, allocs[step.index].shape);
    const std::vector<Result> *results = step.kind == StepKind::Extern    ? externs[step.index].results
                                         : step.kind == StepKind::PyCall  ? &pyCalls[step.index].call->results
                                         : step.kind == StepKind::Control ? &controls[step.index].control->results
                                                                          : nullptr;
    for (const Result &result : results ? *results : std::vector<Result>())
      if (result.used)
        extents[result.slot].reset();
    if (step.kind != StepKind::Alias)
      continue;
    AliasStep &alias = aliases[step.index];
    std::optional<int64_t> whole = extents[alias.source];
    note(alias.result, alias.shape);
    std::optional<int64_t> part = extents[alias.result];
    if (!whole || !part || !sizes.isConstant(alias.offset))
      continue;
    int64_t offset = sizes.constants()[alias.offset], end = 0;
    alias.mayLeaveStorage = *part > 0 && (offset < 0 || __builtin_add_overflow(offset, *part, &end) || end > *whole);
  }
}

Program::Shape Program::shapeOf(const std::vector<ExprId> &sizeIds, const std::vector<ExprId> &strideIds) const {
  Shape shape{sizeIds, strideIds, {}, {}, true};
  for (ExprId id : sizeIds) {
    shape.isConstant &= sizes.isConstant(id);
    shape.sizes.push_back(sizes.constants()[id]);
  }
  for (ExprId id : strideIds) {
    shape.isConstant &= sizes.isConstant(id);
    shape.strides.push_back(sizes.constants()[id]);
  }
  return shape;
}

Program::LateSymbols Program::lateSymbolsOf(const std::vector<Result> &results, std::vector<bool> &isKnown) const {
  LateSymbols late;
  std::vector<bool> isNew(isKnown.size());
  for (uint32_t symbol = 0; symbol < isKnown.size(); ++symbol) {
    const SymbolSource &origin = source.symbolSources[symbol];
    bool isDefinedHere =
        origin.kind == SymbolSource::Kind::ExternResult && !isKnown[symbol] &&
        std::any_of(results.begin(), results.end(), [&](const Result &r) { return r.used && r.slot == origin.index; });
    if (!isDefinedHere)
      continue;
    isKnown[symbol] = isNew[symbol] = true;
    late.definitions.push_back({symbol, origin.index, origin.dim});
  }
  if (late.definitions.empty())
    return late;
  for (ExprId id : sizes.dynamic()) {
    std::vector<uint32_t> needed = sizes.symbolsOf(id);
    bool isComplete = std::all_of(needed.begin(), needed.end(), [&](uint32_t s) { return isKnown[s]; });
    bool isCompletedHere = std::any_of(needed.begin(), needed.end(), [&](uint32_t s) { return isNew[s]; });
    if (isComplete && isCompletedHere)
      late.exprs.push_back(id);
  }
  return late;
}

} // namespace torch_tile::runtime
