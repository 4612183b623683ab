#include "compiler/graph/ir/GraphDialect.h"

using namespace mlir;
using namespace mlir::graph;

LogicalResult mlir::graph::detail::verifyReduction(Operation *op) {
  int64_t rank = cast<GraphTensorType>(op->getOperand(0).getType()).getRank();
  SmallVector<int64_t> dims;
  if (auto list = op->getAttrOfType<DenseI64ArrayAttr>("dims"))
    dims.assign(list.asArrayRef().begin(), list.asArrayRef().end());
  if (auto dim = op->getAttrOfType<IntegerAttr>("dim"))
    dims.push_back(dim.getInt());
  for (int64_t dim : dims)
    if (dim < 0 || dim >= std::max<int64_t>(rank, 1))
      return op->emitOpError("expected dims in [0, ") << rank << "), got " << dim;
  int64_t reduced = rank == 0 ? 0 : dims.empty() ? rank : dims.size();
  int64_t expected = isSet(op->getAttr("keepdim")) ? rank : rank - reduced;
  for (Type type : op->getResultTypes())
    if (cast<GraphTensorType>(type).getRank() != expected)
      return op->emitOpError("expected a result of rank ") << expected << ", got " << type;
  return success();
}
