// tile.kernel -> object code for the CPU.
#pragma once

#include "artifact/Artifact.h"
#include "compiler/codegen/cpu/CpuOptions.h"
#include "compiler/tile/ir/TileDialect.h"

#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <string>
#include <vector>

namespace torch_tile::codegen {

struct CompiledKernel {
  std::string name;   // for people
  std::string symbol; // in the object
  artifact::Hash hash;
  std::vector<uint8_t> code; // empty when whoever asked has it already
  std::vector<std::string> externalSymbols;
};

/// What a kernel is, apart from its name and provenance: the text that is hashed, and compiled.
struct KernelText {
  std::string text;   // the kernel under the name `kernel`, without `lines`, `schedule` and locations
  std::string symbol; // of the compiled function, derived from the hash
  artifact::Hash hash;
};
KernelText describeKernel(mlir::tile::KernelOp kernel, const CpuOptions &options);

/// Text of each stage of one kernel, asked for only when dumps are on.
struct KernelDumps {
  std::string llvmDialect, llvmIr, assembly;
};
/// Where the time went.
struct KernelTiming {
  std::string name;
  std::vector<std::pair<std::string, double>> stepsMs;
};

/// Registers everything that parsing and compiling a kernel needs.
void registerKernelDialects(mlir::DialectRegistry &registry);

/// Compiles `kernel` in its own context, on the calling thread. Fails with a diagnostic.
mlir::FailureOr<CompiledKernel> compileKernel(mlir::tile::KernelOp kernel, const KernelText &text,
                                              const CpuOptions &options, KernelDumps *dumps, KernelTiming *timing);

/// Bytes of the widest vector register; 16 for a processor that LLVM does not know.
int vectorBytes(const CpuOptions &options);

/// The LLVM dialect module of a kernel: what compileKernel makes on its way. For tools.
mlir::OwningOpRef<mlir::ModuleOp> lowerKernel(mlir::tile::KernelOp kernel, llvm::StringRef symbol,
                                              const CpuOptions &options);

} // namespace torch_tile::codegen
