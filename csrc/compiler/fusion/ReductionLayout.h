// How a reduction lies in what it reads.
#pragma once

#include "compiler/fusion/Fusion.h"

namespace torch_tile::fusion {

class ReductionLayout {
public:
  ReductionLayout(mlir::graph::LoopsOp op, const Machine &machine, const SizeFacts &facts);

  /// Whether neighbouring results, rather than neighbouring reduced elements, lie side by side in what is read.
  bool isColumn() const;
  /// Programs that its results make.
  double numPrograms() const { return programs; }
  /// Whether programs take results that lie side by side rather than one result each.
  bool takesColumns() const { return sharesPrograms || isColumn(); }
  /// Points of the reduced axes, and of the others.
  double numReduced() const { return reduced; }
  double numResults() const { return results; }

  double extentOf(mlir::graph::AxisAttr axis) const;
  /// The load that moves the most; null if nothing is read.
  mlir::graph::LoadOp largestLoad() const { return largest; }
  /// Where `load` reads; axes that were taken apart and meet again in memory are whole.
  SizeExpr offsetOf(mlir::graph::LoadOp load) const;
  /// Whether what is mostly read lies side by side along `axis`.
  bool isRun(mlir::graph::AxisAttr axis) const;
  /// Whether all that is read lies along `outer` and `inner` as along one axis.
  bool areOneAxis(mlir::graph::AxisAttr outer, mlir::graph::AxisAttr inner) const;

private:
  std::optional<double> sharedPrograms() const;

  mutable mlir::graph::LoopsOp op;
  const Machine &machine;
  SizeContext &sizes;
  const SizeFacts &facts;
  mlir::graph::LoadOp largest;
  double results = 1, reduced = 1, programs = 1;
  bool sharesPrograms = false;
};

} // namespace torch_tile::fusion
