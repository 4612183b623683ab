#include "compiler/fusion/Axes.h"
#include "compiler/fusion/Combiner.h"
#include "compiler/fusion/Fusion.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {

void addIdentities(LoopsOp op) {
  Operation *yield = op.bodyBlock()->getTerminator();
  OpBuilder builder(yield);
  for (auto [k, init] : llvm::enumerate(op.getInitsAttr()))
    if (isFloatSum(op, k)) {
      Value identity = arith::ConstantOp::create(builder, op.getLoc(), cast<TypedAttr>(init));
      yield->setOperand(k, arith::AddFOp::create(builder, op.getLoc(), identity, yield->getOperand(k)));
    }
}

/// A reduction over one point is what its body says there: the combiner of an identity and a value is the value.
static void makePointwise(LoopsOp op, SizeContext &sizes) {
  addIdentities(op);
  MLIRContext *context = op.getContext();
  AxisSubstitution first;
  for (AxisAttr axis : op.reducedAxes())
    first.set(axis.getName().getValue(), sizes.constant(0));
  for (Operation &inner : *op.bodyBlock()) {
    if (auto load = dyn_cast<LoadOp>(inner))
      load.setIndicesAttr(exprArray(
          context, llvm::map_to_vector(load.indexExprs(), [&](SizeExpr e) { return first.apply(sizes, e); })));
    else if (auto index = dyn_cast<IndexOp>(inner))
      index.setExprAttr(ExprAttr::get(context, first.apply(sizes, index.getExpr().getValue())));
  }
  SmallVector<Attribute> axes;
  for (AxisAttr axis : op.parallelAxes())
    axes.push_back(axis);
  op.setAxesAttr(ArrayAttr::get(context, axes));
  op.removeInitsAttr();
  op.getCombine().getBlocks().clear();
}

void dropUnitReductions(FuncOp func) {
  SizeContext &sizes = GraphDialect::sizes(func.getContext());
  SizeFacts facts = func.facts();
  for (Operation &op : func.getBody().front()) {
    auto loops = dyn_cast<LoopsOp>(op);
    if (loops && loops.isReduction() && llvm::all_of(loops.reducedAxes(), [&](AxisAttr axis) {
          return facts.equal(axis.getExtent(), sizes.constant(1)) == Proof::Yes;
        }))
      makePointwise(loops, sizes);
  }
}

} // namespace torch_tile::fusion
