#include "runner/core/CoreEngine.h"

#include "runner/core/ThreadPool.h"
#include "runtime/launch/cpu/CpuGrid.h"
#include "runtime/launch/cpu/FloatEnvironment.h"
#include "runtime/package/SourceLines.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

namespace torch_tile::runner {

using namespace artifact;
using runtime::ArgumentView;

namespace {

/// Elements from the first to the end of the last.
int64_t extentOf(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  int64_t extent = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0)
      return 0;
    extent += (sizes[i] - 1) * strides[i];
  }
  return extent;
}

std::vector<int64_t> stridesOf(const tile_tensor &tensor) {
  auto rank = static_cast<size_t>(tensor.ndim);
  if (tensor.strides)
    return {tensor.strides, tensor.strides + rank};
  std::vector<int64_t> strides(rank, 1);
  for (size_t i = rank; i-- > 1;)
    strides[i - 1] = strides[i] * std::max<int64_t>(1, tensor.shape[i]);
  return strides;
}

bool isSameLayout(std::span<const int64_t> sizes, std::span<const int64_t> a, std::span<const int64_t> b) {
  bool isEmpty = std::find(sizes.begin(), sizes.end(), 0) != sizes.end(), isSame = true;
  for (size_t i = 0; i < sizes.size(); ++i)
    isSame &= sizes[i] == 1 || a[i] == b[i];
  return isSame || isEmpty;
}

/// Element by element, for tensors of other strides than a program was compiled for.
void copyStrided(char *to, std::span<const int64_t> toStrides, const char *from, std::span<const int64_t> fromStrides,
                 std::span<const int64_t> sizes, size_t elementBytes) {
  if (sizes.empty()) {
    std::memcpy(to, from, elementBytes);
    return;
  }
  auto bytes = static_cast<int64_t>(elementBytes);
  for (int64_t i = 0; i < sizes[0]; ++i)
    copyStrided(to + i * toStrides[0] * bytes, toStrides.subspan(1), from + i * fromStrides[0] * bytes,
                fromStrides.subspan(1), sizes.subspan(1), elementBytes);
}

} // namespace

CoreEngine::CoreEngine(std::shared_ptr<const runtime::PackageFile> given, uint32_t variant, Artifact artifact,
                       int32_t numThreads)
    : file(std::move(given)), number(variant), program(std::move(artifact)),
      guards(file->package(), file->package().variants[variant], program),
      numThreads(numThreads > 0 ? numThreads : defaultNumThreads()) {
  for (const PackageConstant &constant : file->package().constants)
    writesConstants |= constant.isWritten;
  // Views of an input are written through their own slots: who shares memory with what is written counts as written.
  std::vector<std::vector<uint32_t>> places(program.numSlots);
  for (const SharedSlot &shared : program.sharedSlots)
    places[shared.slot] = shared.places;
  std::vector<bool> slotIsWritten(program.numSlots);
  std::vector<uint32_t> writtenPlaces;
  for (const Step &step : program.steps)
    if (auto *launch = std::get_if<Launch>(&step.action))
      for (uint32_t position : launch->written) {
        SlotId slot = launch->pointers[position];
        slotIsWritten[slot] = true;
        writtenPlaces.insert(writtenPlaces.end(), places[slot].begin(), places[slot].end());
      }
  for (const Input &input : program.inputs) {
    bool isTensor = input.kind == Input::Kind::Tensor;
    isWritten.push_back(isTensor && (slotIsWritten[input.slot] ||
                                     std::any_of(places[input.slot].begin(), places[input.slot].end(), [&](uint32_t p) {
                                       return std::find(writtenPlaces.begin(), writtenPlaces.end(), p) !=
                                              writtenPlaces.end();
                                     })));
  }
}

