// Masked loads and stores of several registers, some of which are known to be masked off.
#pragma once

namespace llvm {
class Function;
}

namespace torch_tile::codegen {

/// Takes masked loads and stores apart where the mask of a register is known as a whole. LLVM's code generation for
/// masks without mask registers reads such a register without a mask.
void separateKnownMasks(llvm::Function &function, int vectorBits);

/// Stores the element of masked stores with one known lane. LLVM 22 does so itself, but of a vector that was made
/// narrower it stores the element before that: 8 bytes where `trunc <2 x i64> to <2 x i32>` has 4.
void storeOnlyLanes(llvm::Function &function);

} // namespace torch_tile::codegen
