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

/// Two expressions may be one number by a guard that the compiler does not know: torch says 1 for max(1, s//2) once it
/// has seen that s is below 4.
static bool mayBeEqual(ArrayRef<torch_tile::SizeExpr> a, ArrayRef<torch_tile::SizeExpr> b) {
  return a.size() == b.size() && llvm::none_of(llvm::zip(a, b), [](auto pair) {
           auto [x, y] = pair;
           return x.isConstant() && y.isConstant() && x != y;
         });
}

/// Results of the operand's sizes, of which `dim` is one dimension.
static LogicalResult verifyScan(Operation *op, GraphTensorType x, uint64_t dim) {
  if (dim >= x.getRank())
    return op->emitOpError("expected dim below the rank ") << x.getRank() << ", got " << dim;
  for (Type type : op->getResultTypes())
    if (!mayBeEqual(cast<GraphTensorType>(type).getSizes(), x.getSizes()))
      return op->emitOpError("expected results of the operand's sizes, got ") << x << " and " << type;
  return success();
}
LogicalResult CumsumOp::verify() { return verifyScan(*this, getX().getType(), getDim()); }
LogicalResult CumprodOp::verify() { return verifyScan(*this, getX().getType(), getDim()); }
LogicalResult LogcumsumexpOp::verify() { return verifyScan(*this, getX().getType(), getDim()); }
LogicalResult CummaxOp::verify() { return verifyScan(*this, getX().getType(), getDim()); }
LogicalResult CumminOp::verify() { return verifyScan(*this, getX().getType(), getDim()); }
