// tile.kernel -> object code for the CPU.
#pragma once

#include "compiler/codegen/common/Kernel.h"
#include "compiler/codegen/cpu/CpuOptions.h"

#include "mlir/IR/BuiltinOps.h"

namespace torch_tile::codegen {

/// Time that code generation of one kernel may take, by an estimate from the kernel's size. The time of the optimised
/// path grows faster than the code; a kernel that would take longer goes a path whose time does not.
struct TimeBudget {
  static constexpr int64_t usualMs = 3000, instructionsPerMs = 20;
  int64_t ms = usualMs;

  int64_t maxInstructions() const { return ms * instructionsPerMs; }
};

/// What a kernel for `options` is; see describeKernel.
KernelText describeCpuKernel(mlir::tile::KernelOp kernel, const CpuOptions &options, TimeBudget budget = {});

/// Compiles `kernel` in its own context, on the calling thread. Fails with a diagnostic.
mlir::FailureOr<CompiledKernel> compileKernel(mlir::tile::KernelOp kernel, const KernelText &text,
                                              const CpuOptions &options, TimeBudget budget, KernelDumps *dumps,
                                              KernelTiming *timing);

/// Bytes of the widest vector register; 16 for a processor that LLVM does not know.
int vectorBytes(const CpuOptions &options);

/// The LLVM dialect module of a kernel: what compileKernel makes on its way. For tools.
mlir::OwningOpRef<mlir::ModuleOp> lowerKernel(mlir::tile::KernelOp kernel, llvm::StringRef symbol,
                                              const CpuOptions &options);

} // namespace torch_tile::codegen
