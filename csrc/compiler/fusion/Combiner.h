// What the combiner of a reduction is.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/OperationSupport.h"

namespace torch_tile::fusion {

/// Whether result number `k` is a sum of floats. Such a sum begins with +0, which counts: of terms -0 alone it is +0.
/// The identities of other combiners change nothing.
inline bool isFloatSum(mlir::graph::LoopsOp op, unsigned k) {
  mlir::Block &block = op.getCombine().front();
  auto sum = block.getTerminator()->getOperand(k).getDefiningOp<mlir::arith::AddFOp>();
  return sum && llvm::all_of(sum->getOperands(), [](mlir::Value v) { return llvm::isa<mlir::BlockArgument>(v); });
}

/// Whether two scatters may update one element in either order: the points of both are free, and they combine alike.
inline bool commute(mlir::graph::LoopsOp a, mlir::graph::LoopsOp b) {
  return a.isFreeScatter() && b.isFreeScatter() && !a.getCombine().empty() && !b.getCombine().empty() &&
         mlir::OperationEquivalence::isRegionEquivalentTo(&a.getCombine(), &b.getCombine(),
                                                          mlir::OperationEquivalence::IgnoreLocations);
}

/// Before a reduction over one point becomes pointwise: adds the identities to what it yields, where that counts.
void addIdentities(mlir::graph::LoopsOp op);

} // namespace torch_tile::fusion
