// Pointwise ops: arith and math, repeated per row.
#include "compiler/codegen/common/RowLowering.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace torch_tile::codegen;

LogicalResult RowLowering::lowerConstant(arith::ConstantOp op) {
  auto tile = dyn_cast<RankedTensorType>(op.getType());
  if (!tile) {
    TypedAttr attr = cast<TypedAttr>(op.getValue());
    if (op.getType().isIndex())
      attr = b.getI64IntegerAttr(cast<IntegerAttr>(attr).getInt());
    set(op.getResult(), {arith::ConstantOp::create(b, attr)});
    return success();
  }
  auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!elements)
    return op.emitOpError("expected a dense constant, got ") << op.getValue();
  Type row = rowTypeOf(tile);
  Type element = elementOf(tile);
  auto elementAttr = [&](Attribute attr) -> Attribute {
    return tile.getElementType().isIndex() ? IntegerAttr::get(element, cast<IntegerAttr>(attr).getInt()) : attr;
  };
  if (elements.isSplat()) {
    Attribute splat = elementAttr(elements.getSplatValue<Attribute>());
    TypedAttr rowAttr = cast<TypedAttr>(splat);
    if (auto vector = dyn_cast<VectorType>(row))
      rowAttr = DenseElementsAttr::get(vector, splat);
    set(op.getResult(), Rows(numRowsOf(tile), arith::ConstantOp::create(b, rowAttr)));
    return success();
  }
  auto result = createDenseConstant(op, llvm::map_to_vector(elements.getValues<Attribute>(), elementAttr));
  if (failed(result))
    return failure();
  set(op.getResult(), std::move(*result));
  return success();
}

FailureOr<RowLowering::Rows> RowLowering::createDenseConstant(arith::ConstantOp op, ArrayRef<Attribute> all) {
  int64_t lanes = lanesOf(op.getType());
  Rows result;
  for (; !all.empty(); all = all.drop_front(lanes)) {
    TypedAttr attr = cast<TypedAttr>(all[0]);
    if (auto vector = dyn_cast<VectorType>(rowTypeOf(op.getType())))
      attr = DenseElementsAttr::get(vector, all.take_front(lanes));
    result.push_back(arith::ConstantOp::create(b, attr));
  }
  return result;
}

LogicalResult RowLowering::lowerPointwise(Operation *op) {
  int64_t numRows = 1;
  for (Value operand : op->getOperands())
    numRows = std::max<int64_t>(numRows, rows(operand).size());
  SmallVector<Rows> results(op->getNumResults());
  for (int64_t index = 0; index < numRows; ++index) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      const Rows &list = rows(operand);
      operands.push_back(list[list.size() == 1 ? 0 : index]);
    }
    auto row = createRow(op, std::move(operands));
    if (failed(row))
      return failure();
    for (auto [list, value] : llvm::zip_equal(results, *row))
      list.push_back(value);
  }
  for (auto [result, list] : llvm::zip_equal(op->getResults(), results))
    set(result, std::move(list));
  return success();
}

/// Float conversions go through f32 where a direct one would call into a compiler runtime (f64 -> f16) or round
/// differently from torch.
Value RowLowering::convertFloat(Value value, Type element) {
  Type from = getElementTypeOrSelf(value.getType());
  auto as = [&](Type to) { return withLanes(to, lanesOf(value.getType())); };
  unsigned fromWidth = from.getIntOrFloatBitWidth(), toWidth = element.getIntOrFloatBitWidth();
  Type f32 = b.getF32Type();
  if (from == element)
    return value;
  if (fromWidth > 32 && toWidth < 32)
    return convertFloat(arith::TruncFOp::create(b, as(f32), value), element);
  if ((fromWidth < 32 && toWidth > 32) || fromWidth == toWidth)
    return convertFloat(arith::ExtFOp::create(b, as(f32), value), element);
  if (fromWidth < toWidth)
    return widenFloat(value, as(element));
  return arith::TruncFOp::create(b, as(element), value);
}

Value RowLowering::widenFloat(Value value, Type type) { return arith::ExtFOp::create(b, type, value); }

Value RowLowering::createIndexCast(Value value, Type resultElement, bool isSigned) {
  Type element = elementOf(resultElement);
  unsigned from = getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth(), to = element.getIntOrFloatBitWidth();
  Type type = withLanes(element, lanesOf(value.getType()));
  if (from == to)
    return value;
  if (from > to)
    return arith::TruncIOp::create(b, type, value);
  if (isSigned)
    return arith::ExtSIOp::create(b, type, value);
  return arith::ExtUIOp::create(b, type, value);
}

