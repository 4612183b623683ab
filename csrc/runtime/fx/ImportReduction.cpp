// Reductions, and the composite ops made of them.
#include "runtime/fx/OpCall.h"
#include "support/CheckMessage.h"

#include <numeric>

namespace py = pybind11;

namespace torch_tile::runtime::fx {
namespace {

constexpr const char *kNoTensor = "expected a tensor operand";

/// Nothing to reduce: the element itself is the result of every reduction that keeps values.
bool isPlainCopy(const Value &x) { return x.type.rank() == 0; }

/// ATen's checks of what has no identity; `dims` are those reduced, none for all. They hold where nothing is empty.
void checkNotEmpty(Call &call, const Value &x, const std::vector<int64_t> &dims) {
  SizeContext &context = call.importer.sizes.context;
  SizeExpr one = context.constant(1);
  std::string name = call.info.name.substr(call.info.name.find("::") + 2) + "(): Expected reduction dim ";
  std::string indexError(indexErrorPrefix);
  if (!dims.empty()) {
    for (int64_t dim : dims)
      call.importer.emitCheck(context.min(one, x.type.sizes[dim]),
                              indexError + name + std::to_string(dim) + " to have non-zero size.");
    return;
  }
  SizeExpr any = one;
  for (SizeExpr size : x.type.sizes)
    any = context.mul(any, context.min(one, size));
  bool isPosition = call.type().dtype == at::kLong && std::string_view(call.op()).starts_with("arg");
  name += "to be specified for input.numel() == 0.";
  call.importer.emitCheck(any, isPosition ? indexError + name
                                          : name + " Specify the reduction dim with the 'dim' argument.");
}

bool isLogical(std::string_view op) { return op == "any" || op == "all"; }
bool isExtremum(std::string_view op) { return op == "amax" || op == "amin"; }

const char *setReduced(Call &call, const Value &x, std::vector<int64_t> dims, bool keepdim) {
  std::string_view op = call.op();
  if (x.type.dtype == at::kBool && (op == "amax" || op == "amin"))
    op = op == "amax" ? "any" : "all";
  if (isPlainCopy(x)) {
    call.set(call.importer.cast(x, isLogical(op) ? at::kBool : call.type().dtype));
    return nullptr;
  }
  if (isExtremum(call.op()))
    checkNotEmpty(call, x, dims);
  if (dims.empty()) {
    dims.resize(x.type.rank());
    std::iota(dims.begin(), dims.end(), 0);
  }
  std::string attrs = joinAttrs({dimsAttr("dims", dims), keepdim ? "keepdim = true" : ""});
  TensorType type = isLogical(op) ? call.importer.withDtype(call.type(), at::kBool) : call.type();
  call.set(call.importer.emit(op, {x}, attrs, std::move(type)));
  return nullptr;
}

std::string argAttrs(std::optional<int64_t> dim, bool keepdim) {
  return joinAttrs({dim ? intAttr("dim", *dim) : "", keepdim ? "keepdim = true" : ""});
}

} // namespace

const char *importReduction(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kNoTensor;
  std::vector<int64_t> dims = call.dims(1, x->type.rank());
  // An empty list means all dimensions, but to any and all it means none.
  if (isLogical(call.op()) && dims.empty() && !call.isNone(1)) {
    call.set(call.importer.cast(*x, at::kBool));
    return nullptr;
  }
  return setReduced(call, *x, std::move(dims), call.flag(2));
}

const char *importReduceAll(Call &call) {
  const Value *x = call.tensor(0);
  return x ? setReduced(call, *x, {}, false) : kNoTensor;
}

/// argmax(x, dim=None, keepdim=False)
const char *importArgReduction(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kNoTensor;
  if (x->type.dtype == at::kBool)
    return "ATen refuses bool";
  if (isPlainCopy(*x)) {
    call.set(call.importer.full(Scalar::of(int64_t{0}), call.type()));
    return nullptr;
  }
  std::optional<int64_t> dim;
  if (!call.isNone(1))
    dim = call.dim(1, x->type.rank());
  checkNotEmpty(call, *x, dim ? std::vector<int64_t>{*dim} : std::vector<int64_t>());
  call.set(call.importer.emit(call.op(), {*x}, argAttrs(dim, call.flag(2)), call.type()));
  return nullptr;
}

/// max.dim and min.dim: both results agree on NaN and on the first of equal elements.
const char *importMaxDim(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kNoTensor;
  if (isPlainCopy(*x)) {
    call.set(call.importer.emit("clone", {*x}, "", call.type(0)), 0);
    call.set(call.importer.full(Scalar::of(int64_t{0}), call.type(1)), 1);
    return nullptr;
  }
  int64_t dim = call.dim(1, x->type.rank());
  bool keepdim = call.flag(2), isMax = std::string_view(call.op()) == "amax";
  const int64_t dims[] = {dim};
  checkNotEmpty(call, *x, {dim});
  std::string attrs = joinAttrs({dimsAttr("dims", dims), keepdim ? "keepdim = true" : ""});
  std::string_view values = call.op();
  if (x->type.dtype == at::kBool)
    values = isMax ? "any" : "all";
  call.set(call.importer.emit(values, {*x}, attrs, call.type(0)), 0);
  call.set(call.importer.emit(isMax ? "argmax" : "argmin", {*x}, argAttrs(dim, keepdim), call.type(1)), 1);
  return nullptr;
}

/// var and mean of (x, dim, *, correction, keepdim), computed in the dtype of the results.
static std::optional<std::vector<Value>> emitVarMean(Call &call, const TensorType &type) {
  const Value *x = call.tensor(0);
  std::optional<Scalar> correction = call.isNone(2) ? Scalar::of(int64_t{1}) : call.scalar(2);
  if (!x || x->type.rank() == 0 || !correction || !correction->isConstant())
    return {};
  std::vector<int64_t> dims = call.dims(1, x->type.rank());
  if (dims.empty()) {
    dims.resize(x->type.rank());
    std::iota(dims.begin(), dims.end(), 0);
  }
  std::string attrs = joinAttrs(
      {dimsAttr("dims", dims), floatAttr("correction", correction->number), call.flag(3) ? "keepdim = true" : ""});
  Value operand = call.importer.cast(*x, type.dtype);
  return call.importer.emitMany("var_mean", {&operand, 1}, attrs, {type, type});
}

const char *importVar(Call &call) {
  auto values = emitVarMean(call, call.type());
  if (!values)
    return "the operand is 0-d or the correction is not constant";
  call.set((*values)[0]);
  return nullptr;
}

const char *importStd(Call &call) {
  // The root is taken before the variance is rounded to low precision.
  bool isReduced = c10::isReducedFloatingType(call.type().dtype);
  TensorType wide = isReduced ? call.importer.withDtype(call.type(), at::kFloat) : call.type();
  auto values = emitVarMean(call, wide);
  if (!values)
    return "the operand is 0-d or the correction is not constant";
  call.setPointwise("sqrt", {values->data(), 1}, wide.dtype);
  return nullptr;
}

const char *importVarMean(Call &call) {
  auto values = emitVarMean(call, call.type());
  if (!values)
    return "the operand is 0-d or the correction is not constant";
  call.set((*values)[0], 0);
  call.set((*values)[1], 1);
  return nullptr;
}

/// _softmax(x, dim, half_to_float)
const char *importSoftmax(Call &call) {
  const Value *x = call.tensor(0);
  if (!x || x->type.rank() == 0)
    return "the operand is 0-d";
  Value operand = call.importer.cast(*x, call.type().dtype);
  call.set(call.importer.emit(call.op(), {operand}, intAttr("dim", call.dim(1, x->type.rank())), call.type()));
  return nullptr;
}

/// _softmax_backward_data(grad, output, dim, input_dtype)
const char *importSoftmaxBackward(Call &call) {
  const Value *grad = call.tensor(0), *output = call.tensor(1);
  if (!grad || !output || output->type.rank() == 0)
    return "an operand is 0-d";
  at::ScalarType dtype = output->type.dtype;
  if (grad->type.dtype != dtype || !c10::isFloatingType(dtype))
    return "ATen refuses these dtypes";
  call.set(call.importer.emit(call.op(), {*grad, *output}, intAttr("dim", call.dim(2, output->type.rank())),
                              call.importer.withDtype(call.type(), dtype)));
  return nullptr;
}

/// native_layer_norm(x, normalized_shape, weight, bias, eps)
const char *importLayerNorm(Call &call) {
  const Value *x = call.tensor(0), *weight = call.tensor(2), *bias = call.tensor(3);
  if (!x || (bias && !weight))
    return "a bias without a weight";
  if (!call.hasResult(1) || !call.hasResult(2))
    return "expected three results";
  auto dims = static_cast<int64_t>(call.sizeList(1).size());
  if (call.type(1).rank() != x->type.rank())
    return "mean and rstd do not keep the normalized dimensions";
  std::vector<Value> operands{*x};
  if (weight)
    operands.push_back(*weight);
  if (bias)
    operands.push_back(*bias);
  // Mixed dtypes compute, and round, where torch does: in f32, then to each result's dtype.
  at::ScalarType dtype = x->type.dtype;
  for (const Value &operand : operands)
    if (operand.type.dtype != dtype && !(operand.type.dtype == at::kFloat && c10::isReducedFloatingType(dtype)))
      return "ATen refuses these dtypes";
  for (const Value &operand : operands)
    if (operand.type.dtype != dtype)
      dtype = at::kFloat;
  for (size_t i = 0; i < 3; ++i)
    if (call.type(i).dtype != dtype && c10::isReducedFloatingType(dtype))
      dtype = at::kFloat;
  for (Value &operand : operands)
    operand = call.importer.cast(operand, dtype);
  std::vector<TensorType> types;
  for (size_t i = 0; i < 3; ++i)
    types.push_back(call.importer.withDtype(call.type(i), dtype));
  std::string attrs = joinAttrs({intAttr("normalized_dims", dims), floatAttr("eps", call.number(4))});
  std::vector<Value> values = call.importer.emitMany("layer_norm", operands, attrs, std::move(types));
  for (size_t i = 0; i < 3; ++i)
    call.set(values[i], i);
  return nullptr;
}

} // namespace torch_tile::runtime::fx
