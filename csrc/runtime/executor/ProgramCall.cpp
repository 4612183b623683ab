#include "runtime/executor/FrozenInputs.h"
#include "runtime/executor/Program.h"
#include "runtime/executor/SharedMemory.h"
#include "runtime/memory/BufferPool.h"
#include "runtime/memory/OperatorAllocator.h"
#include "support/CheckMessage.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

namespace torch_tile::runtime {

using namespace artifact;

namespace {

/// A launch longer than this gives the host's lock back; taking it again costs well under a microsecond.
constexpr int64_t releaseThresholdNs = 20000;

[[noreturn]] void failCheck(std::string_view message) {
  bool isIndexError = message.starts_with(indexErrorPrefix);
  TORCH_CHECK_INDEX(!isIndexError, message.substr(isIndexError ? indexErrorPrefix.size() : 0));
  TORCH_CHECK(false, message);
}

} // namespace

Call::Call(const Program &program, Host &host, const FrozenInputs *frozen)
    : program(program), host(host), frozen(frozen), values(program.sizes.constants().data()),
      slots(program.source.numSlots) {
  if (program.tensorInputs.size() != program.source.inputs.size())
    ints.resize(program.source.inputs.size());
  if (!frozen)
    return;
  const std::vector<at::Tensor> &constants = frozen->constants();
  size_t first = program.source.inputs.size() - constants.size();
  for (size_t i = 0; i < constants.size(); ++i)
    setTensor(static_cast<uint32_t>(first + i), constants[i]);
}

//===-- steps ---------------------------------------------------------------------------------------------------===//

void Call::run() {
  bindSymbols();
  if (isNested)
    fitInputs();
  checkInputs();
  std::optional<c10::impl::ExcludeDispatchKeyGuard> guard;
  // AOTAutograd has recorded what autograd and autocast would do; they must not act again below the program.
  if (program.callsDispatcher)
    guard.emplace(c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset);
  if (program.usesGpu)
    gpu.emplace(program.options.device);
  runSteps();
  if (C10_UNLIKELY(!standIns.empty()))
    writeStandIns();
}

void Call::releaseHost() {
  host.release();
  isReleased = true;
  lastCheck = std::chrono::steady_clock::now();
}

/// Asking takes the host's lock, so a long call asks now and then; steps of a short one are microseconds each.
void Call::checkInterrupts() {
  constexpr std::chrono::milliseconds interval(50);
  constexpr uint32_t numSteps = 64;
  if (isReleased) {
    auto now = std::chrono::steady_clock::now();
    if (C10_LIKELY(now - lastCheck < interval))
      return;
    lastCheck = now;
  } else if (C10_LIKELY(++stepsSinceCheck % numSteps != 0)) {
    return;
  }
  host.raiseIfInterrupted();
}

void Call::runSteps() {
  for (Program::StepRef step : program.steps) {
    currentStep = step.source;
    switch (step.kind) {
    case Program::StepKind::Alloc:
      alloc(program.allocs[step.index]);
      break;
    case Program::StepKind::Free:
      free(step.index);
      break;
    case Program::StepKind::Alias:
      alias(program.aliases[step.index]);
      break;
    case Program::StepKind::Launch:
      launch(program.launches[step.index]);
      checkInterrupts();
      break;
    case Program::StepKind::Group:
      launchGroup(program.groups[step.index]);
      checkInterrupts();
      break;
    case Program::StepKind::Extern:
      callExtern(step.index);
      checkInterrupts();
      break;
    case Program::StepKind::PyCall:
      callPython(program.pyCalls[step.index]);
      break;
    case Program::StepKind::Control:
      runControl(program.controls[step.index]);
      checkInterrupts();
      break;
    case Program::StepKind::Check: {
      const artifact::Check &check = *program.checks[step.index];
      if (C10_UNLIKELY(values[check.condition] == 0))
        failCheck(check.message);
      break;
    }
    }
  }
  currentStep.reset();
}

std::vector<const artifact::Step *> Call::failedSteps() const {
  std::vector<const artifact::Step *> steps = failedStepsOfBody;
  if (currentStep)
    steps.push_back(&program.source.steps[*currentStep]);
  return steps;
}

at::Tensor Call::allocate(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  if (!gpu)
    return emptyOnCpu(sizes, strides, type);
  return at::Tensor(at::detail::empty_strided_generic(sizes, strides, gpu->allocator(),
                                                      c10::DispatchKeySet(c10::DispatchKey::CUDA), type));
}

void Call::alloc(const Program::AllocStep &step) {
  if (step.shape.isConstant) {
    slots[step.slot] = allocate(step.shape.sizes, step.shape.strides, step.type);
  } else {
    Dims sizes, strides;
    for (ExprId id : step.shape.sizeIds)
      sizes.push_back(values[id]);
    for (ExprId id : step.shape.strideIds)
      strides.push_back(values[id]);
    slots[step.slot] = allocate(sizes, strides, step.type);
  }
  if (C10_UNLIKELY(program.options.poison))
    ownStorages.push_back(slots[step.slot].storage().unsafeGetStorageImpl());
}

void Call::free(uint32_t slot) {
  if (C10_UNLIKELY(program.options.poison))
    poison(slots[slot]);
  slots[slot].reset();
}

void Call::poison(const at::Tensor &tensor) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.use_count() != 1 || tensor.storage().use_count() != 1)
    return;
  // Memory of inputs may be seen from outside by ways that no reference count shows.
  auto own = std::find(ownStorages.begin(), ownStorages.end(), tensor.storage().unsafeGetStorageImpl());
  if (own == ownStorages.end())
    return;
  ownStorages.erase(own);
  size_t sizeBytes = tensor.storage().nbytes();
  if (sizeBytes == 0)
    return;
  if (!gpu) {
    std::memset(tensor.storage().mutable_data(), 0xff, sizeBytes);
    return;
  }
  const CudaDriver &driver = CudaDriver::get();
  auto address = reinterpret_cast<uint64_t>(tensor.storage().mutable_data());
  driver.check(driver.cuMemsetD8Async(address, 0xff, sizeBytes, gpu->stream()), "filling a freed buffer");
}