Value RowLowering::createClone(Operation *op, ValueRange operands, Type resultType) {
  OperationState state(b.getLoc(), op->getName(), operands, {resultType}, op->getAttrs());
  return b.create(state)->getResult(0);
}

/// Whether it is a constant other than NaN.
static bool isNumber(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op))
    return isNumber(broadcast.getSource());
  APFloat constant(0.0);
  return matchPattern(op, m_ConstantFloat(&constant)) && !constant.isNaN();
}

/// NaN if either operand is; of zeros of both signs the second, as in eager mode. LLVM's own lowering orders them, at
/// twice the instructions. Without an order it takes the maximum with swapped operands for the same.
Value RowLowering::createMaximum(bool isMaximum, Value lhs, Value rhs) {
  auto predicate = isMaximum ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT;
  // The processor's maximum gives the second operand where either is NaN: only a NaN in the first needs care.
  if (!isNumber(lhs) && isNumber(rhs))
    std::swap(lhs, rhs);
  if (isNumber(lhs))
    return arith::SelectOp::create(b, arith::CmpFOp::create(b, predicate, lhs, rhs), lhs, rhs);
  if (hasMaximum()) {
    auto anyZero = arith::FastMathFlags::nsz;
    return isMaximum ? arith::MaximumFOp::create(b, lhs, rhs, anyZero).getResult()
                     : arith::MinimumFOp::create(b, lhs, rhs, anyZero).getResult();
  }
  Value larger = arith::SelectOp::create(b, arith::CmpFOp::create(b, predicate, lhs, rhs), lhs, rhs);
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, lhs, lhs);
  return arith::SelectOp::create(b, isNan, lhs, larger);
}

FailureOr<SmallVector<Value, 1>> RowLowering::createRow(Operation *op, SmallVector<Value> operands) {
  int64_t lanes = 1;
  for (Value operand : operands)
    lanes = std::max(lanes, lanesOf(operand.getType()));
  for (auto [index, operand] : llvm::enumerate(operands)) {
    bool isSelectCondition = index == 0 && isa<arith::SelectOp>(op); // select takes a scalar condition as it is
    if (lanesOf(operand.getType()) != lanes && !isSelectCondition)
      operand = broadcast(operand, withLanes(operand.getType(), lanes));
  }
  auto result = [](Value value) { return SmallVector<Value, 1>{value}; };
  auto resultElement = [&] { return elementOf(op->getResult(0).getType()); };
  auto resultType = [&] { return withLanes(resultElement(), lanes); };

  if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::FloorDivSIOp, arith::CeilDivSIOp,
          arith::CeilDivUIOp>(op))
    return result(createDivision(op, operands[0], operands[1]));
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op))
    return result(createIndexCast(operands[0], op->getResult(0).getType(), isa<arith::IndexCastOp>(op)));
  // LLVM sees through the plain conversion to a change of sign of the narrow value.
  if (isa<arith::ExtFOp>(op) && llvm::any_of(op->getUsers(), [](Operation *user) {
        return isa<arith::NegFOp, arith::TruncFOp, math::AbsFOp>(user);
      }))
    return result(RowLowering::widenFloat(operands[0], resultType()));
  if (isa<arith::ExtFOp, arith::TruncFOp>(op))
    return result(convertFloat(operands[0], resultElement()));
  Type f32 = withLanes(b.getF32Type(), lanes);
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op) && resultElement().getIntOrFloatBitWidth() < 32)
    return result(convertFloat(createClone(op, operands, f32), resultElement()));
  // Out of range the result has no value; as bits of a wider one it stays within its type.
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op) && resultElement().getIntOrFloatBitWidth() < 32) {
    if (getElementTypeOrSelf(operands[0].getType()).getIntOrFloatBitWidth() < 32)
      operands[0] = convertFloat(operands[0], b.getF32Type());
    Value wide = arith::FPToSIOp::create(b, withLanes(b.getI32Type(), lanes), operands[0]);
    return result(arith::TruncIOp::create(b, resultType(), wide));
  }
  if (isa<arith::SelectOp>(op)) // of scalar pointers too, which are no i64
    return result(createClone(op, operands, operands[1].getType()));
  if (isa<arith::BitcastOp>(op))
    return result(createClone(op, operands, resultType()));
  // Small floats are storage: arithmetic on them happens in f32 and rounds once. (x86's bf16 conversions would flush
  // subnormals.)
  auto isSmallFloat = [](Type type) {
    return isa<FloatType>(getElementTypeOrSelf(type)) && getElementTypeOrSelf(type).getIntOrFloatBitWidth() < 32;
  };
  if (op->getNumResults() == 1 &&
      llvm::any_of(operands, [&](Value operand) { return isSmallFloat(operand.getType()); })) {
    for (Value &operand : operands)
      if (isSmallFloat(operand.getType()))
        operand = convertFloat(operand, b.getF32Type());
    if (isa<arith::MaximumFOp, arith::MinimumFOp>(op))
      return result(convertFloat(createMaximum(isa<arith::MaximumFOp>(op), operands[0], operands[1]), resultElement()));
    if (!isSmallFloat(resultElement()))
      return result(createClone(op, operands, resultType()));
    return result(convertFloat(createClone(op, operands, f32), resultElement()));
  }
  if (isa<arith::MaximumFOp, arith::MinimumFOp>(op))
    return result(createMaximum(isa<arith::MaximumFOp>(op), operands[0], operands[1]));
  SmallVector<Type> types;
  for (Type type : op->getResultTypes())
    types.push_back(withLanes(elementOf(type), lanes));
  OperationState state(b.getLoc(), op->getName(), operands, types, op->getAttrs());
  return SmallVector<Value, 1>(b.create(state)->getResults());
}

