// How products by matrix instructions are lowered: what passes say of them, and where operands are read.
#pragma once

#include "compiler/tile/ir/TileDialect.h"

namespace mlir::tile {

/// Of products: instructions of four warps make them (AssignLayouts).
inline constexpr llvm::StringLiteral warpGroupAttrName = "tile.warp_group";

/// The tile that a product reads: its operand, or what the operand is the transpose of, matrix by matrix.
Value storedOperand(Value operand);

} // namespace mlir::tile
