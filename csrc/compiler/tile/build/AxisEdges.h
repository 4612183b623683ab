// Where comparisons of indices with constants change along an axis, and where indices turn: the borders of
// concatenations and paddings.
#pragma once

#include "compiler/tile/build/FusedLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace torch_tile::tile_build {

/// An integer of a member's body as an expression over the axes, if it is one and cannot wrap; invalid otherwise.
SizeExpr indexOf(const FusedLoops &loops, mlir::Value value, int depth = 0);

/// Both sides of a comparison of integers; invalid where a side is not such an expression.
std::pair<SizeExpr, SizeExpr> comparedIndices(const FusedLoops &loops, mlir::arith::CmpIOp compare);

struct AxisEdge {
  /// The first index at which the comparison has its second value: a constant, or of sizes.
  SizeExpr at;
  bool isTrueBelow = true;
};

/// The edge of a comparison along `axis`; nothing where it depends on another axis, or on data.
std::optional<AxisEdge> edgeAlong(const FusedLoops &loops, llvm::StringRef axis, mlir::arith::CmpIOp op);

/// What `index` is where begin <= axis < end.
SizeExpr inPart(const FusedLoops &loops, llvm::StringRef axis, SizeExpr index, SizeExpr begin, SizeExpr end);

/// The points of `axis` at which minima and maxima in an index take another of their operands, as far as their order is
/// known for all sizes; between them the index is what `inPart` says. Nothing if there are more than `most`.
std::optional<llvm::SmallVector<SizeExpr>> turnsAlong(const FusedLoops &loops, llvm::StringRef axis, SizeExpr index,
                                                      size_t most);

} // namespace torch_tile::tile_build
