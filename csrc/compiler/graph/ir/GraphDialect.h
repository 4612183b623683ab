// The graph dialect: types, attributes, ops.
#pragma once

#include "support/SizeExpr.h"
#include "support/SizeFacts.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/Hashing.h"

namespace torch_tile {
inline llvm::hash_code hash_value(SizeExpr e) { return llvm::hash_value(e.opaque()); }
} // namespace torch_tile

#include "compiler/graph/ir/GraphDialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "compiler/graph/ir/GraphTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/graph/ir/GraphAttrs.h.inc"

#define GET_OP_CLASSES
#include "compiler/graph/ir/GraphOps.h.inc"

namespace mlir::graph {

/// Array attributes of expressions and back.
ArrayAttr exprArray(MLIRContext *context, ArrayRef<torch_tile::SizeExpr> exprs);
SmallVector<torch_tile::SizeExpr> exprsOf(ArrayAttr array);

/// Parses an integer or a quoted expression; prints it the same way.
ParseResult parseSizeExpr(AsmParser &parser, torch_tile::SizeExpr &expr);
void printSizeExpr(AsmPrinter &printer, torch_tile::SizeExpr expr);

} // namespace mlir::graph
