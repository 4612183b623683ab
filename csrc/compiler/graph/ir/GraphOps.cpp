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

LogicalResult AssembleOp::verify() {
  GraphTensorType whole = getType();
  int64_t dim = getDim();
  if (dim < 0 || dim >= (int64_t)whole.getRank())
    return emitOpError("expected a dimension of ") << whole << ", got " << dim;
  torch_tile::SizeContext &sizes = GraphDialect::sizes(getContext());
  torch_tile::SizeExpr length = sizes.constant(0);
  for (Value part : getParts()) {
    auto type = cast<GraphTensorType>(part.getType());
    SmallVector<torch_tile::SizeExpr> shape(whole.getSizes());
    if (type.getRank() == whole.getRank())
      shape[dim] = type.getSizes()[dim];
    if (type != GraphTensorType::get(getContext(), shape, whole.getElementType(), whole.getStrides()))
      return emitOpError("expected parts of ") << whole << " along dimension " << dim << ", got " << type;
    length = sizes.add(length, shape[dim]);
  }
  if (length != whole.getSizes()[dim])
    return emitOpError("expected parts that make up ") << whole << " along dimension " << dim;
  return success();
}

torch_tile::SizeExpr AssembleOp::offsetOf(unsigned number) {
  torch_tile::SizeContext &sizes = GraphDialect::sizes(getContext());
  torch_tile::SizeExpr begin = sizes.constant(0);
  for (Value part : getParts().take_front(number))
    begin = sizes.add(begin, cast<GraphTensorType>(part.getType()).getSizes()[getDim()]);
  return sizes.mul(begin, getType().getStrides()[getDim()]);
}

torch_tile::SizeFacts FuncOp::facts() {
  torch_tile::SizeFacts facts(GraphDialect::sizes(getContext()));
  if (ArrayAttr list = getSymbolsAttr())
    for (SymbolAttr symbol : list.getAsRange<SymbolAttr>()) {
      facts.setRange(symbol.getName().getValue(), symbol.getMin(), symbol.getMax());
      facts.setHint(symbol.getName().getValue(), symbol.getHint());
      if (symbol.getNumber())
        facts.setNumber(symbol.getName().getValue());
    }
  return facts;
}
