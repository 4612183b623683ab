// Pointwise ops: which operands, promoted to which dtype.
#include "runtime/fx/Casts.h"
#include "runtime/fx/OpCall.h"
#include "runtime/fx/TypePromotion.h"

#include <algorithm>
#include <array>

namespace py = pybind11;

namespace torch_tile::runtime::fx {
namespace {

constexpr const char *kOddOperand = "an operand is neither a tensor nor a number";
constexpr const char *kRefusesBool = "ATen refuses bool";

bool isFloat(at::ScalarType dtype) { return c10::isFloatingType(dtype); }

/// Operands are the leading arguments.
bool addLeading(const Call &call, Operands &operands, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!operands.add(i))
      return false;
  return true;
}

} // namespace

/// `converts`: ATen's kernel converts numbers to the dtype, and refuses those that it does not hold.
static const char *importInCommonDtype(Call &call, bool converts) {
  Operands operands(call);
  if (!addLeading(call, operands, 2))
    return kOddOperand;
  at::ScalarType dtype = operands.promoted();
  if (converts && !operands.areInRange(dtype))
    return kOutOfRange;
  call.setPointwise(call.op(), operands.castTo(dtype), dtype);
  return nullptr;
}

const char *importPromoted(Call &call) { return importInCommonDtype(call, /*converts=*/false); }

const char *importBound(Call &call) { return importInCommonDtype(call, /*converts=*/true); }

static const char *importWidened(Call &call, size_t count, bool areFactors = false) {
  Operands operands(call);
  if (!addLeading(call, operands, count))
    return kOddOperand;
  at::ScalarType dtype = operands.promoted();
  dtype = areFactors ? operands.widenedFactor(dtype) : operands.widened(dtype);
  call.setPointwise(call.op(), operands.castTo(dtype), dtype);
  return nullptr;
}

const char *importArithmetic(Call &call) { return importWidened(call, 2); }

const char *importMultiply(Call &call) { return importWidened(call, 2, /*areFactors=*/true); }

/// x + value * a * b: the second product and the sum are rounded once.
static const char *importAddcmul(Call &call) {
  Operands operands(call);
  if (!addLeading(call, operands, 3))
    return kOddOperand;
  std::optional<Scalar> factor = call.scalar(3);
  if (!call.isNone(3) && !factor)
    return "value is not a number";
  bool isScaled = factor && !factor->is(1);
  at::ScalarType dtype = operands.promoted();
  if (dtype == at::kBool)
    return kRefusesBool;
  if (c10::isReducedFloatingType(dtype))
    dtype = at::kFloat;
  if (isScaled && !isInRange(*factor, dtype))
    return kOutOfRange;
  if (isScaled)
    operands.add(*factor);
  std::vector<Value> values = operands.castTo(dtype);
  Value a = values[1];
  if (isScaled)
    a = call.importer.emit("mul", {values[3], a}, "", call.importer.withDtype(a.type, dtype));
  call.setPointwise("fma", std::array{a, values[2], values[0]}, dtype);
  return nullptr;
}

const char *importFma(Call &call) {
  return std::string_view(call.op()) == "addcmul" ? importAddcmul(call) : importWidened(call, 3);
}

static const char *importFloatOp(Call &call, size_t count) {
  Operands operands(call);
  if (!addLeading(call, operands, count))
    return kOddOperand;
  at::ScalarType dtype = operands.widened(floatTypeOf(operands.promoted()));
  call.setPointwise(call.op(), operands.castTo(dtype), dtype);
  return nullptr;
}

const char *importIntToFloat(Call &call) { return importFloatOp(call, 2); }
const char *importIntToFloatUnary(Call &call) { return importFloatOp(call, 1); }

/// By a number, eager mode multiplies on a GPU: by its reciprocal, rounded to the type that is computed in. No value
/// elsewhere.
static std::optional<Value> quotientByNumber(Call &call, Operands &operands, at::ScalarType dtype) {
  std::optional<Scalar> divisor = operands.scalar(1);
  if (!call.importer.isOnGpu() || !divisor || operands.scalar(0))
    return std::nullopt;
  if (dtype != at::kDouble)
    dtype = at::kFloat;
  TensorType type = call.importer.scalarType(dtype);
  Value inverse;
  if (!divisor->isConstant()) {
    inverse = call.importer.emit("reciprocal", {call.importer.full(*divisor, type)}, "", type);
  } else if (dtype == at::kFloat) {
    inverse = call.importer.full(Scalar::of(1.0f / static_cast<float>(divisor->number)), type);
  } else {
    inverse = call.importer.full(Scalar::of(1 / divisor->number), type);
  }
  return call.pointwise("mul", {operands.castTo(dtype)[0], inverse}, dtype);
}

