#include "compiler/fusion/ReductionLayout.h"

#include "compiler/fusion/Access.h"
#include "compiler/fusion/Axes.h"
#include "compiler/fusion/FusionCost.h"

#include <cmath>

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {

ReductionLayout::ReductionLayout(LoopsOp op, const Machine &machine, const SizeFacts &facts)
    : op(op), machine(machine), sizes(GraphDialect::sizes(op.getContext())), facts(facts) {
  for (AxisAttr axis : op.axisList())
    (axis.getReduced() ? reduced : results) *= extentOf(axis);
  int64_t most = -1;
  for (LoadOp load : op.bodyBlock()->getOps<LoadOp>())
    if (int64_t bytes = estimateBytes(load.getSource().getType(), facts); bytes > most) {
      largest = load;
      most = bytes;
    }
  std::optional<double> shared = sharedPrograms();
  sharesPrograms = shared.has_value();
  programs = shared ? *shared : isColumn() ? std::ceil(results / (double)machine.columnsPerProgram) : results;
}

double ReductionLayout::extentOf(AxisAttr axis) const {
  return (double)std::max<int64_t>(1, facts.estimate(axis.getExtent()));
}

SizeExpr ReductionLayout::offsetOf(LoadOp load) const {
  SizeFacts within = facts;
  for (AxisAttr axis : op.axisList())
    within.setExtent(axis.getName().getValue(), axis.getExtent());
  return within.simplify(linearOffset(sizes, load.indexExprs(), load.getSource().getType().getStrides()));
}

bool ReductionLayout::isColumn() const {
  double rows = 0, columns = 0;
  for (LoadOp load : op.bodyBlock()->getOps<LoadOp>()) {
    SizeExpr offset = offsetOf(load);
    // By what each load moves: a bias along the results says nothing against a matrix along the rows.
    double elements = (double)facts.estimate(load.getSource().getType().numElements());
    for (AxisAttr axis : op.axisList())
      if (auto stride = strideAlong(sizes, offset, axis.getName().getValue()); stride && stride->isConstant(1))
        (axis.getReduced() ? rows : columns) += elements;
  }
  return columns > rows;
}

/// Where reduced neighbours are few, programs take the results that lie between them side by side: how many programs
/// that leaves, or nothing where programs take one result each.
std::optional<double> ReductionLayout::sharedPrograms() const {
  if (!largest || machine.shortRunBytes == 0)
    return std::nullopt;
  LoadOp load = largest;
  SizeExpr offset = offsetOf(load);
  auto strideOf = [&](AxisAttr axis) -> int64_t {
    std::optional<SizeExpr> stride = strideAlong(sizes, offset, axis.getName().getValue());
    return stride ? std::abs(facts.estimate(*stride)) : 0;
  };
  double run = 1, farthest = 0;
  SmallVector<AxisAttr> axes = op.reducedAxes();
  llvm::stable_sort(axes, [&](AxisAttr a, AxisAttr b) { return strideOf(a) < strideOf(b); });
  for (AxisAttr axis : axes) {
    if ((double)strideOf(axis) == run)
      run *= extentOf(axis);
    farthest = std::max(farthest, (double)strideOf(axis));
  }
  if (run * (double)elementBytes(load.getType()) >= (double)machine.shortRunBytes)
    return std::nullopt;
  double inner = 1, outer = 1;
  for (AxisAttr axis : op.parallelAxes())
    (strideOf(axis) > 0 && (double)strideOf(axis) < farthest ? inner : outer) *= extentOf(axis);
  return outer * std::ceil(inner / (double)machine.columnsPerProgram);
}

bool ReductionLayout::isRun(AxisAttr axis) const {
  std::optional<SizeExpr> stride;
  if (largest)
    stride = strideAlong(sizes, offsetOf(largest), axis.getName().getValue());
  return stride && stride->isConstant(1);
}

bool ReductionLayout::areOneAxis(AxisAttr outer, AxisAttr inner) const {
  for (Operation &each : *op.bodyBlock()) {
    if (isa<IndexOp, CheckIndexOp>(each))
      return false;
    auto load = dyn_cast<LoadOp>(each);
    if (!load)
      continue;
    SizeExpr offset = offsetOf(load);
    std::optional<SizeExpr> far = strideAlong(sizes, offset, outer.getName().getValue());
    std::optional<SizeExpr> near = strideAlong(sizes, offset, inner.getName().getValue());
    if (!far || !near || facts.equal(*far, sizes.mul(*near, inner.getExtent())) != Proof::Yes)
      return false;
  }
  return true;
}

} // namespace torch_tile::fusion
