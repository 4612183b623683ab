// Moves of bf16 as moves of 16-bit integers, for processors without instructions for bf16.
#pragma once

#include "llvm/IR/Function.h"

namespace torch_tile::codegen {

/// Loads, stores, selects, shuffles, insertions, extractions and phis of bf16 work on integers. What computes stays as
/// it is: nothing does, since conversions are written in integers before.
void moveBf16AsIntegers(llvm::Function &function);

} // namespace torch_tile::codegen
