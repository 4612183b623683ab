// The remainder of a division of floats towards zero, exactly.

#include "compiler/codegen/common/MathBuilder.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace torch_tile::codegen {

/// Of scalars of f64: 50 bits of the quotient in each step.
static Value remainderOfScalars(MathBuilder &b, Value x, Value y) {
  auto constant = [&](double value) -> Value { return arith::ConstantOp::create(b, b.getF64FloatAttr(value)); };
  auto integer = [&](int64_t value) -> Value { return arith::ConstantOp::create(b, b.getI64IntegerAttr(value)); };
  Type i64 = b.getI64Type(), f64 = b.getF64Type();
  Value a = b.abs(x), c = b.abs(y);
  Value isValid = b.andI(b.less(a, constant(std::numeric_limits<double>::infinity())),
                         b.compare(arith::CmpFPredicate::OGT, c, constant(0)));
  auto exponentOf = [&](Value value) {
    Value isSubnormal = b.less(value, constant(std::numeric_limits<double>::min()));
    Value normal = b.select(isSubnormal, b.mul(value, constant(0x1p54)), value);
    Value exponent = b.shru(arith::BitcastOp::create(b, i64, normal), integer(52));
    return b.subI(exponent, b.select(isSubnormal, integer(54), integer(0)));
  };
  Value divisorExponent = exponentOf(c);
  auto loop = scf::WhileOp::create(b, TypeRange{f64}, ValueRange{b.select(isValid, a, constant(0))});
  OpBuilder::InsertionGuard guard(b);
  Block *before = b.createBlock(&loop.getBefore(), {}, TypeRange{f64}, {b.getLoc()});
  scf::ConditionOp::create(b, b.compare(arith::CmpFPredicate::OGE, before->getArgument(0), c), before->getArguments());
  Block *after = b.createBlock(&loop.getAfter(), {}, TypeRange{f64}, {b.getLoc()});
  Value rest = after->getArgument(0);
  Value steps = b.subI(b.subI(exponentOf(rest), divisorExponent), integer(50));
  steps = arith::MaxSIOp::create(b, steps, integer(0));
  // At most 2047, in three factors that are finite.
  Value third = arith::DivUIOp::create(b, steps, integer(3));
  auto power = [&](Value k) -> Value {
    return arith::BitcastOp::create(b, f64, b.shl(b.addI(k, integer(1023)), integer(52)));
  };
  Value most = b.mul(b.mul(c, power(third)), power(third));
  Value scaled = b.mul(most, power(b.subI(steps, b.addI(third, third))));
  Value quotient = math::FloorOp::create(b, b.div(rest, scaled));
  Value next = b.fma(b.neg(quotient), scaled, rest);
  next = b.select(b.less(next, constant(0)), b.add(next, scaled), next);
  scf::YieldOp::create(b, next);
  b.setInsertionPointAfter(loop);
  Value result = b.copySign(loop.getResult(0), x);
  return b.select(isValid, result, constant(std::numeric_limits<double>::quiet_NaN()));
}

/// Whether every quotient of `x` by `y` has few enough bits: `x` was f16, at most 2^16, and `y` is one number.
static bool isModerate(Value x, Value y) {
  auto extended = x.getDefiningOp<arith::ExtFOp>();
  if (auto repeated = y.getDefiningOp<vector::BroadcastOp>())
    y = repeated.getSource();
  llvm::APFloat number(0.0f);
  return extended && getElementTypeOrSelf(extended.getIn().getType()).isF16() &&
         matchPattern(y, m_ConstantFloat(&number)) && std::abs(number.convertToDouble()) >= 0x1p-6;
}

/// x - trunc(x / y) * y without a loop, and the lanes of which that is the remainder: those whose quotient is exact as
/// an integer. The quotient may have been rounded up to a whole number, never down: the sign of what is left tells.
/// What is left is a multiple of the last place of `y` and no larger than it, so that the multiply-add is exact.
static std::pair<Value, Value> remainderOfModerate(MathBuilder &b, Value x, Value y) {
  Value magnitude = b.abs(x), divisor = b.abs(y);
  Value quotient = math::TruncOp::create(b, b.div(magnitude, divisor));
  Value most = b.fp(b.elementType().isF32() ? 0x1p23 : 0x1p52);
  Value isExact = b.compare(arith::CmpFPredicate::ULT, quotient, most); // true for NaN
  Value rest = b.fma(b.neg(quotient), divisor, magnitude);
  rest = b.select(b.less(rest, b.fp(0)), b.add(rest, divisor), rest);
  rest = b.select(b.equal(quotient, b.fp(0)), magnitude, rest); // of an infinite divisor too
  return {b.copySign(rest, x), isExact};
}

/// The remainder of any operands: lanes one by one, by the C library's function or by a loop.
static Value remainderOfAny(MathBuilder &b, Value x, Value y) {
  if (b.options().hasLibrary)
    return arith::RemFOp::create(b, x, y);
  Type given = x.getType();
  b.setShape(b.shaped(b.getF64Type()));
  Type wide = b.floatType();
  auto widen = [&](Value value) -> Value {
    return given == wide ? value : arith::ExtFOp::create(b, wide, value).getResult();
  };
  Value wideX = widen(x), wideY = widen(y), result;
  if (auto vectorType = dyn_cast<VectorType>(wide)) {
    result = arith::ConstantOp::create(b, b.getZeroAttr(wide));
    for (int64_t lane = 0; lane < vectorType.getNumElements(); ++lane) {
      Value one = vector::ExtractOp::create(b, wideX, lane), other = vector::ExtractOp::create(b, wideY, lane);
      result = vector::InsertOp::create(b, remainderOfScalars(b, one, other), result, lane);
    }
  } else {
    result = remainderOfScalars(b, wideX, wideY);
  }
  b.setShape(given);
  return given == wide ? result : arith::TruncFOp::create(b, given, result).getResult();
}

Value remainderF(MathBuilder &b, Value x, Value y) {
  Type given = x.getType();
  b.setShape(given);
  auto [moderate, isExact] = remainderOfModerate(b, x, y);
  if (isModerate(x, y))
    return moderate;
  if (isa<VectorType>(given))
    isExact = vector::ReductionOp::create(b, vector::CombiningKind::AND, isExact);
  auto branch = scf::IfOp::create(b, TypeRange{given}, isExact, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  scf::YieldOp::create(b, moderate);
  b.setInsertionPointToStart(&branch.getElseRegion().front());
  scf::YieldOp::create(b, remainderOfAny(b, x, y));
  return branch.getResult(0);
}

} // namespace torch_tile::codegen
