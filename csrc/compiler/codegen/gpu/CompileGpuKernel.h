// tile.kernel with layouts -> PTX.
#pragma once

#include "compiler/codegen/common/Kernel.h"
#include "compiler/codegen/gpu/GpuOptions.h"

namespace torch_tile::codegen {

/// Unit attribute of kernels whose pointers are multiples of 16 wherever that makes accesses whole pieces of 16 bytes.
constexpr llvm::StringLiteral alignedArgsAttrName = "tile.aligned_args";
/// Of those, numbers of the arguments that are not aligned all the same.
constexpr llvm::StringLiteral unalignedArgsAttrName = "tile.unaligned_args";

/// The arguments that the attribute speaks of; none without it.
std::vector<artifact::AlignedArgument> alignedArguments(mlir::tile::KernelOp kernel);

/// What a kernel for `options` is; see describeKernel.
KernelText describeGpuKernel(mlir::tile::KernelOp kernel, const GpuOptions &options);

/// Compiles `kernel` in its own context, on the calling thread. Fails with a diagnostic.
mlir::FailureOr<CompiledKernel> compileGpuKernel(mlir::tile::KernelOp kernel, const KernelText &text,
                                                 const GpuOptions &options, KernelDumps *dumps, KernelTiming *timing);

} // namespace torch_tile::codegen
