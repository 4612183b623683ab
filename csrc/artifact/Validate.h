// What must hold of every artifact before it runs.
#pragma once

#include "artifact/Artifact.h"
#include "support/Status.h"

namespace torch_tile::artifact {

/// Most operands an expression may hold on its stack at once; the executor evaluates on a fixed array of this size.
constexpr uint32_t maxExprDepth = 64;

/// Checks every index (slots, exprs, kernels, symbols), the stack discipline of every Expr, and that each slot and each
/// symbol that an extern call defines is set before it is used.
Status validate(const Artifact &artifact);

} // namespace torch_tile::artifact
