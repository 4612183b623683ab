// What a call is given: the symbols that it binds, and inputs that fit, are made to fit, or are refused.
#include "runtime/executor/Program.h"
#include "runtime/executor/RefusedInput.h"
#include "runtime/executor/SharedMemory.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <string>

namespace torch_tile::runtime {

using namespace artifact;

static std::string describe(at::ScalarType type, at::IntArrayRef sizes, at::IntArrayRef strides) {
  auto list = [](at::IntArrayRef values) {
    std::string text = "[";
    for (size_t i = 0; i < values.size(); ++i)
      text += (i ? ", " : "") + std::to_string(values[i]);
    return text + "]";
  };
  return std::string(scalarTypeName(type)) + " " + list(sizes) + " with strides " + list(strides);
}

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

at::Tensor Call::restrided(const Program::InputCheck &check) {
  TORCH_WARN_ONCE("torch_tile: ", host.describeInput(check.number), " has strides ", slots[check.slot].strides(),
                  ", others than when it was compiled; such arguments are copied in each call. Dynamo has no guard for "
                  "the strides of what it reads through attributes, like gradients.");
  c10::impl::ExcludeDispatchKeyGuard guard(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  const at::Tensor &tensor = slots[check.slot];
  c10::SmallVector<int64_t, 8> strides;
  for (ExprId id : check.shape.strideIds)
    strides.push_back(values[id]);
  at::Tensor copy = at::empty_strided(tensor.sizes(), strides, tensor.options()).copy_(tensor);
  if (check.isWritten)
    standIns.push_back({tensor, copy, /*isInput=*/true, /*isWritten=*/true});
  return copy;
}

void Call::checkInputs() {
  c10::SmallVector<const Program::InputCheck *, 2> copied;
  for (const Program::InputCheck &check : program.tensorInputs) {
    at::Tensor &tensor = slots[check.slot];
    auto fits = [&] {
      return tensor.defined() && isPlain(tensor) && tensor.scalar_type() == check.type && matches(tensor, check.shape);
    };
    if (C10_LIKELY(fits()) || (resolve(check) && fits()))
      continue;
    if (!check.mayBeCopied || !isRestrided(check) || (check.isWritten && !tensor.is_non_overlapping_and_dense()))
      failInput(check);
    copied.push_back(&check);
  }
  if (!program.writtenInputs.empty())
    checkOverlaps();
  for (const Program::InputCheck *check : copied)
    slots[check->slot] = restrided(*check);
}

/// Whether nothing but this tensor reaches its memory: no view, no second argument that is the same tensor, and no
/// second storage, as there may be over memory that torch has not allocated (NumPy's, DLPack's).
static bool isExclusive(const at::Tensor &tensor) {
  constexpr size_t ownReferences = 2; // the caller's and the slot's
  const c10::Storage &storage = tensor.storage();
  bool isOfTorch = storage.allocator() != nullptr;
  return isOfTorch && storage.use_count() == 1 && tensor.use_count() <= ownReferences;
}

const at::Tensor &Call::given(const Program::InputCheck &check) const {
  const at::Tensor &tensor = slots[check.slot];
  for (const StandIn &each : standIns)
    if (each.isInput && each.resolved.is_same(tensor))
      return each.original;
  return tensor;
}

void Call::checkOverlaps() const {
  if (std::all_of(program.writtenInputs.begin(), program.writtenInputs.end(),
                  [&](uint32_t number) { return C10_LIKELY(isExclusive(given(program.tensorInputs[number]))); }))
    return;
  struct Extent {
    MemoryRange range;
    const at::Tensor *tensor;
    bool isWritten;
  };
  std::vector<Extent> extents;
  extents.reserve(program.tensorInputs.size());
  for (const Program::InputCheck &check : program.tensorInputs) {
    const at::Tensor &tensor = given(check);
    if (tensor.numel() != 0 && tensor.storage().data())
      extents.push_back({memoryOf(tensor), &tensor, check.isWritten});
  }
  std::sort(extents.begin(), extents.end(),
            [](const Extent &a, const Extent &b) { return a.range.begin < b.range.begin; });
  for (auto first = extents.begin(); first != extents.end(); ++first)
    for (auto second = first + 1; second != extents.end() && second->range.begin < first->range.end; ++second)
      if ((first->isWritten || second->isWritten) && mayOverlap(*first->tensor, *second->tensor)) {
        TORCH_CHECK(!isNested, "a subgraph writes to an operand that shares memory with another one");
        throw OverlappingInputs();
      }
}

bool Call::resolve(const Program::InputCheck &check) {
  at::Tensor &tensor = slots[check.slot];
  if (!tensor.defined() || (!tensor.is_neg() && !tensor._is_zerotensor()))
    return false;
  c10::impl::ExcludeDispatchKeyGuard guard(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  if (tensor._is_zerotensor()) { // torch refuses to write to it, in eager mode too
    tensor = zerosLike(tensor);
    return true;
  }
  at::Tensor original = tensor;
  tensor = resolved(original);
  // Callables do not say what they write.
  standIns.push_back({std::move(original), tensor, /*isInput=*/true, check.isWritten || !program.pyCalls.empty()});
  return true;
}

at::Tensor Call::zerosLike(const at::Tensor &zeroTensor) {
  return at::empty_strided(zeroTensor.sizes(), zeroTensor.strides(), zeroTensor.options()).zero_();
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

/// The elements of `result`, which lies in the memory of `each.resolved`, as a view of the original; undefined if
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

/// What the program may have written goes back. Results that view an input, or what a call returned, lie in its
/// own memory: AOTAutograd reads where they begin, and later writes show in them.
void Call::writeStandIns() {
  c10::impl::ExcludeDispatchKeyGuard guard(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  for (const artifact::Output &output : program.artifact().outputs) {
    if (output.kind != artifact::Output::Kind::Tensor || !slots[output.ref].defined())
      continue;
    at::Tensor &result = slots[output.ref];
    for (const StandIn &each : standIns)
      if (result.is_alias_of(each.resolved)) {
        if (at::Tensor view = viewOfOriginal(each.original, result); view.defined())
          result = std::move(view);
        break;
      }
  }
  for (const StandIn &each : standIns)
    if (each.isInput && each.isWritten && at::has_internal_overlap(each.original) != at::MemOverlap::Yes)
      each.original.copy_(each.resolved);
}

void Call::writeStandIns(const Program::ExternStep &step) {
  for (uint32_t slot : step.call.writtenSlots())
    for (const StandIn &each : standIns)
      if (!each.isInput && each.resolved.is_same(slots[slot]))
        each.original.copy_(each.resolved);
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

} // namespace torch_tile::runtime
