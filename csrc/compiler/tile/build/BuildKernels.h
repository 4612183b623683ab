// Fusion groups to kernels.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"
#include "compiler/tile/ir/TileDialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace torch_tile::tile_build {

struct BuildOptions {
  /// Bytes of the widest vector register of the target.
  int64_t vectorBytes = 64;
  /// Programs are blocks of threads; see chooseGpuSchedule.
  bool isGpu = false;
  /// Shared memory of a multiprocessor.
  int64_t sharedBytes = 100 << 10;
  /// Whether one instruction updates neighbouring floats atomically.
  bool hasVectorAtomics = false;
  /// For GPU, by the number of a launch of the first function: which of the schedules that differ much is taken, best
  /// first by prediction (GpuAlternatives.h). 0, and what the list lacks: the one that the model chooses.
  llvm::ArrayRef<int64_t> schedules = {};
};

/// Replaces every graph.fusion of `func` by a graph.launch of a new tile.kernel in the same module. `kernelName` names
/// the kernel of a fusion (for people; made unique here).
mlir::LogicalResult buildTileKernels(mlir::ModuleOp module, mlir::graph::FuncOp func, const BuildOptions &options,
                                     llvm::function_ref<std::string(mlir::graph::FusionOp)> kernelName);

} // namespace torch_tile::tile_build
