#include "compiler/graph/ir/GraphDialect.h"

using namespace mlir;
using namespace mlir::graph;

LogicalResult IndexTensorOp::verify() {
  unsigned rank = getX().getType().getRank();
  if (getIndices().empty() || getIndices().size() > rank)
    return emitOpError("expected between 1 and ") << rank << " index tensors, got " << getIndices().size();
  if (std::optional<ArrayRef<int64_t>> dims = getDims()) {
    if (dims->size() != getIndices().size())
      return emitOpError("expected one dim per index tensor, got ") << dims->size() << " for " << getIndices().size();
    for (auto [k, dim] : llvm::enumerate(*dims))
      if (dim < 0 || dim >= int64_t(rank) || (k > 0 && dim <= (*dims)[k - 1]))
        return emitOpError("expected ascending dims in [0, ") << rank << "), got " << getDimsAttr();
  }
  unsigned broadcastRank = 0;
  for (Value index : getIndices()) {
    auto type = cast<GraphTensorType>(index.getType());
    if (!type.getElementType().isSignlessInteger() || type.getElementType().isInteger(1))
      return emitOpError("expected signed integer indices, got ") << type;
    broadcastRank = std::max(broadcastRank, type.getRank());
  }
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
