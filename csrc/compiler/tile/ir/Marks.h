// Discardable attributes of ops on tiles.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace mlir::tile {

/// On math.exp: its argument is at most 0.
inline constexpr llvm::StringLiteral kAtMostZero = "tile.at_most_zero";
/// On arith.divf: a weight by which a difference counts in an average, so its last places do not matter.
inline constexpr llvm::StringLiteral kWeight = "tile.weight";
/// On arith.divf: the quotient is the nearest one, also where kernels have fast arithmetic.
inline constexpr llvm::StringLiteral kRounded = "tile.rounded";

/// On masked loads: one of several places that an element is read from, so most elements are masked.
inline constexpr llvm::StringLiteral kOneOfSeveral = "tile.one_of_several";

/// On arith.extui of indices, of which no lane is below the one before it, or above that by more than one.
inline constexpr llvm::StringLiteral kStepsOfOne = "tile.steps_of_one";
/// On arith.extui of indices, as an integer of 64 bits: lanes take each value below it, and no other.
inline constexpr llvm::StringLiteral kAllBelow = "tile.all_below";

} // namespace mlir::tile