const char *importDivide(Call &call) {
  Operands operands(call);
  if (!addLeading(call, operands, 2))
    return kOddOperand;
  at::ScalarType dtype = floatTypeOf(operands.promoted());
  if (std::optional<Value> quotient = quotientByNumber(call, operands, dtype)) {
    call.set(*quotient);
    return nullptr;
  }
  dtype = operands.widenedFactor(dtype);
  call.setPointwise("div", operands.castTo(dtype), dtype);
  return nullptr;
}

const char *importSame(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kOddOperand;
  bool isBool = x->type.dtype == at::kBool;
  if (isBool && std::string_view(call.op()) != "sign")
    return kRefusesBool;
  call.setPointwise(isBool ? "clone" : call.op(), {x, 1}, x->type.dtype);
  return nullptr;
}

const char *importRounding(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kOddOperand;
  if (x->type.dtype == at::kBool)
    return kRefusesBool;
  call.setPointwise(isFloat(x->type.dtype) ? call.op() : "clone", {x, 1}, x->type.dtype);
  return nullptr;
}

const char *importCompare(Call &call) {
  Operands operands(call);
  if (!addLeading(call, operands, 2))
    return kOddOperand;
  call.setPointwise(call.op(), operands.castTo(operands.promoted()), at::kBool);
  return nullptr;
}

static const char *importLogicalOp(Call &call, size_t count) {
  Operands operands(call);
  if (!addLeading(call, operands, count))
    return kOddOperand;
  // What is not zero in its own dtype may be so in the common one.
  std::vector<Value> values = operands.castTo(operands.promoted());
  for (Value &value : values)
    value = call.importer.cast(value, at::kBool);
  call.setPointwise(call.op(), values, at::kBool);
  return nullptr;
}

const char *importLogical(Call &call) { return importLogicalOp(call, 2); }
const char *importLogicalUnary(Call &call) { return importLogicalOp(call, 1); }

const char *importBitwiseNot(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kOddOperand;
  call.setPointwise(x->type.dtype == at::kBool ? "logical_not" : "bitwise_not", {x, 1}, x->type.dtype);
  return nullptr;
}

const char *importIsNonFinite(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kOddOperand;
  if (isFloat(x->type.dtype)) {
    call.setPointwise(call.op(), {x, 1}, at::kBool);
  } else {
    const Value both[] = {*x, *x};
    call.setPointwise("ne", both, at::kBool);
  }
  return nullptr;
}

/// a + alpha * b, of floats rounded once as in ATen's kernels.
static const char *importScaled(Call &call, size_t first, size_t second) {
  Operands operands(call);
  if (!operands.add(first) || !operands.add(second))
    return kOddOperand;
  std::optional<Scalar> alpha = call.scalar(2);
  if (!call.isNone(2) && !alpha)
    return "alpha is not a number";
  if (std::string_view(call.op()) == "sub")
    for (size_t i : {0, 1})
      if (const Value *x = call.tensor(i); x && x->type.dtype == at::kBool)
        return kRefusesBool;
  bool isScaled = alpha && !alpha->is(1);
  if (isScaled)
    operands.add(*alpha); // takes no part in promotion: torch wants it to fit the dtype of the result
  // Unlike factors, terms and alpha are rounded to a low-precision dtype first; the product is not.
  at::ScalarType dtype = isScaled ? call.type().dtype : operands.promoted();
  if (isScaled && !isInRange(*alpha, dtype))
    return kOutOfRange;
  std::vector<Value> values = operands.castTo(dtype);
  if (isScaled) {
    if (c10::isReducedFloatingType(dtype))
      dtype = at::kFloat;
    for (Value &value : values)
      value = call.importer.cast(value, dtype);
    if (isFloat(dtype)) {
      Value factor = values[2];
      if (std::string_view(call.op()) == "sub")
        factor = call.importer.emit("neg", {factor}, "", factor.type);
      call.setPointwise("fma", std::array{values[1], factor, values[0]}, dtype);
      return nullptr;
    }
    TensorType type = call.importer.withDtype(values[1].type, dtype);
    values[1] = call.importer.emit("mul", {values[1], values[2]}, "", std::move(type));
    values.pop_back();
  }
  call.setPointwise(call.op(), values, dtype);
  return nullptr;
}

