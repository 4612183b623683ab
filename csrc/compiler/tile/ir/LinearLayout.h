// Layouts as linear maps over bits: what is asked of #tile.linear.
#pragma once

#include "compiler/tile/ir/TileDialect.h"

namespace mlir::tile {

/// Elements of a tile that a thread may have where kernels say how many threads they have: a thread has 255 registers.
inline constexpr int64_t mostElementsOfThread = 64;

/// An axis of a tile and a distance along it.
struct AxisMove {
  int64_t axis, distance;
};

/// What a move of a #tile.linear layout is in a tile of this shape. A move of 0 has axis -1.
AxisMove axisMove(int64_t move, ArrayRef<int64_t> shape);

/// The layout of what is left of a tile of `shape` without an axis: registers along it are dropped, threads along it
/// become copies. It is that of the tile with size 1 along the axis, too.
LinearAttr sliceLayout(LinearAttr layout, ArrayRef<int64_t> shape, int64_t axis);

/// Lanes of a piece in a tile of so many elements: at most `most`, and as few as give each thread one.
int64_t lanesOfPiece(int64_t numElements, int64_t threads, int64_t most);

/// Whether the elements along the last axis of a tile are those of neighbouring threads of one warp, or whole pieces of
/// the only warp, under the layout of so many threads with pieces of `vector` elements.
bool areRowsInWarps(ArrayRef<int64_t> shape, int64_t threads, int64_t vector);

/// Results of a matrix instruction with 16 x 8 results a warp, or 64 x 8n for four warps: thread t holds elements
/// (t / 4 % 8 (+ 8), t % 4 * 2 (+ 1)) of each block of 16 x 8.
struct FragmentShape {
  int64_t rows, columns;
  /// Warps along each axis; further warps hold copies.
  int64_t warpRows, warpColumns;
  /// Whether the next 16 rows belong to the next warp, for groups of four, and not to the warp's own share.
  bool isWarpGroup = false;
};
LinearAttr fragmentLayout(MLIRContext *context, const FragmentShape &shape, int64_t numThreads);

/// Whether a tile of `shape` with this layout consists of left operands of matrix instructions with 16-bit elements for
/// results whose rows lie as `results` has them: so that no element leaves its thread.
bool isLeftFragment(LinearAttr layout, ArrayRef<int64_t> shape, LinearAttr results, ArrayRef<int64_t> resultShape);

} // namespace mlir::tile
