// sin, cos, tan and atan of f32.

#include "compiler/codegen/common/MathBuilder.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace torch_tile::codegen {

namespace {
// pi/2 = high + middle + low, 24 bits each; three fma leave an error below 2^-60 for |x| up to the limit.
constexpr double kHalfPiHigh = 0x1.921fb6p+0;
constexpr double kHalfPiMiddle = -0x1.777a5cp-25;
constexpr double kHalfPiLow = -0x1.ee59dap-50;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
constexpr double kInlineLimit = 30000.0;
constexpr double kWideLimit = 0x1p48;         // of arguments that f64 reduces
constexpr double kRoundingShift = 12582912.0; // 1.5 * 2^23

/// |x| = quadrant * pi/2 + high + low; of the quadrant the low bits count. Low is null where it is not known.
struct Reduced {
  Value high, low, quadrant;
};
/// What is computed of an angle in [-pi/4, pi/4].
using Function = Value (*)(MathBuilder &b, Value x, Reduced reduced);
} // namespace

/// For |x| <= kInlineLimit.
static Reduced reduceModerate(MathBuilder &b, Value x) {
  Value magnitude = b.abs(x);
  Value shifted = b.fma(magnitude, b.fp(kTwoOverPi), b.fp(kRoundingShift));
  Value n = b.sub(shifted, b.fp(kRoundingShift));
  Value r = b.fma(n, b.fp(-kHalfPiHigh), magnitude);
  r = b.fma(n, b.fp(-kHalfPiMiddle), r);
  r = b.fma(n, b.fp(-kHalfPiLow), r);
  return {r, Value(), b.bitcast(b.i32(), shifted)};
}

/// For |x| <= kWideLimit, in f64: the first step is exact, for both of its terms are multiples of 2^-52.
static Reduced reduceWide(MathBuilder &b, Value x) {
  constexpr double kShift = 0x1.8p52;
  Type narrow = b.floatType();
  Value magnitude = b.abs(x);
  Type wide = b.shaped(b.getF64Type()), integers = b.i32(), wideIntegers = b.shaped(b.getI64Type());
  b.setShape(wide);
  magnitude = arith::ExtFOp::create(b, wide, magnitude);
  Value shifted = b.fma(magnitude, b.fp(kTwoOverPi), b.fp(kShift));
  Value n = b.sub(shifted, b.fp(kShift));
  Value r = b.fma(n, b.fp(-0x1.921fb54442d18p+0), magnitude);
  r = b.fma(n, b.fp(-0x1.1a62633145c07p-54), r);
  Value quadrant = arith::TruncIOp::create(b, integers, b.bitcast(wideIntegers, shifted));
  Value high = arith::TruncFOp::create(b, narrow, r);
  Value low = arith::TruncFOp::create(b, narrow, b.sub(r, arith::ExtFOp::create(b, wide, high)));
  b.setShape(narrow);
  return {high, low, quadrant};
}

/// sin(x + quarterTurns * pi/2).
template <int quarterTurns> static Value sinOfReduced(MathBuilder &b, Value x, Reduced reduced) {
  auto [r, low, quadrant] = reduced;
  Value square = b.mul(r, r);
  Value sinTail = b.polynomial(square, {-0.00019514631, 0.00833215605, -0.166666545});
  // sin(r + low) = sin(r) + low * cos(r), whose cosine is near enough 1 here.
  Value sine = low ? b.add(r, b.fma(b.mul(sinTail, square), r, low)) : b.fma(b.mul(sinTail, square), r, r);
  Value cosTail = b.polynomial(square, {2.44324122e-05, -0.00138873099, 0.0416666456});
  Value cosine = b.fma(b.fma(cosTail, square, b.fp(-0.5)), square, b.fp(1.0));
  if (quarterTurns)
    quadrant = b.addI(quadrant, b.integer(quarterTurns));
  Value isOdd = b.compareI(arith::CmpIPredicate::ne, b.andI(quadrant, b.integer(1)), b.integer(0));
  Value sign = b.shl(quadrant, b.integer(30));
  if (!quarterTurns) // sine is odd: the sign of x, so that -0 stays -0
    sign = b.xorI(sign, b.bitcast(b.i32(), x));
  sign = b.andI(sign, b.integer(int32_t(0x80000000)));
  Value value = b.bitcast(b.i32(), b.select(isOdd, cosine, sine));
  return b.bitcast(b.floatType(), b.xorI(value, sign));
}

/// r + r^3 * P(r^2), a minimax fit (Remez) of the relative error; -1 / tan(r) in odd quadrants. What the sum and the
/// quotient lose is made good, and tan(r + low) = tan(r) + low * (1 + tan(r)^2).
static Value tanOfReduced(MathBuilder &b, Value x, Reduced reduced) {
  auto [r, low, quadrant] = reduced;
  Value square = b.mul(r, r);
  Value tail = b.polynomial(square, {0.00437918114954, 8.37956855775e-05, 0.0108402146559, 0.0212805415609,
                                     0.054060224281, 0.133326607289, 0.333333498264});
  tail = b.mul(b.mul(tail, square), r);
  Value tangent = b.add(r, tail), lost = b.add(b.sub(r, tangent), tail);
  lost = b.fma(low, b.fma(tangent, tangent, b.fp(1.0)), lost);
  Value isOdd = b.compareI(arith::CmpIPredicate::ne, b.andI(quadrant, b.integer(1)), b.integer(0));
  Value quotient = b.div(b.fp(-1.0), b.select(isOdd, tangent, b.fp(1.0)));
  Value lack = b.fma(lost, quotient, b.fma(tangent, quotient, b.fp(1.0)));
  Value value = b.select(isOdd, b.fma(quotient, lack, quotient), b.add(tangent, lost));
  Value sign = b.andI(b.bitcast(b.i32(), x), b.integer(int32_t(0x80000000)));
  return b.bitcast(b.floatType(), b.xorI(b.bitcast(b.i32(), value), sign));
}

