// LLVM dialect -> LLVM IR -> object code.
#pragma once

#include "compiler/codegen/cpu/CpuOptions.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Target/TargetMachine.h"

#include <functional>
#include <string>
#include <vector>

namespace torch_tile::codegen {

struct EmitOptions {
  /// Distinct pointer arguments never overlap (the kernel's `tile.noalias_args`).
  bool hasDisjointArguments = false;
  /// Off: the fastest way to correct code.
  bool isOptimized = true;
  /// Receives the LLVM IR after optimisation, and the assembly; null when nobody asks.
  std::function<void(std::string)> dumpIr, dumpAssembly;
  /// Receives the name of each step when it ends.
  std::function<void(const char *)> onStepDone;
};

/// Fails with a diagnostic on `module`. Must be called on the thread that owns `machine`.
mlir::FailureOr<std::vector<uint8_t>> emitObject(mlir::ModuleOp module, llvm::TargetMachine &machine,
                                                 const CpuOptions &cpu, const CpuFeatures &features,
                                                 const EmitOptions &options);

/// Names of the undefined symbols of an object, sorted.
std::vector<std::string> undefinedSymbols(const std::vector<uint8_t> &object);

} // namespace torch_tile::codegen
