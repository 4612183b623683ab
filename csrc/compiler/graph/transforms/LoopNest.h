// What lowering knows about a function, and the builder of one graph.loops.
#pragma once

#include "compiler/graph/transforms/IndexMap.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/ScalarBuilder.h"

#include "llvm/ADT/DenseMap.h"

namespace mlir::graph {

/// Element (i0, i1, ...) of a view is the element `indices` of `base`, which is a buffer or the result of a creation
/// op.
struct ViewMap {
  Value base;
  SmallVector<torch_tile::SizeExpr> indices;
};

/// State of lowering one function. Ops are visited in order; results of lowered ops have been replaced by buffers,
/// while results of view and creation ops stay named until something needs them in memory.
class Lowering {
public:
  Lowering(FuncOp func, const LoweringOptions &options)
      : func(func), sizes(GraphDialect::sizes(func.getContext())), facts(func.facts()), options(options) {}

  FuncOp func;
  torch_tile::SizeContext &sizes;
  torch_tile::SizeFacts facts;
  const LoweringOptions options;

  /// Index expressions of views of views compose. Past `options.maxIndexNodes` (treeSize) the operand is made in
  /// memory, before the builder's insertion point: an alias, for what torch calls a view has strides. So is a view that
  /// is written.
  void addView(OpBuilder &builder, Operation *view);
  /// The base of a value that is a view, and the value itself otherwise.
  Value baseOf(Value value) const;
  ViewMap mapOf(Value value);
  /// A tensor in memory with exactly the type and location of `value`, made before the builder's insertion point if
  /// there is none yet.
  Value materialize(OpBuilder &builder, Value value);
  /// Before `value` is written: a virtual base becomes a buffer that later reads see.
  void pin(OpBuilder &builder, Value value);
  bool shareStorage(Value a, Value b) const;
  /// A fresh copy of `value` with its type made contiguous.
  Value copy(OpBuilder &builder, Location loc, Value value);
  /// Element offset of a view's first element from that of its base.
  torch_tile::SizeExpr offsetOf(const ViewMap &map);
  /// Declares the variables of a point space, skipping what is declared already.
  void declareAxes(char kind, ArrayRef<torch_tile::SizeExpr> extents);
  /// Set once a size or index left int64.
  bool hasOverflow = false;

private:
  void composeView(OpBuilder &builder, Operation *view);
  bool hasStridesOfView(const ViewMap &map, GraphTensorType type);

  DenseMap<Value, ViewMap> views;
  DenseMap<Value, Value> materialized;
  SmallVector<torch_tile::SizeExpr> declared[2];
};

/// Values that take no memory: they become constants and index expressions where they are read.
bool isVirtual(Operation *op);

/// Builds one graph.loops: its body through `scalars()` and `load`, then `yield` or `reduce`.
class LoopNest {
public:
  LoopNest(Lowering &lowering, OpBuilder &builder, Location loc, TypeRange results,
           ArrayRef<torch_tile::SizeExpr> parallel, ArrayRef<torch_tile::SizeExpr> reduced = {}, Value dest = {});

  ScalarBuilder &scalars() { return scalarBuilder; }
  /// The point of the parallel axes, and of the reduced ones. An axis of extent 1 has index 0.
  ArrayRef<torch_tile::SizeExpr> at() const { return parallelIndices; }
  ArrayRef<torch_tile::SizeExpr> reducedAt() const { return reducedIndices; }

  /// Element `at` of a tensor, which may be a view or virtual. With a mask, `other` where it is false.
  Value load(Value tensor, ArrayRef<torch_tile::SizeExpr> at, ValueRange dynamic = {}, Value mask = {},
             Value other = {});
  /// The element that a tensor broadcast to the parallel axes has at this point.
  Value loadBroadcast(Value tensor);
  /// An index expression as an i64; `dynamic` are x0, x1, ...
  Value index(torch_tile::SizeExpr e, ValueRange dynamic = {});

  /// Ends a loop without combiner.
  LoopsOp yield(ValueRange values);
  /// Ends a reduction: `combine` gets accumulators and values and answers with the new accumulators.
  using Combine = llvm::function_ref<SmallVector<Value>(ScalarBuilder &, ValueRange accumulators, ValueRange values)>;
  LoopsOp reduce(ValueRange values, ArrayRef<Attribute> inits, Combine combine);

  /// For a scatter or a scan: where each point writes. `dynamic` are what x0, x1, ... stand for.
  void writeAt(ArrayRef<torch_tile::SizeExpr> indices, ValueRange dynamic = {}, Value mask = {});
  /// Ends a scatter that folds the values into what the dests hold.
  LoopsOp accumulate(ValueRange values, Combine combine);
  /// Ends a scan.
  LoopsOp scan(ValueRange values, ArrayRef<Attribute> inits, Combine combine);

private:
  LoopsOp yieldAndCombine(ValueRange values, ArrayRef<Attribute> inits, Combine combine);
  Value loadVirtual(Operation *creation, ArrayRef<torch_tile::SizeExpr> at, ValueRange dynamic);

  Lowering &lowering;
  LoopsOp op;
  OpBuilder body;
  ScalarBuilder scalarBuilder;
  SmallVector<torch_tile::SizeExpr> parallelIndices, reducedIndices, parallelExtents;
};

} // namespace mlir::graph
