// Effects and aliases of a graph: the only answer to "may these two touch the same memory".
//
// Every tensor of a function lies in one or several *places*. A place is named by the value that is new memory there: a
// graph input, or a result of an op that is none of its operands. Two inputs share no memory: AOTAutograd makes inputs
// that overlap and are written one input, their base. The answers are read off the ops, so they hold at any stage of
// lowering and need no updates.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"

namespace torch_tile::analysis {

using Values = llvm::SmallVector<mlir::Value, 2>;

/// The values whose memory `value` may be: the operand of a view, the destination of a write in place, all operands of
/// a call about which nothing is known. Empty if it is new memory.
Values viewedBy(mlir::Value value);

/// Where `value` may lie.
Values placesOf(mlir::Value value);
/// The only place where `value` may lie; null if there are several.
mlir::Value placeOf(mlir::Value value);
bool mayLieIn(mlir::Value value, llvm::ArrayRef<mlir::Value> places);
bool mayShareMemory(mlir::Value a, mlir::Value b);

/// Values that a top-level op may write in place.
Values writtenValues(mlir::Operation *op);
/// The places of these.
Values writtenPlaces(mlir::Operation *op);
/// Whether `op` is ordered among the ops that do something besides writing: checks, random numbers, Python.
bool hasEffect(mlir::Operation *op);

} // namespace torch_tile::analysis
