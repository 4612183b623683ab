// Writes at positions that tensors name, and scans.
#include "runtime/fx/Casts.h"
#include "runtime/fx/OpCall.h"
#include "runtime/fx/TypePromotion.h"

#include <ATen/Context.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace py = pybind11;

namespace torch_tile::runtime::fx {
namespace {

constexpr const char *kNoTensor = "expected tensors of at least one dimension";
constexpr const char *kNoIndex = "an index is neither int64 nor int32";

/// Whether a GPU's threads fold into one element at once: sums and extrema of the dtypes that it has atomic updates
/// for.
bool isAtomic(std::string_view combine, at::ScalarType dtype) {
  bool isWide = dtype == at::kFloat || dtype == at::kDouble || dtype == at::kInt || dtype == at::kLong ||
                c10::isReducedFloatingType(dtype); // which are folded in f32
  return isWide && (combine == "add" || combine == "max" || combine == "min");
}

/// Kernels keep the order of folds by index, and of all writes where bits are to be the same on every run. That leaves
/// a GPU nearly idle where torch's own kernels are parallel. A few points that are only set are worth it: a cache that
/// is updated in place is not copied.
const char *refuseOrder(const Call &call, std::string_view combine, std::span<const Value> indices = {}) {
  constexpr int64_t most = 1024;
  auto isFew = [](const Value &index) {
    int64_t points = 1;
    for (SizeExpr size : index.type.sizes)
      points = points <= most ? points * std::clamp<int64_t>(size.constant().value_or(most + 1), 1, most + 1) : points;
    return points <= most;
  };
  bool isFold = !combine.empty();
  bool isOrdered = (isFold && !isAtomic(combine, call.type().dtype)) || at::globalContext().deterministicAlgorithms();
  if (!call.importer.isOnGpu() || !isOrdered || (!isFold && std::all_of(indices.begin(), indices.end(), isFew)))
    return nullptr;
  return "a GPU would do it in order, and torch's kernel is parallel";
}

bool isIndexType(at::ScalarType dtype) { return dtype == at::kLong || dtype == at::kInt; }

std::string combineAttr(std::string_view combine) {
  return combine.empty() ? std::string() : stringAttr("combine", combine);
}

/// Sums and products of 16-bit floats are carried in f32 and rounded once, as eager's kernels do.
Value widened(Call &call, const Value &value) {
  return c10::isReducedFloatingType(value.type.dtype) ? call.importer.cast(value, at::kFloat) : value;
}

/// The op that prints a copy of `x` with `values` at the places of one call.
using Write = std::function<Value(const Value &x, const Value &values, std::string_view combine)>;

Write writeAt(Call &call, std::vector<Value> indices, std::vector<int64_t> dims, bool wrap) {
  return [&call, indices = std::move(indices), dims = std::move(dims), wrap](const Value &x, const Value &values,
                                                                             std::string_view combine) {
    std::vector<Value> operands{x, call.importer.cast(values, x.type.dtype)};
    operands.insert(operands.end(), indices.begin(), indices.end());
    return call.importer.emit(
        "index_put", operands,
        joinAttrs({dimsAttr("dims", dims), wrap ? boolAttr("wrap", true) : std::string(), combineAttr(combine)}),
        call.importer.withDtype(call.type(), x.type.dtype));
  };
}

Write writeAlong(Call &call, const Value &index, int64_t dim) {
  return [&call, index, dim](const Value &x, const Value &values, std::string_view combine) {
    return call.importer.emit("scatter", {x, index, call.importer.cast(values, x.type.dtype)},
                              joinAttrs({intAttr("dim", dim), combineAttr(combine)}),
                              call.importer.withDtype(call.type(), x.type.dtype));
  };
}

/// The identity of an extremum in a dtype.
Scalar lowest(at::ScalarType dtype, bool ofMaximum) {
  if (c10::isFloatingType(dtype))
    return Scalar::of(ofMaximum ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity());
  auto of = [&]<typename T>(T) {
    return Scalar::of(int64_t{ofMaximum ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max()});
  };
  switch (dtype) {
  case at::kByte:
    return of(uint8_t{});
  case at::kChar:
    return of(int8_t{});
  case at::kShort:
    return of(int16_t{});
  case at::kInt:
    return of(int32_t{});
  case at::kLong:
    return of(int64_t{});
  default:
    return Scalar::of(int64_t{!ofMaximum});
  }
}

/// What a reduction of torch folds with; empty: none.
std::string_view combineOf(std::string_view reduce) {
  return reduce == "sum" || reduce == "mean" ? "add"
         : reduce == "prod"                  ? "mul"
         : reduce == "amax"                  ? "max"
         : reduce == "amin"                  ? "min"
                                             : "";
}

/// scatter_reduce and index_reduce. Without `includeSelf`, what is written to starts from the fold's identity.
const char *setReduced(Call &call, const Value &x, const Value &source, const std::string &reduce, bool includeSelf,
                       const Write &write) {
  Importer &importer = call.importer;
  bool isMean = reduce == "mean";
  std::string_view combine = combineOf(reduce);
  if (combine.empty() || (isMean && call.type().dtype == at::kBool))
    return "no such reduction is generated";
  bool isExtremum = combine == "max" || combine == "min";
  Value start = isExtremum && !importer.isOnGpu() ? x : widened(call, x);
  at::ScalarType dtype = start.type.dtype;
  auto number = [&](const Scalar &value) { return importer.full(value, importer.scalarType(dtype)); };
  if (!includeSelf) {
    Scalar identity = combine == "add"   ? Scalar::of(int64_t{0})
                      : combine == "mul" ? Scalar::of(int64_t{1})
                                         : lowest(dtype, combine == "max");
    start = write(start, number(identity), "");
  }
  Value folded = write(start, source, combine);
  if (isMean) {
    Value one = number(Scalar::of(int64_t{1})), zero = number(Scalar::of(int64_t{0}));
    Value count =
        write(importer.full(Scalar::of(int64_t{includeSelf}), importer.withDtype(call.type(), dtype)), one, "add");
    Value isNone = call.pointwise("eq", {count, zero}, at::kBool);
    count = call.pointwise("where", {isNone, one, count}, dtype);
    folded = call.pointwise(c10::isFloatingType(dtype) ? "div" : "div_floor", {folded, count}, dtype);
  }
  call.set(importer.cast(folded, call.type().dtype));
  return nullptr;
}

/// x with `value` where a mask over some of its dimensions holds, if no count of true elements is needed for that.
/// Torch traces index_put without a look at sizes.
const char *setMasked(Call &call, const Value &x, Value mask, int64_t dim, Value value, bool accumulate) {
  Importer &importer = call.importer;
  size_t rest = x.type.rank() - static_cast<size_t>(dim) - mask.type.rank();
  bool isOne =
      std::all_of(value.type.sizes.begin(), value.type.sizes.end(), [](SizeExpr size) { return size.isConstant(1); });
  std::span<const SizeExpr> sizes = x.type.sizes;
  if (!call.requireSizes(mask.type.sizes, sizes.subspan(static_cast<size_t>(dim), mask.type.rank())))
    return "the mask has other sizes than what it chooses of";
  if (value.type.rank() > rest + static_cast<size_t>(dim) + 1)
    return "values of more dimensions than their places";
  if (!isOne && value.type.rank() > rest)
    return "a mask whose true elements take values of their own";
  if (!isOne && !call.requireSizes(value.type.sizes, sizes.last(rest), /*mayBroadcast=*/true))
    return "the values do not broadcast to their places";
  if (value.type.rank() > rest)
    value = importer.emit("view", {value}, "", importer.scalarType(value.type.dtype));
  if (rest > 0) {
    std::vector<SizeExpr> widened = mask.type.sizes;
    widened.resize(widened.size() + rest, importer.sizes.constant(1));
    mask = importer.emit("view", {mask}, "", importer.makeType(at::kBool, std::move(widened)));
  }
  at::ScalarType dtype = x.type.dtype;
  value = importer.cast(value, dtype);
  if (accumulate)
    value = call.pointwise("add", {x, value}, dtype);
  const Value operands[] = {mask, value, x};
  call.setPointwise("where", operands, dtype);
  return nullptr;
}

} // namespace

/// Why ATen refuses a source of `x` at an index along `dim`; null if it takes them.
static const char *refuseSource(Call &call, const Value &x, int64_t dim, const Value &index, const Value &source) {
  if (x.type.dtype != source.type.dtype)
    return "the source has another dtype";
  std::vector<SizeExpr> sizes = x.type.sizes;
  sizes[static_cast<size_t>(dim)] = index.type.sizes[0];
  return call.requireSizes(source.type.sizes, sizes) ? nullptr : "the source has other sizes than its places";
}

/// The sizes of what indices of the dimensions `dims` read or write: their common sizes stand in the place of the
/// dimensions, or first where these do not follow one another. None where the indices do not broadcast.
static std::optional<std::vector<SizeExpr>> sizesAt(Call &call, const Value &x, std::span<const Value> indices,
                                                    std::span<const int64_t> dims) {
  std::vector<SizeExpr> common;
  for (const Value &index : indices) {
    const std::vector<SizeExpr> &sizes = index.type.sizes;
    if (sizes.size() > common.size())
      common.insert(common.begin(), sizes.size() - common.size(), call.importer.sizes.constant(1));
    size_t first = common.size() - sizes.size();
    for (size_t d = 0; d < sizes.size(); ++d)
      if (common[first + d].isConstant(1))
        common[first + d] = sizes[d];
  }
  for (const Value &index : indices)
    if (!call.requireSizes(index.type.sizes, common, /*mayBroadcast=*/true))
      return std::nullopt;
  bool isOneRun = dims.back() - dims.front() + 1 == static_cast<int64_t>(dims.size());
  std::vector<SizeExpr> result;
  if (!isOneRun)
    result = common;
  for (size_t d = 0; d < x.type.rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) == dims.end())
      result.push_back(x.type.sizes[d]);
    else if (isOneRun && static_cast<int64_t>(d) == dims.front())
      result.insert(result.end(), common.begin(), common.end());
  }
  return result;
}

