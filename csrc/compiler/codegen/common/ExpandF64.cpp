// exp, expm1, sin and cos of f64 for registers of 512 bits. Series by Taylor: with fma their error is that of the last
// steps.

#include "compiler/codegen/common/MathBuilder.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cmath>

using namespace mlir;

namespace torch_tile::codegen {

namespace {
constexpr double kLog2E = 0x1.71547652b82fep+0;
constexpr double kLn2High = 0x1.62e42fefa39efp-1, kLn2Low = 0x1.abc9e3b39803fp-56;
/// What the largest double is the exponential of.
constexpr double kLargestExp = 0x1.62e42fefa39efp+9;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
constexpr double kHalfPi[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
/// Quarter turns up to here are exact as an integer in the low bits of a double, and so is what is left of the angle.
constexpr double kModerate = 0x1p28;
constexpr double kRoundingShift = 0x1.8p52;
} // namespace

Value expF64(MathBuilder &b, Value x) {
  // Beyond, the result is infinite, which the scaling gives, or 0.
  Value kept = b.compare(arith::CmpFPredicate::UGE, x, b.fp(-746));
  x = b.clampAbove(x, 711);
  Value n = math::RoundEvenOp::create(b, b.mul(x, b.fp(kLog2E)));
  Value r = b.fma(n, b.fp(-kLn2Low), b.fma(n, b.fp(-kLn2High), x));
  Value tail = b.polynomial(r, {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                                1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0});
  return b.scaleByPower(b.fma(tail, r, b.fp(1.0)), n, kept);
}

/// 2^n (e^r - 1) + (2^n - 1), of which the second is exact or far larger; twice half of it, so that 2^n need not fit.
Value expm1F64(MathBuilder &b, Value x) {
  Value near = b.clampBelow(b.clampAbove(x, kLargestExp), -50); // e^-50 - 1 is -1
  Value n = math::RoundEvenOp::create(b, b.mul(near, b.fp(kLog2E)));
  Value high = b.fma(n, b.fp(-kLn2High), near), r = b.fma(n, b.fp(-kLn2Low), high);
  Value rLost = b.fma(n, b.fp(-kLn2Low), b.sub(high, r));
  Value tail = b.polynomial(r, {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                                1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5});
  tail = b.mul(b.mul(r, r), tail);
  Value half = b.scaleByPower(b.fp(1.0), b.sub(n, b.fp(1.0)));
  // What r and the sum of the larger terms lose goes with the smaller one.
  Value first = b.sub(half, b.fp(0.5)), sum = b.fma(half, r, first);
  Value lost = b.fma(half, r, b.sub(first, sum));
  Value value = b.mul(b.add(sum, b.fma(half, b.add(tail, rLost), lost)), b.fp(2.0));
  value = b.select(b.compare(arith::CmpFPredicate::OGT, x, b.fp(kLargestExp)), b.fp(HUGE_VAL), value);
  // The sign of zero, and what halving would round.
  return b.select(b.less(b.abs(x), b.fp(0x1p-100)), x, value);
}

/// sin(x + quarterTurns * pi/2) for |x| <= kModerate.
static Value sinOfModerate(MathBuilder &b, Value x, int64_t quarterTurns) {
  Type i64 = b.getI64Type();
  auto integer = [&](uint64_t value) { return b.bits(i64, value); };
  Value magnitude = b.abs(x);
  Value shifted = b.fma(magnitude, b.fp(kTwoOverPi), b.fp(kRoundingShift));
  Value n = b.sub(shifted, b.fp(kRoundingShift));
  Value first = b.fma(n, b.fp(-kHalfPi[0]), magnitude); // exact
  // The next part, near multiples of pi/2 all but what is left, with what its product and the sum (Knuth's) lose.
  Value second = b.mul(n, b.fp(-kHalfPi[1])), secondLost = b.fma(n, b.fp(-kHalfPi[1]), b.neg(second));
  Value r = b.add(first, second), part = b.sub(r, first);
  Value low = b.add(b.sub(first, b.sub(r, part)), b.sub(second, part));
  low = b.fma(n, b.fp(-kHalfPi[2]), b.add(low, secondLost));
  Value square = b.mul(r, r);
  Value sine = b.polynomial(square, {1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800,
                                     1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6});
  // r + low * cos r, whose cosine is near enough 1 - r^2/2.
  Value correction = b.fma(b.mul(square, b.fp(-0.5)), low, low);
  sine = b.add(r, b.fma(b.mul(sine, square), r, correction));
  Value cosine = b.polynomial(square, {1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800,
                                       1.0 / 40320, -1.0 / 720, 1.0 / 24});
  // 1 - r^2/2 loses what its rounding does; the next terms make it good.
  Value half = b.mul(square, b.fp(0.5)), high = b.sub(b.fp(1.0), half);
  Value lost = b.sub(b.sub(b.fp(1.0), high), half);
  cosine = b.add(high, b.fma(b.mul(square, square), cosine, b.fma(b.neg(r), low, lost)));

  Value quadrant = b.bitcast(b.shaped(i64), shifted);
  if (quarterTurns)
    quadrant = b.addI(quadrant, integer(quarterTurns));
  Value isOdd = b.compareI(arith::CmpIPredicate::ne, b.andI(quadrant, integer(1)), integer(0));
  Value sign = b.shl(quadrant, integer(62));
  if (!quarterTurns) // sine is odd: the sign of x, so that -0 stays -0
    sign = b.xorI(sign, b.bitcast(b.shaped(i64), x));
  sign = b.andI(sign, integer(uint64_t(1) << 63));
  Value value = b.bitcast(b.shaped(i64), b.select(isOdd, cosine, sine));
  return b.bitcast(b.floatType(), b.xorI(value, sign));
}

static Value sinOrCos(MathBuilder &b, Value x, StringRef stem, int64_t quarterTurns) {
  Value inlined = sinOfModerate(b, x, quarterTurns);
  // False for NaN, which takes the library's way.
  Value isModerate = b.compare(arith::CmpFPredicate::OLE, b.abs(x), b.fp(kModerate));
  Value allModerate = vector::ReductionOp::create(b, vector::CombiningKind::AND, isModerate);
  auto branch = scf::IfOp::create(b, TypeRange{b.floatType()}, allModerate, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  scf::YieldOp::create(b, inlined);
  b.setInsertionPointToStart(&branch.getElseRegion().front());
  // A lane's bits must not depend on its neighbours.
  scf::YieldOp::create(b, b.select(isModerate, inlined, b.callLibrary(stem, "u10", x)));
  return branch.getResult(0);
}

Value sinF64(MathBuilder &b, Value x) { return sinOrCos(b, x, "sin", 0); }

Value cosF64(MathBuilder &b, Value x) { return sinOrCos(b, x, "cos", 1); }

} // namespace torch_tile::codegen
