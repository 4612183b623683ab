// exp, exp2, expm1, sinh, cosh, tanh and the logistic function of f32.
//
// Polynomials are minimax fits (Remez/Lawson, weighted by the function's relative error). Range reduction: x = n*ln2 +
// r with |r| <= ln2/2. n is the low part of x*log2(e) + 1.5*2^23, so that no float to int conversion (undefined on NaN)
// is needed: its bits hold n in the low 22 bits.

#include "compiler/codegen/common/MathBuilder.h"

#include <cmath>

using namespace mlir;

namespace torch_tile::codegen {

namespace {
constexpr double kRoundingShift = 12582912.0; // 1.5 * 2^23
constexpr double kLog2E = 0x1.71547652b82fep+0;
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kLn2High = 0x1.62e4p-1; // 15 bits: n * kLn2High is exact
constexpr double kLn2Low = kLn2 - kLn2High;

struct Reduced {
  Value remainder;
  Value shifted; // n + 1.5 * 2^23
};
} // namespace

/// x * scale = n * ln2 + remainder.
static Reduced reduceByLn2(MathBuilder &b, Value x, double scale) {
  Value shifted = b.fma(x, b.fp(kLog2E * scale), b.fp(kRoundingShift));
  Value n = b.sub(shifted, b.fp(kRoundingShift));
  Value r = b.fma(n, b.fp(-kLn2High / scale), x);
  r = b.fma(n, b.fp(-kLn2Low / scale), r);
  return {scale == 1.0 ? r : b.mul(r, b.fp(scale)), shifted};
}

/// (e^r - 1 - r) / r^2 for |r| <= ln2/2; e^r - 1 to 2^-31.
static Value expTail(MathBuilder &b, Value r) {
  return b.polynomial(r, {0.000198458814, 0.00139406687, 0.00833338946, 0.0416663604, 0.166666664, 0.500000004});
}

/// (2^r - 1) / r for |r| <= 1/2.
static Value exp2Tail(MathBuilder &b, Value r) {
  return b.polynomial(r, {0.000153533206, 0.00133989262, 0.00961843786, 0.0555033235, 0.240226479, 0.693147203});
}

/// 2^n as two factors of about equal size, since n in [-256, 255] exceeds the exponent range.
static std::pair<Value, Value> powersOfTwo(MathBuilder &b, Value shifted) {
  Value exponent = b.shl(b.bitcast(b.i32(), shifted), b.integer(23));
  Value half = b.andI(b.shrs(exponent, b.integer(1)), b.integer(int32_t(0xff800000)));
  Value one = b.integer(0x3f800000);
  return {b.bitcast(b.floatType(), b.addI(half, one)), b.bitcast(b.floatType(), b.addI(b.subI(exponent, half), one))};
}

/// `factor` is a power of two. The result is 0 where `x` is below -104, of which e^x rounds to 0 at the latest; `large`
/// says that there is no such `x`.
static Value expOfClamped(MathBuilder &b, Value x, double factor, bool large = false) {
  bool fillsAvx512 = b.fillsAvx512();
  Value kept = fillsAvx512 && !large ? b.compare(arith::CmpFPredicate::UGE, x, b.fp(-104.0)) : Value();
  // A product of powers of two near 2^-150 costs an excursion into microcode on Intel's processors, one below 2^-159
  // none: -inf, the masked element of an attention, is usual.
  if (!fillsAvx512 && !large)
    x = b.clampBelow(x, -120.0);
  auto [r, shifted] = reduceByLn2(b, x, 1.0);
  Value expm1 = b.fma(expTail(b, r), b.mul(r, r), r);
  if (fillsAvx512) {
    Value n = b.sub(shifted, b.fp(kRoundingShift - std::log2(factor)));
    return b.scaleByPower(b.add(expm1, b.fp(1.0)), n, kept);
  }
  auto [first, second] = powersOfTwo(b, shifted);
  if (factor != 1.0)
    second = b.mul(second, b.fp(factor));
  return b.mul(b.fma(expm1, first, first), second);
}

/// x * log2(e) as high + low; the instruction takes the high part, and the low one is a factor near 1.
static Value expByInstruction(MathBuilder &b, Value x) {
  Value high = b.mul(x, b.fp(kLog2E));
  Value low = b.fma(x, b.fp(kLog2E), b.neg(high));
  low = b.fma(x, b.fp(kLog2E - double(float(kLog2E))), low);
  Value power = b.instruction("ex2.approx.f32 $0, $1;", high);
  Value value = b.fma(power, b.mul(low, b.fp(kLn2)), power);
  // inf stays as it is: the factor could make it NaN.
  Value isFinite = b.less(b.abs(high), b.fp(128.0));
  return b.select(isFinite, value, power);
}

Value expApproximate(MathBuilder &b, Value x) {
  return b.instruction("ex2.approx.ftz.f32 $0, $1;", b.mul(x, b.fp(kLog2E)));
}

Value expF32(MathBuilder &b, Value x) {
  if (!b.options().hasLibrary)
    return expByInstruction(b, x);
  return expOfClamped(b, b.clampAbove(x, 89.0), 1.0); // inf from there on
}

Value exp2F32(MathBuilder &b, Value x) {
  if (!b.options().hasLibrary)
    return b.instruction("ex2.approx.f32 $0, $1;", x);
  bool fillsAvx512 = b.fillsAvx512();
  Value clamped = b.clampAbove(x, 129.0);
  Value kept = fillsAvx512 ? b.compare(arith::CmpFPredicate::UGE, x, b.fp(-151.0)) : Value();
  if (!fillsAvx512)
    clamped = b.clampBelow(clamped, -170.0); // see expOfClamped
  Value shifted = b.add(clamped, b.fp(kRoundingShift));
  Value r = b.sub(clamped, b.sub(shifted, b.fp(kRoundingShift)));
  Value p = exp2Tail(b, r);
  if (fillsAvx512)
    return b.scaleByPower(b.fma(p, r, b.fp(1.0)), b.sub(shifted, b.fp(kRoundingShift)), kept);
  auto [first, second] = powersOfTwo(b, shifted);
  return b.mul(b.fma(p, b.mul(r, first), first), second);
}

Value exp2InTwo(MathBuilder &b, Value x, Value factorLow) {
  Value shifted = b.add(x, b.fp(kRoundingShift));
  Value r = b.sub(x, b.sub(shifted, b.fp(kRoundingShift)));
  Value tail = exp2Tail(b, r), one = b.fp(1.0);
  Value rest = b.fma(tail, r, b.mul(factorLow, b.fma(tail, r, one)));
  auto [first, second] = powersOfTwo(b, shifted);
  return b.mul(b.mul(b.add(rest, one), first), second);
}

Value expm1F32(MathBuilder &b, Value x) {
  // Below -25 the result rounds to -1.
  Value clamped = b.clampBelow(b.clampAbove(x, 89.0), -25.0);
  auto [r, shifted] = reduceByLn2(b, clamped, 1.0);
  Value tail = b.mul(expTail(b, r), b.mul(r, r));
  // 2^(n-1) stays finite for n = 128.
  Value exponent = b.shl(b.bitcast(b.i32(), shifted), b.integer(23));
  Value half = b.bitcast(b.floatType(), b.addI(exponent, b.integer(0x3f000000)));
  // What the sum of the larger terms loses goes with the smaller one.
  Value first = b.sub(half, b.fp(0.5)), large = b.fma(half, r, first);
  Value lost = b.fma(half, r, b.sub(first, large));
  Value sum = b.add(large, b.fma(half, tail, lost));
  // Halving a subnormal r would lose its last bit.
  return b.select(b.less(b.abs(x), b.fp(0x1p-25)), x, b.add(sum, sum));
}

/// e^|x| / 2, inf only where cosh is.
static Value halfExpOfMagnitude(MathBuilder &b, Value magnitude) {
  return expOfClamped(b, b.clampAbove(magnitude, 90.0), 0.5, /*large=*/true);
}

Value coshF32(MathBuilder &b, Value x) {
  Value half = halfExpOfMagnitude(b, b.abs(x));
  return b.add(half, b.div(b.fp(0.25), half));
}

Value sinhF32(MathBuilder &b, Value x) {
  Value magnitude = b.abs(x);
  Value square = b.mul(magnitude, magnitude);
  Value p = b.polynomial(square, {2.81695135e-06, 0.000198361598, 0.00833335006, 0.166666665});
  Value small = b.fma(b.mul(p, square), magnitude, magnitude);
  Value half = halfExpOfMagnitude(b, magnitude);
  Value large = b.sub(half, b.div(b.fp(0.25), half));
  return b.copySign(b.select(b.less(magnitude, b.fp(1.0)), small, large), x);
}

Value tanhF32(MathBuilder &b, Value x) {
  Value magnitude = b.abs(x);
  Value square = b.mul(magnitude, magnitude);
  Value p = b.polynomial(square, {-0.00589515348, 0.0207959681, -0.0537838293, 0.133319241, -0.33333298});
  Value small = b.fma(b.mul(p, square), magnitude, magnitude);
  // 1 - 2 / (e^(2a) + 1); it rounds to 1 beyond 9.02.
  if (!b.options().hasLibrary) {
    Value power = b.instruction("ex2.approx.ftz.f32 $0, $1;", b.mul(magnitude, b.fp(2 * kLog2E)));
    Value reciprocal = b.instruction("rcp.approx.ftz.f32 $0, $1;", b.add(power, b.fp(1.0)));
    Value large = b.fma(b.fp(-2.0), reciprocal, b.fp(1.0));
    return b.copySign(b.select(b.less(magnitude, b.fp(0.6)), small, large), x);
  }
  // 2a needs one power of two only.
  auto [r, shifted] = reduceByLn2(b, b.clampAbove(magnitude, 9.02), 2.0);
  Value tail = b.mul(expTail(b, r), b.mul(r, r));
  Value power = b.addI(b.shl(b.bitcast(b.i32(), shifted), b.integer(23)), b.integer(0x3f800000));
  power = b.bitcast(b.floatType(), power);
  Value expPlusOne = b.fma(power, tail, b.fma(power, r, b.add(power, b.fp(1.0))));
  Value large = b.sub(b.fp(1.0), b.divApproximate(b.fp(2.0), expPlusOne));
  return b.copySign(b.select(b.less(magnitude, b.fp(0.6)), small, large), x);
}

Value expandExpF32(ImplicitLocOpBuilder &builder, Value x) {
  MathBuilder b(builder, x);
  return expF32(b, x);
}

Value expandTanhF32(ImplicitLocOpBuilder &builder, Value x) {
  MathBuilder b(builder, x);
  return tanhF32(b, x);
}

Value expandSigmoidF32(ImplicitLocOpBuilder &builder, Value x) {
  MathBuilder b(builder, x);
  return b.div(b.fp(1.0), b.add(b.fp(1.0), expF32(b, b.neg(x))));
}

} // namespace torch_tile::codegen