Status CoreEngine::link() {
  for (const Step &step : program.steps) {
    if (std::holds_alternative<Control>(step.action))
      return Status::unsupported("load", "the program has branches or loops, which run within LibTorch only");
    if (!runtime::runsWithoutTorch(step))
      return Status::invalidInput("load", "the package is damaged: a program calls operators and does not say so");
  }
  for (Kernel &kernel : program.kernels) {
    if (kernel.target != "cpu")
      return Status::unsupported("load", "kernel '" + kernel.name + "' is for " + kernel.target);
    if (Status status =
            runtime::loadObject(kernel.code, kernel.symbol, &runtime::resolveInProcess, kernels.emplace_back());
        !status.isOk())
      return status;
    kernel.code = {};
  }
  return Status::ok();
}

Status CoreEngine::run(std::span<const tile_tensor> inputs, std::vector<Result> &results) noexcept {
  try {
    std::unique_lock<std::mutex> lock(mutex, std::defer_lock);
    if (writesConstants)
      lock.lock();
    return runChecked(inputs, results);
  } catch (const std::bad_alloc &) {
    return Status::internal("call", "no memory");
  } catch (const std::exception &error) {
    return Status::internal("call", error.what());
  }
}

Status CoreEngine::runChecked(std::span<const tile_tensor> inputs, std::vector<Result> &results) {
  std::vector<ArgumentView> views;
  std::vector<std::vector<int64_t>> strides(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const tile_tensor &given = inputs[i];
    const PackageInput &input = file->package().inputs[i];
    ArgumentView view;
    if (given.device_type != 1)
      return Status::invalidInput("call", "argument `" + input.name + "` is not on the CPU");
    if (!fromDlType({given.dtype_code, given.dtype_bits}, view.type))
      return Status::invalidInput("call", "argument `" + input.name + "` has an element type that is not taken");
    view.sizes = {given.shape, static_cast<size_t>(given.ndim)};
    view.strides = strides[i] = stridesOf(given);
    if (input.kind == PackageInput::Kind::Int) {
      if (view.type != ElementType::Int64 || given.ndim != 0)
        return Status::invalidInput("call", "argument `" + input.name + "` expected an int64 without dimensions");
      view.isTensor = false;
      view.value = *reinterpret_cast<const int64_t *>(static_cast<const char *>(given.data) + given.byte_offset);
    }
    views.push_back(view);
  }
  if (Status status = guards.check(views); !status.isOk())
    return status;
  if (Status status = refuseOverlaps(inputs); !status.isOk())
    return status;
  if (Status status = file->checkUnchanged(); !status.isOk())
    return status;
  Call call;
  guards.evaluate(views, call.values);
  call.slots.resize(program.numSlots);
  if (Status status = setInputs(inputs, call); !status.isOk())
    return status;
  if (Status status = runSteps(call); !status.isOk())
    return status;
  for (const Output &output : program.outputs)
    results.push_back(makeResult(output, call));
  return Status::ok();
}

std::vector<int64_t> CoreEngine::dims(const std::vector<ExprId> &ids, const Call &call) const {
  std::vector<int64_t> result;
  result.reserve(ids.size());
  for (ExprId id : ids)
    result.push_back(call.values[id]);
  return result;
}

//===-- inputs --------------------------------------------------------------------------------------------------===//

/// Programs are compiled for arguments that share no memory where one of them is written.
Status CoreEngine::refuseOverlaps(std::span<const tile_tensor> inputs) const {
  auto range = [&](size_t argument) {
    const tile_tensor &given = inputs[argument];
    const char *begin = static_cast<const char *>(given.data) + given.byte_offset;
    int64_t extent = extentOf({given.shape, static_cast<size_t>(given.ndim)}, stridesOf(given));
    return std::pair(begin, begin + extent * (given.dtype_bits / 8));
  };
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    InputSource source = variant().inputs[i];
    if (!isWritten[i] || source.kind != InputSource::Kind::Argument)
      continue;
    auto [begin, end] = range(source.index);
    for (size_t other = 0; other < inputs.size(); ++other) {
      auto [otherBegin, otherEnd] = range(other);
      if (other != source.index && begin < otherEnd && otherBegin < end)
        return Status::invalidInput("call", "argument `" + file->package().inputs[source.index].name +
                                                "` is written, and shares memory with argument `" +
                                                file->package().inputs[other].name + "`");
    }
  }
  return Status::ok();
}

