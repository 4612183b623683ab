// LLVM dialect -> LLVM IR -> PTX.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Target/TargetMachine.h"

#include <functional>
#include <string>

namespace torch_tile::codegen {

struct EmitPtxOptions {
  /// Receives the LLVM IR after optimisation; null when nobody asks.
  std::function<void(std::string)> dumpIr;
  /// Receives the name of each step when it ends.
  std::function<void(const char *)> onStepDone;
  /// Loops keep the pointers that they carry. LLVM's strength reduction counts registers before instructions: of a
  /// pointer that runs iterations ahead it makes that of this iteration, and adds a distance for each load.
  bool keepsInductions = false;
};

/// Fails with a diagnostic on `module`. Must be called on the thread that owns `machine`.
mlir::FailureOr<std::string> emitPtx(mlir::ModuleOp module, llvm::TargetMachine &machine,
                                     const EmitPtxOptions &options);

} // namespace torch_tile::codegen
