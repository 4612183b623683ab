// Which products matrix instructions of a GPU make.
#pragma once

#include "compiler/tile/ir/TileDialect.h"

namespace mlir::tile {

/// The least rows and columns of a warp: the columns of two instructions, which are read together.
inline constexpr int64_t leastFragmentSize = 16;
/// Rows of an instruction of four warps.
inline constexpr int64_t warpGroupRows = 64;

/// Whether a product is made by matrix instructions on GPU.
bool hasMatrixInstruction(DotOp dot);

/// Whether instructions of four warps can make it, where the GPU has them.
bool hasWarpGroupInstruction(DotOp dot);

} // namespace mlir::tile
