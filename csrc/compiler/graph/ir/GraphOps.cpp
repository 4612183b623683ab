#include "compiler/graph/ir/GraphDialect.h"
#include "compiler/graph/ir/LoopsSyntax.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace mlir::graph;

#define GET_OP_CLASSES
#include "compiler/graph/ir/GraphOps.cpp.inc"

ParseResult FuncOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> arguments, ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag,
                      std::string &) { return builder.getFunctionType(arguments, results); };
  return function_interface_impl::parseFunctionOp(parser, result, /*allowVariadic=*/false,
                                                  getFunctionTypeAttrName(result.name), buildType,
                                                  getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void FuncOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
                                           getArgAttrsAttrName(), getResAttrsAttrName());
}

torch_tile::SizeFacts FuncOp::facts() {
  torch_tile::SizeFacts facts(GraphDialect::sizes(getContext()));
  if (ArrayAttr list = getSymbolsAttr())
    for (SymbolAttr symbol : list.getAsRange<SymbolAttr>()) {
      facts.setRange(symbol.getName().getValue(), symbol.getMin(), symbol.getMax());
      facts.setHint(symbol.getName().getValue(), symbol.getHint());
    }
  return facts;
}
