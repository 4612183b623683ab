// An axis in pieces, of which each is a point of a parallel axis.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"

namespace torch_tile::fusion {

/// A chunk that divides the extent needs no mask: a longer one, else a shorter one, by a factor of 2 at most, else one
/// of up to `most`.
std::optional<int64_t> exactChunkNear(int64_t extent, int64_t chunk, int64_t most = 0);

/// Replaces `axis` by `position` in the body of a reduction or a scan. Unless the pieces are `isExact`, points past the
/// extent contribute the identity and write nothing.
void shiftAxis(mlir::graph::LoopsOp op, mlir::graph::AxisAttr axis, SizeExpr position, bool isExact,
               SizeContext &sizes);

} // namespace torch_tile::fusion