/// What as_strided reaches depends on the storages at hand.
void Call::checkBounds(const Program::AliasStep &step, const at::Tensor &source, int64_t offset) const {
  Dims sizes, strides;
  for (ExprId id : step.shape.sizeIds)
    sizes.push_back(values[id]);
  for (ExprId id : step.shape.strideIds)
    strides.push_back(values[id]);
  TORCH_CHECK(offset >= 0, "Tensor: invalid storage offset ", offset);
  at::native::checkInBoundsForStorage(at::IntArrayRef(sizes), at::IntArrayRef(strides), offset, source.dtype(),
                                      source.storage());
}

void Call::alias(const Program::AliasStep &step) {
  const at::Tensor &source = slots[step.source];
  TORCH_CHECK(source.defined(), "alias of a result that is None");
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(source.storage()),
                                                             source.key_set(), source.dtype());
  c10::TensorImpl *impl = view.unsafeGetTensorImpl();
  int64_t offset = source.storage_offset() + values[step.offset];
  if (C10_UNLIKELY(step.mayLeaveStorage))
    checkBounds(step, source, offset);
  if (step.shape.isConstant) {
    impl->set_sizes_and_strides(step.shape.sizes, step.shape.strides, offset);
  } else {
    Dims sizes, strides;
    for (ExprId id : step.shape.sizeIds)
      sizes.push_back(values[id]);
    for (ExprId id : step.shape.strideIds)
      strides.push_back(values[id]);
    impl->set_sizes_and_strides(sizes, strides, offset);
  }
  // As for views in eager, so that autograd sees a saved alias change when its base is written.
  impl->set_version_counter(source.unsafeGetTensorImpl()->version_counter());
  slots[step.result] = std::move(view);
}

