#include "compiler/graph/transforms/Bounds.h"

#include "compiler/graph/ir/GraphDialect.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::SizeExpr;

static GraphTensorType typeOf(Value value) { return cast<GraphTensorType>(value.getType()); }

/// Without casts to floats of more bits, which change no value and no order.
static Value withoutExtensions(Value value) {
  while (auto op = value.getDefiningOp<CastOp>()) {
    auto from = dyn_cast<FloatType>(typeOf(op.getX()).getElementType());
    auto to = dyn_cast<FloatType>(typeOf(value).getElementType());
    if (!from || !to || from.getWidth() >= to.getWidth())
      break;
    value = op.getX();
  }
  return value;
}

/// `max` broadcast to the sizes of the tensor that it is a maximum of lies at the elements it is the maximum of: its
/// sizes are those of the tensor with 1 in place of the reduced ones.
static bool isAligned(Value max, AmaxOp reduction) {
  ArrayRef<SizeExpr> sizes = typeOf(reduction.getX()).getSizes(), kept = typeOf(max).getSizes();
  if (kept.size() != sizes.size())
    return kept.empty() && typeOf(reduction.getResult()).getRank() == 0;
  SmallVector<bool> isReduced(sizes.size(), !reduction.getDims());
  for (int64_t dim : reduction.getDims().value_or(ArrayRef<int64_t>()))
    isReduced[dim] = true;
  for (auto [size, original, reduced] : llvm::zip_equal(kept, sizes, isReduced))
    if (reduced ? size.constant() != 1 : size != original)
      return false;
  return true;
}

bool mlir::graph::isAtMostZero(Value x) {
  auto difference = x.getDefiningOp<SubOp>();
  if (!difference)
    return false;
  Value max = withoutExtensions(difference.getB());
  if (auto expand = max.getDefiningOp<ExpandOp>(); expand && typeOf(expand.getX()).getRank() == typeOf(max).getRank())
    max = withoutExtensions(expand.getX());
  Value reduced = max;
  if (auto view = reduced.getDefiningOp<ViewOp>())
    reduced = withoutExtensions(view.getX());
  auto reduction = reduced.getDefiningOp<AmaxOp>();
  return reduction && isAligned(max, reduction) &&
         withoutExtensions(difference.getA()) == withoutExtensions(reduction.getX());
}