static Value areAll(MathBuilder &b, Value lanes) {
  return b.isVector() ? vector::ReductionOp::create(b, vector::CombiningKind::AND, lanes).getResult() : lanes;
}

/// `inlined` where |x| <= limit, else `others`, computed if there is such a lane. A lane's bits must not depend on its
/// neighbours.
static Value selectModerate(MathBuilder &b, Value inlined, Value isModerate, Value allModerate,
                            llvm::function_ref<Value()> others) {
  auto branch = scf::IfOp::create(b, TypeRange{b.floatType()}, allModerate, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  scf::YieldOp::create(b, inlined);
  b.setInsertionPointToStart(&branch.getElseRegion().front());
  scf::YieldOp::create(b, b.select(isModerate, inlined, others()));
  return branch.getResult(0);
}

/// False for NaN, which takes the library path.
static Value isWithin(MathBuilder &b, Value x, double limit) {
  return b.compare(arith::CmpFPredicate::OLE, b.abs(x), b.fp(limit));
}

/// What is not moderate: by f64 up to kWideLimit, the rest by the library.
static Value ofLarge(MathBuilder &b, Value x, StringRef stem, Function function) {
  if (!b.options().hasSleef)
    return b.callLibrary(stem, "u10", x);
  return b.callOutlinedByRegister(stem, x, [&](MathBuilder &inside, Value large) {
    Value inlined = function(inside, large, reduceWide(inside, large));
    Value isModerate = isWithin(inside, large, kWideLimit);
    return selectModerate(inside, inlined, isModerate, areAll(inside, isModerate),
                          [&] { return inside.callLibrary(stem, "u10", large); });
  });
}

static Value circular(MathBuilder &b, Value x, StringRef stem, Function function) {
  if (!b.options().hasInlineTrig)
    return b.callLibrary(stem, "u10", x);
  Value inlined = function(b, x, reduceModerate(b, x));
  Value isModerate = isWithin(b, x, kInlineLimit), allModerate = isModerate;
  if (b.isVector() && b.options().hasLibrary) {
    allModerate = areAll(b, isModerate);
  } else if (b.isVector()) {
    Value magnitude = b.abs(x), largest;
    for (int64_t lane = 0; lane < b.numLanes(); ++lane) {
      Value each = vector::ExtractOp::create(b, magnitude, lane);
      largest = largest ? arith::MaximumFOp::create(b, largest, each).getResult() : each;
    }
    Value limit = arith::ConstantOp::create(b, b.getF32FloatAttr(kInlineLimit));
    allModerate = arith::CmpFOp::create(b, arith::CmpFPredicate::OLE, largest, limit);
  }
  return selectModerate(b, inlined, isModerate, allModerate, [&] {
    return b.options().hasLibrary ? ofLarge(b, x, stem, function) : b.callOutlined(stem, x);
  });
}

Value sinF32(MathBuilder &b, Value x) { return circular(b, x, "sin", sinOfReduced<0>); }

Value cosF32(MathBuilder &b, Value x) { return circular(b, x, "cos", sinOfReduced<1>); }

/// The tangent grows up to twice as fast as its argument: always by f64, whose low part counts.
static Value tanOfRegister(MathBuilder &b, Value x) {
  Value inlined = tanOfReduced(b, x, reduceWide(b, x));
  Value isModerate = isWithin(b, x, kWideLimit);
  return selectModerate(b, inlined, isModerate, areAll(b, isModerate), [&] { return b.callLibrary("tan", "u10", x); });
}

/// One function for all registers and all calls: in place, ten tangents took a kernel three times as long to compile.
Value tanF32(MathBuilder &b, Value x) {
  if (!b.options().hasInlineTrig || !b.options().hasLibrary)
    return b.callLibrary("tan", "u10", x);
  return b.isVector() ? b.callOutlinedByRegister("tanf32_", x, tanOfRegister) : tanOfRegister(b, x);
}

/// z + z^3 * P(z^2) for z <= 1, a minimax fit (Remez) of the relative error; pi/2 less that of the inverse beyond.
Value atanF32(MathBuilder &b, Value x) {
  Value a = b.abs(x), isLarge = b.less(b.fp(1.0), a);
  Value inverse = b.div(b.fp(1.0), a);
  Value z = b.select(isLarge, inverse, a), square = b.mul(z, z);
  Value tail =
      b.polynomial(square, {-0.00179357883531, 0.0109143880073, -0.031177387193, 0.0579570767052, -0.084034169171,
                            0.109521735237, -0.142642393671, 0.199985481204, -0.333332990907});
  tail = b.mul(b.mul(tail, square), z);
  Value large = b.sub(b.sub(b.fp(kHalfPiHigh), z), b.add(tail, b.fp(-kHalfPiMiddle)));
  return b.copySign(b.select(isLarge, large, b.add(z, tail)), x);
}

} // namespace torch_tile::codegen
