#include "compiler/graph/ir/GraphDialect.h"

#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace mlir::graph;

static LogicalResult verifyDim(Operation *op, int64_t dim, unsigned rank) {
  if (dim < 0 || dim >= int64_t(rank))
    return op->emitOpError("expected dim in [0, ") << rank << "), got " << dim;
  return success();
}

LogicalResult PermuteOp::verify() {
  unsigned rank = getX().getType().getRank();
  llvm::SmallBitVector seen(rank);
  for (int64_t dim : getDims()) {
    if (failed(verifyDim(*this, dim, rank)))
      return failure();
    seen.set(dim);
  }
  if (getDims().size() != rank || !seen.all() || getType().getRank() != rank)
    return emitOpError("expected dims to be a permutation of ") << rank << " dimensions";
  return success();
}

LogicalResult SliceOp::verify() {
  if (getType().getRank() != getX().getType().getRank())
    return emitOpError("expected the operand's rank, got ")
           << getType().getRank() << " and " << getX().getType().getRank();
  return verifyDim(*this, getDim(), getType().getRank());
}

LogicalResult SelectOp::verify() {
  if (getType().getRank() + 1 != getX().getType().getRank())
    return emitOpError("expected one dimension less than the operand, got ")
           << getType().getRank() << " and " << getX().getType().getRank();
  return verifyDim(*this, getDim(), getX().getType().getRank());
}

LogicalResult UnfoldOp::verify() {
  if (getType().getRank() != getX().getType().getRank() + 1)
    return emitOpError("expected one dimension more than the operand, got ")
           << getType().getRank() << " and " << getX().getType().getRank();
  return verifyDim(*this, getDim(), getX().getType().getRank());
}

LogicalResult CatOp::verify() { return verifyDim(*this, getDim(), getType().getRank()); }

LogicalResult ConstantPadOp::verify() {
  unsigned rank = getX().getType().getRank();
  if (exprsOfAny(getLow()).size() != rank || exprsOfAny(getHigh()).size() != rank || getType().getRank() != rank)
    return emitOpError("expected one low and one high padding per dimension of ") << getX().getType();
  return success();
}
