// Lowering of op families to graph.loops. Each replaces the uses of the op's results and leaves the op itself to the
// caller. A failure has been reported at the op.
#pragma once

#include "compiler/graph/transforms/LoopNest.h"

namespace mlir::graph {

inline GraphTensorType tensorType(Value value) { return cast<GraphTensorType>(value.getType()); }
inline Type elementType(Value value) { return tensorType(value).getElementType(); }

InFlightDiagnostic emitUnsupported(Operation *op);

/// Marks the rounding that makes `scalar`, an element of the result `tensor` of an op that is being lowered, if fusion
/// may leave it out.
void markRounding(Value tensor, Value scalar);

/// sum, prod, amax, amin, any, all, argmax, argmin, var_mean.
LogicalResult lowerReduction(Lowering &lowering, OpBuilder &builder, Operation *op);

LogicalResult lowerFlip(Lowering &lowering, OpBuilder &builder, FlipOp op);
LogicalResult lowerCat(Lowering &lowering, OpBuilder &builder, CatOp op);
LogicalResult lowerConstantPad(Lowering &lowering, OpBuilder &builder, ConstantPadOp op);
LogicalResult lowerIndex(Lowering &lowering, OpBuilder &builder, IndexTensorOp op);
LogicalResult lowerGather(Lowering &lowering, OpBuilder &builder, GatherOp op);
LogicalResult lowerIndexPut(Lowering &lowering, OpBuilder &builder, IndexPutOp op);
LogicalResult lowerScatter(Lowering &lowering, OpBuilder &builder, ScatterOp op);

/// How two scalars of one element type are folded into one.
using ScalarFold = std::function<Value(ScalarBuilder &, Value, Value)>;
/// "add", "mul", "max" or "min" on scalars of `elementType`: NaN wins, bools are joined, f16 and bf16 compute in f32.
ScalarFold scalarFold(StringRef name, Type elementType);
/// 0, 1, or the value that every other one beats.
TypedAttr foldIdentity(StringRef name, Type elementType);

/// cumsum, cumprod, logcumsumexp, cummax, cummin.
LogicalResult lowerScan(Lowering &lowering, OpBuilder &builder, Operation *op);

} // namespace mlir::graph
