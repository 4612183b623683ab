#include "compiler/graph/ir/Marks.h"
#include "compiler/graph/transforms/LowerOps.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::Proof;
using torch_tile::SizeExpr;

LogicalResult mlir::graph::lowerFlip(Lowering &lowering, OpBuilder &builder, FlipOp op) {
  LoopNest nest(lowering, builder, op.getLoc(), op->getResultTypes(), op.getType().getSizes());
  SmallVector<SizeExpr> indices(nest.at());
  for (int64_t dim : op.getDims()) {
    SizeExpr last = lowering.sizes.sub(op.getType().getSizes()[dim], lowering.sizes.constant(1));
    indices[dim] = lowering.sizes.sub(last, indices[dim]);
  }
  op.replaceAllUsesWith(nest.yield(nest.load(op.getX(), indices)).getResult(0));
  return success();
}

/// One loops over the result; every operand is a masked load where the index along `dim` falls into it.
LogicalResult mlir::graph::lowerCat(Lowering &lowering, OpBuilder &builder, CatOp op) {
  int64_t dim = op.getDim();
  Type type = op.getType().getElementType();
  LoopNest nest(lowering, builder, op.getLoc(), op->getResultTypes(), op.getType().getSizes());
  ScalarBuilder &s = nest.scalars();
  SmallVector<Value> pieces;
  for (Value x : op.getXs()) {
    if (elementType(x) != type)
      return emitUnsupported(op) << "expected operands of the result's element type, got " << x.getType();
    // Legacy: an empty 1-D tensor joins anything.
    if (tensorType(x).getRank() == op.getType().getRank() && !tensorType(x).getSizes()[dim].isConstant(0))
      pieces.push_back(x);
  }
  Value zero = s.constant(type, 0.0), result = zero;
  if (pieces.size() == 1) {
    op.replaceAllUsesWith(nest.yield(nest.load(pieces[0], nest.at())).getResult(0));
    return success();
  }
  SizeExpr start = lowering.sizes.constant(0);
  Value position = nest.index(nest.at()[dim]);
  Value fromStart; // position >= start, for all but the first
  SmallVector<SizeExpr> starts;
  for (auto [k, x] : llvm::enumerate(pieces)) {
    SizeExpr end = lowering.sizes.add(start, tensorType(x).getSizes()[dim]);
    Value beforeEnd =
        k + 1 < pieces.size() ? s.compareInts(arith::CmpIPredicate::slt, position, nest.index(end)) : Value();
    Value mask = fromStart && beforeEnd ? s.make<arith::AndIOp>(fromStart, beforeEnd)
                 : fromStart            ? fromStart
                                        : beforeEnd;
    SmallVector<SizeExpr> indices(nest.at());
    indices[dim] = lowering.sizes.sub(indices[dim], start);
    starts.push_back(start);
    Value piece = nest.load(x, indices, {}, mask, zero);
    result = k == 0 ? piece : s.select(fromStart, piece, result);
    if (beforeEnd)
      fromStart = s.logicalNot(beforeEnd);
    start = end;
  }
  LoopsOp loops = nest.yield(result);
  loops->setAttr(kPartStarts, exprArray(op.getContext(), starts));
  loops->setAttr(kConcatenatedDim, op.getDimAttr());
  op.replaceAllUsesWith(loops.getResult(0));
  return success();
}

LogicalResult mlir::graph::lowerConstantPad(Lowering &lowering, OpBuilder &builder, ConstantPadOp op) {
  GraphTensorType source = op.getX().getType();
  Type type = op.getType().getElementType();
  if (source.getElementType() != type)
    return emitUnsupported(op) << "expected an operand of the result's element type, got " << source;
  LoopNest nest(lowering, builder, op.getLoc(), op->getResultTypes(), op.getType().getSizes());
  ScalarBuilder &s = nest.scalars();
  SmallVector<SizeExpr> low = exprsOfAny(op.getLowAttr()), high = exprsOfAny(op.getHighAttr());
  SizeExpr zero = lowering.sizes.constant(0);
  SmallVector<SizeExpr> indices;
  Value mask;
  auto require = [&](Value condition) { mask = mask ? s.make<arith::AndIOp>(mask, condition) : condition; };
  for (auto [k, at] : llvm::enumerate(nest.at())) {
    indices.push_back(lowering.sizes.sub(at, low[k]));
    // Sides that only crop need no test.
    bool padsLow = lowering.facts.lessEqual(low[k], zero) != Proof::Yes,
         padsHigh = lowering.facts.lessEqual(high[k], zero) != Proof::Yes;
    if (!padsLow && !padsHigh)
      continue;
    Value position = nest.index(indices[k]);
    if (padsLow)
      require(s.compareInts(arith::CmpIPredicate::sge, position, nest.index(zero)));
    if (padsHigh)
      require(s.compareInts(arith::CmpIPredicate::slt, position, nest.index(source.getSizes()[k])));
  }
  Value fill = op.getFill()        ? s.cast(nest.loadBroadcast(op.getFill()), elementType(op.getFill()), type)
               : op.getValueAttr() ? s.constant(type, op.getValueAttr())
                                   : s.constant(type, 0.0);
  Value result = mask ? nest.load(op.getX(), indices, {}, mask, fill) : nest.load(op.getX(), indices);
  op.replaceAllUsesWith(nest.yield(result).getResult(0));
  return success();
}