/// index_put(self, indices, values, accumulate)
const char *importIndexPut(Call &call) {
  const Value *x = call.tensor(0), *values = call.tensor(2);
  if (!x || !values || x->type.rank() == 0)
    return kNoTensor;
  bool accumulate = call.flag(3);
  std::vector<Value> indices;
  std::vector<int64_t> dims;
  int64_t dim = 0;
  for (py::handle item : call.argument(1)) {
    if (!item.is_none()) {
      const Value *index = call.tensorOf(item);
      if (!index)
        return "expected tensors as indices";
      indices.push_back(*index);
      dims.push_back(dim);
    }
    ++dim;
  }
  if (indices.empty())
    return "it has no index";
  bool isMask = indices.size() == 1 && indices[0].type.dtype == at::kBool && indices[0].type.rank() > 0;
  // ATen refuses values of another dtype, but where it fills a mask with one number.
  if (values->type.dtype != x->type.dtype && !(isMask && !accumulate && values->type.rank() == 0))
    return "values of another dtype";
  if (isMask)
    return setMasked(call, *x, indices[0], dims[0], *values, accumulate);
  for (const Value &index : indices)
    if (!isIndexType(index.type.dtype))
      return kNoIndex;
  if (const char *reason = refuseOrder(call, accumulate ? "add" : "", indices))
    return reason;
  std::optional<std::vector<SizeExpr>> places = sizesAt(call, *x, indices, dims);
  if (!places || !call.requireSizes(values->type.sizes, *places, /*mayBroadcast=*/true))
    return "the values do not broadcast to their places";
  // Eager mode rounds 16-bit sums once on a GPU, and after each element on the CPU.
  Value start = accumulate && call.importer.isOnGpu() ? widened(call, *x) : *x;
  Value result = writeAt(call, indices, dims, /*wrap=*/true)(start, *values, accumulate ? "add" : "");
  call.set(call.importer.cast(result, x->type.dtype));
  return nullptr;
}

/// embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq)
const char *importEmbeddingBackward(Call &call) {
  const Value *grad = call.tensor(0), *indices = call.tensor(1);
  std::optional<Scalar> padding = call.scalar(3);
  if (!grad || !indices)
    return kNoTensor;
  if (const char *reason = refuseOrder(call, "add"))
    return reason;
  if (!isIndexType(indices->type.dtype))
    return kNoIndex;
  if (call.flag(4))
    return "gradients scaled by frequency";
  if (!padding || !padding->isConstant())
    return "the padding index is not constant";
  const int64_t dims[] = {0};
  at::ScalarType dtype = call.type().dtype;
  bool isWide = call.importer.isOnGpu() && c10::isReducedFloatingType(dtype);
  auto type = call.importer.withDtype(call.type(), isWide ? at::kFloat : dtype);
  Value zeros = call.importer.full(Scalar::of(int64_t{0}), type);
  Value sums = call.importer.emit(
      "index_put", {zeros, call.importer.cast(*grad, type.dtype), *indices},
      joinAttrs({dimsAttr("dims", dims), combineAttr("add"), intAttr("skip", padding->integer)}), type);
  call.set(call.importer.cast(sums, dtype));
  return nullptr;
}

/// index_add(self, dim, index, source, *, alpha), index_copy(self, dim, index, source)
const char *importIndexWrite(Call &call) {
  const Value *x = call.tensor(0), *index = call.tensor(2), *source = call.tensor(3);
  if (!x || !index || !source || x->type.rank() == 0 || index->type.rank() != 1 ||
      source->type.rank() != x->type.rank())
    return "expected an index of one dimension and a source of the operand's rank";
  if (const char *reason = refuseOrder(call, call.op(), {index, 1}))
    return reason;
  if (!isIndexType(index->type.dtype))
    return kNoIndex;
  int64_t dim = call.dim(1, x->type.rank());
  if (const char *reason = refuseSource(call, *x, dim, *index, *source))
    return reason;
  Value values = *source;
  bool isAdd = std::string_view(call.op()) == "add";
  if (!isAdd && index->type.dtype != at::kLong)
    return kNoIndex;
  if (std::optional<Scalar> alpha = isAdd ? call.scalar(4) : Scalar::of(int64_t{1}); !alpha) {
    return "the factor is no number";
  } else if (!alpha->is(1)) {
    at::ScalarType dtype = values.type.dtype;
    if (!isInRange(*alpha, dtype))
      return kOutOfRange;
    at::ScalarType wide = c10::isReducedFloatingType(dtype) ? at::kFloat : dtype;
    Value factor = call.importer.full(*alpha, call.importer.scalarType(wide));
    values = call.importer.emit("mul", {call.importer.cast(values, wide), factor}, "",
                                call.importer.withDtype(values.type, wide));
  }
  Write write = writeAt(call, {*index}, {dim}, /*wrap=*/false);
  call.set(call.importer.cast(write(isAdd ? widened(call, *x) : *x, values, call.op()), x->type.dtype));
  return nullptr;
}

