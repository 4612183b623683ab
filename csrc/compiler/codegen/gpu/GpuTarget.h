// LLVM's view of a GPU: target machines, one per thread.
#pragma once

#include "compiler/codegen/gpu/GpuOptions.h"

#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"

namespace torch_tile::codegen {

/// The calling thread's machine for these options, made on first use and kept. Target machines are not thread-safe.
llvm::Expected<llvm::TargetMachine *> getGpuTargetMachine(const GpuOptions &options);

} // namespace torch_tile::codegen
