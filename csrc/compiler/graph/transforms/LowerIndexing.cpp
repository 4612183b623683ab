#include "compiler/graph/transforms/LowerOps.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::SizeExpr;

/// An index element as i64, checked against the size it indexes and known as x<number> in index expressions.
static Value checkedIndex(Lowering &lowering, LoopNest &nest, Value index, Type type, SizeExpr size, bool wrap,
                          unsigned number) {
  ScalarBuilder &s = nest.scalars();
  index = s.cast(index, type, s.builder.getI64Type());
  lowering.facts.setExtent("x" + std::to_string(number), size);
  return CheckIndexOp::create(s.builder, s.loc, s.builder.getI64Type(), index,
                              ExprAttr::get(s.builder.getContext(), size), wrap ? s.builder.getUnitAttr() : UnitAttr(),
                              Value(), /*division=*/UnitAttr());
}

LogicalResult mlir::graph::lowerIndex(Lowering &lowering, OpBuilder &builder, IndexTensorOp op) {
  ArrayRef<SizeExpr> sourceSizes = op.getX().getType().getSizes();
  SmallVector<int64_t> dims;
  if (auto list = op.getDims())
    dims.assign(list->begin(), list->end());
  else
    for (unsigned k = 0; k < op.getIndices().size(); ++k)
      dims.push_back(k);
  unsigned broadcastRank = 0;
  for (Value index : op.getIndices())
    broadcastRank = std::max(broadcastRank, tensorType(index).getRank());
  bool isAdjacent = dims.back() - dims.front() + 1 == int64_t(dims.size());
  unsigned first = isAdjacent ? dims.front() : 0;

  LoopNest nest(lowering, builder, op.getLoc(), op->getResultTypes(), op.getType().getSizes());
  ArrayRef<SizeExpr> point = nest.at().slice(first, broadcastRank);
  SmallVector<SizeExpr> rest(nest.at().take_front(first));
  llvm::append_range(rest, nest.at().drop_front(first + broadcastRank));

  SmallVector<SizeExpr> indices(sourceSizes.size());
  SmallVector<Value> dynamic;
  for (auto [k, index] : llvm::enumerate(op.getIndices())) {
    Value value = nest.load(index, broadcastIndices(lowering.sizes, tensorType(index).getSizes(), point));
    dynamic.push_back(
        checkedIndex(lowering, nest, value, elementType(index), sourceSizes[dims[k]], isSet(op.getWrapAttr()), k));
    indices[dims[k]] = axisSymbol(lowering.sizes, 'x', k);
  }
  for (SizeExpr &index : indices)
    if (!index) {
      index = rest.front();
      rest.erase(rest.begin());
    }
  op.replaceAllUsesWith(nest.yield(nest.load(op.getX(), indices, dynamic)).getResult(0));
  return success();
}

LogicalResult mlir::graph::lowerGather(Lowering &lowering, OpBuilder &builder, GatherOp op) {
  LoopNest nest(lowering, builder, op.getLoc(), op->getResultTypes(), op.getType().getSizes());
  SmallVector<SizeExpr> indices(nest.at());
  SmallVector<Value> dynamic;
  if (!indices.empty()) {
    Value value = nest.load(op.getIndex(), nest.at());
    SizeExpr size = op.getX().getType().getSizes()[op.getDim()];
    dynamic.push_back(checkedIndex(lowering, nest, value, elementType(op.getIndex()), size, /*wrap=*/false, 0));
    indices[op.getDim()] = axisSymbol(lowering.sizes, 'x', 0);
  }
  op.replaceAllUsesWith(nest.yield(nest.load(op.getX(), indices, dynamic)).getResult(0));
  return success();
}
