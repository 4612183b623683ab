// Bounds of integers that are computed at run time: what programs clamp themselves needs no check.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"

namespace torch_tile::fusion {

/// What holds for an integer at every point of its loops, as far as the graph says.
struct IndexRange {
  bool isNonNegative = false;
  SizeExpr atMost; // over symbols of the graph alone; null if there is no such bound

  bool isWithin(SizeExpr size, const SizeFacts &symbols) const {
    return isNonNegative && atMost && symbols.less(atMost, size) == Proof::Yes;
  }
};

/// The range of an integer in the body of a loop, through clamps, selections and loads of what other loops make and
/// nothing overwrites.
IndexRange rangeOf(mlir::Value value, const SizeFacts &symbols, llvm::function_ref<bool(mlir::Value)> isWritten);

} // namespace torch_tile::fusion