/// index_fill(self, dim, index, value)
const char *importIndexFill(Call &call) {
  const Value *x = call.tensor(0), *index = call.tensor(2);
  Operands fill(call);
  if (!x || !index || !fill.add(3) || x->type.rank() == 0)
    return kNoTensor;
  if (const char *reason = refuseOrder(call, "", {index, 1}))
    return reason;
  if (!isIndexType(index->type.dtype))
    return kNoIndex;
  if (!fill.areInRange(x->type.dtype))
    return kOutOfRange;
  Value value = fill.castTo(x->type.dtype)[0];
  call.set(writeAt(call, {*index}, {call.dim(1, x->type.rank())}, /*wrap=*/true)(*x, value, ""));
  return nullptr;
}

/// index_reduce(self, dim, index, source, reduce, *, include_self)
const char *importIndexReduce(Call &call) {
  const Value *x = call.tensor(0), *index = call.tensor(2), *source = call.tensor(3);
  if (!x || !index || !source || x->type.rank() == 0 || index->type.rank() != 1 ||
      source->type.rank() != x->type.rank())
    return "expected an index of one dimension and a source of the operand's rank";
  if (const char *reason = refuseOrder(call, combineOf(call.text(4)), {index, 1}))
    return reason;
  if (!isIndexType(index->type.dtype))
    return kNoIndex;
  int64_t dim = call.dim(1, x->type.rank());
  if (const char *reason = refuseSource(call, *x, dim, *index, *source))
    return reason;
  return setReduced(call, *x, *source, call.text(4), call.flag(5), writeAt(call, {*index}, {dim}, /*wrap=*/false));
}

