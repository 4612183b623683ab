// Tensors that are put together of others: concatenations, padding, repetition, and writes of slices, which are
// concatenations of what is before, in and behind the slice.
#include "runtime/fx/TypePromotion.h"
#include "runtime/fx/ViewParts.h"

#include <algorithm>

namespace py = pybind11;

namespace torch_tile::runtime::fx {

static constexpr const char *kNoTensor = "expected a tensor operand";

/// Whether each operand of a concatenation is computed in its place in the result: most of them are made in this graph,
/// and what a part has side by side in memory is longer than one element: a line of a cache where the part's length
/// says it, in bytes.
static bool hasComputedParts(const Call &call, const std::vector<Value> &parts, int64_t dim) {
  constexpr int64_t shortestRun = 128;
  auto foreign = std::count_if(parts.begin(), parts.end(), [](const Value &part) { return part.isForeignStorage; });
  if (4 * static_cast<size_t>(foreign) > parts.size())
    return false;
  if (!call.type().strides[dim].isConstant(1))
    return true;
  auto element = static_cast<int64_t>(c10::elementSize(call.type().dtype));
  return std::all_of(parts.begin(), parts.end(), [&](const Value &part) {
    std::optional<int64_t> length = part.type.sizes[dim].constant();
    return length && *length >= shortestRun / element;
  });
}

/// Whether each operand gives one of the neighbours in memory, as in a stack along the last dimension: kernels for CPU
/// compute vectors of each and interleave them.
static bool isInterleaved(const Call &call, const std::vector<Value> &parts, int64_t dim) {
  constexpr size_t most = 16;
  constexpr int64_t fewestRows = 64; // lanes of a tile of bytes: shorter rows would be chosen element by element
  const auto &type = call.type();
  std::optional<int64_t> rows = type.rank() >= 2 ? type.sizes[type.rank() - 2].constant() : std::nullopt;
  return !call.importer.isOnGpu() && parts.size() <= most && rows && *rows >= fewestRows &&
         dim + 1 == static_cast<int64_t>(type.rank()) && type.strides[dim].isConstant(1) &&
         std::all_of(parts.begin(), parts.end(), [&](const Value &part) { return part.type.sizes[dim].isConstant(1); });
}

/// Each element of a kernel asks every operand whether it comes from there. Loops on processors are cut at the borders
/// of a few operands; of more, only small results are worth that.
static const char *refuseMany(const Call &call, const std::vector<Value> &parts, int64_t dim) {
  constexpr size_t few = 8, most = 32, mostComputed = 1024;
  constexpr int64_t mostQuestions = 32768;
  if (parts.size() > few && parts.size() <= mostComputed && hasComputedParts(call, parts, dim))
    return nullptr;
  if (parts.size() > most)
    return "it has more operands than one kernel should choose among";
  if (parts.size() <= few || call.importer.isOnGpu() || isInterleaved(call, parts, dim))
    return nullptr;
  auto questions = static_cast<int64_t>(parts.size());
  for (SizeExpr size : call.type().sizes) {
    std::optional<int64_t> known = size.constant();
    if (!known || __builtin_mul_overflow(questions, *known, &questions))
      return "it has several operands and sizes that are not known";
  }
  return questions > mostQuestions ? "it has more operands than one kernel should choose among, for its size" : nullptr;
}

static const char *setJoined(Call &call, const std::vector<Value> &parts, int64_t dim) {
  if (parts.size() == 1)
    call.set(call.importer.emit("clone", parts, "", call.type()));
  else
    call.set(call.importer.emit("cat", parts, intAttr("dim", dim), call.type()));
  return nullptr;
}

const char *importCat(Call &call) {
  std::vector<Value> parts;
  size_t rank = call.type().rank();
  for (py::handle item : call.argument(0)) {
    const Value *part = call.tensorOf(item);
    if (!part)
      return kNoTensor;
    bool isLegacyEmpty = part->type.rank() == 1 && part->type.sizes[0].isConstant(0) && rank != 1;
    if (!isLegacyEmpty)
      parts.push_back(call.importer.cast(*part, call.type().dtype));
  }
  if (parts.empty() || std::any_of(parts.begin(), parts.end(), [&](const Value &p) { return p.type.rank() != rank; }))
    return "its operands have different ranks";
  int64_t dim = call.dim(1, rank);
  if (const char *reason = refuseMany(call, parts, dim))
    return reason;
  return setJoined(call, parts, dim);
}

const char *importStack(Call &call) {
  int64_t dim = call.dim(1, call.type().rank());
  std::vector<Value> parts;
  for (py::handle item : call.argument(0)) {
    const Value *part = call.tensorOf(item);
    if (!part)
      return kNoTensor;
    parts.push_back(unsqueeze(call.importer, call.importer.cast(*part, call.type().dtype), dim));
  }
  if (const char *reason = refuseMany(call, parts, dim))
    return reason;
  return setJoined(call, parts, dim);
}

static Value pad(Call &call, const Value &x, const std::vector<SizeExpr> &low, const std::vector<SizeExpr> &high,
                 const Scalar &fill) {
  std::string value = elementAttr("value", fill, call.type().dtype);
  std::string attrs = joinAttrs({sizesAttr("low", low), sizesAttr("high", high), value});
  return call.importer.emit("constant_pad", {x}, attrs, call.type());
}

const char *importConstantPad(Call &call) {
  const Value *x = call.tensor(0);
  std::optional<Scalar> fill = call.scalar(2);
  if (!x || !fill || !fill->isConstant())
    return "the padding value is not constant";
  if (!isInRange(*fill, call.type().dtype))
    return kOutOfRange;
  std::vector<SizeExpr> amounts = call.sizeList(1);
  size_t rank = x->type.rank();
  std::vector<SizeExpr> low(rank, call.importer.sizes.constant(0)), high = low;
  // ATen lists pairs from the last dimension on.
  for (size_t i = 0; 2 * i + 1 < amounts.size(); ++i) {
    low[rank - 1 - i] = amounts[2 * i];
    high[rank - 1 - i] = amounts[2 * i + 1];
  }
  if (rank == 0)
    return importClone(call);
  for (size_t dim = 0; dim < rank; ++dim) { // what is cut off comes first
    std::optional<int64_t> left = x->type.sizes[dim].constant();
    for (SizeExpr amount : {low[dim], high[dim]})
      if (left && amount.constant())
        *left += std::min<int64_t>(*amount.constant(), 0);
    if (left && *left < 0)
      return "it cuts off more than there is";
  }
  call.set(pad(call, *x, low, high, *fill));
  return nullptr;
}

const char *importRepeat(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kNoTensor;
  Importer &importer = call.importer;
  std::vector<SizeExpr> repeats = call.sizeList(1), split, paired;
  if (repeats.empty())
    return importClone(call);
  size_t missing = repeats.size() - x->type.rank();
  SizeExpr one = importer.sizes.constant(1);
  for (size_t i = 0; i < repeats.size(); ++i) {
    SizeExpr size = i < missing ? one : x->type.sizes[i - missing];
    split.insert(split.end(), {one, size});
    paired.insert(paired.end(), {repeats[i], size});
  }
  at::ScalarType dtype = x->type.dtype;
  Value dense = importer.emit("clone", {*x}, "", importer.makeType(dtype, x->type.sizes));
  Value pairs = importer.emit("view", {dense}, "", importer.makeType(dtype, split));
  std::vector<SizeExpr> strides = pairs.type.strides;
  for (size_t i = 0; i < strides.size(); i += 2)
    strides[i] = importer.sizes.constant(0);
  Value expanded = importer.emit("expand", {pairs}, "", importer.makeType(dtype, paired, std::move(strides)));
  Value copied = importer.emit("clone", {expanded}, "", importer.makeType(dtype, paired));
  call.set(importer.emit("view", {copied}, "", call.type()));
  return nullptr;
}

/// slice_backward(grad, input_sizes, dim, start, end, step): grad amid zeros. Of sizes that depend on data, torch's
/// traces have gradients with other sizes than the slice.
const char *importSliceBackward(Call &call) {
  const Value *grad = call.tensor(0);
  if (!grad || !call.size(5).isConstant(1))
    return "only steps of 1 are generated";
  Importer &importer = call.importer;
  SizeContext &context = importer.sizes.context;
  int64_t dim = call.dim(2, grad->type.rank());
  auto at = static_cast<size_t>(dim);
  SizeExpr size = call.sizeList(1)[at], start = clampPosition(importer, call.size(3), size);
  if (!start)
    return "the sign of the start is not known";
  if (SizeExpr end = clampPosition(importer, call.size(4), size)) {
    SizeExpr length = context.max(context.sub(end, start), context.constant(0));
    if (!call.requireSizes({&grad->type.sizes[at], 1}, {&length, 1}))
      return "the gradient has other sizes than the slice";
  }
  std::vector<SizeExpr> low(grad->type.rank(), context.constant(0)), high = low;
  low[at] = start;
  high[at] = context.sub(context.sub(size, start), grad->type.sizes[at]);
  call.set(pad(call, *grad, low, high, Scalar::of(0.0)));
  return nullptr;
}

/// select_backward(grad, input_sizes, dim, index): grad amid zeros.
const char *importSelectBackward(Call &call) {
  const Value *grad = call.tensor(0);
  if (!grad)
    return kNoTensor;
  Importer &importer = call.importer;
  SizeContext &context = importer.sizes.context;
  std::vector<SizeExpr> sizes = call.sizeList(1);
  int64_t dim = call.dim(2, sizes.size());
  auto at = static_cast<size_t>(dim);
  SizeExpr index = clampPosition(importer, call.size(3), sizes[at]);
  if (!index)
    return "the sign of the index is not known";
  std::vector<SizeExpr> low(sizes.size(), context.constant(0)), high = low;
  low[at] = index;
  high[at] = context.sub(context.sub(sizes[at], index), context.constant(1));
  call.set(pad(call, unsqueeze(importer, *grad, dim), low, high, Scalar::of(0.0)));
  return nullptr;
}

/// Whether it is proven that no two elements of the tensor share memory.
static bool isWithoutOverlap(Importer &importer, const TensorType &type) {
  SizeContext &context = importer.sizes.context;
  const SizeFacts &facts = importer.sizes.facts();
  std::vector<size_t> rest;
  for (size_t d = 0; d < type.rank(); ++d) {
    if (facts.lessEqual(type.sizes[d], context.constant(0)) == Proof::Yes)
      return true;
    if (facts.lessEqual(type.sizes[d], context.constant(1)) != Proof::Yes)
      rest.push_back(d);
  }
  // From the innermost dimension on: a step of each is past all elements of those before it.
  SizeExpr last = context.constant(0);
  while (!rest.empty()) {
    auto inner = std::find_if(rest.begin(), rest.end(), [&](size_t d) {
      return std::all_of(rest.begin(), rest.end(), [&](size_t other) {
        return facts.lessEqual(type.strides[d], type.strides[other]) == Proof::Yes;
      });
    });
    if (inner == rest.end() || facts.less(last, type.strides[*inner]) != Proof::Yes)
      return false;
    SizeExpr steps = context.sub(type.sizes[*inner], context.constant(1));
    last = context.add(last, context.mul(steps, type.strides[*inner]));
    rest.erase(inner);
  }
  return true;
}

constexpr const char *kMayOverlap = "elements of the result may share memory, and the order of writes then shows";

/// x with the range from `start` on along `dim` replaced. Of a source of other sizes than the `length` elements that
/// it replaces, ATen raises an error.
static const char *setScattered(Call &call, const Value &x, const Value &source, int64_t dim, SizeExpr start,
                                SizeExpr length) {
  Importer &importer = call.importer;
  SizeContext &context = importer.sizes.context;
  auto at = static_cast<size_t>(dim);
  std::vector<SizeExpr> replaced = x.type.sizes;
  if (length)
    replaced[at] = length;
  else if (source.type.rank() == replaced.size())
    replaced[at] = source.type.sizes[at];
  if (!call.requireSizes(source.type.sizes, replaced))
    return "the source has other sizes than what it replaces";
  SizeExpr size = x.type.sizes[at], end = context.add(start, source.type.sizes[at]);
  SizeExpr rest = context.sub(size, end);
  std::vector<Value> parts;
  if (!start.isConstant(0))
    parts.push_back(sliceRange(importer, x, dim, context.constant(0), start));
  parts.push_back(importer.cast(source, x.type.dtype));
  if (!rest.isConstant(0))
    parts.push_back(sliceRange(importer, x, dim, end, rest));
  return setJoined(call, parts, dim);
}

const char *importSliceScatter(Call &call) {
  const Value *x = call.tensor(0), *source = call.tensor(1);
  if (!x || !source || !call.size(5).isConstant(1))
    return "only steps of 1 are generated";
  if (!isWithoutOverlap(call.importer, call.type()))
    return kMayOverlap;
  int64_t dim = call.dim(2, x->type.rank());
  SizeExpr size = x->type.sizes[static_cast<size_t>(dim)];
  SizeExpr start = call.isNone(3) ? call.importer.sizes.constant(0) : clampPosition(call.importer, call.size(3), size);
  if (!start)
    return "the sign of the start is not known";
  SizeExpr end = call.isNone(4) ? size : clampPosition(call.importer, call.size(4), size);
  SizeContext &context = call.importer.sizes.context;
  SizeExpr length = end ? context.max(context.constant(0), context.sub(end, start)) : SizeExpr();
  return setScattered(call, *x, *source, dim, start, length);
}

const char *importSelectScatter(Call &call) {
  const Value *x = call.tensor(0), *source = call.tensor(1);
  if (!x || !source)
    return kNoTensor;
  if (!isWithoutOverlap(call.importer, call.type()))
    return kMayOverlap;
  int64_t dim = call.dim(2, x->type.rank());
  SizeExpr size = x->type.sizes[static_cast<size_t>(dim)], index = checkedIndex(call, call.size(3), size, dim);
  if (!index)
    return "the sign of the index is not known";
  if (source->type.rank() + 1 != x->type.rank() || call.importer.sizes.facts().less(index, size) == Proof::No)
    return "the source has another rank, or the index is out of range";
  Value part = unsqueeze(call.importer, *source, dim);
  return setScattered(call, *x, part, dim, index, call.importer.sizes.constant(1));
}

} // namespace torch_tile::runtime::fx
