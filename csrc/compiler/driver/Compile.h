// The whole compile as one straight list of stages.
#pragma once

#include "compiler/driver/KernelCompiler.h"
#include "compiler/driver/Options.h"
#include "compiler/driver/Stages.h"
#include "support/Status.h"

#include <string_view>

namespace torch_tile {

/// A module in the graph dialect, at any stage that dumps write, to artifact bytes.
Status compileGraph(std::string_view text, const CompileOptions &options, const CompileHooks &hooks,
                    std::vector<uint8_t> &artifact);

/// A module of tile.kernels to their code.
Status compileTile(std::string_view text, const CompileOptions &options, const CompileHooks &hooks,
                   std::vector<codegen::CompiledKernel> &kernels);

/// A module of one tile.kernel to the bytes of a standalone kernel. Text of Triton's IR is imported first.
Status compileStandaloneKernel(std::string_view text, const CompileOptions &options, const CompileHooks &hooks,
                               std::vector<uint8_t> &kernel);

/// Triton's IR in generic form to text of the tile dialect, with locations. With `isEmbeddable` they are written out
/// where they are used, so that several such modules can stand in one text.
Status importTriton(std::string_view text, bool isEmbeddable, bool pointersFirst, std::string &tile);

/// Prepares kernels of tiles of any size for code generation on CPU and notes what a program costs
/// (`tile.program_cost_ns`).
mlir::LogicalResult prepareKernel(mlir::tile::KernelOp kernel, const codegen::CpuOptions &cpu);

/// Attributes of kernels for GPU: threads of a program, and what each argument is a multiple of in all launches.
inline constexpr llvm::StringLiteral wantedThreadsAttrName = "tile.wanted_threads";
inline constexpr llvm::StringLiteral multiplesAttrName = "tile.argument_multiples";

/// Notes what is known of the arguments of all launches of a kernel for GPU; see CompileOptions::argumentMultiples.
mlir::LogicalResult specializeArguments(mlir::tile::KernelOp kernel, llvm::ArrayRef<int64_t> multiples);

/// This library, LLVM and the host, one per line.
std::string describeVersion();

} // namespace torch_tile
