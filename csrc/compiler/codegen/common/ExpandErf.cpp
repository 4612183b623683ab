// erf and erfc of f32.

#include "compiler/codegen/common/MathBuilder.h"

using namespace mlir;

namespace torch_tile::codegen {

/// |x| < 0.9: x + x * P(x^2). Else 1 - 2^R(|x|), R a minimax fit of log2(erfc), weighted by erfc; its leading
/// coefficient is negative, so it needs no bound. Within 1.6 units in the last place.
static Value erfByInstruction(MathBuilder &b, Value x) {
  Value magnitude = b.abs(x), square = b.mul(x, x);
  Value p = b.polynomial(square, {-0.00061113, 0.00501623, -0.02678196, 0.1128223, -0.37612532, 0.12837916});
  Value small = b.fma(magnitude, p, magnitude);
  Value exponent = b.polynomial(magnitude, {-0.00180562, 0.0224758, -0.1314427, -0.9388415, -1.6160937, -0.00270888});
  Value large = b.sub(b.fp(1.0), b.instruction("ex2.approx.ftz.f32 $0, $1;", exponent));
  return b.copySign(b.select(b.less(magnitude, b.fp(0.9)), small, large), x);
}

/// x + x * P(x^2) for |x| < 0.9.
static Value erfTailOfSmall(MathBuilder &b, Value square) {
  return b.polynomial(
      square, {8.51311119e-05, -0.000817564138, 0.00520385939, -0.0268605086, 0.11283715, -0.37612635, 0.128379167});
}

/// |x| < 0.9: x + x * P(x^2). Else 1 - Q(|x|)^4, Q a minimax fit of erfc^(1/4): a power of a smooth, slowly falling
/// function takes a lower degree than erfc itself, and needs no exponential.
Value erfF32(MathBuilder &b, Value x) {
  if (!b.options().hasLibrary)
    return erfByInstruction(b, x);
  Value magnitude = b.abs(x);
  Value square = b.mul(magnitude, magnitude);
  Value small = b.fma(magnitude, erfTailOfSmall(b, square), magnitude);
  Value q = b.polynomial(b.clampAbove(magnitude, 4.0),
                         {1.10297159e-05, -0.000219161827, 0.00170383596, -0.00596306721, 0.00594592662, 0.0100103708,
                          0.0223613966, -0.122885002, -0.281065024, 0.999869208});
  q = b.mul(q, q);
  Value large = b.fma(b.neg(q), q, b.fp(1.0));
  return b.copySign(b.select(b.less(magnitude, b.fp(0.9)), small, large), x);
}

/// |x| < 0.85: 1 - erf(x). Else e^(-a^2) * P(t) / (a + 3) for a = |x|, t = (a - 3) / (a + 3): P is a minimax fit of (a
/// + 3) e^(a^2) erfc(a) by Remez' exchange, weighted by its relative error, from 0.79 to 10.1, of which erfc rounds to
/// 0. What the square, the sum and the quotient lose is made good: errors of t and of the quotient go into the result
/// together.
static Value erfcF32OfRegister(MathBuilder &b, Value x) {
  constexpr double kLog2E = 0x1.71547652b82fep+0, kLn2 = 0x1.62e42fefa39efp-1, kLn2High = 0x1.62e4p-1;
  constexpr double kRoundingShift = 12582912.0; // 1.5 * 2^23
  Value a = b.clampAbove(b.abs(x), 10.1);
  Value sum = b.add(a, b.fp(3.0)), sumLost = b.sub(a, b.sub(sum, b.fp(3.0)));
  Value quotient = b.div(b.fp(1.0), sum);
  // By how much of itself the quotient is too small.
  Value lack = b.fma(b.neg(quotient), sumLost, b.fma(b.neg(quotient), sum, b.fp(1.0)));
  Value t = b.fma(quotient, b.fp(-6.0), b.fp(1.0));
  constexpr double kP0 = 1.07400690741;
  Value tail = b.polynomial(t, {-0.00045032121548, 0.00284715598794, -0.00124219951682, -0.0267836638974,
                                0.119531097659, -0.310471050159, 0.590228248116, -0.883394364535});
  Value p = b.fma(tail, t, b.fp(kP0)), pLost = b.fma(tail, t, b.sub(b.fp(kP0), p));
  // -a^2 = n*ln2 + r.
  Value square = b.mul(a, a), squareLost = b.fma(a, a, b.neg(square));
  Value shifted = b.fma(square, b.fp(-kLog2E), b.fp(kRoundingShift));
  Value n = b.sub(shifted, b.fp(kRoundingShift));
  Value low = b.fma(n, b.fp(-(kLn2 - kLn2High)), b.neg(squareLost));
  Value high = b.fma(n, b.fp(-kLn2High), b.neg(square)), r = b.add(high, low), rLost = b.sub(low, b.sub(r, high));
  Value expm1 = b.polynomial(r, {0.000198458814, 0.00139406687, 0.00833338946, 0.0416663604, 0.166666664, 0.500000004});
  expm1 = b.fma(expm1, b.mul(r, r), r);
  Value product = b.fma(p, expm1, p), productLost = b.add(b.fma(p, expm1, b.sub(p, product)), pLost);
  Value large = b.mul(product, quotient);
  Value rest = b.fma(productLost, quotient, b.fma(product, quotient, b.neg(large)));
  // The error of t, 6 * quotient * lack, changes P by about -0.87 of itself.
  lack = b.fma(lack, b.fma(quotient, b.fp(5.2), b.fp(1.0)), rLost);
  large = b.add(large, b.fma(large, lack, rest));
  // 2^n in two factors, for results that are subnormal: n >= -148.
  Value exponent = b.shl(b.bitcast(b.i32(), shifted), b.integer(23)), one = b.integer(0x3f800000);
  Value half = b.andI(b.shrs(exponent, b.integer(1)), b.integer(int32_t(0xff800000)));
  Value first = b.bitcast(b.floatType(), b.addI(half, one));
  Value second = b.bitcast(b.floatType(), b.addI(b.subI(exponent, half), one));
  large = b.mul(b.mul(large, first), second);
  large = b.select(b.less(x, b.fp(0.0)), b.sub(b.fp(2.0), large), large);
  Value small = b.fma(b.neg(x), erfTailOfSmall(b, square), b.sub(b.fp(1.0), x));
  return b.select(b.less(a, b.fp(0.85)), small, large);
}

/// One function for all registers of a CPU: several at once need more temporaries than there are registers.
Value erfcF32(MathBuilder &b, Value x) {
  return b.isVector() && b.options().hasLibrary ? b.callOutlinedByRegister("erfcf32_", x, erfcF32OfRegister)
                                                : erfcF32OfRegister(b, x);
}

} // namespace torch_tile::codegen
