#include "compiler/graph/ir/GraphDialect.h"

using namespace mlir;
using namespace mlir::graph;

/// What an op with one index tensor for each of some dimensions of a tensor of `rank` must have. Answers with the rank
/// that the index tensors broadcast to.
template <typename OpT> static FailureOr<unsigned> verifyIndices(OpT op, unsigned rank) {
  if (op.getIndices().empty() || op.getIndices().size() > rank)
    return op.emitOpError("expected between 1 and ") << rank << " index tensors, got " << op.getIndices().size();
  if (std::optional<ArrayRef<int64_t>> dims = op.getDims()) {
    if (dims->size() != op.getIndices().size())
      return op.emitOpError("expected one dim per index tensor, got ")
             << dims->size() << " for " << op.getIndices().size();
    for (auto [k, dim] : llvm::enumerate(*dims))
      if (dim < 0 || dim >= int64_t(rank) || (k > 0 && dim <= (*dims)[k - 1]))
        return op.emitOpError("expected ascending dims in [0, ") << rank << "), got " << op.getDimsAttr();
  }
  unsigned broadcastRank = 0;
  for (Value index : op.getIndices()) {
    auto type = cast<GraphTensorType>(index.getType());
    if (!type.getElementType().isSignlessInteger() || type.getElementType().isInteger(1))
      return op.emitOpError("expected signed integer indices, got ") << type;
    broadcastRank = std::max(broadcastRank, type.getRank());
  }
  return broadcastRank;
}

static LogicalResult verifyCombine(Operation *op, StringAttr combine) {
  if (combine && !llvm::is_contained({"add", "mul", "max", "min"}, combine.getValue()))
    return op->emitOpError("expected to combine with add, mul, max or min, got ") << combine;
  return success();
}

/// The result is a copy of the operand with some elements replaced.
static LogicalResult verifyCopy(Operation *op, GraphTensorType x, GraphTensorType values) {
  auto result = cast<GraphTensorType>(op->getResult(0).getType());
  if (result.getSizes() != x.getSizes() || result.getElementType() != x.getElementType() ||
      values.getElementType() != x.getElementType())
    return op->emitOpError("expected a result of the operand's sizes and one element type, got ")
           << x << ", " << values << " and " << result;
  return success();
}

LogicalResult IndexTensorOp::verify() {
  unsigned rank = getX().getType().getRank();
  FailureOr<unsigned> broadcast = verifyIndices(*this, rank);
  if (failed(broadcast))
    return failure();
  unsigned broadcastRank = *broadcast;
  if (getType().getRank() != rank - getIndices().size() + broadcastRank)
    return emitOpError("expected a result of rank ")
           << rank - getIndices().size() + broadcastRank << ", got " << getType();
  return success();
}

LogicalResult GatherOp::verify() {
  unsigned rank = getX().getType().getRank();
  auto index = getIndex().getType();
  if (!index.getElementType().isSignlessInteger() || index.getElementType().isInteger(1))
    return emitOpError("expected a signed integer index, got ") << index;
  if (index.getRank() != rank || getType().getRank() != rank)
    return emitOpError("expected index and result of rank ") << rank << ", got " << index << " and " << getType();
  if (rank > 0 && (getDim() < 0 || getDim() >= rank))
    return emitOpError("expected dim in [0, ") << rank << "), got " << getDim();
  return success();
}

LogicalResult IndexPutOp::verify() {
  unsigned rank = getX().getType().getRank();
  FailureOr<unsigned> broadcast = verifyIndices(*this, rank);
  if (failed(broadcast) || failed(verifyCombine(*this, getCombineAttr())))
    return failure();
  if (getSkip() && getIndices().size() != 1)
    return emitOpError("expected one index tensor with skip, got ") << getIndices().size();
  if (getValues().getType().getRank() > rank - getIndices().size() + *broadcast)
    return emitOpError("expected values of at most ")
           << rank - getIndices().size() + *broadcast << " dimensions, got " << getValues().getType();
  return verifyCopy(*this, getX().getType(), getValues().getType());
}

LogicalResult ScatterOp::verify() {
  unsigned rank = getX().getType().getRank();
  auto index = getIndex().getType();
  if (!index.getElementType().isSignlessInteger() || index.getElementType().isInteger(1))
    return emitOpError("expected a signed integer index, got ") << index;
  if (index.getRank() != rank || (getSource().getType().getRank() != rank && getSource().getType().getRank() != 0))
    return emitOpError("expected an index and a source of rank ")
           << rank << ", got " << index << " and " << getSource().getType();
  if (rank == 0 || getDim() >= rank)
    return emitOpError("expected dim below the rank ") << rank << ", got " << getDim();
  if (failed(verifyCombine(*this, getCombineAttr())))
    return failure();
  return verifyCopy(*this, getX().getType(), getSource().getType());
}
