// Discardable attributes of graph ops and of scalar ops in bodies.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace mlir::graph {

/// On an exponential (graph.exp, math.exp in a body) whose argument is shown to be at most 0.
inline constexpr llvm::StringLiteral kAtMostZero = "graph.at_most_zero";
/// On arith.divf: a weight by which a difference counts in an average, so its last places do not matter.
inline constexpr llvm::StringLiteral kWeight = "graph.weight";

/// On graph.cast from a float to an integer: beyond the integer's range as on a GPU, not as on x86. To f8E4M3FN: beyond
/// its range the largest number, not NaN.
inline constexpr llvm::StringLiteral kSaturate = "saturate";

/// On the graph.loops of a concatenation, a graph.expr for each load of its body, in order: where the part of that
/// operand begins along the dimension `kConcatenatedDim`.
inline constexpr llvm::StringLiteral kPartStarts = "graph.part_starts";
inline constexpr llvm::StringLiteral kConcatenatedDim = "graph.concatenated_dim";

/// On graph.loops whose result is a part of a graph.assemble that may begin between multiples of 16 bytes.
inline constexpr llvm::StringLiteral kUnalignedPart = "graph.unaligned_part";

} // namespace mlir::graph
