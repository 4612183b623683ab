#include "compiler/analysis/Memory.h"
#include "compiler/graph/transforms/LowerOps.h"
#include "compiler/graph/transforms/Passes.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::SizeExpr;

namespace mlir::graph {
#define GEN_PASS_DEF_LOWERTOLOOPS
#include "compiler/graph/transforms/Passes.h.inc"
} // namespace mlir::graph

InFlightDiagnostic mlir::graph::emitUnsupported(Operation *op) {
  return op->emitError("unsupported: '") << op->getName() << "' op ";
}

static bool hasSupportedTypes(Operation *op) {
  for (Type type :
       llvm::concat<const Type>(llvm::to_vector(op->getOperandTypes()), llvm::to_vector(op->getResultTypes())))
    if (auto tensor = dyn_cast<GraphTensorType>(type); tensor && !tensor.getElementType().isIntOrFloat())
      return false;
  return true;
}

static LogicalResult lowerPointwise(Lowering &lowering, OpBuilder &builder, Operation *op) {
  Value result = op->getResult(0);
  LoopNest nest(lowering, builder, op->getLoc(), op->getResultTypes(), tensorType(result).getSizes());
  SmallVector<Value> operands;
  for (auto [k, operand] : llvm::enumerate(op->getOperands())) {
    // x*x loads once.
    size_t first = llvm::find(op->getOperands(), operand) - op->operand_begin();
    operands.push_back(first < k ? operands[first] : nest.loadBroadcast(operand));
  }
  Value value = buildPointwise(nest.scalars(), op, operands);
  if (!value)
    return emitUnsupported(op) << "not on these element types: " << op->getOperandTypes();
  // Who asks for a narrow type means its rounding; that of an operation's result is where eager stores it.
  if (!isa<CastOp>(op))
    markRounding(result, value);
  result.replaceAllUsesWith(nest.yield(value).getResult(0));
  return success();
}

static LogicalResult lowerPhilox(Lowering &lowering, OpBuilder &builder, PhiloxOp op) {
  LoopNest nest(lowering, builder, op.getLoc(), op->getResultTypes(), op.getType().getSizes());
  ScalarBuilder &s = nest.scalars();
  SmallVector<SizeExpr> origin(op.getSeed().getType().getRank(), lowering.sizes.constant(0));
  Value seed = s.cast(nest.load(op.getSeed(), origin), elementType(op.getSeed()), builder.getI64Type());
  Value counter = nest.index(linearIndex(lowering.sizes, op.getType().getSizes(), nest.at()));
  Value uniform = UniformOp::create(s.builder, s.loc, builder.getF32Type(), seed, counter, op.getSaltAttr());
  op.replaceAllUsesWith(nest.yield(s.cast(uniform, builder.getF32Type(), elementType(op.getResult()))).getResult(0));
  return success();
}

static LogicalResult lowerClone(Lowering &lowering, OpBuilder &builder, CloneOp op) {
  LoopNest nest(lowering, builder, op.getLoc(), op->getResultTypes(), op.getType().getSizes());
  op.replaceAllUsesWith(nest.yield(nest.load(op.getX(), nest.at())).getResult(0));
  return success();
}

static LogicalResult lowerAsStrided(Lowering &lowering, OpBuilder &builder, AsStridedOp op) {
  lowering.pin(builder, op.getX());
  ViewMap map = lowering.mapOf(op.getX());
  SizeExpr offset = lowering.sizes.add(lowering.offsetOf(map), exprOf(op.getOffsetAttr()));
  op.replaceAllUsesWith(
      AliasOp::create(builder, op.getLoc(), op.getType(), map.base, ExprAttr::get(op.getContext(), offset))
          .getResult());
  return success();
}

static LogicalResult lowerCopyTo(Lowering &lowering, OpBuilder &builder, CopyToOp op) {
  lowering.pin(builder, op.getDest());
  Value dest = lowering.materialize(builder, op.getDest());
  if (!lowering.shareStorage(dest, op.getDest()))
    return emitUnsupported(op) << "into a view whose elements are at no strides of its base";
  Value value = op.getValue();
  // Elements may not be read after they were overwritten.
  if (value != op.getDest() && lowering.shareStorage(value, dest))
    value = lowering.copy(builder, op.getLoc(), value);
  LoopNest nest(lowering, builder, op.getLoc(), TypeRange(dest.getType()), tensorType(dest).getSizes(), {}, dest);
  Value element = nest.scalars().cast(nest.loadBroadcast(value), elementType(value), elementType(dest));
  op.replaceAllUsesWith(nest.yield(element).getResult(0));
  return success();
}

