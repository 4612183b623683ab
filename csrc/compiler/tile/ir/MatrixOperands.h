// Where products read their operands.
#pragma once

#include "compiler/tile/ir/TileDialect.h"

namespace mlir::tile {

/// The tile that a product reads: its operand, or what the operand is the transpose of, matrix by matrix.
Value storedOperand(Value operand);

} // namespace mlir::tile
