#pragma once

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace torch_tile::codegen {

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
///
/// Keys and counters are i32 or vectors of i32; scalars are broadcast to the widest operand. Returns the four random
/// words.
llvm::SmallVector<mlir::Value, 4> philox4x32(mlir::ImplicitLocOpBuilder &builder, mlir::Value keyLo, mlir::Value keyHi,
                                             mlir::ValueRange counters);

} // namespace torch_tile::codegen