/// Extern calls, Python calls and the return see tensors in memory.
static void materializeOperands(Lowering &lowering, OpBuilder &builder, Operation *op) {
  // What a call writes, itself or through a view that it returns, must be what later ops read.
  for (Value written : torch_tile::analysis::writtenValues(op))
    lowering.pin(builder, written);
  for (Value result : op->getResults())
    for (Value viewed : torch_tile::analysis::viewedBy(result))
      lowering.pin(builder, viewed);
  // Results that view one constant share its memory.
  if (isa<ReturnOp>(op))
    for (Value operand : llvm::to_vector(op->getOperands()))
      if (lowering.baseOf(operand) != operand)
        lowering.pin(builder, operand);
  for (OpOperand &operand : op->getOpOperands())
    operand.set(lowering.materialize(builder, operand.get()));
}

static LogicalResult lowerOp(Lowering &lowering, OpBuilder &builder, Operation *op) {
  if (auto strided = dyn_cast<AsStridedOp>(op))
    return lowerAsStrided(lowering, builder, strided);
  if (!hasSupportedTypes(op))
    return emitUnsupported(op) << "element type is not generated";
  if (op->hasTrait<PointwiseTrait>())
    return lowerPointwise(lowering, builder, op);
  if (op->hasTrait<ReductionTrait>())
    return lowerReduction(lowering, builder, op);
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](CloneOp each) { return lowerClone(lowering, builder, each); })
      .Case([&](FlipOp each) { return lowerFlip(lowering, builder, each); })
      .Case([&](CatOp each) { return lowerCat(lowering, builder, each); })
      .Case([&](ConstantPadOp each) { return lowerConstantPad(lowering, builder, each); })
      .Case([&](PhiloxOp each) { return lowerPhilox(lowering, builder, each); })
      .Case([&](IndexTensorOp each) { return lowerIndex(lowering, builder, each); })
      .Case([&](GatherOp each) { return lowerGather(lowering, builder, each); })
      .Case([&](IndexPutOp each) { return lowerIndexPut(lowering, builder, each); })
      .Case([&](ScatterOp each) { return lowerScatter(lowering, builder, each); })
      .Case<CumsumOp, CumprodOp, LogcumsumexpOp, CummaxOp, CumminOp>(
          [&](Operation *each) { return lowerScan(lowering, builder, each); })
      .Case([&](CopyToOp each) { return lowerCopyTo(lowering, builder, each); })
      .Default([&](Operation *each) { return emitUnsupported(each) << "no lowering to loops"; });
}

LogicalResult mlir::graph::lowerToLoops(FuncOp func, const LoweringOptions &options) {
  Lowering lowering(func, options);
  SmallVector<Operation *> lowered;
  for (Operation &op : llvm::make_early_inc_range(func.getBody().front())) {
    OpBuilder builder(&op);
    if (isa<ExternOp, PyCallOp, ReturnOp>(op)) {
      materializeOperands(lowering, builder, &op);
      continue;
    }
    if (isa<LoopsOp, AliasOp, CheckOp, NoneOp, SizeOp, FusionOp>(op))
      continue;
    lowered.push_back(&op);
    if (isVirtual(&op))
      continue;
    if (op.hasTrait<ViewTrait>() && !isa<AsStridedOp>(op))
      lowering.addView(builder, &op);
    else if (failed(lowerOp(lowering, builder, &op)))
      return failure();
    if (lowering.hasOverflow)
      return emitUnsupported(&op) << "a size or index leaves int64";
  }
  for (Operation *op : llvm::reverse(lowered)) {
    if (!op->use_empty())
      return emitUnsupported(op) << "its loops do not give all its results";
    op->erase();
  }
  return success();
}

namespace {
struct LowerToLoops : public graph::impl::LowerToLoopsBase<LowerToLoops> {
  using LowerToLoopsBase::LowerToLoopsBase;
  void runOnOperation() override {
    if (failed(lowerToLoops(getOperation(), {indexBudget, wideScans, orderedWrites})))
      signalPassFailure();
  }
};
} // namespace
