// A fusion group while it grows.
#pragma once

#include "compiler/fusion/Axes.h"
#include "compiler/fusion/Fusion.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace torch_tile::fusion {

struct Member {
  mlir::graph::LoopsOp op;
  /// Each axis of `op` over the group's axes.
  llvm::SmallVector<SizeExpr> axisMap;
  /// Covers all axes of the group; otherwise the parallel ones alone.
  bool isFull = true;
};

struct Group {
  llvm::SmallVector<Axis> axes;
  llvm::SmallVector<Member> members;
  /// Index into `members` by result.
  llvm::DenseMap<mlir::Value, unsigned> producers;
  /// Everything that members load.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::graph::LoadOp, 2>> loads;
  int work = 0;
  unsigned nextAxis = 0;

  bool hasReducedAxes() const {
    return llvm::any_of(axes, [](const Axis &axis) { return axis.reduced; });
  }
};

/// A group of `op` alone.
Group groupOf(mlir::graph::LoopsOp op, SizeContext &sizes, const SizeFacts &facts);

/// The index expressions at which member `m` makes its results, over the group's axes.
llvm::SmallVector<SizeExpr> resultIndices(const Member &member, SizeContext &sizes);
/// The index expressions of a load inside a member, over the group's axes.
llvm::SmallVector<SizeExpr> loadIndices(const Member &member, mlir::graph::LoadOp load, SizeContext &sizes,
                                        const SizeFacts &groupFacts);

/// Whether the last member of `joined` is better in one kernel with `before`, the others; else `reason` says why not.
bool joiningPays(const Group &before, const Group &joined, const SizeFacts &facts, const Machine &machine,
                 std::string &reason);

/// Whether `op` can run in the loops of `group`, and whether that pays. On success the group contains it; else it is
/// unchanged and `reason` says why.
bool joinGroup(Group &group, mlir::graph::LoopsOp op, SizeContext &sizes, const SizeFacts &facts,
               const FusionOptions &options, std::string &reason);

} // namespace torch_tile::fusion
