#include "compiler/graph/ir/CheckLocation.h"
#include "compiler/graph/transforms/LowerOps.h"
#include "support/CheckMessage.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::SizeExpr;

/// A dimension that positions in memory name has elements, unless there are no `points` at which one is named: no index
/// lies in an empty one, and a kernel that finds that out has no element to read instead.
static void checkNotEmpty(Lowering &lowering, OpBuilder &builder, Location loc, int64_t dim, SizeExpr size,
                          ArrayRef<SizeExpr> points) {
  if (lowering.facts.range(size).min > 0)
    return;
  torch_tile::SizeContext &sizes = lowering.sizes;
  SizeExpr one = sizes.constant(1), hasPoints = one;
  for (SizeExpr extent : points)
    hasPoints = sizes.mul(hasPoints, sizes.min(one, extent));
  SizeExpr condition = sizes.sub(sizes.add(one, sizes.min(one, size)), hasPoints);
  condition = lowering.facts.simplify(condition);
  if (lowering.facts.range(condition).min > 0)
    return;
  std::string message(torch_tile::indexErrorPrefix);
  message += "index is out of bounds for dimension " + std::to_string(dim) + " with size 0";
  CheckOp::create(builder, loc, ExprAttr::get(builder.getContext(), condition), builder.getStringAttr(message));
}

/// An index element as i64, checked against the size of `dim`, which it indexes, and known as x<number> in index
/// expressions.
static Value checkedIndex(Lowering &lowering, LoopNest &nest, Value index, Type type, int64_t dim, SizeExpr size,
                          bool wrap, unsigned number) {
  ScalarBuilder &s = nest.scalars();
  index = s.cast(index, type, s.builder.getI64Type());
  lowering.facts.setExtent("x" + std::to_string(number), size);
  return CheckIndexOp::create(s.builder, locationOfCheck(s.loc, dim), s.builder.getI64Type(), index,
                              ExprAttr::get(s.builder.getContext(), size), wrap ? s.builder.getUnitAttr() : UnitAttr(),
                              Value(), /*division=*/UnitAttr());
}

namespace {

/// Where the points that index tensors name lie among the dimensions of `graph.index`'s result.
struct IndexedShape {
  template <typename OpT> explicit IndexedShape(OpT op) {
    if (auto list = op.getDims())
      dims.assign(list->begin(), list->end());
    else
      for (unsigned k = 0; k < op.getIndices().size(); ++k)
        dims.push_back(k);
    for (Value index : op.getIndices())
      rank = std::max(rank, tensorType(index).getRank());
    bool isAdjacent = dims.back() - dims.front() + 1 == int64_t(dims.size());
    first = isAdjacent ? dims.front() : 0;
  }

  /// One index per dimension of the indexed tensor: x<k> for the indexed ones, `rest` in order for the others.
  SmallVector<SizeExpr> indices(torch_tile::SizeContext &sizes, ArrayRef<SizeExpr> rest) const {
    SmallVector<SizeExpr> list(dims.size() + rest.size());
    for (auto [k, dim] : llvm::enumerate(dims))
      list[dim] = axisSymbol(sizes, 'x', k);
    for (SizeExpr &index : list)
      if (!index) {
        index = rest.front();
        rest = rest.drop_front();
      }
    return list;
  }

  SmallVector<int64_t> dims;
  unsigned rank = 0;  // of the broadcast index tensors
  unsigned first = 0; // the dimension of the result at which their dimensions start
};

} // namespace

LogicalResult mlir::graph::lowerIndex(Lowering &lowering, OpBuilder &builder, IndexTensorOp op) {
  ArrayRef<SizeExpr> sourceSizes = op.getX().getType().getSizes();
  IndexedShape shape(op);
  for (int64_t dim : shape.dims)
    checkNotEmpty(lowering, builder, op.getLoc(), dim, sourceSizes[dim], op.getType().getSizes());
  LoopNest nest(lowering, builder, op.getLoc(), op->getResultTypes(), op.getType().getSizes());
  ArrayRef<SizeExpr> point = nest.at().slice(shape.first, shape.rank);
  SmallVector<SizeExpr> rest(nest.at().take_front(shape.first));
  llvm::append_range(rest, nest.at().drop_front(shape.first + shape.rank));

  SmallVector<Value> dynamic;
  ArrayRef<SizeExpr> extents = op.getType().getSizes().slice(shape.first, shape.rank);
  for (auto [k, index] : llvm::enumerate(op.getIndices())) {
    Value value = nest.load(index, broadcastIndices(lowering.sizes, tensorType(index).getSizes(), point, extents));
    dynamic.push_back(checkedIndex(lowering, nest, value, elementType(index), shape.dims[k], sourceSizes[shape.dims[k]],
                                   isSet(op.getWrapAttr()), k));
  }
  Value result = nest.load(op.getX(), shape.indices(lowering.sizes, rest), dynamic);
  op.replaceAllUsesWith(nest.yield(result).getResult(0));
  return success();
}