/// scatter(self, dim, index, src or value, reduce), scatter_add(self, dim, index, src),
/// scatter_reduce(self, dim, index, src, reduce, *, include_self)
const char *importScatter(Call &call) {
  const Value *x = call.tensor(0), *index = call.tensor(2);
  Operands source(call);
  if (!x || !index || !source.add(3) || x->type.rank() == 0 || index->type.rank() != x->type.rank())
    return kNoTensor;
  std::string_view op = call.op();
  if (op == "fold" && call.text(4) != "add" && call.text(4) != "multiply")
    return "no such reduction is generated";
  std::string_view combine = op == "reduce" ? combineOf(call.text(4))
                             : op == "fold" ? (call.text(4) == "add" ? "add" : "mul")
                                            : op;
  if (const char *reason = refuseOrder(call, combine, {index, 1}))
    return reason;
  if (!isIndexType(index->type.dtype))
    return kNoIndex;
  if (!source.areInRange(x->type.dtype))
    return kOutOfRange;
  Value values = source.castTo(x->type.dtype)[0];
  if (values.type.rank() != 0 && values.type.rank() != x->type.rank())
    return "the source has another rank";
  Write write = writeAlong(call, *index, call.dim(1, x->type.rank()));
  if (op == "reduce")
    return setReduced(call, *x, values, call.text(4), call.flag(5), write);
  call.set(call.importer.cast(write(combine.empty() ? *x : widened(call, *x), values, combine), x->type.dtype));
  return nullptr;
}

/// cumsum, cumprod, logcumsumexp(self, dim), cummax, cummin: the latter have two results.
const char *importScan(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return "expected a tensor operand";
  at::ScalarType dtype = call.type().dtype;
  bool isPair = call.numResults() == 2;
  if (!isPair && dtype == at::kBool)
    return "bools are not summed";
  if (x->type.rank() == 0) {
    if (isPair)
      call.set(call.importer.full(Scalar::of(int64_t{0}), call.type(1)), 1);
    call.set(x->type.dtype == dtype ? call.importer.emit("clone", {*x}, "", call.type())
                                    : castTo(call.importer, *x, call.type()));
    return nullptr;
  }
  Value operand = call.importer.cast(*x, dtype);
  std::string attrs = intAttr("dim", call.dim(1, x->type.rank()));
  if (!isPair) {
    call.set(call.importer.emit(call.op(), {operand}, attrs, call.type()));
    return nullptr;
  }
  auto pair = call.importer.emitMany(call.op(), {&operand, 1}, attrs, {call.type(0), call.type(1)});
  call.set(pair[0], 0);
  call.set(pair[1], 1);
  return nullptr;
}

} // namespace torch_tile::runtime::fx
