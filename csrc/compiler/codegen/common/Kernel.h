// A kernel on its way from tile.kernel to code: what all targets say of it.
#pragma once

#include "artifact/Artifact.h"
#include "compiler/tile/ir/TileDialect.h"

#include "mlir/IR/BuiltinOps.h"

#include <chrono>
#include <string>
#include <vector>

namespace torch_tile::codegen {

struct CompiledKernel {
  std::string name;   // for people
  std::string symbol; // in the object
  artifact::Hash hash;
  uint32_t numThreads = 0;       // of a block, on GPU
  uint32_t programsPerBlock = 1; // each of one warp, if several
  uint32_t sharedBytes = 0;      // of a block, beside what the code declares; known when there is code
  std::vector<artifact::AlignedArgument> alignedArguments;
  std::vector<uint8_t> code; // an object, or the text of PTX; empty when whoever asked has it already
  std::vector<std::string> externalSymbols;
  int64_t unoptimizedSize = 0; // in LLVM instructions: it was too large to be optimised
};

/// What a kernel is, apart from its name and provenance: the text that is hashed, and compiled.
struct KernelText {
  std::string text;   // the kernel under the name `kernel`, without `lines`, `schedule` and locations
  std::string symbol; // of the compiled function, derived from the hash
  artifact::Hash hash;
};
/// `key` is what the code depends on beside the text.
KernelText describeKernel(mlir::tile::KernelOp kernel, llvm::ArrayRef<llvm::StringRef> key);

/// Whether the sizes of the grid follow a kernel's integers: it asks for more than its linear index.
bool needsGridSizes(mlir::tile::KernelOp kernel);

/// Text of each stage of one kernel, asked for only when dumps are on.
struct KernelDumps {
  std::string llvmDialect, llvmIr, assembly; // PTX is the assembly of a GPU
};
/// Where the time went.
struct KernelTiming {
  std::string name;
  std::vector<std::pair<std::string, double>> stepsMs;
};

/// Adds what goes by between calls to a timing, if there is one.
class StepClock {
public:
  explicit StepClock(KernelTiming *timing) : timing(timing), last(Clock::now()) {}
  void done(const char *step);

private:
  using Clock = std::chrono::steady_clock;
  KernelTiming *timing;
  Clock::time_point last;
};

/// Registers everything that parsing and compiling a kernel needs.
void registerKernelDialects(mlir::DialectRegistry &registry);

} // namespace torch_tile::codegen