const char *importAddScaled(Call &call) { return importScaled(call, 0, 1); }
/// other - alpha * self
const char *importRsub(Call &call) { return importScaled(call, 1, 0); }

/// Whether ATen rounds the quotient before it truncates it: of tensors in low precision, unless the divisor is one
/// element on the CPU, with which the kernel computes as with a number.
static bool roundsQuotient(const Call &call, at::ScalarType dtype) {
  const Value *divisor = call.tensor(1);
  if (!divisor || !c10::isReducedFloatingType(dtype))
    return false;
  const std::vector<SizeExpr> &sizes = divisor->type.sizes;
  return call.importer.isOnGpu() || !std::ranges::all_of(sizes, [](SizeExpr size) { return size.isConstant(1); });
}

const char *importDivideMode(Call &call) {
  if (call.numArguments() > 2 && call.isNone(2))
    return importDivide(call);
  Operands operands(call);
  if (!addLeading(call, operands, 2))
    return kOddOperand;
  bool isFloor = call.numArguments() <= 2 || call.text(2) == "floor"; // floor_divide has no mode
  at::ScalarType dtype = operands.widenedFactor(operands.promoted());
  if (!isFloor && isFloat(dtype)) {
    if (std::optional<Value> quotient = quotientByNumber(call, operands, dtype)) {
      call.setPointwise("trunc", {&*quotient, 1}, quotient->type.dtype);
      return nullptr;
    }
  }
  if (!isFloor && roundsQuotient(call, dtype)) {
    std::vector<Value> values = operands.castTo(dtype);
    Value quotient = call.pointwise("div", {values[0], values[1]}, dtype);
    call.setPointwise("trunc", {&quotient, 1}, dtype);
    return nullptr;
  }
  call.setPointwise(isFloor ? "div_floor" : "div_trunc", operands.castTo(dtype), dtype);
  return nullptr;
}

/// The exponents that ATen's pow_tensor_scalar treats on their own, with what they give at the ends (-inf ** 0.5 is
/// NaN); true if printed. The op pow is C's function.
static bool importSmallPower(Call &call, const Value &base, double exponent, at::ScalarType dtype) {
  Importer &importer = call.importer;
  Value x = importer.cast(base, dtype);
  bool isFloatType = isFloat(dtype);
  bool hasRoots = isFloatType && (dtype != at::kHalf || importer.isOnGpu()); // float16 on the CPU is C's pow
  if (exponent == 1) {
    call.setPointwise("clone", {&x, 1}, dtype);
  } else if (exponent == 2) {
    call.set(call.pointwise("mul", {x, x}, dtype));
  } else if (exponent == 3) {
    // ATen's float16 rounds once, at the end; its bfloat16 after each product.
    at::ScalarType wide = dtype == at::kHalf ? at::kFloat : dtype;
    Value y = importer.cast(x, wide);
    call.set(call.pointwise("mul", {call.pointwise("mul", {y, y}, wide), y}, wide));
  } else if (hasRoots && exponent == 0.5) {
    call.setPointwise("sqrt", {&x, 1}, dtype);
  } else if (hasRoots && exponent == -0.5) {
    call.setPointwise("rsqrt", {&x, 1}, dtype);
  } else if (isFloatType && exponent == -1) {
    call.setPointwise("reciprocal", {&x, 1}, dtype);
  } else if (isFloatType && exponent == -2) {
    at::ScalarType wide = c10::isReducedFloatingType(dtype) ? at::kFloat : dtype;
    Value y = importer.cast(x, wide);
    call.set(call.pointwise("reciprocal", {call.pointwise("mul", {y, y}, wide)}, wide));
  } else {
    return false;
  }
  return true;
}