LogicalResult mlir::graph::lowerGather(Lowering &lowering, OpBuilder &builder, GatherOp op) {
  ArrayRef<SizeExpr> sourceSizes = op.getX().getType().getSizes();
  if (!sourceSizes.empty())
    checkNotEmpty(lowering, builder, op.getLoc(), op.getDim(), sourceSizes[op.getDim()], op.getType().getSizes());
  LoopNest nest(lowering, builder, op.getLoc(), op->getResultTypes(), op.getType().getSizes());
  SmallVector<SizeExpr> indices(nest.at());
  SmallVector<Value> dynamic;
  if (!indices.empty()) {
    Value value = nest.load(op.getIndex(), nest.at());
    dynamic.push_back(checkedIndex(lowering, nest, value, elementType(op.getIndex()), op.getDim(),
                                   sourceSizes[op.getDim()], /*wrap=*/false, 0));
    indices[op.getDim()] = axisSymbol(lowering.sizes, 'x', 0);
  }
  op.replaceAllUsesWith(nest.yield(nest.load(op.getX(), indices, dynamic)).getResult(0));
  return success();
}

//===-- writes --------------------------------------------------------------------------------------------------===//

/// A new buffer of the op's result type with the elements of `x`. Where extrema of floats update it atomically, any NaN
/// is the one that such an update makes (tile.atomic_rmw).
static Value copyOf(Lowering &lowering, OpBuilder &builder, Operation *op, Value x, std::optional<StringRef> combine,
                    bool isOrdered) {
  LoopNest nest(lowering, builder, op->getLoc(), op->getResultTypes(), tensorType(op->getResult(0)).getSizes());
  Value value = nest.load(x, nest.at());
  auto type = dyn_cast<FloatType>(value.getType());
  if (type && !isOrdered && combine && (*combine == "max" || *combine == "min")) {
    ScalarBuilder &s = nest.scalars();
    auto nan = llvm::APFloat::getQNaN(type.getFloatSemantics(), /*Negative=*/*combine == "min");
    Value isNan = s.make<arith::CmpFOp>(arith::CmpFPredicate::UNO, value, value);
    value = s.make<arith::SelectOp>(isNan, s.make<arith::ConstantOp>(FloatAttr::get(type, nan)), value);
  }
  return nest.yield(value).getResult(0);
}

static LoopsOp endScatter(LoopNest &nest, Value value, Type type, std::optional<StringRef> combine) {
  if (!combine)
    return nest.yield(value);
  return nest.accumulate(value, [&](ScalarBuilder &s, ValueRange held, ValueRange values) -> SmallVector<Value> {
    return {scalarFold(*combine, type)(s, held[0], values[0])};
  });
}

/// The sizes that tensors broadcast to.
static SmallVector<SizeExpr> broadcastSizes(Lowering &lowering, ValueRange tensors, unsigned rank) {
  SmallVector<SizeExpr> sizes(rank, lowering.sizes.constant(1));
  for (Value tensor : tensors) {
    ArrayRef<SizeExpr> own = tensorType(tensor).getSizes();
    for (auto [k, size] : llvm::enumerate(own))
      if (SizeExpr &known = sizes[rank - own.size() + k]; known.isConstant(1))
        known = size;
      else if (!size.isConstant(1) && size != known)
        known = lowering.sizes.max(known, size); // equal, or one of them is 1 by a guard
  }
  return sizes;
}

/// `at` with `more` put in before position `first`.
static SmallVector<SizeExpr> withPoint(ArrayRef<SizeExpr> at, size_t first, ArrayRef<SizeExpr> more) {
  SmallVector<SizeExpr> point(at.take_front(first));
  llvm::append_range(point, more);
  llvm::append_range(point, at.drop_front(first));
  return point;
}

/// Whether points that name one element are taken in order. A combiner needs all of them: one after the other, or where
/// the order is free each by an atomic update, which there is for sums and extrema of signed integers and floats of 32
/// and 64 bits.
static bool ordersPoints(const Lowering &lowering, std::optional<StringRef> combine, Type element) {
  bool isWide = element.isIntOrFloat() && element.getIntOrFloatBitWidth() >= 32 && !element.isUnsignedInteger();
  bool isAtomic = !combine || (isWide && *combine != "mul");
  return lowering.options.ordersWrites || !isAtomic;
}

