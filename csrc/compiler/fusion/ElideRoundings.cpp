// Values of low precision that never reach memory stay in the type in which they are computed, where lowering has found
// that nothing can tell (graph/transforms/MarkRounding.cpp).
#include "compiler/fusion/Fusion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {

/// Whether `value` is only widened again to the type that it was rounded from, at once or after a choice.
static bool isOnlyWidened(Value value, Type wide) {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<arith::SelectOp>(user) && use.getOperandNumber() > 0)
      return isOnlyWidened(user->getResult(0), wide);
    return isa<arith::ExtFOp>(user) && user->getResult(0).getType() == wide;
  });
}

/// Gives `wide` to all that reads `value`, which is only widened.
static void replaceWidened(Value value, Value wide) {
  llvm::SmallSetVector<Operation *, 4> users(value.user_begin(), value.user_end());
  for (Operation *user : users) {
    auto choice = dyn_cast<arith::SelectOp>(user);
    if (!choice) {
      user->getResult(0).replaceAllUsesWith(wide);
      user->erase();
      continue;
    }
    OpBuilder builder(choice);
    auto widened = [&](Value operand) {
      return operand == value ? wide : builder.createOrFold<arith::ExtFOp>(choice.getLoc(), wide.getType(), operand);
    };
    Value chosen = arith::SelectOp::create(builder, choice.getLoc(), choice.getCondition(),
                                           widened(choice.getTrueValue()), widened(choice.getFalseValue()));
    replaceWidened(choice.getResult(), chosen);
    choice.erase();
  }
}

/// What has been inlined: rounded and widened in one body.
static void elideInBody(LoopsOp op) {
  SmallVector<arith::TruncFOp> roundings(op.bodyBlock()->getOps<arith::TruncFOp>());
  for (arith::TruncFOp rounding : roundings)
    if (rounding->hasAttr(kElidableRounding) && isOnlyWidened(rounding.getOut(), rounding.getIn().getType())) {
      replaceWidened(rounding.getOut(), rounding.getIn());
      rounding.erase();
    }
}

/// A result that only members of its group read: none of them sees it rounded.
static void elideInGroup(LoopsOp op, OpResult result) {
  Operation *yield = op.bodyBlock()->getTerminator();
  auto rounding = yield->getOperand(result.getResultNumber()).getDefiningOp<arith::TruncFOp>();
  if (!rounding || !rounding->hasAttr(kElidableRounding) || !rounding.getOut().hasOneUse() || op.isReduction() ||
      op.getWriteAt() || op.destOf(result.getResultNumber()))
    return;
  Type wide = rounding.getIn().getType();
  SmallVector<LoadOp> loads;
  for (Operation *user : result.getUsers()) {
    auto load = dyn_cast<LoadOp>(user);
    if (!load || load.getSource() != result || !isOnlyWidened(load.getResult(), wide))
      return;
    loads.push_back(load);
  }
  auto type = cast<GraphTensorType>(result.getType());
  result.setType(GraphTensorType::get(op.getContext(), type.getSizes(), wide, type.getStrides()));
  yield->setOperand(result.getResultNumber(), rounding.getIn());
  rounding.erase();
  for (LoadOp load : loads) {
    if (Value other = load.getOther()) {
      OpBuilder builder(load);
      load.getOtherMutable().assign(builder.createOrFold<arith::ExtFOp>(load.getLoc(), wide, other));
    }
    load.getResult().setType(wide);
    replaceWidened(load.getResult(), load.getResult());
  }
}

void elideRoundings(FuncOp func) {
  for (auto fusion : func.getBody().front().getOps<FusionOp>()) {
    SmallVector<LoopsOp> members(fusion.getBody().front().getOps<LoopsOp>());
    llvm::for_each(members, elideInBody);
    for (LoopsOp member : members)
      for (OpResult result : member->getOpResults())
        elideInGroup(member, result);
  }
}

} // namespace torch_tile::fusion
