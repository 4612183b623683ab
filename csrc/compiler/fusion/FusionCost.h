// What a loops body costs to evaluate once, in units of one simple vector instruction.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"

#include "llvm/ADT/DenseSet.h"

namespace torch_tile::fusion {

struct BodyCost {
  int work = 0;     // arithmetic
  int index = 0;    // arithmetic of index expressions: quotients, remainders, minima
  int loads = 0;    // elements read
  int branches = 0; // those of them that a mask may leave out
  int total() const { return work + index + loads; }
};

int costOf(mlir::Operation *op);
BodyCost bodyCost(mlir::graph::LoopsOp op);

/// What it takes to compute index expressions that one body uses, each part once. Sums and multiples of axes count as
/// nothing: they become strides. So does an axis that is taken apart (i//8, i%8), which fusion makes two axes of.
class IndexCost {
public:
  /// What `expr` adds to those before it.
  int add(SizeExpr expr);

private:
  llvm::DenseSet<const void *> seen;
};

/// Bytes of one element in memory.
int64_t elementBytes(mlir::Type type);
/// Bytes of a whole tensor under the hints.
int64_t estimateBytes(mlir::graph::GraphTensorType type, const SizeFacts &facts);

/// Points of a nest under the hints.
double estimatePoints(mlir::graph::LoopsOp op, const SizeFacts &facts);

/// Line of the graph text that `op` comes from; 0 if unknown.
int lineOf(mlir::Location location);
/// All lines, for ops that stand for several.
void collectLines(mlir::Location location, llvm::SmallVectorImpl<int64_t> &lines);

} // namespace torch_tile::fusion