Status CoreEngine::setInputs(std::span<const tile_tensor> inputs, Call &call) const {
  for (uint32_t i = 0; i < program.inputs.size(); ++i) {
    const Input &input = program.inputs[i];
    if (input.kind != Input::Kind::Tensor)
      continue;
    InputSource source = variant().inputs[i];
    if (source.kind == InputSource::Kind::Argument) {
      if (Status status = setArgument(i, inputs[source.index], call); !status.isOk())
        return status;
      continue;
    }
    Slot &slot = call.slots[input.slot];
    slot.data = static_cast<char *>(file->constant(source.index));
    slot.type = input.type;
    slot.sizes = dims(input.sizes, call);
    slot.strides = dims(input.strides, call);
  }
  return Status::ok();
}

Status CoreEngine::setArgument(uint32_t number, const tile_tensor &given, Call &call) const {
  const Input &input = program.inputs[number];
  Slot &slot = call.slots[input.slot];
  slot.data = static_cast<char *>(given.data) + given.byte_offset;
  slot.type = input.type;
  slot.sizes = dims(input.sizes, call);
  slot.strides = dims(input.strides, call);
  std::vector<int64_t> strides = stridesOf(given);
  size_t bytes = sizeOf(input.type);
  bool isAligned = reinterpret_cast<uintptr_t>(slot.data) % std::min<size_t>(bytes, 8) == 0;
  if (isSameLayout(slot.sizes, strides, slot.strides) && isAligned)
    return Status::ok();
  if (isWritten[number])
    return Status::invalidInput("call", "argument `" + file->package().inputs[variant().inputs[number].index].name +
                                            "` is written, and does not have the strides that it was exported with");
  int64_t extent = extentOf(slot.sizes, slot.strides);
  slot.owner = buffers->take(static_cast<size_t>(extent) * bytes);
  copyStrided(slot.owner.get(), slot.strides, slot.data, strides, slot.sizes, bytes);
  slot.data = slot.owner.get();
  return Status::ok();
}

//===-- steps ---------------------------------------------------------------------------------------------------===//

Status CoreEngine::runSteps(Call &call) const {
  for (const Step &step : program.steps) {
    if (auto *alloc = std::get_if<Alloc>(&step.action)) {
      Slot &slot = call.slots[alloc->slot];
      slot.type = alloc->type;
      slot.sizes = dims(alloc->sizes, call);
      slot.strides = dims(alloc->strides, call);
      slot.owner = buffers->take(static_cast<size_t>(extentOf(slot.sizes, slot.strides)) * sizeOf(slot.type));
      slot.data = slot.owner.get();
    } else if (auto *free = std::get_if<Free>(&step.action)) {
      call.slots[free->slot].owner.reset();
    } else if (auto *view = std::get_if<Alias>(&step.action)) {
      alias(*view, call);
    } else if (auto *kernel = std::get_if<Launch>(&step.action)) {
      if (runtime::KernelFailure failure = launch(*kernel, call); failure.code != 0)
        return failed(failure.text(), step, failure.line());
    } else if (auto *check = std::get_if<Check>(&step.action)) {
      if (call.values[check->condition] == 0)
        return failed(check->message, step);
    }
  }
  return Status::ok();
}

Status CoreEngine::failed(std::string text, const Step &step, std::optional<int64_t> position) const {
  std::optional<uint32_t> line;
  if (position && static_cast<size_t>(*position) < step.lines.size())
    line = step.lines[static_cast<size_t>(*position)];
  const Step *steps[] = {&step};
  std::string note = runtime::SourceLines::of(*file, variant()).note(program, steps, line);
  return Status::internal("call", text + (note.empty() ? "" : "\n" + note));
}