//===-- integer division ----------------------------------------------------------------------------------------===//

/// A divisor that cannot trap: 1 in place of 0, and in place of -1 under the most negative dividend (where the quotient
/// wraps to the dividend, which is what dividing by 1 gives). The processor traps on both, in lanes that no mask
/// protects; a kernel that must raise checks before.
static Value safeDivisor(ImplicitLocOpBuilder &b, bool isSigned, Value lhs, Value rhs,
                         function_ref<Value(int64_t)> constant) {
  APInt divisor;
  if (matchPattern(rhs, m_ConstantInt(&divisor)) && !divisor.isZero() && !(isSigned && divisor.isAllOnes()))
    return rhs;
  auto isEqual = [&](Value value, Value other) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, value, other);
  };
  Value isBad = isEqual(rhs, constant(0));
  if (isSigned) {
    unsigned width = getElementTypeOrSelf(rhs.getType()).getIntOrFloatBitWidth();
    Value isLowest = isEqual(lhs, constant(APInt::getSignedMinValue(width).getSExtValue()));
    isBad = arith::OrIOp::create(b, isBad, arith::AndIOp::create(b, isLowest, isEqual(rhs, constant(-1))));
  }
  return arith::SelectOp::create(b, isBad, constant(1), rhs);
}

Value RowLowering::createTruncDivision(bool isSigned, bool isRemainder, Value lhs, Value rhs) {
  if (isRemainder)
    return isSigned ? arith::RemSIOp::create(b, lhs, rhs).getResult() : arith::RemUIOp::create(b, lhs, rhs).getResult();
  return isSigned ? arith::DivSIOp::create(b, lhs, rhs).getResult() : arith::DivUIOp::create(b, lhs, rhs).getResult();
}

Value RowLowering::createDivision(Operation *op, Value lhs, Value rhs) {
  bool isSigned = isa<arith::DivSIOp, arith::RemSIOp, arith::FloorDivSIOp, arith::CeilDivSIOp>(op);
  auto splat = [&](int64_t value) { return constant(lhs.getType(), value); };
  rhs = safeDivisor(b, isSigned, lhs, rhs, splat);
  if (isa<arith::DivSIOp, arith::DivUIOp>(op))
    return createTruncDivision(isSigned, /*isRemainder=*/false, lhs, rhs);
  if (isa<arith::RemSIOp, arith::RemUIOp>(op))
    return createTruncDivision(isSigned, /*isRemainder=*/true, lhs, rhs);

  // Floor and ceil: the truncated quotient, moved by one where a remainder was cut off on the wrong side.
  Value quotient = createTruncDivision(isSigned, /*isRemainder=*/false, lhs, rhs);
  Value remainder = arith::SubIOp::create(b, lhs, arith::MulIOp::create(b, quotient, rhs));
  Value isInexact = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, remainder, splat(0));
  bool isFloor = isa<arith::FloorDivSIOp>(op);
  if (isSigned) {
    auto sides = isFloor ? arith::CmpIPredicate::slt : arith::CmpIPredicate::sge;
    Value isWrongSide = arith::CmpIOp::create(b, sides, arith::XOrIOp::create(b, remainder, rhs), splat(0));
    isInexact = arith::AndIOp::create(b, isInexact, isWrongSide);
  }
  Value moved = arith::AddIOp::create(b, quotient, splat(isFloor ? -1 : 1));
  return arith::SelectOp::create(b, isInexact, moved, quotient);
}
