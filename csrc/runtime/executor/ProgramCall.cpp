#include "runtime/executor/FrozenInputs.h"
#include "runtime/executor/Program.h"
#include "runtime/executor/RefusedInput.h"
#include "runtime/executor/SharedMemory.h"
#include "runtime/memory/BufferPool.h"
#include "runtime/memory/OperatorAllocator.h"
#include "support/CheckMessage.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
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

std::string describe(at::ScalarType type, at::IntArrayRef sizes, at::IntArrayRef strides) {
  auto list = [](at::IntArrayRef values) {
    std::string text = "[";
    for (size_t i = 0; i < values.size(); ++i)
      text += (i ? ", " : "") + std::to_string(values[i]);
    return text + "]";
  };
  return std::string(scalarTypeName(type)) + " " + list(sizes) + " with strides " + list(strides);
}

[[noreturn]] void failCheck(std::string_view message) {
  bool isIndexError = message.starts_with(indexErrorPrefix);
  TORCH_CHECK_INDEX(!isIndexError, message.substr(isIndexError ? indexErrorPrefix.size() : 0));
  TORCH_CHECK(false, message);
}

} // namespace

/// Kernels read plain memory: tensors whose values are not what their memory says are refused. Programs for GPU also
/// take tensors on the CPU, for calls outside; a launch asks for the device.
bool Call::isPlain(const at::Tensor &tensor) const {
  c10::DispatchKeySet keys = tensor.key_set();
  bool isBackend = keys.has_backend(c10::BackendComponent::CPUBit) ||
                   (program.options.device.is_cuda() && keys.has_backend(c10::BackendComponent::CUDABit));
  return isBackend && keys.has(c10::DispatchKey::Dense) &&
         !keys.has_any(c10::DispatchKeySet({c10::DispatchKey::Negative, c10::DispatchKey::Python,
                                            c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::ZeroTensor}));
}

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

//===-- symbols and inputs --------------------------------------------------------------------------------------===//

void Call::bindSymbols() {
  if (program.sizes.hasOnlyConstants())
    return;
  const Artifact &source = program.source;
  symbols.resize(source.symbols.size());
  for (size_t i = 0; i < symbols.size(); ++i) {
    const SymbolSource &origin = source.symbolSources[i];
    if (origin.kind == SymbolSource::Kind::ExternResult)
      continue;
    if (origin.kind == SymbolSource::Kind::Scalar) {
      symbols[i] = ints[origin.index];
    } else {
      const at::Tensor &tensor = slots[source.inputs[origin.index].slot];
      // A missing dimension is reported with the whole input by checkInputs.
      if (!tensor.defined() || origin.dim >= static_cast<uint64_t>(tensor.dim()))
        continue;
      symbols[i] = origin.kind == SymbolSource::Kind::Size ? tensor.sizes()[origin.dim] : tensor.strides()[origin.dim];
      if (origin.kind == SymbolSource::Kind::Stride) // of an empty tensor, or one element, it means nothing
        continue;
    }
    if (C10_UNLIKELY(symbols[i] < origin.least || symbols[i] > origin.greatest))
      failRange(origin, symbols[i]);
  }
  const std::vector<int64_t> &constants = program.sizes.constants();
  storage.append(constants.begin(), constants.end());
  values = storage.data();
  program.sizes.evaluate(program.earlyExprs, symbols.data(), storage.data());
}

void Call::failRange(const SymbolSource &origin, int64_t value) const {
  std::string what = host.describeInput(origin.index);
  if (origin.kind == SymbolSource::Kind::Size)
    what += ": size of dimension " + std::to_string(origin.dim);
  std::string expected = "at least " + std::to_string(origin.least);
  if (origin.greatest != INT64_MAX)
    expected = std::to_string(origin.least) + " to " + std::to_string(origin.greatest);
  TORCH_CHECK(false, what, " expected ", expected, ", as the graph was compiled for, got ", value);
}

