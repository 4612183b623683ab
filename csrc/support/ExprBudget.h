// How large an expression is, and how large an index expression may be.
#pragma once

#include "support/SizeExpr.h"

namespace torch_tile {

/// Nodes of the expression written out as a tree, as str() writes it. Expressions share their parts, so a few hundred
/// nodes in memory may be a tree without end: what a walk without memory would cost. Saturates.
uint32_t treeSize(SizeExpr e);

/// Nodes that one index expression may have, unless the options say otherwise: what is larger is dearer to compute than
/// to read, and to reason about.
inline constexpr uint32_t defaultIndexNodes = 160;

} // namespace torch_tile
