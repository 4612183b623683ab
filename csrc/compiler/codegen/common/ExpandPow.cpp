// Integer powers.

#include "compiler/codegen/common/MathBuilder.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

#include <optional>

using namespace mlir;

namespace torch_tile::codegen {

static std::optional<int64_t> constantExponent(Value exponent) {
  APInt value;
  if (matchPattern(exponent, m_ConstantInt(&value)))
    return value.getSExtValue();
  if (auto broadcast = exponent.getDefiningOp<vector::BroadcastOp>())
    return constantExponent(broadcast.getSource());
  return std::nullopt;
}

/// base^exponent, exponent > 0, by repeated squaring.
template <typename Multiply> static Value repeatedProduct(Value base, uint64_t exponent, Multiply multiply) {
  Value result;
  while (true) {
    if (exponent & 1)
      result = result ? multiply(result, base) : base;
    exponent >>= 1;
    if (!exponent)
      return result;
    base = multiply(base, base);
  }
}

/// 1 -> 1, -1 -> +-1 by the parity of the exponent, else 0.
static Value negativePower(MathBuilder &b, Value base, Value isOdd) {
  Type element = b.elementType();
  Value zero = b.bits(element, 0), one = b.bits(element, 1), minusOne = b.bits(element, ~uint64_t(0));
  auto eq = arith::CmpIPredicate::eq;
  Value ofMinusOne = b.select(isOdd, minusOne, one);
  return b.select(b.compareI(eq, base, one), one, b.select(b.compareI(eq, base, minusOne), ofMinusOne, zero));
}

Value ipowi(MathBuilder &b, Value base, Value exponent) {
  Type element = b.elementType();
  unsigned width = element.getIntOrFloatBitWidth();
  Value zero = b.bits(element, 0), one = b.bits(element, 1);
  auto oddBit = [&](Value value) { return b.compareI(arith::CmpIPredicate::ne, b.andI(value, one), zero); };
  if (std::optional<int64_t> constant = constantExponent(exponent)) {
    if (*constant == 0)
      return one;
    if (*constant > 0)
      return repeatedProduct(base, uint64_t(*constant), [&](Value x, Value y) { return b.mulI(x, y); });
    return negativePower(b, base, oddBit(exponent));
  }
  // One step for each bit below the sign.
  auto index = [&](int64_t value) -> Value { return arith::ConstantOp::create(b, b.getI64IntegerAttr(value)); };
  Value lower = index(0), upper = index(width - 1), step = index(1);
  auto loop = scf::ForOp::create(b, lower, upper, step, ValueRange{one, base, exponent});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value product = loop.getRegionIterArg(0), power = loop.getRegionIterArg(1), rest = loop.getRegionIterArg(2);
    Value multiplied = b.select(oddBit(rest), b.mulI(product, power), product);
    scf::YieldOp::create(b, ValueRange{multiplied, b.mulI(power, power), b.shru(rest, one)});
  }
  Value isNegative = b.compareI(arith::CmpIPredicate::slt, exponent, zero);
  return b.select(isNegative, negativePower(b, base, oddBit(exponent)), loop.getResult(0));
}

Value fpowi(MathBuilder &b, Value base, Value exponent) {
  if (std::optional<int64_t> constant = constantExponent(exponent); constant && *constant >= -4 && *constant <= 4) {
    if (*constant == 0)
      return b.fp(1.0);
    Value power = repeatedProduct(base, uint64_t(std::abs(*constant)), [&](Value x, Value y) { return b.mul(x, y); });
    return *constant > 0 ? power : b.div(b.fp(1.0), power);
  }
  // |base|^exponent, then the sign by parity: a large odd exponent may round to an even float.
  Type integerElement = getElementTypeOrSelf(exponent.getType());
  Value one = b.bits(integerElement, 1), zero = b.bits(integerElement, 0);
  Value power = b.sitofp(exponent);
  bool isInline = !b.options().hasLibrary && b.elementType().isF32();
  Value magnitude =
      isInline ? powF32(b, b.abs(base), power) : b.callLibrary("pow", "u10", ValueRange{b.abs(base), power});
  Value isOdd = b.compareI(arith::CmpIPredicate::ne, b.andI(exponent, one), zero);
  return b.select(isOdd, b.copySign(magnitude, base), magnitude);
}

} // namespace torch_tile::codegen
