// Many kernels to code: equal ones once, distinct ones in parallel.
#pragma once

#include "compiler/codegen/common/Kernel.h"
#include "compiler/driver/Options.h"
#include "compiler/driver/Stages.h"

#include "llvm/ADT/StringMap.h"

namespace torch_tile {

/// Attribute of a kernel for GPU: how many registers a thread may have.
inline constexpr llvm::StringLiteral maxRegistersAttrName = "tile.max_registers";

struct CompiledKernels {
  std::vector<codegen::CompiledKernel> kernels; // distinct ones, in order of first use
  llvm::StringMap<uint32_t> indexOf;            // by the name of the tile.kernel
  std::vector<std::string> notes;               // for whoever compiles
};

/// Kernels whose code `hooks.lookupKernel` knows are described but not compiled. Fails with a diagnostic at the kernel.
mlir::FailureOr<CompiledKernels> compileKernels(llvm::ArrayRef<mlir::tile::KernelOp> kernels,
                                                const CompileOptions &options, const CompileHooks &hooks,
                                                Stages &stages);

} // namespace torch_tile
