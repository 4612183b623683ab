// From a function of launches and calls to the artifact's step program.
#pragma once

#include "artifact/Artifact.h"
#include "compiler/graph/ir/GraphDialect.h"

namespace torch_tile::driver {

/// Fills `body`. `kernelIndex` answers with the artifact's kernel for a kernel symbol of the module, `bodyIndex` with
/// its body for the name of a function.
///
/// Buffers are allocated right before the step that writes them and freed right after the last one that uses them;
/// results of the function are never freed. Fails with a diagnostic at an op that has no step.
mlir::LogicalResult planSteps(mlir::graph::FuncOp func, llvm::function_ref<uint32_t(llvm::StringRef)> kernelIndex,
                              llvm::function_ref<std::optional<uint32_t>(llvm::StringRef)> bodyIndex,
                              artifact::Body &body);

} // namespace torch_tile::driver
