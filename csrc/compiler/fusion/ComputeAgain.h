// What it takes to compute values again in each reader, beside moving them through memory.
#pragma once

#include "compiler/fusion/Fusion.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallBitVector.h"

namespace torch_tile::fusion {

/// cat and pad: all that the body loads is under masks of their own, so that a point reads one of the places.
bool choosesAmongLoads(mlir::graph::LoopsOp op);

/// Weighs the operations of a body against the bytes that a value in memory costs, in the units of Machine.
class ComputeAgain {
public:
  /// `inlined`: ops that their readers compute already; it grows while decisions are made.
  ComputeAgain(const Machine &machine, SizeContext &sizes, const SizeFacts &facts,
               const llvm::DenseSet<mlir::Operation *> &inlined)
      : machine(machine), sizes(sizes), facts(facts), inlined(inlined) {}

  /// Whether each reader computes `op` by itself in less time than memory takes to hold it for them. All users of `op`
  /// are loads.
  bool pays(mlir::graph::LoopsOp op);

  /// The op that reads what `op` makes in the end: those between have no other reader, and as many points.
  mlir::graph::LoopsOp lastReader(mlir::graph::LoopsOp op);

  /// Ops that are worth computing again together, and the ops that then compute them.
  struct Cone {
    llvm::SmallVector<mlir::graph::LoopsOp> ops, readers;
    int operations = 0; // of one evaluation
  };
  /// What ops that `last` reads in the end read of fewer points, or several times: a warp's coordinates and weights,
  /// which all channels share. Together they may take little beside their bytes. Nothing if that does not pay.
  std::optional<Cone> coneOf(llvm::ArrayRef<mlir::graph::LoopsOp> readers,
                             llvm::function_ref<bool(mlir::graph::LoopsOp)> mayInline);

private:
  /// What an op computes for a point with all that is inlined into it, each value once: work, loads, and the bytes of
  /// loads as large as the result.
  struct Evaluation {
    double work = 0, loads = 0, largeBytes = 0;
    bool followsReduction = false; // at the point of its results, where they are at hand
    double total() const;

    // What was counted already: ops and loads by place, and buffers.
    llvm::DenseSet<std::pair<mlir::Operation *, size_t>> ops;
    llvm::DenseSet<std::pair<mlir::Value, size_t>> places;
    llvm::DenseSet<mlir::Value> sources;
    bool isTooLarge() const;
  };
  using Ops = llvm::SmallSetVector<mlir::Operation *, 16>;

  void evaluate(mlir::graph::LoopsOp op, int64_t points, size_t path, const Ops &together, Evaluation &sum);
  std::optional<llvm::SmallBitVector> reducedBy(mlir::graph::LoadOp load);
  bool isAtHand(mlir::graph::LoopsOp op);
  bool followsMemory(mlir::graph::LoopsOp op, mlir::graph::LoadOp load);
  double pointsOf(mlir::graph::LoopsOp op) const;
  /// Whether that many operations more take less time than so many bytes for each of the points.
  bool isWorth(double operations, double bytes, double valueBytes, double points) const;
  Ops computedWithin(llvm::ArrayRef<mlir::graph::LoopsOp> readers,
                     llvm::DenseMap<mlir::Operation *, double> &evaluated);

  const Machine &machine;
  SizeContext &sizes;
  const SizeFacts &facts;
  const llvm::DenseSet<mlir::Operation *> &inlined;
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> lastReaders;
};

} // namespace torch_tile::fusion
