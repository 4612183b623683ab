// Two loads of one tensor, of which a comparison chooses one, become one load at an index that wraps around: a roll is
// made of two slices, and one along several axes of rolls of rolls.
#include "compiler/fusion/Axes.h"
#include "compiler/fusion/Fusion.h"
#include "compiler/fusion/IndexBounds.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

class LoadMerger {
public:
  LoadMerger(LoopsOp op, const SizeFacts &symbols)
      : op(op), sizes(symbols.sizes()), facts(withAxes(symbols, axesOf(op))) {}

  /// Whether two loads have become one.
  bool run() {
    SmallVector<arith::SelectOp> selects(op.bodyBlock()->getOps<arith::SelectOp>());
    for (arith::SelectOp select : selects)
      visit(select);
    return hasMerged;
  }

  /// Whether others read the results only to choose among several places of them: two masked loads each would become
  /// four. A choice by itself keeps its masks, under which rows are read in whole words.
  bool isChosenAgain() {
    auto reads = [&](Operation *user) {
      auto load = dyn_cast<LoadOp>(user);
      return load && load.getMask() && load->getParentOfType<LoopsOp>() != op;
    };
    return llvm::all_of(op.getOutputs(), [&](Value result) {
      return !result.use_empty() && !result.hasOneUse() && llvm::all_of(result.getUsers(), reads);
    });
  }

private:
  /// What is added to `index` to make `position`, where `index` lies between `least` and `most`.
  std::optional<int64_t> shiftOf(SizeExpr position, SizeExpr index, int64_t least, int64_t most) {
    if (std::optional<int64_t> shift = facts.simplify(sizes.sub(position, index)).constant())
      return shift;
    std::optional<int64_t> only = position.constant();
    return only && least == most ? std::optional(*only - least) : std::nullopt;
  }

  void visit(arith::SelectOp select) {
    std::optional<IndexBound> bound = indexBoundOf(select.getCondition());
    auto low = select.getTrueValue().getDefiningOp<LoadOp>(), high = select.getFalseValue().getDefiningOp<LoadOp>();
    if (!bound || !low || !high || low.getSource() != high.getSource() || !low.getScalars().empty() ||
        !high.getScalars().empty())
      return;
    if (!bound->isBelow) {
      std::swap(low, high);
      bound = bound->opposite();
    }
    // Where a load is chosen, it reads.
    if ((low.getMask() && indexBoundOf(low.getMask()) != *bound) ||
        (high.getMask() && indexBoundOf(high.getMask()) != bound->opposite()))
      return;
    SizeRange range = facts.range(bound->index);
    if (range.min < 0 || range.max > std::numeric_limits<int32_t>::max())
      return;
    SmallVector<SizeExpr> merged;
    bool wraps = false;
    for (auto [below, above] : llvm::zip_equal(low.indexExprs(), high.indexExprs())) {
      if (below == above) {
        merged.push_back(below);
        continue;
      }
      std::optional<int64_t> first = shiftOf(below, bound->index, range.min, bound->bound - 1),
                             second = shiftOf(above, bound->index, bound->bound, range.max);
      if (wraps || !first || !second)
        return;
      wraps = true;
      // The position below the bound ends where that above begins.
      int64_t length = *first - *second;
      if (length <= 0 || bound->bound + *first != length || range.min + *first < 0 || range.max + *first >= 2 * length)
        return;
      merged.push_back(sizes.mod(sizes.add(bound->index, sizes.constant(*first)), sizes.constant(length)));
    }
    if (!wraps)
      return;
    OpBuilder builder(select);
    Value load = LoadOp::create(builder, select.getLoc(), low.getType(), low.getSource(),
                                exprArray(op.getContext(), merged), ValueRange(), Value(), Value());
    hasMerged = true;
    select.replaceAllUsesWith(load);
    select.erase();
    for (LoadOp each : {low, high})
      if (each->use_empty())
        each.erase();
  }

  LoopsOp op;
  SizeContext &sizes;
  SizeFacts facts;
  bool hasMerged = false;
};

} // namespace

void mergeLoads(FuncOp func) {
  SizeFacts facts = func.facts();
  llvm::SmallPtrSet<Operation *, 4> merged;
  for (LoopsOp op : func.getBody().front().getOps<LoopsOp>()) {
    bool follows = llvm::any_of(op.bodyBlock()->getOps<LoadOp>(),
                                [&](LoadOp load) { return merged.contains(load.getSource().getDefiningOp()); });
    LoadMerger merger(op, facts);
    if ((follows || merger.isChosenAgain()) && merger.run())
      merged.insert(op);
  }
}

} // namespace torch_tile::fusion
