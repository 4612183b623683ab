// Which loads of a loop run iterations ahead, which of its products end an iteration later, and where all that lies in
// shared memory.
#pragma once

#include "compiler/codegen/gpu/ThreadLowering.h"

#include "llvm/ADT/SetVector.h"

namespace torch_tile::codegen {

struct LoopPlan {
  /// A load whose result goes to shared memory, or a tile from before the loop.
  struct Staged {
    mlir::Value value;
    int64_t offset = 0;
  };
  mlir::SmallVector<mlir::tile::GatherOp> loads;
  mlir::SmallVector<Staged> staged, fixed;
  llvm::SetVector<mlir::Operation *> addresses; // ops in the loop that the loads' addresses are made of
  llvm::SetVector<mlir::Value> carried;         // and values that it carries
  mlir::SmallVector<mlir::tile::DotOp> inFlight;
  /// The first product that is waited for where it stands, and with it all that were under way; null if none is.
  mlir::tile::DotOp waited;
  /// Arguments of the body that hold results under way until then.
  mlir::SmallVector<unsigned> awaited;
  /// Iterations that loads run ahead, and what their slots take.
  int64_t ahead = 0, numSlots = 0, slotBytes = 0;
  /// 0 if the loop stays as it is.
  int64_t totalBytes = 0;
  /// What its other ops may take of shared memory, beside that.
  int64_t otherBytes = 0;

  /// Whether an iteration waits for the loads of the next one, at the barrier behind products of the one before. Loops
  /// with nothing between products lose by it: a product of 4096 took 404 us in place of 291 on an H100.
  bool waitsInside() const { return !awaited.empty(); }
};

/// `reservedBytes`: of shared memory, for the other ops of any loop of the kernel.
LoopPlan planLoop(mlir::tile::KernelOp kernel, mlir::scf::ForOp loop, const GpuOptions &options, int64_t numStages,
                  int64_t reservedBytes);

/// Whether a scalar is read, like the number of a block that tiles are then loaded from.
bool isScalarLoad(mlir::Operation *op);

/// Whether a product is computed by instructions of whole warps.
bool isMatrixDot(mlir::Operation *op);

} // namespace torch_tile::codegen
