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

LogicalResult ExternOp::verify() {
  auto isTensorOperand = [&](int64_t k) {
    return k >= 0 && k < (int64_t)getInputs().size() && isa<GraphTensorType>(getInputs()[k].getType());
  };
  for (int64_t k : getMutates().value_or(ArrayRef<int64_t>()))
    if (!isTensorOperand(k))
      return emitOpError("expected 'mutates' to name tensor operands, got ") << k;
  std::optional<ArrayRef<int64_t>> aliases = getAliases();
  if (!aliases)
    return success();
  if (aliases->size() != getOutputs().size())
    return emitOpError("expected an entry of 'aliases' for each of ")
           << getOutputs().size() << " results, got " << aliases->size();
  for (int64_t k : *aliases)
    if (k != kNewMemory && k != kAnyOperand && !isTensorOperand(k))
      return emitOpError("expected 'aliases' to name tensor operands, -1 or -2, got ") << k;
  return success();
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
