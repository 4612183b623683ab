// tile.kernel with layouts -> PTX.
#pragma once

#include "compiler/codegen/common/Kernel.h"
#include "compiler/codegen/gpu/GpuOptions.h"

namespace torch_tile::codegen {

/// What a kernel for `options` is; see describeKernel.
KernelText describeGpuKernel(mlir::tile::KernelOp kernel, const GpuOptions &options);

/// Compiles `kernel` in its own context, on the calling thread. Fails with a diagnostic.
mlir::FailureOr<CompiledKernel> compileGpuKernel(mlir::tile::KernelOp kernel, const KernelText &text,
                                                 const GpuOptions &options, KernelDumps *dumps, KernelTiming *timing);

} // namespace torch_tile::codegen
