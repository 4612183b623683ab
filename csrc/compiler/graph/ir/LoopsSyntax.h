// Custom pieces of assembly syntax that the loops ops share.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"

namespace mlir::graph {

ParseResult parseAxisList(OpAsmParser &parser, ArrayAttr &axes);
void printAxisList(OpAsmPrinter &printer, Operation *op, ArrayAttr axes);
ParseResult parseExprList(OpAsmParser &parser, ArrayAttr &exprs);
void printExprList(OpAsmPrinter &printer, Operation *op, ArrayAttr exprs);
ParseResult parseQuotedExpr(OpAsmParser &parser, ExprAttr &expr);
void printQuotedExpr(OpAsmPrinter &printer, Operation *op, ExprAttr expr);

} // namespace mlir::graph
