#include "compiler/fusion/SubstituteBody.h"

#include "compiler/fusion/Axes.h"
#include "support/ExprBudget.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {

LoadOp mergeEqual(LoadOp load, SmallVectorImpl<LoadOp> &work) {
  auto isEqual = [&](LoadOp other) {
    return other.getSource() == load.getSource() && other.getIndices() == load.getIndices() &&
           other->getOperands() == load->getOperands();
  };
  SmallVector<LoadOp> equal{load};
  llvm::copy_if(work, std::back_inserter(equal), isEqual);
  if (equal.size() == 1)
    return load;
  llvm::erase_if(work, isEqual);
  LoadOp first = *llvm::min_element(equal, [](LoadOp a, LoadOp b) { return a->isBeforeInBlock(b); });
  for (LoadOp other : equal)
    if (other != first) {
      other.getResult().replaceAllUsesWith(first.getResult());
      other.erase();
    }
  return first;
}

bool placeExprs(LoadOp load, LoopsOp producer, const SizeFacts &inner, int64_t mostNodes, PlacedExprs &placed) {
  SizeContext &sizes = inner.sizes();
  AxisSubstitution axes;
  for (auto [axis, index] : llvm::zip(producer.parallelAxes(), load.indexExprs()))
    axes.set(axis.getName().getValue(), index);
  unsigned numScalars = load.getScalars().size();
  for (Operation &op : *producer.bodyBlock()) {
    SmallVector<SizeExpr> exprs;
    ValueRange own;
    if (auto inside = dyn_cast<LoadOp>(op)) {
      exprs = inside.indexExprs();
      own = inside.getScalars();
    } else if (auto index = dyn_cast<IndexOp>(op)) {
      exprs.push_back(index.getExpr().getValue());
      own = index.getScalars();
    }
    // Scalars of the copied op come after those of the load.
    AxisSubstitution all = axes;
    for (unsigned k = 0; k < own.size(); ++k)
      all.set("x" + std::to_string(k), sizes.symbol("x" + std::to_string(k + numScalars)));
    for (SizeExpr &e : exprs) {
      e = inner.simplify(all.apply(sizes, e));
      if (treeSize(e) > mostNodes)
        return false;
    }
    if (!exprs.empty())
      placed[&op] = std::move(exprs);
  }
  return true;
}

void substitute(LoadOp load, LoopsOp producer, const PlacedExprs &placed, SmallVectorImpl<LoadOp> &newLoads) {
  SizeContext &sizes = GraphDialect::sizes(load.getContext());
  OpBuilder builder(load);
  IRMapping mapping;
  auto place = [&](Operation &op, ValueRange own, SmallVectorImpl<Value> &scalars) {
    SmallVector<SizeExpr> exprs = placed.lookup(&op);
    SmallVector<Value> available(load.getScalars().begin(), load.getScalars().end());
    for (Value value : own)
      available.push_back(mapping.lookupOrDefault(value));
    // Names of scalars that no expression uses any more go.
    AxisSubstitution compact;
    for (auto [k, value] : llvm::enumerate(available)) {
      std::string name = "x" + std::to_string(k);
      if (llvm::any_of(exprs, [&](SizeExpr e) { return e.contains(name); })) {
        compact.set(name, sizes.symbol("x" + std::to_string(scalars.size())));
        scalars.push_back(value);
      }
    }
    for (SizeExpr &e : exprs)
      e = compact.apply(sizes, e);
    return exprs;
  };

  Value mask = load.getMask();
  auto conjoin = [&](Value other) -> Value {
    if (!mask || !other)
      return mask ? mask : other;
    return arith::AndIOp::create(builder, load.getLoc(), mask, other);
  };
  for (Operation &op : producer.bodyBlock()->without_terminator()) {
    if (auto inside = dyn_cast<LoadOp>(op)) {
      SmallVector<Value> scalars;
      SmallVector<SizeExpr> indices = place(op, inside.getScalars(), scalars);
      Value insideMask = inside.getMask() ? mapping.lookupOrDefault(inside.getMask()) : Value();
      Value other = inside.getOther() ? mapping.lookupOrDefault(inside.getOther()) : Value();
      Value both = conjoin(insideMask);
      if (both && !other)
        other = arith::ConstantOp::create(builder, load.getLoc(), builder.getZeroAttr(inside.getType()));
      auto copy = LoadOp::create(builder, inside.getLoc(), inside.getType(), inside.getSource(),
                                 exprArray(builder.getContext(), indices), scalars, both, other);
      mapping.map(inside.getResult(), copy.getResult());
      newLoads.push_back(copy);
    } else if (auto index = dyn_cast<IndexOp>(op)) {
      SmallVector<Value> scalars;
      SizeExpr expr = place(op, index.getScalars(), scalars)[0];
      auto copy =
          IndexOp::create(builder, index.getLoc(), index.getType(), ExprAttr::get(builder.getContext(), expr), scalars);
      mapping.map(index.getResult(), copy.getResult());
    } else if (auto check = dyn_cast<CheckIndexOp>(op)) {
      auto copy = cast<CheckIndexOp>(builder.clone(op, mapping));
      if (mask)
        copy.getMaskMutable().assign(conjoin(copy.getMask()));
    } else {
      builder.clone(op, mapping);
    }
  }
  unsigned result = cast<OpResult>(load.getSource()).getResultNumber();
  Value value = mapping.lookupOrDefault(cast<YieldOp>(producer.bodyBlock()->getTerminator()).getValues()[result]);
  if (mask)
    value = arith::SelectOp::create(builder, load.getLoc(), mask, value, load.getOther());
  load.getResult().replaceAllUsesWith(value);
  load.erase();
}

} // namespace torch_tile::fusion
