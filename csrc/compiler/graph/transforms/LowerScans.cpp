#include "compiler/graph/transforms/LowerOps.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::SizeExpr;

namespace {

/// The axes of a scan: the dimension runs in order, the others are parallel.
struct ScanShape {
  explicit ScanShape(Operation *op)
      : type(tensorType(op->getResult(0))), dim(op->getAttrOfType<IntegerAttr>("dim").getInt()) {
    parallel.assign(type.getSizes().begin(), type.getSizes().end());
    ordered.push_back(parallel[dim]);
    parallel.erase(parallel.begin() + dim);
  }
  SmallVector<SizeExpr> point(const LoopNest &nest) const {
    SmallVector<SizeExpr> indices(nest.at());
    indices.insert(indices.begin() + dim, nest.reducedAt()[0]);
    return indices;
  }
  GraphTensorType withElement(Type element) const {
    return GraphTensorType::getContiguous(type.getContext(), type.getSizes(), element);
  }

  GraphTensorType type;
  int64_t dim;
  SmallVector<SizeExpr> parallel, ordered;
};

} // namespace

/// What ATen accumulates in on CPU; on GPU threads join short runs, and f64 is slow there.
static Type accumulatorOf(Type type, bool widens) {
  return type.isF32() && widens ? Type(Float64Type::get(type.getContext())) : computeType(type);
}

/// log(exp(a) + exp(b)); equal infinities stay.
static Value logAddExp(ScalarBuilder &s, Value a, Value b) {
  Type type = a.getType();
  Value low = s.make<arith::MinimumFOp>(a, b), high = s.make<arith::MaximumFOp>(a, b);
  Value sum = s.make<arith::AddFOp>(high, s.make<math::Log1pOp>(s.make<math::ExpOp>(s.make<arith::SubFOp>(low, high))));
  Value isEqual = s.compareFloats(arith::CmpFPredicate::OEQ, low, high);
  Value isInfinite = s.compareFloats(arith::CmpFPredicate::OEQ, s.make<math::AbsFOp>(low),
                                     s.floatConstant(type, std::numeric_limits<double>::infinity()));
  return s.select(s.make<arith::AndIOp>(isEqual, isInfinite), b, sum);
}

static LogicalResult lowerRunningFold(Lowering &lowering, OpBuilder &builder, Operation *op) {
  ScanShape shape(op);
  Value x = op->getOperand(0);
  Type type = shape.type.getElementType(), wide = accumulatorOf(type, lowering.options.widensScans);
  if (elementType(x) != type)
    return emitUnsupported(op) << "expected an operand of the result's element type, got " << x.getType();
  StringRef name = isa<CumsumOp>(op) ? "add" : isa<CumprodOp>(op) ? "mul" : "max";
  bool isLog = isa<LogcumsumexpOp>(op);
  if (isLog && !isa<FloatType>(type))
    return emitUnsupported(op) << "expected floats, got " << x.getType();
  ScalarFold fold = isLog ? ScalarFold(logAddExp) : scalarFold(name, wide);
  LoopNest nest(lowering, builder, op->getLoc(), op->getResultTypes(), shape.parallel, shape.ordered);
  SmallVector<SizeExpr> point = shape.point(nest);
  Value value = nest.load(x, point);
  nest.writeAt(point);
  // The accumulator is wider than the results, which are rounded where they are written.
  LoopsOp loops = nest.scan(nest.scalars().cast(value, type, wide), foldIdentity(name, wide),
                            [&](ScalarBuilder &s, ValueRange before, ValueRange values) -> SmallVector<Value> {
                              return {fold(s, before[0], values[0])};
                            });
  op->getResult(0).replaceAllUsesWith(loops.getResult(0));
  return success();
}

/// Pairs (value, index): the better value wins, NaN beats numbers, and among equals what comes last.
static LogicalResult lowerRunningExtremum(Lowering &lowering, OpBuilder &builder, Operation *op, bool isMaximum) {
  ScanShape shape(op);
  Value x = op->getOperand(0);
  Type type = elementType(x), wide = computeType(type);
  bool isFloat = isa<FloatType>(type), isUnsigned = type.isUnsignedInteger() || type.isInteger(1);
  LoopNest nest(lowering, builder, op->getLoc(), op->getResultTypes(), shape.parallel, shape.ordered);
  SmallVector<SizeExpr> point = shape.point(nest);
  Value value = nest.load(x, point), index = nest.index(nest.reducedAt()[0]);
  nest.writeAt(point);
  auto combine = [&](ScalarBuilder &s, ValueRange before, ValueRange next) -> SmallVector<Value> {
    Value takesNext;
    if (isFloat) {
      Value a = s.cast(before[0], type, wide), b = s.cast(next[0], type, wide);
      takesNext = s.compareFloats(isMaximum ? arith::CmpFPredicate::OGE : arith::CmpFPredicate::OLE, b, a);
      takesNext = s.make<arith::OrIOp>(takesNext, s.isNan(b));
    } else {
      using Is = arith::CmpIPredicate;
      takesNext = s.compareInts(isMaximum ? (isUnsigned ? Is::uge : Is::sge) : (isUnsigned ? Is::ule : Is::sle),
                                next[0], before[0]);
    }
    return {s.select(takesNext, next[0], before[0]), s.select(takesNext, next[1], before[1])};
  };
  LoopsOp loops =
      nest.scan({value, index}, {foldIdentity(isMaximum ? "max" : "min", type), builder.getI64IntegerAttr(0)}, combine);
  op->replaceAllUsesWith(loops.getResults());
  return success();
}

LogicalResult mlir::graph::lowerScan(Lowering &lowering, OpBuilder &builder, Operation *op) {
  if (isa<CummaxOp, CumminOp>(op))
    return lowerRunningExtremum(lowering, builder, op, isa<CummaxOp>(op));
  return lowerRunningFold(lowering, builder, op);
}
