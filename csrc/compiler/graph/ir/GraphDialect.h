// The graph dialect: types, attributes, ops.
#pragma once

#include "compiler/graph/ir/GraphTraits.h"
#include "support/SizeExpr.h"
#include "support/SizeFacts.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
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

/// The expression of an integer or `#graph.expr` attribute.
torch_tile::SizeExpr exprOf(Attribute attribute);
/// The expressions of an `array<i64>` or an array of integers and `#graph.expr`.
SmallVector<torch_tile::SizeExpr> exprsOfAny(Attribute attribute);
/// Whether a flag attribute (`name` or `name = true`) is there and not false.
bool isSet(Attribute flag);

/// The type of one element inside `graph.loops`: scalars are signless.
Type scalarType(Type elementType);

/// Marks an arith.truncf that a kernel may leave out: one op reads the value, and bears the difference.
inline constexpr llvm::StringLiteral kElidableRounding = "graph.elidable_rounding";

/// Parses an integer or a quoted expression; prints it the same way.
ParseResult parseSizeExpr(AsmParser &parser, torch_tile::SizeExpr &expr);
void printSizeExpr(AsmPrinter &printer, torch_tile::SizeExpr expr);

} // namespace mlir::graph
