// Passes over tile.kernel. Each is also a plain function, for callers without a pass manager.
#pragma once

#include "compiler/tile/ir/MatrixInstructions.h"
#include "compiler/tile/ir/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/Pass.h"

namespace mlir::tile {

#define GEN_PASS_DECL
#include "compiler/tile/transforms/Passes.h.inc"

/// See Passes.td. Fails with a diagnostic at an op it cannot split.
LogicalResult stripMine(KernelOp kernel, int64_t vectorBits, int64_t lanes = 64);
/// See Passes.td.
void dropTies(KernelOp kernel);
/// See Passes.td.
void orientAccesses(KernelOp kernel);
/// See Passes.td. Fails with a diagnostic at a tile that does not fit in registers.
LogicalResult assignLayouts(KernelOp kernel, const MatrixFeatures &features = {});
/// The part of it that is about matrix instructions: the types of all tiles have `usualLayout`.
void assignFragments(KernelOp kernel, int64_t numThreads, bool hasWarpGroups,
                     function_ref<LayoutAttr(RankedTensorType)> usualLayout);

#define GEN_PASS_REGISTRATION
#include "compiler/tile/transforms/Passes.h.inc"

} // namespace mlir::tile
