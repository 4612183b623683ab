// What a warp computes of a product by matrix instructions.
#pragma once

#include "compiler/tile/ir/LinearLayout.h"

namespace torch_tile::codegen {

/// Blocks of 16 rows (64 for four warps) and of 8 columns, as distances from its share's start.
struct WarpShare {
  llvm::SmallVector<int64_t> rows{0}, columns{0};
};

inline WarpShare warpShareOf(mlir::tile::LinearAttr layout, llvm::ArrayRef<int64_t> shape) {
  WarpShare share;
  // Registers: a pair, 8 rows, then blocks of columns, then blocks of rows.
  for (int64_t move : layout.getRegisters().drop_front(2)) {
    mlir::tile::AxisMove along = mlir::tile::axisMove(move, shape);
    llvm::SmallVector<int64_t> &blocks = along.axis == 0 ? share.rows : share.columns;
    for (size_t k = 0, end = blocks.size(); k < end; ++k)
      blocks.push_back(blocks[k] + along.distance);
  }
  return share;
}

} // namespace torch_tile::codegen
