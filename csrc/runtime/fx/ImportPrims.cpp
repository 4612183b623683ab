// prims ops that differ from an aten op in more than the name: what some of torch's decompositions leave behind.
#include "runtime/fx/OpCall.h"

#include <numeric>

namespace torch_tile::runtime::fx {
namespace {

constexpr const char *kNoTensor = "expected a tensor operand";

std::vector<int64_t> reducedDims(Call &call, const Value &x) {
  std::vector<int64_t> dims = call.dims(1, x.type.rank());
  if (dims.empty() && call.isNone(1)) {
    dims.resize(x.type.rank());
    std::iota(dims.begin(), dims.end(), 0);
  }
  return dims;
}

} // namespace

/// prims.sum(x, dims, output_dtype) and its like: never keep dimensions.
const char *importPrimsReduction(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kNoTensor;
  std::vector<int64_t> dims = reducedDims(call, *x);
  if (dims.empty())
    call.set(call.importer.cast(*x, call.type().dtype));
  else
    call.set(call.importer.emit(call.op(), {*x}, dimsAttr("dims", dims), call.type()));
  return nullptr;
}

/// prims.var(x, dims, correction, output_dtype)
const char *importPrimsVar(Call &call) {
  const Value *x = call.tensor(0);
  std::optional<Scalar> correction = call.isNone(2) ? Scalar::of(int64_t{1}) : call.scalar(2);
  if (!x || x->type.rank() == 0 || !correction || !correction->isConstant())
    return "the operand is 0-d or the correction is not constant";
  std::vector<int64_t> dims = reducedDims(call, *x);
  if (dims.empty())
    return "nothing is reduced";
  std::string attrs = joinAttrs({dimsAttr("dims", dims), floatAttr("correction", correction->number)});
  Value operand = call.importer.cast(*x, call.type().dtype);
  call.set(call.importer.emitMany("var_mean", {&operand, 1}, attrs, {call.type(), call.type()})[0]);
  return nullptr;
}

/// prims.div truncates integers; aten.div does not.
const char *importPrimsDivide(Call &call) {
  if (!at::isIntegralType(call.type().dtype, /*includeBool=*/true))
    return importArithmetic(call);
  const Value *x = call.tensor(0), *y = call.tensor(1);
  if (!x || !y)
    return kNoTensor;
  const Value operands[] = {*x, *y};
  call.setPointwise("div_trunc", operands, call.type().dtype);
  return nullptr;
}

/// prims.broadcast_in_dim(x, shape, broadcast_dimensions): dimension k of x becomes dimension broadcast_dimensions[k].
const char *importBroadcastInDim(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kNoTensor;
  SizeContext &sizes = call.importer.sizes.context;
  std::vector<SizeExpr> placed(call.type().rank(), sizes.constant(1)), strides(call.type().rank(), sizes.constant(1));
  size_t k = 0;
  for (SizeExpr dim : call.sizeList(2)) {
    auto place = static_cast<size_t>(*dim.constant());
    placed[place] = x->type.sizes[k];
    strides[place] = x->type.strides[k];
    ++k;
  }
  Value value = *x;
  if (placed != x->type.sizes)
    value = call.importer.emit("view", {*x}, "", call.importer.makeType(x->type.dtype, placed, strides));
  if (placed != call.type().sizes)
    value = call.importer.emit("expand", {value}, "", call.type());
  call.setView(value, *x);
  return nullptr;
}

} // namespace torch_tile::runtime::fx
