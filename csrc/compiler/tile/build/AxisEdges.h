// Where comparisons of indices with constants change along an axis, and where indices turn: the borders of
// concatenations and paddings.
#pragma once

#include "compiler/tile/build/FusedLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace torch_tile::tile_build {

/// An integer of a member's body as an expression over the axes, if it is one and cannot wrap; invalid otherwise.
SizeExpr indexOf(const FusedLoops &loops, mlir::Value value, int depth = 0);

struct AxisEdge {
  /// The first index at which the comparison has its second value.
  int64_t at = 0;
  bool isTrueBelow = true;
};

/// The edge of a comparison along `axis`; nothing where it depends on anything else.
std::optional<AxisEdge> edgeAlong(const FusedLoops &loops, llvm::StringRef axis, mlir::arith::CmpIOp op);

/// The points of `axis`, whose extent is constant, at which minima and maxima in an index take another of their
/// operands; between them the index is what `facts` with the range of the part make of it. Nothing if there are more
/// than `most`.
std::optional<llvm::SmallVector<int64_t>> turnsAlong(const FusedLoops &loops, llvm::StringRef axis, SizeExpr index,
                                                     int64_t extent, size_t most);

} // namespace torch_tile::tile_build