void CoreEngine::alias(const Alias &step, Call &call) const {
  Slot view = call.slots[step.source];
  view.data += call.values[step.offset] * static_cast<int64_t>(sizeOf(view.type));
  view.sizes = dims(step.sizes, call);
  view.strides = dims(step.strides, call);
  call.slots[step.result] = std::move(view);
}

runtime::KernelFailure CoreEngine::launch(const Launch &step, Call &call) const {
  std::vector<void *> pointers;
  pointers.reserve(step.pointers.size());
  for (SlotId slot : step.pointers)
    pointers.push_back(call.slots[slot].data);
  std::vector<int64_t> integers = dims(step.integers, call);
  runtime::CpuGrid grid{call.values[step.numPrograms], call.values[step.programCostNs], call.values[step.scratchBytes]};
  if (grid.numPrograms <= 0)
    return {};
  KernelFn function = kernels[step.kernel]->function;
  KernelArgs args{pointers.data(), integers.data()};
  runtime::KernelFailure first;
  if (grid.totalCostNs() <= runtime::serialCostNs || grid.numPrograms == 1 || numThreads == 1) {
    first = runtime::runRange(function, args, grid.scratchBytes, 0, grid.numPrograms);
  } else {
    auto environment = runtime::FloatEnvironment::current();
    std::mutex failures;
    int64_t firstBegin = INT64_MAX;
    int64_t grain = runtime::taskCostNs / std::max<int64_t>(1, grid.programCostNs);
    parallelFor(grid.numPrograms, grain, numThreads, [&](int64_t begin, int64_t end) {
      runtime::FloatEnvironmentGuard guard(environment);
      runtime::KernelFailure failure = runtime::runRange(function, args, grid.scratchBytes, begin, end);
      if (failure.code == 0)
        return;
      // The lowest range speaks, so that the message does not depend on timing.
      std::lock_guard lock(failures);
      if (begin < firstBegin) {
        firstBegin = begin;
        first = failure;
      }
    });
  }
  return first;
}

/// Results own their memory: what lies in an argument or a constant is copied.
Result CoreEngine::makeResult(const Output &output, const Call &call) const {
  Result result;
  tile_tensor &tensor = result.tensor;
  tensor.device_type = 1;
  tensor.dtype_lanes = 1;
  if (output.kind == Output::Kind::None) {
    tensor.ndim = -1;
    return result;
  }
  Slot slot;
  if (output.kind == Output::Kind::Int) {
    slot.type = ElementType::Int64;
    slot.owner = buffers->take(sizeof(int64_t));
    slot.data = slot.owner.get();
    std::memcpy(slot.data, &call.values[output.ref], sizeof(int64_t));
  } else {
    slot = call.slots[output.ref];
  }
  if (!slot.owner) {
    size_t bytes = static_cast<size_t>(extentOf(slot.sizes, slot.strides)) * sizeOf(slot.type);
    slot.owner = buffers->take(bytes);
    std::memcpy(slot.owner.get(), slot.data, bytes);
    slot.data = slot.owner.get();
  }
  DlType type = toDlType(slot.type);
  tensor.data = slot.data;
  tensor.ndim = static_cast<int32_t>(slot.sizes.size());
  tensor.dtype_code = type.code;
  tensor.dtype_bits = type.bits;
  result.sizes = std::move(slot.sizes);
  result.strides = std::move(slot.strides);
  result.owner = std::move(slot.owner);
  return result;
}

Status makeCoreEngine(std::shared_ptr<const runtime::PackageFile> file, uint32_t variant, const EngineOptions &options,
                      std::unique_ptr<Engine> &engine) {
  if (Status status = file->checkConstants(); !status.isOk())
    return status;
  Artifact program;
  if (Status status = file->readProgram(file->package().variants[variant], program); !status.isOk())
    return status;
  auto made = std::make_unique<CoreEngine>(std::move(file), variant, std::move(program), options.numThreads);
  if (Status status = made->link(); !status.isOk())
    return status;
  engine = std::move(made);
  return Status::ok();
}

} // namespace torch_tile::runner