/// The dimensions of the index tensors run in order where that matters: two of their points may name one element. The
/// others are parallel.
LogicalResult mlir::graph::lowerIndexPut(Lowering &lowering, OpBuilder &builder, IndexPutOp op) {
  ArrayRef<SizeExpr> sizes = op.getX().getType().getSizes();
  IndexedShape shape(op);
  SmallVector<SizeExpr> parallel, ordered = broadcastSizes(lowering, op.getIndices(), shape.rank);
  for (auto [dim, size] : llvm::enumerate(sizes))
    if (!llvm::is_contained(shape.dims, int64_t(dim)))
      parallel.push_back(size);
  SmallVector<SizeExpr> points(parallel);
  llvm::append_range(points, ordered);
  for (int64_t dim : shape.dims)
    if (!op.getSkip())
      checkNotEmpty(lowering, builder, op.getLoc(), dim, sizes[dim], points);

  SmallVector<SizeExpr> extents = withPoint(parallel, shape.first, ordered), none;
  bool isOrdered = ordersPoints(lowering, op.getCombine(), op.getType().getElementType());
  Value dest = copyOf(lowering, builder, op, op.getX(), op.getCombine(), isOrdered);
  LoopNest nest(lowering, builder, op.getLoc(), op->getResultTypes(), isOrdered ? parallel : extents,
                isOrdered ? ordered : none, dest);
  SmallVector<SizeExpr> point(nest.at());
  if (isOrdered)
    point = withPoint(nest.at(), shape.first, nest.reducedAt());
  ArrayRef<SizeExpr> place = ArrayRef<SizeExpr>(point).slice(shape.first, ordered.size());
  SmallVector<SizeExpr> others(point);
  others.erase(others.begin() + shape.first, others.begin() + shape.first + ordered.size());
  ScalarBuilder &s = nest.scalars();
  SmallVector<Value> dynamic;
  Value mask;
  for (auto [k, index] : llvm::enumerate(op.getIndices())) {
    Value value = nest.load(index, broadcastIndices(lowering.sizes, tensorType(index).getSizes(), place, ordered));
    SizeExpr size = sizes[shape.dims[k]];
    if (!op.getSkip()) {
      dynamic.push_back(
          checkedIndex(lowering, nest, value, elementType(index), shape.dims[k], size, isSet(op.getWrapAttr()), k));
      continue;
    }
    value = s.cast(value, elementType(index), builder.getI64Type());
    lowering.facts.setExtent("x" + std::to_string(k), size);
    Value isInside = s.compareInts(arith::CmpIPredicate::ult, value, nest.index(size));
    Value isWanted = s.compareInts(arith::CmpIPredicate::ne, value, s.intConstant(builder.getI64Type(), *op.getSkip()));
    mask = s.make<arith::AndIOp>(isInside, isWanted);
    dynamic.push_back(value);
  }
  nest.writeAt(shape.indices(lowering.sizes, others), dynamic, mask);
  ArrayRef<SizeExpr> valueSizes = tensorType(op.getValues()).getSizes();
  Value value = nest.load(op.getValues(), broadcastIndices(lowering.sizes, valueSizes, point, extents));
  op.replaceAllUsesWith(endScatter(nest, value, op.getType().getElementType(), op.getCombine()).getResult(0));
  return success();
}

/// Points along `dim` run in order where that matters, the other dimensions are parallel.
LogicalResult mlir::graph::lowerScatter(Lowering &lowering, OpBuilder &builder, ScatterOp op) {
  ArrayRef<SizeExpr> sizes = op.getIndex().getType().getSizes();
  int64_t dim = op.getDim();
  SmallVector<SizeExpr> parallel(sizes);
  bool isOrdered = ordersPoints(lowering, op.getCombine(), op.getType().getElementType());
  if (isOrdered)
    parallel.erase(parallel.begin() + dim);
  SizeExpr size = op.getX().getType().getSizes()[dim];
  checkNotEmpty(lowering, builder, op.getLoc(), dim, size, sizes);

  Value dest = copyOf(lowering, builder, op, op.getX(), op.getCombine(), isOrdered);
  LoopNest nest(lowering, builder, op.getLoc(), op->getResultTypes(), parallel,
                isOrdered ? ArrayRef<SizeExpr>(sizes[dim]) : ArrayRef<SizeExpr>(), dest);
  SmallVector<SizeExpr> point(nest.at());
  if (isOrdered)
    point.insert(point.begin() + dim, nest.reducedAt()[0]);
  Value index = nest.load(op.getIndex(), point);
  Value checked = checkedIndex(lowering, nest, index, elementType(op.getIndex()), dim, size, /*wrap=*/false, 0);
  Value value = nest.load(op.getSource(), op.getSource().getType().getRank() == 0 ? ArrayRef<SizeExpr>() : point);
  point[dim] = axisSymbol(lowering.sizes, 'x', 0);
  nest.writeAt(point, checked);
  op.replaceAllUsesWith(endScatter(nest, value, op.getType().getElementType(), op.getCombine()).getResult(0));
  return success();
}
