// LLVM's view of the processor: target machines, one per thread.
#pragma once

#include "compiler/codegen/cpu/CpuOptions.h"

#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"

#include <string>
#include <vector>

namespace torch_tile::codegen {

/// The calling thread's machine for these options, made on first use and kept. Target machines are not thread-safe.
llvm::Expected<llvm::TargetMachine *> getTargetMachine(const CpuOptions &options);

/// The processors that LLVM knows, and which instruction sets the named one has that this machine lacks.
struct Processor {
  std::vector<std::string> known, missing;
};
Processor describeProcessor(const std::string &cpu);

CpuFeatures queryFeatures(const llvm::TargetMachine &machine);

} // namespace torch_tile::codegen