void Call::record(at::RecordFunction &event, const Program::LaunchStep &step, const char *name) const {
  if (!event.needsInputs())
    return event.before(name);
  std::vector<c10::IValue> tensors;
  for (SlotId slot : step.launch->pointers)
    tensors.emplace_back(slots[slot]);
  event.before(name, c10::ArrayRef<const c10::IValue>(tensors.data(), tensors.size()));
}

void Call::launch(const Program::LaunchStep &step) {
  const artifact::Launch &launch = *step.launch;
  c10::SmallVector<void *, 16> pointers;
  // mutable_data also gives a copy-on-write tensor memory of its own, which reads do not need but stores do.
  for (SlotId slot : launch.pointers) {
    c10::TensorImpl *tensor = slots[slot].unsafeGetTensorImpl();
    if (gpu && C10_UNLIKELY(tensor->device() != program.options.device))
      TORCH_CHECK(false, "Expected all tensors to be on the same device, but kernel '", step.name, "' for ",
                  program.options.device, " got a tensor on ", tensor->device());
    pointers.push_back(tensor->mutable_data());
  }
  c10::SmallVector<int64_t, 16> evaluated;
  const int64_t *integers = step.integers.data();
  if (!step.hasConstantIntegers) {
    for (ExprId id : launch.integers)
      evaluated.push_back(values[id]);
    integers = evaluated.data();
  }
  at::RecordFunction event(at::RecordScope::FUNCTION);
  if (C10_UNLIKELY(event.isActive()))
    record(event, step, step.name);
  if (gpu) {
    GpuGrid grid{values[launch.numPrograms], values[launch.scratchBytes]};
    if (!launch.grid.empty())
      grid.sizes = {values[launch.grid[0]], values[launch.grid[1]], values[launch.grid[2]]};
    if (C10_UNLIKELY(!areAligned(*step.kernel->gpu, pointers)))
      return launchOnCopies(*step.kernel->gpu, launch, pointers, {integers, launch.integers.size()}, grid);
    launchGpu(*step.kernel->gpu, *gpu, pointers, {integers, launch.integers.size()}, grid);
    return;
  }
  CpuGrid grid{values[launch.numPrograms], values[launch.programCostNs], values[launch.scratchBytes]};
  if (!isReleased && grid.totalCostNs() > releaseThresholdNs)
    releaseHost();
  launchCpu(step.kernel->function, {pointers.data(), integers}, grid);
}

//===-- calls out -----------------------------------------------------------------------------------------------===//

void Call::callExtern(uint32_t number) {
  const Program::ExternStep &step = program.externs[number];
  if (!isReleased)
    releaseHost();
  torch::jit::Stack stack;
  std::optional<PooledOperators> pooled;
  if (!gpu)
    pooled.emplace();
  step.call.call(slots.data(), values, stack, frozen ? frozen->weight(number) : nullptr);
  if (C10_UNLIKELY(!standIns.empty()))
    writeStandIns(step);
  const char *callee = step.call.name().c_str();
  bool hasLists = std::any_of(stack.begin(), stack.end(), [](const c10::IValue &v) { return v.isList(); });
  if (!hasLists)
    return setResults(*step.results, step.late, stack, callee);
  std::vector<c10::IValue> flat;
  for (const c10::IValue &value : stack) {
    if (!value.isList()) {
      flat.push_back(value);
      continue;
    }
    for (const c10::IValue &item : value.toListRef())
      flat.push_back(item);
  }
  setResults(*step.results, step.late, flat, callee);
}

void Call::callPython(const Program::PyCallStep &step) {
  isReleased = false; // the host takes its lock back for the callable
  std::vector<c10::IValue> flat = host.callPython(*step.call, *this);
  if (gpu)
    gpu->refreshStream();
  // A callable without results returns None like any other Python function.
  if (!step.call->results.empty())
    setResults(step.call->results, step.late, flat, "a Python callable");
}

