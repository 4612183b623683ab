// sin and cos of f32.

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
constexpr double kRoundingShift = 12582912.0; // 1.5 * 2^23
} // namespace

/// sin(x + quarterTurns * pi/2) for |x| <= kInlineLimit.
static Value sinOfModerate(MathBuilder &b, Value x, int quarterTurns) {
  Value magnitude = b.abs(x);
  Value shifted = b.fma(magnitude, b.fp(kTwoOverPi), b.fp(kRoundingShift));
  Value n = b.sub(shifted, b.fp(kRoundingShift));
  Value r = b.fma(n, b.fp(-kHalfPiHigh), magnitude);
  r = b.fma(n, b.fp(-kHalfPiMiddle), r);
  r = b.fma(n, b.fp(-kHalfPiLow), r);
  Value square = b.mul(r, r);
  Value sinTail = b.polynomial(square, {-0.00019514631, 0.00833215605, -0.166666545});
  Value sine = b.fma(b.mul(sinTail, square), r, r);
  Value cosTail = b.polynomial(square, {2.44324122e-05, -0.00138873099, 0.0416666456});
  Value cosine = b.fma(b.fma(cosTail, square, b.fp(-0.5)), square, b.fp(1.0));

  Value quadrant = b.bitcast(b.i32(), shifted);
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

static Value sinOrCos(MathBuilder &b, Value x, StringRef stem, int quarterTurns) {
  if (!b.options().hasInlineTrig)
    return b.callLibrary(stem, "u10", x);
  Value inlined = sinOfModerate(b, x, quarterTurns);
  // False for NaN, which takes the library path.
  Value isModerate = b.compare(arith::CmpFPredicate::OLE, b.abs(x), b.fp(kInlineLimit));
  Value allModerate = isModerate;
  if (b.isVector() && b.options().hasLibrary) {
    allModerate = vector::ReductionOp::create(b, vector::CombiningKind::AND, isModerate);
  } else if (b.isVector()) {
    Value magnitude = b.abs(x), largest;
    for (int64_t lane = 0; lane < b.numLanes(); ++lane) {
      Value each = vector::ExtractOp::create(b, magnitude, lane);
      largest = largest ? arith::MaximumFOp::create(b, largest, each).getResult() : each;
    }
    Value limit = arith::ConstantOp::create(b, b.getF32FloatAttr(kInlineLimit));
    allModerate = arith::CmpFOp::create(b, arith::CmpFPredicate::OLE, largest, limit);
  }
  auto fallback = [&] { return b.options().hasLibrary ? b.callLibrary(stem, "u10", x) : b.callOutlined(stem, x); };
  auto branch = scf::IfOp::create(b, TypeRange{b.floatType()}, allModerate, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  scf::YieldOp::create(b, inlined);
  b.setInsertionPointToStart(&branch.getElseRegion().front());
  // A lane's bits must not depend on its neighbours.
  scf::YieldOp::create(b, b.select(isModerate, inlined, fallback()));
  return branch.getResult(0);
}

Value sinF32(MathBuilder &b, Value x) { return sinOrCos(b, x, "sin", 0); }

Value cosF32(MathBuilder &b, Value x) { return sinOrCos(b, x, "cos", 1); }

} // namespace torch_tile::codegen
