// scf, arith, math and vector -> LLVM dialect.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace torch_tile::codegen {

/// Needs: functions are llvm.func already, vectors have one axis, math has been expanded to what LLVM has an
/// instruction or libm call for.
mlir::LogicalResult convertToLlvm(mlir::ModuleOp module);

} // namespace torch_tile::codegen
