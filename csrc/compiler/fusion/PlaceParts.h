// Concatenations whose operands are computed in their places in the result.
#pragma once

#include "compiler/fusion/Fusion.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/DenseSet.h"

namespace torch_tile::fusion {

/// Whether `op` is a concatenation of more operands than a kernel should choose among: its parts are computed in their
/// places, whoever reads it.
bool hasManyParts(mlir::graph::LoopsOp op);

/// Whether `op` is a concatenation whose operands may be computed in their places: they are no short runs of memory.
bool mayPlaceParts(mlir::graph::LoopsOp op, const SizeFacts &facts);

/// Whether `op` stacks its operands along the last dimension, so that a kernel computes one element of each and
/// interleaves vectors of them: what several operands are made of is computed once.
bool isInterleavedStack(mlir::graph::LoopsOp op, const Machine &machine);

/// Whether all that reads the value of `op`, at once or through others, are operands of one such stack.
bool isForOneStack(mlir::graph::LoopsOp op, const Machine &machine);

/// A loop over `axes` that makes a tensor of `type` of the elements of `source` at `indices`.
mlir::graph::LoopsOp createCopy(mlir::OpBuilder &builder, mlir::Location loc, mlir::graph::GraphTensorType type,
                                llvm::ArrayRef<mlir::Attribute> axes, mlir::Value source,
                                llvm::ArrayRef<SizeExpr> indices);

/// A loop over one part of a concatenation, and what it copies: the op that made the operand, null if none did.
struct Part {
  mlir::graph::LoopsOp loops, producer;
};

/// Replaces concatenations by a graph.assemble of one loop for each operand where that saves a pass over memory: where
/// operands are in memory anyway.
///
/// \param isInlined  whether the value of an op is computed where it is read.
/// \param isWritten  whether anything writes into the memory of a value.
/// \returns the new loops, in the order of the function.
llvm::SmallVector<Part> placeParts(mlir::graph::FuncOp func, const Machine &machine,
                                   llvm::function_ref<bool(mlir::graph::LoopsOp)> isInlined,
                                   llvm::function_ref<bool(mlir::Value)> isWritten,
                                   std::vector<FusionDecision> &decisions);

} // namespace torch_tile::fusion
