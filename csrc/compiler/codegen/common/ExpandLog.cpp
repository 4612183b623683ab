// log, log2, log10, log1p, asinh and acosh of f32: x = 2^k * (1 + f) with f in [-1/4, 1/2), log(1 + f) = f - f^2/2 +
// f^3 * P(f).

#include "compiler/codegen/common/MathBuilder.h"

#include <limits>

using namespace mlir;

namespace torch_tile::codegen {

namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int32_t kExponentMask = int32_t(0xff800000);
constexpr int32_t kThreeQuarters = 0x3f400000;
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kLn2High = 0x1.62e4p-1;
constexpr double kLog2E = 0x1.71547652b82fep+0;
constexpr double kLog10E = 0x1.bcb7b1526e50ep-2;
constexpr double kLog10Of2 = 0x1.34413509f79ffp-2;
constexpr double kLog10Of2High = 0x1.344p-2;
} // namespace

/// (log(1 + f) - f + f^2/2) / f^3.
static Value logTail(MathBuilder &b, Value f) {
  return b.polynomial(
      f, {-0.0450748211, 0.104630276, -0.131611973, 0.144783955, -0.166473119, 0.199908612, -0.250000958, 0.333334491});
}

SplitF32 splitF32(MathBuilder &b, Value x) {
  Value isSubnormal = b.less(x, b.fp(0x1p-126));
  Value scaled = b.bitcast(b.i32(), b.select(isSubnormal, b.mul(x, b.fp(0x1p23)), x));
  Value bias = b.select(isSubnormal, b.fp(-23.0), b.fp(0.0));
  Value k = b.andI(b.subI(scaled, b.integer(kThreeQuarters)), b.integer(kExponentMask));
  Value fraction = b.sub(b.bitcast(b.floatType(), b.subI(scaled, k)), b.fp(1.0));
  return {fraction, b.fma(b.sitofp(k), b.fp(0x1p-23), bias)};
}

/// `result` where x is positive and finite; 0 -> -inf, negative -> NaN, inf and NaN themselves.
static Value withSpecialCases(MathBuilder &b, Value x, Value result) {
  Value special = b.select(b.less(x, b.fp(0.0)), b.fp(kNan), x);
  special = b.select(b.equal(x, b.fp(0.0)), b.fp(-kInf), special);
  Value predecessor = b.subI(b.bitcast(b.i32(), x), b.integer(1));
  return b.select(b.compareI(arith::CmpIPredicate::ult, predecessor, b.integer(0x7f7fffff)), result, special);
}

/// k * ln2 + log(1 + f).
static Value sumParts(MathBuilder &b, Value f, Value k) {
  Value square = b.mul(f, f);
  Value sum = b.fma(logTail(b, f), b.mul(square, f), b.mul(k, b.fp(kLn2 - kLn2High)));
  sum = b.add(f, b.fma(b.fp(-0.5), square, sum));
  return b.fma(k, b.fp(kLn2High), sum);
}

Value logF32(MathBuilder &b, Value x) {
  auto [f, k] = splitF32(b, x);
  return withSpecialCases(b, x, sumParts(b, f, k));
}

/// log(x) * scale, with log2 * scale = exponentHigh + exponentLow. log(1 + f) is kept as a sum of two floats, for the
/// product rounds again.
static Value logOfBase(MathBuilder &b, Value x, double scale, double exponentHigh, double exponentLow) {
  auto [f, k] = splitF32(b, x);
  Value square = b.mul(f, f);
  Value minusHalf = b.fp(-0.5);
  Value high = b.fma(minusHalf, square, f);
  Value low = b.fma(minusHalf, square, b.sub(f, high));
  low = b.fma(logTail(b, f), b.mul(square, f), low);
  double scaleHigh = float(scale);
  Value sum = b.mul(low, b.fp(scaleHigh));
  if (exponentLow != 0.0)
    sum = b.fma(low, b.fp(scaleHigh), b.mul(k, b.fp(exponentLow)));
  sum = b.fma(high, b.fp(scale - scaleHigh), sum);
  sum = b.fma(high, b.fp(scaleHigh), sum);
  sum = exponentHigh == 1.0 ? b.add(k, sum) : b.fma(k, b.fp(exponentHigh), sum);
  return withSpecialCases(b, x, sum);
}

Value log2F32(MathBuilder &b, Value x) { return logOfBase(b, x, kLog2E, 1.0, 0.0); }

Value log10F32(MathBuilder &b, Value x) { return logOfBase(b, x, kLog10E, kLog10Of2High, kLog10Of2 - kLog10Of2High); }

Value log1pF32(MathBuilder &b, Value x) {
  // k comes from the rounded 1 + x; f = x * 2^-k + (2^-k - 1) keeps the bits of x that 1 + x rounds off. Scaling by
  // integer subtraction and by 4 * 2^-k stays in range for every k.
  Value one = b.fp(1.0);
  Value sum = b.bitcast(b.i32(), b.add(x, one));
  Value k = b.andI(b.subI(sum, b.integer(kThreeQuarters)), b.integer(kExponentMask));
  Value scaled = b.bitcast(b.floatType(), b.subI(b.bitcast(b.i32(), x), k));
  Value scale = b.bitcast(b.floatType(), b.subI(b.integer(0x40800000), k));
  Value f = b.add(scaled, b.fma(b.fp(0.25), scale, b.fp(-1.0)));
  Value result = sumParts(b, f, b.mul(b.sitofp(k), b.fp(0x1p-23)));

  Value minusOne = b.fp(-1.0);
  Value special = b.select(b.less(x, minusOne), b.fp(kNan), x);
  special = b.select(b.equal(x, minusOne), b.fp(-kInf), special);
  Value isRegular = b.andI(b.less(minusOne, x), b.less(x, b.fp(kInf)));
  return b.copySign(b.select(isRegular, result, special), x);
}

/// log1p(y) + offset, where offset is ln2 for lanes of `isLarge` (y = x there, and 2x stands for x + sqrt(x^2 +- 1)).
static Value log1pWithLn2(MathBuilder &b, Value y, Value isLarge) {
  return b.add(log1pF32(b, y), b.select(isLarge, b.fp(kLn2), b.fp(0.0)));
}

Value asinhF32(MathBuilder &b, Value x) {
  Value magnitude = b.abs(x);
  Value isLarge = b.less(b.fp(0x1p28), magnitude);
  Value one = b.fp(1.0);
  Value square = b.mul(magnitude, magnitude);
  Value root = math::SqrtOp::create(b, b.add(square, one));
  Value y = b.add(magnitude, b.div(square, b.add(root, one)));
  return b.copySign(log1pWithLn2(b, b.select(isLarge, magnitude, y), isLarge), x);
}

Value acoshF32(MathBuilder &b, Value x) {
  Value isLarge = b.less(b.fp(0x1p28), x);
  Value t = b.sub(x, b.fp(1.0));
  // t * (t + 2) is negative, and its root NaN, for -1 < x < 1.
  Value root = math::SqrtOp::create(b, b.fma(t, t, b.add(t, t)));
  Value y = b.add(t, root);
  Value result = log1pWithLn2(b, b.select(isLarge, x, y), isLarge);
  return b.select(b.less(x, b.fp(1.0)), b.fp(kNan), result);
}

} // namespace torch_tile::codegen