bool Call::matches(const at::Tensor &tensor, const Program::Shape &shape) const {
  at::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
  size_t rank = shape.sizeIds.size();
  if (sizes.size() != rank)
    return false;
  // Without branches: shapes are the same almost always.
  int isSame = 1;
  if (shape.isConstant) {
    for (size_t i = 0; i < rank; ++i)
      isSame &= int(sizes[i] == shape.sizes[i]) & (int(strides[i] == shape.strides[i]) | int(sizes[i] == 1));
  } else {
    for (size_t i = 0; i < rank; ++i)
      isSame &= int(sizes[i] == values[shape.sizeIds[i]]) &
                (int(strides[i] == values[shape.strideIds[i]]) | int(sizes[i] == 1));
  }
  if (isSame || tensor.numel() != 0)
    return isSame;
  // Strides of an empty tensor mean nothing.
  for (size_t i = 0; i < rank; ++i)
    if (sizes[i] != values[shape.sizeIds[i]])
      return false;
  return true;
}

bool Call::isRestrided(const Program::InputCheck &check) const {
  const at::Tensor &tensor = slots[check.slot];
  const Program::Shape &shape = check.shape;
  if (!tensor.defined() || !isPlain(tensor) || tensor.scalar_type() != check.type ||
      tensor.sizes().size() != shape.sizeIds.size())
    return false;
  for (size_t i = 0; i < shape.sizeIds.size(); ++i) {
    int64_t size = values[shape.sizeIds[i]], stride = values[shape.strideIds[i]];
    if (tensor.sizes()[i] != size || stride < 0 || (stride == 0 && size > 1))
      return false;
  }
  return true;
}

