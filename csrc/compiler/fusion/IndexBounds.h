// Masks that compare an index with a number: the edges of pads, of slices and of the parts of a `cat`.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"

#include <optional>

namespace torch_tile::fusion {

/// `index < bound`, or its opposite.
struct IndexBound {
  SizeExpr index;
  int64_t bound;
  bool isBelow;

  bool operator==(const IndexBound &other) const = default;
  IndexBound opposite() const { return {index, bound, !isBelow}; }
};

/// What `mask` says of an index; nothing if it is no such comparison. A null value has none.
std::optional<IndexBound> indexBoundOf(mlir::Value mask);

/// Of all points, those at which `mask` holds, a conjunction of such comparisons that are taken to be independent of
/// one another; nothing where that is not known. `facts` hold the extents of the axes.
std::optional<double> shareUnder(mlir::Value mask, const SizeFacts &facts);

} // namespace torch_tile::fusion
