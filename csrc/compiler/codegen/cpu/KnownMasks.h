// Masked loads and stores of several registers, some of which are known to be masked off.
#pragma once

namespace llvm {
class Function;
}

namespace torch_tile::codegen {

/// Takes masked loads and stores apart where the mask of a register is known as a whole. LLVM's code generation for
/// masks without mask registers reads such a register without a mask.
void separateKnownMasks(llvm::Function &function, int vectorBits);

} // namespace torch_tile::codegen