at::Tensor Call::restrided(const Program::InputCheck &check) const {
  TORCH_WARN_ONCE("torch_tile: ", host.describeInput(check.number), " has strides ", slots[check.slot].strides(),
                  ", others than when it was compiled; such arguments are copied in each call. Dynamo has no guard for "
                  "the strides of what it reads through attributes, like gradients.");
  c10::impl::ExcludeDispatchKeyGuard guard(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  const at::Tensor &tensor = slots[check.slot];
  c10::SmallVector<int64_t, 8> strides;
  for (ExprId id : check.shape.strideIds)
    strides.push_back(values[id]);
  return at::empty_strided(tensor.sizes(), strides, tensor.options()).copy_(tensor);
}

void Call::checkInputs() {
  c10::SmallVector<const Program::InputCheck *, 2> copied;
  for (const Program::InputCheck &check : program.tensorInputs) {
    at::Tensor &tensor = slots[check.slot];
    auto fits = [&] {
      return tensor.defined() && isPlain(tensor) && tensor.scalar_type() == check.type && matches(tensor, check.shape);
    };
    if (C10_LIKELY(fits()) || (resolve(tensor) && fits()))
      continue;
    if (!check.mayBeCopied || !isRestrided(check))
      failInput(check);
    copied.push_back(&check);
  }
  if (!program.writtenInputs.empty())
    checkOverlaps();
  for (const Program::InputCheck *check : copied)
    slots[check->slot] = restrided(*check);
}

void Call::checkOverlaps() const {
  for (uint32_t written : program.writtenInputs) {
    const at::Tensor &tensor = slots[program.tensorInputs[written].slot];
    const c10::Storage &storage = tensor.storage();
    if (C10_LIKELY(storage.use_count() == 1))
      continue; // not shared
    for (uint32_t other = 0; other < program.tensorInputs.size(); ++other) {
      const at::Tensor &second = slots[program.tensorInputs[other].slot];
      if (other != written && second.storage().unsafeGetStorageImpl() == storage.unsafeGetStorageImpl() &&
          mayOverlap(tensor, second)) {
        TORCH_CHECK(!isNested, "a subgraph writes to an operand that shares memory with another one");
        throw OverlappingInputs();
      }
    }
  }
}

bool Call::resolve(at::Tensor &tensor) {
  if (!tensor.defined() || (!tensor.is_neg() && !tensor._is_zerotensor()))
    return false;
  c10::impl::ExcludeDispatchKeyGuard guard(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  if (tensor._is_zerotensor()) { // torch refuses to write to it, in eager mode too
    at::Tensor zeros = allocate(tensor.sizes(), tensor.strides(), tensor.scalar_type());
    tensor = zeros.zero_();
    return true;
  }
  at::Tensor original = tensor;
  tensor = resolved(original);
  negatives.push_back({std::move(original), tensor, true});
  return true;
}

at::Tensor Call::resolved(const at::Tensor &negative) {
  at::Tensor result = at::empty_strided(negative.sizes(), negative.strides(), negative.options());
  if (negative.is_conj()) // the graph was traced for a conjugate
    result = at::_conj(result);
  at::Tensor from = negative, to = result;
  for (int64_t dim = 0; dim < result.dim(); ++dim)
    if (result.stride(dim) == 0 && result.size(dim) > 1) { // of an expanded tensor one element is written
      from = from.narrow(dim, 0, 1);
      to = to.narrow(dim, 0, 1);
    }
  to.copy_(from);
  return result;
}

/// The elements of `result`, which lies in the memory of `negative.resolved`, as a view of the original; undefined if
/// no view of torch's makes its dtype of the original's.
static at::Tensor viewOfOriginal(const at::Tensor &original, const at::Tensor &result) {
  auto strided = [&](const at::Tensor &base, const at::Tensor &shape, int64_t unit) {
    return base.as_strided(shape.sizes(), shape.strides(), unit * original.storage_offset() + shape.storage_offset());
  };
  at::Tensor view;
  if (original.scalar_type() == result.scalar_type()) {
    view = strided(original, result, 1);
  } else if (c10::toComplexType(original.scalar_type()) == result.scalar_type()) {
    at::Tensor parts = at::view_as_real(result.is_conj() ? at::_conj(result) : result);
    view = at::view_as_complex(strided(original, parts, 1));
  } else if (original.scalar_type() == c10::toComplexType(result.scalar_type())) {
    view = strided(at::view_as_real(original.is_conj() ? at::_conj(original) : original), result, 2);
  } else {
    return {};
  }
  return view.is_conj() == result.is_conj() ? view : at::_conj(view);
}

/// Programs write to inputs without saying to which. Results that view an input, or what a call returned, lie in its
/// own memory: AOTAutograd reads where they begin, and later writes show in them.
void Call::writeNegatives() {
  c10::impl::ExcludeDispatchKeyGuard guard(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  for (const artifact::Output &output : program.artifact().outputs) {
    if (output.kind != artifact::Output::Kind::Tensor || !slots[output.ref].defined())
      continue;
    at::Tensor &result = slots[output.ref];
    for (const Negative &negative : negatives)
      if (result.is_alias_of(negative.resolved)) {
        if (at::Tensor view = viewOfOriginal(negative.original, result); view.defined())
          result = std::move(view);
        break;
      }
  }
  for (const Negative &negative : negatives)
    if (negative.isInput && at::has_internal_overlap(negative.original) != at::MemOverlap::Yes)
      negative.original.copy_(negative.resolved);
}

void Call::writeNegatives(const Program::ExternStep &step) {
  for (uint32_t slot : step.call.writtenSlots())
    for (const Negative &negative : negatives)
      if (!negative.isInput && negative.resolved.is_same(slots[slot]))
        negative.original.copy_(negative.resolved);
}

void Call::failInput(const Program::InputCheck &check) const {
  std::string input = host.describeInput(check.number);
  const at::Tensor &given = slots[check.slot];
  std::string reason = reasonAgainst(given, program.options.device);
  TORCH_CHECK(reason.empty(), input, " ", reason);
  Dims sizes, strides;
  for (ExprId id : check.shape.sizeIds)
    sizes.push_back(values[id]);
  for (ExprId id : check.shape.strideIds)
    strides.push_back(values[id]);
  std::string expected = describe(check.type, sizes, strides);
  TORCH_CHECK(isPlain(given), input, " expected ", expected, " in plain memory, got a tensor with dispatch keys ",
              toString(given.key_set()));
  TORCH_CHECK(false, input, " expected ", expected, ", got ",
              describe(given.scalar_type(), given.sizes(), given.strides()));
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
  if (C10_UNLIKELY(!negatives.empty()))
    writeNegatives();
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
  if (C10_UNLIKELY(!negatives.empty()))
    writeNegatives(step);
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
      resolve(slot);
    } else if (C10_UNLIKELY(slot.defined() && slot.is_neg())) {
      slot = resolved(slot);
      negatives.push_back({value.toTensor(), slot, false});
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
