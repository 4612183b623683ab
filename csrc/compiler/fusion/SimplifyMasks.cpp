// What is computed of a padded value is seen where its mask holds alone: choices on the way there are left out, and
// loads that lie within their tensor at every point need no mask.
#include "compiler/fusion/Axes.h"
#include "compiler/fusion/Fusion.h"
#include "compiler/fusion/IndexBounds.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

/// The share of points under a mask from which on its load reads at all of them: what it reads in vain is at most a
/// third of what it needs, and a mask on GPU is a branch.
constexpr double leastShare = 0.75;
/// Points for each element of a tensor from which on it is read from the nearest cache, whatever is read in vain.
constexpr int64_t manyReaders = 16;
/// Operations between a mask and what it is computed of that are followed.
constexpr int mostDepth = 8;

class MaskSimplifier {
public:
  MaskSimplifier(LoopsOp op, const SizeFacts &symbols) : op(op), facts(withAxes(symbols, axesOf(op))) {}

  void run() {
    SmallVector<arith::SelectOp> selects(op.bodyBlock()->getOps<arith::SelectOp>());
    for (arith::SelectOp select : selects)
      if (isSeenOnlyUnder(select.getResult(), select.getCondition())) {
        select.getResult().replaceAllUsesWith(select.getTrueValue());
        select.erase();
      }
    SmallVector<LoadOp> loads(op.bodyBlock()->getOps<LoadOp>());
    for (LoadOp load : loads)
      if (load.getMask() && isWithin(load) &&
          (isSmall(load) || shareUnder(load.getMask(), facts).value_or(0) >= leastShare || isReadAnyway(load)))
        unmask(load);
  }

private:
  static bool isSame(Value left, Value right, int depth = mostDepth) {
    if (left == right)
      return true;
    Operation *a = left.getDefiningOp(), *b = right.getDefiningOp();
    if (!a || !b || depth == 0 || a->getName() != b->getName() || a->getNumResults() != 1 || !isPure(a) ||
        a->getAttrDictionary() != b->getAttrDictionary() || left.getType() != right.getType() ||
        a->getNumOperands() != b->getNumOperands() || a->getNumRegions() > 0)
      return false;
    return llvm::all_of(llvm::zip_equal(a->getOperands(), b->getOperands()),
                        [&](auto pair) { return isSame(std::get<0>(pair), std::get<1>(pair), depth - 1); });
  }

  /// Whether `mask` holds wherever `condition` does.
  static bool implies(Value condition, Value mask, int depth = mostDepth) {
    if (!condition || isSame(condition, mask))
      return condition != nullptr;
    auto both = condition.getDefiningOp<arith::AndIOp>();
    return both && depth > 0 && (implies(both.getLhs(), mask, depth - 1) || implies(both.getRhs(), mask, depth - 1));
  }

  bool isSeenOnlyUnder(Value value, Value mask) {
    DenseMap<Value, bool> known;
    return isSeenOnlyUnder(value, mask, known);
  }

  bool isSeenOnlyUnder(Value value, Value mask, DenseMap<Value, bool> &known) {
    if (auto it = known.find(value); it != known.end())
      return it->second;
    bool result = llvm::all_of(value.getUses(), [&](OpOperand &use) {
      Operation *user = use.getOwner();
      if (user->getBlock() != op.bodyBlock())
        return false;
      if (auto select = dyn_cast<arith::SelectOp>(user);
          select && use.getOperandNumber() == 1 && implies(select.getCondition(), mask))
        return true;
      // An index that another load needs under its mask.
      if (auto load = dyn_cast<LoadOp>(user))
        return llvm::is_contained(load.getScalars(), value) && value != load.getMask() && value != load.getOther() &&
               implies(load.getMask(), mask);
      return user->getNumRegions() == 0 && isPure(user) && isSpeculatable(user) && user->getNumResults() == 1 &&
             isSeenOnlyUnder(user->getResult(0), mask, known);
    });
    return known[value] = result;
  }

  bool isWithin(LoadOp load) {
    if (!load.getScalars().empty())
      return false;
    auto type = cast<GraphTensorType>(load.getSource().getType());
    return llvm::all_of(llvm::zip_equal(load.indexExprs(), type.getSizes()), [&](auto pair) {
      auto [index, size] = pair;
      return facts.range(index).min >= 0 && facts.less(index, size) == Proof::Yes;
    });
  }

  bool isSmall(LoadOp load) {
    int64_t points = 1;
    for (const Axis &axis : axesOf(op))
      points *= axis.extent.constant().value_or(0);
    std::optional<int64_t> elements = cast<GraphTensorType>(load.getSource().getType()).numElements().constant();
    return elements && *elements <= points / manyReaders;
  }

  /// Whether all points read that place without a mask.
  bool isReadAnyway(LoadOp load) {
    return llvm::any_of(op.bodyBlock()->getOps<LoadOp>(), [&](LoadOp other) {
      return !other.getMask() && other.getScalars().empty() && other.getSource() == load.getSource() &&
             other.getIndices() == load.getIndices();
    });
  }

  void unmask(LoadOp load) {
    OpBuilder builder(load);
    Value mask = load.getMask();
    bool isSeen = isSeenOnlyUnder(load.getResult(), mask);
    auto plain = LoadOp::create(builder, load.getLoc(), load.getType(), load.getSource(), load.getIndices(),
                                ValueRange(), Value(), Value());
    Value value = plain;
    if (!isSeen)
      value = arith::SelectOp::create(builder, load.getLoc(), mask, plain, load.getOther());
    load.getResult().replaceAllUsesWith(value);
    load.erase();
  }

  LoopsOp op;
  SizeFacts facts;
};

} // namespace

void simplifyMasks(FuncOp func) {
  SizeFacts facts = func.facts();
  for (LoopsOp op : func.getBody().front().getOps<LoopsOp>())
    MaskSimplifier(op, facts).run();
}

} // namespace torch_tile::fusion
