// What the combiner of a reduction is.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace torch_tile::fusion {

/// Whether result number `k` is a sum of floats. Such a sum begins with +0, which counts: of terms -0 alone it is +0.
/// The identities of other combiners change nothing.
inline bool isFloatSum(mlir::graph::LoopsOp op, unsigned k) {
  mlir::Block &block = op.getCombine().front();
  auto sum = block.getTerminator()->getOperand(k).getDefiningOp<mlir::arith::AddFOp>();
  return sum && llvm::all_of(sum->getOperands(), [](mlir::Value v) { return llvm::isa<mlir::BlockArgument>(v); });
}

/// Before a reduction over one point becomes pointwise: adds the identities to what it yields, where that counts.
void addIdentities(mlir::graph::LoopsOp op);

} // namespace torch_tile::fusion