void Call::setResults(const std::vector<Result> &results, const Program::LateSymbols &late,
                      c10::ArrayRef<c10::IValue> flat, const char *callee) {
  TORCH_CHECK(flat.size() == results.size(), "'", callee, "' expected to give ", results.size(), " results, got ",
              flat.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].used)
      continue;
    const c10::IValue &value = flat[i];
    bool isScalar = value.isInt() || value.isBool() || value.isSymInt();
    TORCH_CHECK(value.isTensor() || value.isNone() || isScalar, "result ", i, " of '", callee,
                "' expected to be a tensor or an integer, got ", value.tagKind());
    at::Tensor &slot = slots[results[i].slot];
    if (!value.isTensor()) {
      slot.reset();
      continue;
    }
    slot = value.toTensor();
    // Kernels read memory as it is, and a tangent that is zero has none.
    if (C10_UNLIKELY(slot.defined() && slot._is_zerotensor())) {
      slot = zerosLike(slot);
    } else if (C10_UNLIKELY(slot.defined() && slot.is_neg())) {
      slot = resolved(slot);
      standIns.push_back({value.toTensor(), slot, /*isInput=*/false});
    }
  }
  defineSymbols(results, late, flat);
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].used)
      checkResult(results[i], i, callee);
}

void Call::defineSymbols(const std::vector<Result> &results, const Program::LateSymbols &late,
                         c10::ArrayRef<c10::IValue> flat) {
  if (program.sizes.hasOnlyConstants())
    return; // nothing reads the symbols
  for (const Program::LateSymbols::Definition &definition : late.definitions) {
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].used || results[i].slot != definition.slot)
        continue;
      const c10::IValue &value = flat[i];
      int64_t &symbol = symbols[definition.symbol];
      if (value.isInt())
        symbol = value.toInt();
      else if (value.isBool())
        symbol = value.toBool();
      else if (value.isSymInt())
        symbol = value.toSymInt().guard_int(__FILE__, __LINE__);
      else if (const at::Tensor &tensor = slots[definition.slot];
               tensor.defined() && definition.dim < static_cast<uint64_t>(tensor.dim()))
        symbol = tensor.sizes()[definition.dim];
      else
        TORCH_CHECK(false, "symbol ", program.source.symbols[definition.symbol], " expected a size, got ",
                    value.tagKind());
    }
  }
  if (!late.exprs.empty())
    program.sizes.evaluate(late.exprs, symbols.data(), storage.data());
}

void Call::checkResult(const Result &result, size_t number, const char *callee) {
  at::Tensor &tensor = slots[result.slot];
  if (!tensor.defined())
    return;
  // Some of ATen's operators give whatever is at hand where there are no elements.
  if (C10_UNLIKELY(result.hasType && tensor.numel() == 0 && tensor.scalar_type() != toScalarType(result.type)))
    tensor = tensor.to(toScalarType(result.type));
  TORCH_CHECK(!result.hasType || tensor.scalar_type() == toScalarType(result.type), "result ", number, " of '", callee,
              "' expected torch.", scalarTypeName(toScalarType(result.type)),
              ", as its fake implementation says, got torch.", scalarTypeName(tensor.scalar_type()));
  at::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
  size_t rank = result.sizes.size();
  bool hasSizes = sizes.size() == rank, hasStrides = true;
  for (size_t i = 0; hasSizes && i < rank; ++i) {
    hasSizes = sizes[i] == values[result.sizes[i]];
    hasStrides &= strides[i] == values[result.strides[i]] || sizes[i] == 1;
  }
  if (C10_LIKELY(hasSizes && (hasStrides || tensor.numel() == 0)))
    return;
  Dims expectedSizes, expectedStrides;
  for (size_t i = 0; i < rank; ++i) {
    expectedSizes.push_back(values[result.sizes[i]]);
    expectedStrides.push_back(values[result.strides[i]]);
  }
  TORCH_CHECK(hasSizes, "result ", number, " of '", callee, "' expected sizes ", at::IntArrayRef(expectedSizes),
              ", got ", sizes);
  at::Tensor copy = at::empty_strided(expectedSizes, expectedStrides, tensor.options());
  copy.copy_(tensor);
  tensor = std::move(copy);
}

} // namespace torch_tile::runtime
