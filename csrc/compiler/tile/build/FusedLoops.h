// A fusion group as the kernel builder sees it: axes, members, and every access as a linear offset over the axes.
#pragma once

#include "compiler/fusion/Axes.h"
#include "compiler/graph/ir/GraphDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/DenseMap.h"

#include <map>
#include <string>

namespace torch_tile::tile_build {

struct FusedMember {
  mlir::graph::LoopsOp op;
  /// Covers the reduced axes too.
  bool isFull = true;
  /// The stage in which the member's values can first exist: 0 before any reduction of the group is complete.
  /// Reductions are complete after their stage.
  int stage = 0;
};

/// Whether a buffer may begin between the multiples of 16 bytes at which kernels for GPU move whole words: an input of
/// the graph that is known to, or a view at an offset that is not known to be such a multiple.
bool isUnaligned(mlir::Value buffer, const SizeFacts &facts);

/// What decides the order of parallel axes, and which of them become one.
enum class Walk {
  Accesses, ///< all of them: only axes that every access walks as one become one
  Result,   ///< the largest result: axes along which it has no gaps become one, which other accesses take apart
  Tiles,    ///< likewise, but for the axis along which what is read lies side by side: tiles have rows along that
};

/// Symbols of sizes, and the only value of each.
using FixedSizes = std::map<std::string, int64_t>;

/// The operand of a comparison that is a bound of the other one, an index: index < bound, or index >= bound; 0 or 1,
/// and -1 where it is no such comparison.
int boundOperand(mlir::arith::CmpIOp compare);

class FusedLoops {
public:
  /// `fixed`: sizes that the nest is for.
  FusedLoops(mlir::graph::FusionOp fusion, const SizeFacts &symbolFacts, Walk walk = Walk::Accesses,
             const FixedSizes &fixed = {});

  /// Parallel axes outermost first, then reduced ones outermost first.
  llvm::SmallVector<fusion::Axis> axes;
  llvm::SmallVector<FusedMember> members;
  int numStages = 1;

  /// Whether Walk::Result and Walk::Tiles can differ: nothing is reduced or in order.
  bool canFlatten() const;
  /// The axes that became the axis `flatAxis` by those, outermost first; empty: none.
  llvm::SmallVector<fusion::Axis> flattened;
  int flatAxis = -1;
  /// Offsets of loads and results over those axes.
  SizeExpr unflattened(mlir::Operation *load) const { return plainExprs.lookup(load); }
  SizeExpr unflattened(mlir::Value result) const { return plainOffsets.lookup(result); }

  /// Linear offset of a load (in elements, over axes, symbols and x<k>), or the expression of a graph.index.
  SizeExpr exprOf(mlir::Operation *op) const { return exprs.lookup(op); }
  /// Of a comparison of an index with a bound whose axis has become one with others: the bound on that axis, in place
  /// of the operand. Invalid: the operand.
  SizeExpr boundOf(mlir::Operation *compare) const { return bounds.lookup(compare); }
  /// Linear offset at which a member's result is stored.
  SizeExpr offsetOf(mlir::Value result) const { return offsets.lookup(result); }
  const FusedMember *producer(mlir::Value value) const;
  /// The buffer from outside of the group that a member's result is written into; null: a new one.
  mlir::Value destOf(mlir::Value result) const;

  /// Results that leave the group, in the order of the fusion's results.
  llvm::SmallVector<mlir::Value> outputs;

  /// Whether a value of a member's body differs along `axis`.
  bool variesAlong(mlir::Value value, llvm::StringRef axis);
  /// Sum over all body operations, in units of simple vector instructions.
  int work() const;

  SizeContext &sizes() const { return context; }
  const SizeFacts &facts() const { return groupFacts; }
  const fusion::Axis *axis(llvm::StringRef name) const;

  /// Every access of a full-domain point: loads and stores with their offsets.
  struct Access {
    mlir::Operation *load; // null for a store
    mlir::Value buffer;
    SizeExpr offset;
    mlir::Type elementType;
    bool isFull;
    /// Of a load or of a scatter's store: what x<k> stand for.
    mlir::ValueRange scalars;
  };
  llvm::SmallVector<Access> accesses() const;
  /// A scatter, or a scan and what is computed point by point of its results: reduced axes keep their order.
  bool isOrdered() const {
    return llvm::any_of(members,
                        [](const FusedMember &member) { return bool(mlir::graph::LoopsOp(member.op).getWriteAt()); });
  }
  bool isScan() const {
    return llvm::any_of(members, [](const FusedMember &member) { return mlir::graph::LoopsOp(member.op).isScan(); });
  }

  /// Scatters of which all points are parallel, and pointwise work.
  bool isFreeScatter() const {
    return llvm::any_of(members,
                        [](const FusedMember &member) { return mlir::graph::LoopsOp(member.op).isFreeScatter(); });
  }

private:
  void orderAxes();
  void mergeAxes();
  void mergeInto(size_t outerNumber, size_t innerNumber);
  void flattenAxes(Walk walk);
  bool isReadAlong(const fusion::Axis &axis) const;
  SizeExpr flatten(SizeExpr e, const fusion::Axis &flat);
  bool tryMerge(const fusion::Axis &outer, const fusion::Axis &inner);
  void assignStages();
  bool walksAsOne(SizeExpr e, const fusion::Axis &outer, const fusion::Axis &inner) const;
  SizeExpr boundAlong(mlir::Operation *op, SizeExpr e, mlir::OpOperand &use, const fusion::Axis &outer,
                      const fusion::Axis &inner) const;
  bool isOnlyBounded(mlir::Operation *op, SizeExpr e, const fusion::Axis &outer, const fusion::Axis &inner) const;
  template <typename Fn> void forEachExpr(Fn fn);

  SizeContext &context;
  SizeFacts symbolFacts, groupFacts;
  llvm::DenseMap<mlir::Operation *, unsigned> memberOf;
  llvm::DenseMap<mlir::Operation *, SizeExpr> exprs;
  llvm::DenseMap<mlir::Value, SizeExpr> offsets;
  llvm::DenseMap<mlir::Operation *, SizeExpr> bounds;
  llvm::DenseMap<mlir::Operation *, SizeExpr> plainExprs;
  llvm::DenseMap<mlir::Value, SizeExpr> plainOffsets;
  llvm::DenseMap<std::pair<mlir::Value, const void *>, bool> varies;
  unsigned nextMerged = 0;
};

} // namespace torch_tile::tile_build
