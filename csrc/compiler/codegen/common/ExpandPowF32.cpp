// Float powers of f32: 2^(y * log2(x)). The logarithm is a sum of two floats with some 36 bits, for y multiplies its
// error.

#include "compiler/codegen/common/MathBuilder.h"

#include <limits>

using namespace mlir;

namespace torch_tile::codegen {

namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kTwoLog2E = 0x1.71547652b82fep+1;
// Beyond them 2^p is infinite, and 0 after it was rounded.
constexpr double kMostPower = 150, kLeastPower = -200;

struct Pair {
  Value high, low;
};
} // namespace

static Value lowPart(MathBuilder &b, double value) { return b.fp(value - double(float(value))); }

/// x * y in two floats.
static Pair exactProduct(MathBuilder &b, Value x, Value y) {
  Value high = b.mul(x, y);
  return {high, b.fma(x, y, b.neg(high))};
}

/// x + y in two floats, |x| >= |y| or x = 0.
static Pair exactSum(MathBuilder &b, Value x, Value y) {
  Value high = b.add(x, y);
  return {high, b.add(b.sub(x, high), y)};
}

/// log2 of a positive finite number: log(1 + f) = 2 atanh(f / (2 + f)), with atanh(r) = r + r * (r^2 / 3 + r^4 / 5
/// ...).
static Pair log2InTwo(MathBuilder &b, Value x) {
  auto [f, k] = splitF32(b, x);
  Pair divisor = exactSum(b, b.fp(2.0), f);
  Value reciprocal = b.divApproximate(b.fp(1.0), divisor.high);
  Value r = b.mul(f, reciprocal), minusR = b.neg(r);
  Value rLow = b.mul(b.fma(minusR, divisor.low, b.fma(minusR, divisor.high, f)), reciprocal);

  Pair square = exactProduct(b, r, r);
  square.low = b.fma(b.add(r, r), rLow, square.low);
  double third = 1.0 / 3.0;
  Pair tail = exactProduct(b, square.high, b.fp(third));
  tail.low = b.fma(square.high, lowPart(b, third), tail.low);
  tail.low = b.fma(square.low, b.fp(third), tail.low);
  Value rest = b.polynomial(square.high, {1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5});
  tail.low = b.fma(b.mul(square.high, square.high), rest, tail.low);

  Pair product = exactProduct(b, r, tail.high);
  Pair atanh = exactSum(b, r, product.high);
  Value low = b.fma(rLow, tail.high, b.add(b.add(atanh.low, product.low), rLow));
  atanh.low = b.fma(r, tail.low, low);

  Pair scaled = exactProduct(b, atanh.high, b.fp(kTwoLog2E));
  scaled.low = b.fma(atanh.high, lowPart(b, kTwoLog2E), scaled.low);
  scaled.low = b.fma(atanh.low, b.fp(kTwoLog2E), scaled.low);
  Pair sum = exactSum(b, k, scaled.high);
  // The low part holds r^5 / 5, too.
  return exactSum(b, sum.high, b.add(sum.low, scaled.low));
}

Value powF32(MathBuilder &b, Value x, Value y) {
  Value a = b.abs(x), zero = b.fp(0.0), one = b.fp(1.0), infinity = b.fp(kInf);
  Pair log = log2InTwo(b, a);
  Value high = b.select(b.equal(a, zero), b.fp(-kInf), b.select(b.equal(a, infinity), infinity, log.high));
  Value power = b.mul(y, high);
  Value low = b.fma(y, log.low, b.fma(y, high, b.neg(power)));
  low = b.select(b.less(b.abs(power), b.fp(-kLeastPower)), low, zero); // NaN where the power is infinite
  Value magnitude = exp2InTwo(b, b.clampAbove(b.clampBelow(power, kLeastPower), kMostPower), b.mul(low, b.fp(kLn2)));
  magnitude = b.select(b.equal(a, one), one, magnitude); // the power is NaN where y is infinite

  auto floor = [&](Value value) -> Value { return math::FloorOp::create(b, value); };
  auto isFraction = [&](Value value) { return b.compare(arith::CmpFPredicate::UNE, floor(value), value); };
  Value isOdd = b.andI(isFraction(b.mul(y, b.fp(0.5))), b.equal(floor(y), y));
  Value isNegative = b.compareI(arith::CmpIPredicate::slt, b.bitcast(b.i32(), x), b.integer(0));
  Value result = b.select(b.andI(isNegative, isOdd), b.neg(magnitude), magnitude);
  Value areFinite = b.andI(b.less(a, infinity), b.less(b.abs(y), infinity));
  Value isUndefined = b.andI(b.andI(b.less(x, zero), isFraction(y)), areFinite);
  result = b.select(isUndefined, b.fp(std::numeric_limits<double>::quiet_NaN()), result);
  result = b.select(b.compare(arith::CmpFPredicate::UNO, x, y), b.add(x, y), result);
  result = b.select(b.equal(x, one), one, result);
  return b.select(b.equal(y, zero), one, result);
}

} // namespace torch_tile::codegen
