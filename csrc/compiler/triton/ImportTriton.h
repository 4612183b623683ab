// Triton's IR in MLIR's generic form -> the tile dialect. Knows Triton's ops by name only.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string_view>

namespace torch_tile::triton {

/// Parses generic text of a module of tt.func. Null after an error, which went to the context's diagnostics.
mlir::OwningOpRef<mlir::ModuleOp> parseGeneric(std::string_view text, mlir::MLIRContext &context);

/// A module with one tile.kernel per public tt.func; private functions are inlined where they are called. What is not
/// known fails with a diagnostic that names it and the user's line. With `pointersFirst`, kernels take their pointers
/// before their numbers, each in their order, as kernels of graphs for a GPU do.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> importModule(mlir::ModuleOp source, bool pointersFirst = false);

} // namespace torch_tile::triton
