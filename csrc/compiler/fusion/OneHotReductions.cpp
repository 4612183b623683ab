#include "compiler/fusion/Combiner.h"
#include "compiler/fusion/Fusion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

/// Maps 0 to 0, so that a sum sees through it.
bool keepsZero(Operation *op) {
  return isa<arith::ExtFOp, arith::TruncFOp, arith::ExtSIOp, arith::ExtUIOp, arith::SIToFPOp, arith::UIToFPOp>(op);
}

bool isSum(LoopsOp op) {
  if (!op.isReduction() || op.getNumResults() != 1 || !op.getDests().empty())
    return false;
  Block &combine = op.getCombine().front();
  auto yield = cast<YieldOp>(combine.getTerminator());
  Operation *sum = yield.getOperand(0).getDefiningOp();
  return sum && isa<arith::AddFOp, arith::AddIOp>(sum) && llvm::hasNItems(combine, 2) &&
         sum->getOperand(0) != sum->getOperand(1);
}

/// What `condition` joins by and, each once.
SmallVector<Value> conjuncts(Value condition) {
  llvm::SmallSetVector<Value, 8> all;
  all.insert(condition);
  for (size_t k = 0; k < all.size(); ++k)
    if (auto both = all[k].getDefiningOp<arith::AndIOp>())
      all.insert_range(both.getOperands());
  return llvm::filter_to_vector(all, [](Value each) { return !each.getDefiningOp<arith::AndIOp>(); });
}

/// One reduction of the form sum over r of (r == v and c ? a : 0), where v, c and a are the same for all r.
class OneHot {
public:
  OneHot(LoopsOp op, SizeContext &sizes) : op(op), sizes(sizes) {}

  bool collapse() {
    Value yielded = op.bodyBlock()->getTerminator()->getOperand(0);
    while (Operation *cast = yielded.getDefiningOp()) {
      if (!keepsZero(cast))
        break;
      yielded = cast->getOperand(0);
    }
    auto select = yielded.getDefiningOp<arith::SelectOp>();
    if (!select ||
        !(matchPattern(select.getFalseValue(), m_AnyZeroFloat()) || matchPattern(select.getFalseValue(), m_Zero())))
      return false;
    SmallVector<Value> conditions = conjuncts(select.getCondition());
    for (AxisAttr axis : op.reducedAxes()) {
      findDependent(axis.getName().getValue());
      if (hasDependentCheck || isDependent(select.getTrueValue()))
        continue;
      for (Value condition : conditions)
        if (Value other = comparedWith(axis, condition); other && othersAreFree(conditions, condition)) {
          rewrite(axis, select, conditions, condition, other);
          return true;
        }
    }
    return false;
  }

private:
  bool isDependent(Value value) const { return dependent.contains(value); }

  void findDependent(StringRef axis) {
    dependent.clear();
    hasDependentCheck = false;
    auto mentions = [&](SizeExpr e) { return llvm::is_contained(e.symbols(), std::string_view(axis)); };
    for (Operation &inner : *op.bodyBlock()) {
      bool depends = llvm::any_of(inner.getOperands(), [&](Value v) { return isDependent(v); });
      if (auto load = dyn_cast<LoadOp>(inner))
        depends |= llvm::any_of(load.indexExprs(), mentions);
      else if (auto index = dyn_cast<IndexOp>(inner))
        depends |= mentions(index.getExpr().getValue());
      if (!depends)
        continue;
      hasDependentCheck |= isa<CheckIndexOp>(inner);
      dependent.insert(inner.result_begin(), inner.result_end());
    }
  }

  /// The v of `axis == v`, if that is what the condition says.
  Value comparedWith(AxisAttr axis, Value condition) const {
    auto compare = condition.getDefiningOp<arith::CmpIOp>();
    if (!compare || compare.getPredicate() != arith::CmpIPredicate::eq || !compare.getLhs().getType().isInteger(64))
      return {};
    for (auto [side, other] : {std::pair(compare.getLhs(), compare.getRhs()), {compare.getRhs(), compare.getLhs()}}) {
      auto index = side.getDefiningOp<IndexOp>();
      if (index && index.getScalars().empty() &&
          index.getExpr().getValue() == sizes.symbol(axis.getName().getValue()) && !isDependent(other))
        return other;
    }
    return {};
  }

  bool othersAreFree(ArrayRef<Value> conditions, Value except) const {
    return llvm::all_of(conditions, [&](Value c) { return c == except || !isDependent(c); });
  }

  void rewrite(AxisAttr axis, arith::SelectOp select, ArrayRef<Value> conditions, Value equal, Value value) {
    OpBuilder builder(select);
    Location loc = select.getLoc();
    Value zero = arith::ConstantIntOp::create(builder, loc, builder.getI64Type(), 0);
    Value extent = IndexOp::create(builder, loc, builder.getI64Type(), ExprAttr::get(op.getContext(), axis.getExtent()),
                                   ValueRange());
    Value isAbove = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, value, zero);
    Value isBelow = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, value, extent);
    Value condition = arith::AndIOp::create(builder, loc, isAbove, isBelow);
    for (Value c : conditions)
      if (c != equal)
        condition = arith::AndIOp::create(builder, loc, condition, c);
    select.getConditionMutable().assign(condition);
    // What the axis was for is unused now; nothing that is left may name it.
    for (Operation &inner : llvm::make_early_inc_range(llvm::reverse(*op.bodyBlock())))
      if (inner.use_empty() && !isa<YieldOp, CheckIndexOp>(inner))
        inner.erase();
    SmallVector<Attribute> axes = llvm::to_vector(op.getAxes().getValue());
    llvm::erase(axes, Attribute(axis));
    op.setAxesAttr(ArrayAttr::get(op.getContext(), axes));
    if (op.reducedAxes().empty()) {
      addIdentities(op);
      op.removeInitsAttr();
      op.getCombine().getBlocks().clear();
    }
  }

  LoopsOp op;
  SizeContext &sizes;
  DenseSet<Value> dependent;
  bool hasDependentCheck = false;
};

} // namespace

void collapseOneHotReductions(FuncOp func) {
  SizeContext &sizes = GraphDialect::sizes(func.getContext());
  for (Operation &op : func.getBody().front())
    if (auto loops = dyn_cast<LoopsOp>(op))
      while (isSum(loops) && OneHot(loops, sizes).collapse())
        ;
}

} // namespace torch_tile::fusion
