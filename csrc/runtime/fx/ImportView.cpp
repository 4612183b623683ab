// Views, and flips.
#include "runtime/fx/ViewParts.h"

#include "runtime/fx/OpCall.h"
#include "runtime/fx/TypePromotion.h"
#include "support/CheckMessage.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace py = pybind11;

namespace torch_tile::runtime::fx {

static constexpr const char *kNoTensor = "expected a tensor operand";

SizeExpr clampPosition(Importer &importer, SizeExpr position, SizeExpr size) {
  SizeContext &context = importer.sizes.context;
  const SizeFacts &facts = importer.sizes.facts();
  SizeExpr zero = context.constant(0);
  if (facts.less(position, zero) == Proof::Yes)
    position = context.add(position, size);
  else if (facts.lessEqual(zero, position) != Proof::Yes)
    return SizeExpr();
  if (facts.lessEqual(zero, position) != Proof::Yes)
    position = context.max(position, zero);
  if (facts.lessEqual(position, size) != Proof::Yes)
    position = context.min(position, size);
  return position;
}

static bool dependsOnData(SizeExpr e) {
  auto names = e.symbols();
  return std::any_of(names.begin(), names.end(), [](std::string_view name) { return name.starts_with('u'); });
}

SizeExpr checkedIndex(Call &call, SizeExpr index, SizeExpr size, int64_t dim) {
  SizeContext &context = call.importer.sizes.context;
  const SizeFacts &facts = call.importer.sizes.facts();
  SizeExpr zero = context.constant(0), one = context.constant(1), beyond, given = index;
  if (facts.less(index, zero) == Proof::Yes) {
    index = context.add(index, size);
    beyond = context.add(index, one);
  } else if (facts.lessEqual(zero, index) == Proof::Yes) {
    beyond = context.sub(size, index);
  } else {
    return SizeExpr();
  }
  if (dependsOnData(given) && facts.less(zero, beyond) != Proof::Yes)
    call.importer.emitCheck(context.min(one, context.max(zero, beyond)),
                            std::string(indexErrorPrefix) + "select(): index " + given.str() +
                                " out of range for dimension " + std::to_string(dim) + " of size " + size.str());
  return index;
}

Value slice(Importer &importer, const Value &x, int64_t dim, SizeExpr start, SizeExpr step, TensorType type) {
  std::string attrs =
      joinAttrs({intAttr("dim", dim), sizeAttr("start", start), step.isConstant(1) ? "" : sizeAttr("step", step)});
  return importer.emit("slice", {x}, attrs, std::move(type));
}

Value sliceRange(Importer &importer, const Value &x, int64_t dim, SizeExpr start, SizeExpr length) {
  std::vector<SizeExpr> sizes = x.type.sizes;
  sizes[static_cast<size_t>(dim)] = length;
  return slice(importer, x, dim, start, importer.sizes.constant(1),
               importer.makeType(x.type.dtype, std::move(sizes), x.type.strides));
}

Value unsqueeze(Importer &importer, const Value &x, int64_t dim) {
  std::vector<SizeExpr> sizes = x.type.sizes, strides = x.type.strides;
  auto at = static_cast<size_t>(dim);
  SizeExpr stride = importer.sizes.constant(1);
  if (at < sizes.size())
    stride = importer.sizes.context.mul(sizes[at], strides[at]);
  sizes.insert(sizes.begin() + dim, importer.sizes.constant(1));
  strides.insert(strides.begin() + dim, stride);
  return importer.emit("view", {x}, "", importer.makeType(x.type.dtype, std::move(sizes), std::move(strides)));
}

const char *importView(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kNoTensor;
  if (x->type.text == call.type().text)
    call.setView(*x, *x);
  else
    call.setView(call.importer.emit("view", {*x}, "", call.type()), *x);
  return nullptr;
}

const char *importForward(Call &call) {
  const Value *x = call.tensor(0);
  if (!x || x->type.text != call.type().text)
    return "the result is not the operand";
  call.setView(*x, *x);
  return nullptr;
}

static const char *setPermuted(Call &call, const Value &x, const std::vector<int64_t> &dims) {
  if (std::is_sorted(dims.begin(), dims.end()))
    call.setView(x, x);
  else
    call.setView(call.importer.emit("permute", {x}, dimsAttr("dims", dims), call.type()), x);
  return nullptr;
}

const char *importTranspose(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kNoTensor;
  std::vector<int64_t> dims(x->type.rank());
  std::iota(dims.begin(), dims.end(), 0);
  bool isT = call.numArguments() == 1; // aten.t: the two dimensions of a matrix
  size_t rank = dims.size();
  if (isT ? rank == 2 : rank > 0) {
    int64_t a = isT ? 0 : call.dim(1, rank), b = isT ? 1 : call.dim(2, rank);
    std::swap(dims[static_cast<size_t>(a)], dims[static_cast<size_t>(b)]);
  }
  return setPermuted(call, *x, dims);
}

const char *importPermute(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kNoTensor;
  std::vector<int64_t> dims;
  auto rank = static_cast<int64_t>(x->type.rank());
  for (SizeExpr dim : call.sizeList(1))
    dims.push_back(*dim.constant() < 0 ? *dim.constant() + rank : *dim.constant());
  return setPermuted(call, *x, dims);
}

const char *importExpand(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kNoTensor;
  if (x->type.text == call.type().text)
    call.setView(*x, *x);
  else
    call.setView(call.importer.emit("expand", {*x}, "", call.type()), *x);
  return nullptr;
}

const char *importSlice(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kNoTensor;
  Importer &importer = call.importer;
  int64_t dim = call.dim(1, x->type.rank());
  SizeExpr size = x->type.sizes[static_cast<size_t>(dim)];
  SizeExpr start = call.isNone(2) ? importer.sizes.constant(0) : clampPosition(importer, call.size(2), size);
  if (!start)
    return "the sign of the start is not known";
  if (x->type.text == call.type().text) // the whole dimension
    call.setView(*x, *x);
  else
    call.setView(slice(importer, *x, dim, start, call.size(4), call.type()), *x);
  return nullptr;
}

const char *importSelect(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kNoTensor;
  int64_t dim = call.dim(1, x->type.rank());
  SizeExpr size = x->type.sizes[static_cast<size_t>(dim)];
  SizeExpr index = checkedIndex(call, call.size(2), size, dim);
  if (!index)
    return "the sign of the index is not known";
  std::string attrs = joinAttrs({intAttr("dim", dim), sizeAttr("index", index)});
  call.setView(call.importer.emit("select", {*x}, attrs, call.type()), *x);
  return nullptr;
}

/// Pieces one after another along `dim`, with the sizes of the results.
static const char *setPieces(Call &call, const Value &x, int64_t dim) {
  SizeContext &context = call.importer.sizes.context;
  SizeExpr start = context.constant(0);
  for (size_t i = 0; i < call.numResults(); ++i) {
    TensorType type = call.type(i);
    SizeExpr length = type.sizes[static_cast<size_t>(dim)];
    call.setView(slice(call.importer, x, dim, start, context.constant(1), std::move(type)), x, i);
    start = context.add(start, length);
  }
  return nullptr;
}

const char *importSplit(Call &call) {
  const Value *x = call.tensor(0);
  return x ? setPieces(call, *x, call.dim(2, x->type.rank())) : kNoTensor;
}

const char *importUnbind(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kNoTensor;
  int64_t dim = call.dim(1, x->type.rank());
  for (size_t i = 0; i < call.numResults(); ++i) {
    std::string attrs = joinAttrs({intAttr("dim", dim), intAttr("index", static_cast<int64_t>(i))});
    call.setView(call.importer.emit("select", {*x}, attrs, call.type(i)), *x, i);
  }
  return nullptr;
}

static const char *setStrided(Call &call, const Value &x, SizeExpr offset) {
  call.setView(call.importer.emit("as_strided", {x}, sizeAttr("offset", offset), call.type()), x);
  return nullptr;
}

const char *importDiagonal(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kNoTensor;
  std::optional<Scalar> diagonal = call.scalar(1);
  if (!diagonal || diagonal->kind != Scalar::Kind::Int)
    return "which diagonal is not constant";
  SizeContext &sizes = call.importer.sizes.context;
  int64_t above = diagonal->integer;
  auto dim = static_cast<size_t>(call.dim(above < 0 ? 2 : 3, x->type.rank()));
  bool isEmpty = call.type().sizes.back().isConstant(0);
  SizeExpr offset = sizes.mul(sizes.constant(isEmpty ? 0 : std::abs(above)), x->type.strides[dim]);
  return setStrided(call, *x, offset);
}

const char *importUnfold(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kNoTensor;
  SizeExpr step = call.size(3);
  if (x->type.rank() == 0 || !step)
    return setStrided(call, *x, call.importer.sizes.context.constant(0));
  std::string attrs = joinAttrs({intAttr("dim", call.dim(1, x->type.rank())), sizeAttr("step", step)});
  call.setView(call.importer.emit("unfold", {*x}, attrs, call.type()), *x);
  return nullptr;
}

const char *importAsStrided(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kNoTensor;
  Importer &importer = call.importer;
  if (call.isNone(3))
    return setStrided(call, *x, importer.sizes.context.constant(0));
  if (x->isForeignStorage)
    return "its offset counts from the storage of an input";
  if (!x->meta)
    return "the storage of its operand is not known";
  // Both offsets come from the same trace, so their difference holds for any storage.
  return setStrided(call, *x,
                    importer.sizes.context.sub(importer.storageOffset(call.result()), importer.storageOffset(*x)));
}

const char *importFlip(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kNoTensor;
  std::vector<int64_t> dims = call.dims(1, x->type.rank());
  if (dims.empty() || x->type.rank() == 0)
    return importClone(call);
  call.set(call.importer.emit("flip", {*x}, dimsAttr("dims", dims), call.type()));
  return nullptr;
}

} // namespace torch_tile::runtime::fx
