// What a loops body costs to evaluate once, in units of one simple vector instruction.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"

namespace torch_tile::fusion {

struct BodyCost {
  int work = 0;     // arithmetic
  int loads = 0;    // elements read
  int branches = 0; // those of them that a mask may leave out
  int total() const { return work + loads; }
};

int costOf(mlir::Operation *op);
BodyCost bodyCost(mlir::graph::LoopsOp op);

/// Bytes of one element in memory.
int64_t elementBytes(mlir::Type type);
/// Bytes of a whole tensor under the hints.
int64_t estimateBytes(mlir::graph::GraphTensorType type, const SizeFacts &facts);

/// Line of the graph text that `op` comes from; 0 if unknown.
int lineOf(mlir::Location location);
/// All lines, for ops that stand for several.
void collectLines(mlir::Location location, llvm::SmallVectorImpl<int64_t> &lines);

} // namespace torch_tile::fusion
