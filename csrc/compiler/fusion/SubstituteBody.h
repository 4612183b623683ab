// Copies of a producer's body in the place of loads of its results.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"
#include "support/SizeFacts.h"

#include "llvm/ADT/DenseMap.h"

namespace torch_tile::fusion {

/// By operation of a producer's body, index expressions at the point that a load reads.
using PlacedExprs = llvm::DenseMap<mlir::Operation *, llvm::SmallVector<SizeExpr>>;

/// Loads of one place become the first of them, so that what they read is computed once. Takes the others from `work`.
mlir::graph::LoadOp mergeEqual(mlir::graph::LoadOp load, llvm::SmallVectorImpl<mlir::graph::LoadOp> &work);

/// The index expressions of the producer's body at the point that `load` reads; false if one of them has more than
/// `mostNodes` operations. `inner` knows the axes of the load's nest.
bool placeExprs(mlir::graph::LoadOp load, mlir::graph::LoopsOp producer, const SizeFacts &inner, int64_t mostNodes,
                PlacedExprs &placed);

/// Puts a copy of the producer's body in the place of `load`, and gathers the loads of the copy.
void substitute(mlir::graph::LoadOp load, mlir::graph::LoopsOp producer, const PlacedExprs &placed,
                llvm::SmallVectorImpl<mlir::graph::LoadOp> &newLoads);

} // namespace torch_tile::fusion