const char *importPow(Call &call) {
  Operands operands(call);
  if (!addLeading(call, operands, 2))
    return kOddOperand;
  at::ScalarType dtype = operands.promoted();
  std::optional<Scalar> exponent = operands.scalar(1);
  const Value *base = call.tensor(0);
  if (base && exponent && exponent->isConstant() && importSmallPower(call, *base, exponent->number, dtype))
    return nullptr;
  if (!isFloat(dtype))
    return "integer powers are not generated";
  if (base && exponent && c10::isReducedFloatingType(dtype) && !isInRange(*exponent, dtype))
    return kOutOfRange;
  call.setPointwise("pow", operands.castTo(dtype), dtype);
  return nullptr;
}

const char *importClamp(Call &call) {
  Operands operands(call);
  bool hasMin = !call.isNone(1), hasMax = !call.isNone(2);
  if (!operands.add(0) || (hasMin && !operands.add(1)) || (hasMax && !operands.add(2)))
    return kOddOperand;
  at::ScalarType dtype = operands.promoted();
  if (hasMin && hasMax && dtype == at::kBool)
    return "ATen refuses bool";
  if (!operands.areInRange(dtype))
    return kOutOfRange;
  std::vector<Value> values = operands.castTo(dtype);
  // Of zeros the bound's counts in ATen's vectors, and the operand's where it takes the elements one by one: between
  // two bounds of one element, expanded or not.
  auto isOneElement = [](const Value &bound) {
    for (size_t k = 0; k < bound.type.rank(); ++k)
      if (!bound.type.sizes[k].isConstant(1) && !bound.type.strides[k].isConstant(0))
        return false;
    return true;
  };
  bool isOneByOne = isFloat(dtype) && hasMin && hasMax && isOneElement(values[1]) && isOneElement(values[2]) &&
                    !isOneElement(values[0]);
  auto limit = [&](const char *op, const char *isBeyond, const Value &x, const Value &bound) {
    if (!isOneByOne)
      return call.pointwise(op, {x, bound}, dtype);
    // Not an extremum with its operands swapped: a kernel that computes both takes one for the other.
    Value isOutside = call.pointwise(isBeyond, {x, bound}, at::kBool);
    Value isTaken = call.pointwise("logical_or", {isOutside, call.pointwise("isnan", {bound}, at::kBool)}, at::kBool);
    return call.pointwise("where", {isTaken, bound, x}, dtype);
  };
  Value value = values[0];
  size_t next = 1;
  if (hasMin)
    value = limit("maximum", "lt", value, values[next++]);
  if (hasMax)
    value = limit("minimum", "gt", value, values[next++]);
  call.set(std::move(value));
  return nullptr;
}

const char *importWhere(Call &call) {
  const Value *condition = call.tensor(0);
  Operands operands(call);
  if (!condition || !operands.add(1) || !operands.add(2))
    return kOddOperand;
  at::ScalarType dtype = operands.promoted();
  // ATen rounds a number to a low precision, where it may become infinite.
  if (!operands.areInRange(c10::isReducedFloatingType(dtype) ? at::kFloat : dtype))
    return kOutOfRange;
  std::vector<Value> values = operands.castTo(dtype);
  values.insert(values.begin(), call.importer.cast(*condition, at::kBool));
  call.setPointwise("where", values, dtype);
  return nullptr;
}

const char *importMaskedFill(Call &call) {
  const Value *x = call.tensor(0), *mask = call.tensor(1);
  Operands fill(call);
  if (!x || !mask || !fill.add(2))
    return kOddOperand;
  at::ScalarType dtype = x->type.dtype;
  if (!fill.areInRange(dtype))
    return kOutOfRange;
  const Value values[] = {call.importer.cast(*mask, at::kBool), fill.castTo(dtype)[0], *x};
  call.setPointwise("where", values, dtype);
  return nullptr;
}

const char *importCast(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kOddOperand;
  bool isSame = x->type.dtype == call.type().dtype;
  call.set(isSame ? call.importer.emit("clone", {*x}, "", call.type()) : castTo(call.importer, *x, call.type()));
  return nullptr;
}

const char *importConvertElementType(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kOddOperand;
  if (x->type.text == call.type().text)
    call.set(*x);
  else
    return importCast(call);
  return nullptr;
}

const char *importGelu(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kOddOperand;
  call.setPointwise("gelu", {x, 1}, x->type.dtype, stringAttr("approximate", call.text(1)));
  return nullptr;
}

} // namespace torch_tile::runtime::fx
