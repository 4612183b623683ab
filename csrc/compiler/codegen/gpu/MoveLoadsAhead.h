// Loads of a long run of arithmetic, ahead of what they are needed for.
#pragma once

#include "llvm/IR/Function.h"

namespace torch_tile::codegen {

/// Moves loads of what a kernel only reads up within their basic blocks, as far as the values that wait for their first
/// use stay within a number of registers.
///
/// A division that rounds as IEEE's does is a branch for the assembler, and loads do not pass branches: without this, a
/// thread waits for memory at each step of an unrolled recurrence.
void moveLoadsAhead(llvm::Function &function);

} // namespace torch_tile::codegen
