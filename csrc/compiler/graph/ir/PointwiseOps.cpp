#include "compiler/graph/ir/GraphDialect.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::SizeExpr;

/// Sizes that are known to differ cannot broadcast; symbolic ones are torch's to have checked.
LogicalResult mlir::graph::detail::verifyPointwise(Operation *op) {
  auto result = dyn_cast<GraphTensorType>(op->getResult(0).getType());
  if (!result)
    return op->emitOpError("expected a tensor result");
  for (Type type : op->getOperandTypes()) {
    auto operand = cast<GraphTensorType>(type);
    if (operand.getRank() > result.getRank())
      return op->emitOpError("expected operands to broadcast to the result, got ") << operand << " and " << result;
    ArrayRef<SizeExpr> sizes = result.getSizes().take_back(operand.getRank());
    for (auto [from, to] : llvm::zip(operand.getSizes(), sizes))
      if (from.isConstant() && to.isConstant() && from != to && !from.isConstant(1))
        return op->emitOpError("expected operands to broadcast to the result, got ") << operand << " and " << result;
  }
  return success();
}
