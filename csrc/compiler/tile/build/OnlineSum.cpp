// A maximum and the sum of exponentials relative to it, as softmax needs them, in one pass over a long row: the sum is
// relative to the largest value so far and is scaled whenever that grows.
#include "compiler/tile/build/OnlineSum.h"
#include "compiler/tile/build/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include "llvm/ADT/DenseSet.h"

#include <array>

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::tile_build {

/// Elements of a tile that one thread holds side by side.
static constexpr int64_t mostLanes = 16;

/// What a value is computed by: through loads of pointwise members of the group.
static Value resolve(FusedLoops &loops, Value value) {
  while (auto load = value.getDefiningOp<LoadOp>()) {
    const FusedMember *from = loops.producer(load.getSource());
    if (!from || load.getMask() || !from->isFull)
      break;
    LoopsOp op = from->op;
    if (op.isReduction() || op.getWriteAt() || op.getNumResults() != 1)
      break;
    value = op.bodyBlock()->getTerminator()->getOperand(0);
  }
  return value;
}

/// `same`: pairs that are known to be the same; values that are used twice are looked at once.
static bool isSameValue(FusedLoops &loops, Value left, Value right, llvm::DenseSet<std::pair<Value, Value>> &same) {
  left = resolve(loops, left);
  right = resolve(loops, right);
  if (left == right || same.contains({left, right}))
    return true;
  Operation *a = left.getDefiningOp(), *b = right.getDefiningOp();
  if (!a || !b || a->getName() != b->getName() || a->getNumOperands() != b->getNumOperands() ||
      left.getType() != right.getType())
    return false;
  if (auto load = dyn_cast<LoadOp>(a)) {
    auto other = cast<LoadOp>(b);
    if (load.getSource() != other.getSource() || loops.exprOf(load) != loops.exprOf(other) || load.getMask() ||
        other.getMask() || !load.getScalars().empty() || !other.getScalars().empty())
      return false;
    same.insert({left, right});
    return true;
  }
  if (isa<IndexOp, CheckIndexOp, UniformOp>(a) || a->getAttrDictionary() != b->getAttrDictionary() ||
      a->getNumRegions() > 0)
    return false;
  for (auto [x, y] : llvm::zip_equal(a->getOperands(), b->getOperands()))
    if (!isSameValue(loops, x, y, same))
      return false;
  same.insert({left, right});
  return true;
}

template <typename Op> static bool combinesBy(LoopsOp op) {
  if (!op.isReduction() || op.getNumResults() != 1)
    return false;
  Block &block = op.getCombine().front();
  Operation *only = block.getTerminator()->getOperand(0).getDefiningOp();
  return isa_and_present<Op>(only) && llvm::all_of(only->getOperands(), [](Value v) { return isa<BlockArgument>(v); });
}

const FusedMember *onlineSumOf(FusedLoops &loops, const FusedMember &maximum) {
  LoopsOp first = maximum.op;
  if (!combinesBy<arith::MaximumFOp>(first))
    return nullptr;
  if (llvm::count_if(loops.axes, [](const fusion::Axis &axis) { return axis.reduced; }) != 1)
    return nullptr;
  Value x = first.bodyBlock()->getTerminator()->getOperand(0);
  llvm::DenseSet<std::pair<Value, Value>> same;
  for (const FusedMember &member : loops.members) {
    LoopsOp op = member.op;
    if (!member.isFull || member.stage != maximum.stage + 1 || !combinesBy<arith::AddFOp>(op))
      continue;
    auto exp = resolve(loops, op.bodyBlock()->getTerminator()->getOperand(0)).getDefiningOp<math::ExpOp>();
    auto difference = exp ? resolve(loops, exp.getOperand()).getDefiningOp<arith::SubFOp>() : arith::SubFOp();
    auto load = difference ? difference.getRhs().getDefiningOp<LoadOp>() : LoadOp();
    if (load && load.getSource() == first.getResult(0) && !load.getMask() && difference.getType() == x.getType() &&
        isSameValue(loops, difference.getLhs(), x, same))
      return &member;
  }
  return nullptr;
}

/// Not the largest value's approximation: e^x is 1 at most.
static Value approximateExp(ImplicitLocOpBuilder &builder, Value x) {
  auto made = math::ExpOp::create(builder, x);
  made->setAttr("tile.approximate", builder.getUnitAttr());
  return made;
}

/// `items`: the maximum, and what else is stored in its loop.
void KernelEmitter::emitOnline(const FusedMember &maximum, const FusedMember &sum, ArrayRef<Reduction> items) {
  LoopsOp op = maximum.op;
  auto element = cast<FloatType>(op.bodyBlock()->getTerminator()->getOperand(0).getType());
  const llvm::fltSemantics &semantics = element.getFloatSemantics();
  auto constant = [&](const APFloat &value) -> Value {
    return arith::ConstantOp::create(builder, builder.getFloatAttr(element, value));
  };
  auto tiled = [&](Value value) { return toTile(builder, value, tileShape()); };
  Value infinite = constant(APFloat::getInf(semantics, /*Negative=*/true));
  auto exp = [&](Value x) { return approximateExp(builder, x); };
  auto maximumOf = [&](Value a, Value b) -> Value { return arith::MaximumFOp::create(builder, a, b); };
  // A thread carries one pair for its piece of a tile.
  int64_t piece = options.isGpu && schedule.numThreads > 0 && schedule.lanes % schedule.numThreads == 0
                      ? schedule.lanes / schedule.numThreads
                      : 1;
  SmallVector<int64_t> carriedShape = tileShape();
  if (schedule.pieceLanes > 0) // what else a thread holds are no neighbours
    piece = std::min(piece, schedule.pieceLanes);
  if (!llvm::isPowerOf2_64(piece) || piece > mostLanes)
    piece = 1;
  carriedShape.back() /= piece;
  int64_t tileSize = schedule.lanes;
  auto perPiece = [&](Value tile, bool isMaximum) -> Value {
    if (piece == 1)
      return tile;
    auto type = RankedTensorType::get({carriedShape.back(), piece}, element);
    Value pieces = tile::ReshapeOp::create(builder, type, tile);
    auto reduce = tile::ReduceOp::create(builder, RankedTensorType::get(carriedShape, element), pieces,
                                         builder.getI64IntegerAttr(1));
    OpBuilder::InsertionGuard guard(builder);
    Block *block =
        builder.createBlock(&reduce.getCombine(), {}, {element, element}, SmallVector<Location>(2, builder.getLoc()));
    Value left = block->getArgument(0), right = block->getArgument(1);
    tile::YieldOp::create(builder,
                          isMaximum ? maximumOf(left, right) : arith::AddFOp::create(builder, left, right).getResult());
    return reduce.getResult(0);
  };
  auto perLane = [&](Value value) -> Value {
    if (piece == 1)
      return value;
    value = tile::ExpandDimsOp::create(builder, RankedTensorType::get({carriedShape.back(), 1}, element), value,
                                       builder.getI64IntegerAttr(1));
    value = tile::BroadcastOp::create(builder, RankedTensorType::get({carriedShape.back(), piece}, element), value);
    return tile::ReshapeOp::create(builder, RankedTensorType::get({tileSize}, element), value);
  };
  // The largest value so far is finite from the start, so that differences are numbers.
  ValueList initial = {toTile(builder, constant(APFloat::getLargest(semantics, /*Negative=*/true)), carriedShape),
                       toTile(builder, constant(APFloat::getZero(semantics)), carriedShape)};
  auto addTiles = [&](ArrayRef<AlignedTile> list, ValueRange carried) -> ValueList {
    SmallVector<Value> tiles;
    Value largest;
    tileSize = list.front().lanes > 0 ? list.front().lanes : schedule.lanes;
    piece = tileSize / carriedShape.back();
    for (const AlignedTile &tile : list) {
      enterTile(tile);
      ScopeGuard scope(*this);
      for (const Reduction &item : items)
        if (item.member != &maximum)
          storeResults(LoopsOp(item.member->op));
      Value x = tiled(emitBody(maximum)[0]);
      if (isPartialTile()) {
        Value rest = tiled(infinite);
        x = arith::SelectOp::create(builder, gatherMask(), x, rest);
      }
      tiles.push_back(x);
      largest = largest ? maximumOf(largest, x) : x;
    }
    leaveTile();
    largest = maximumOf(carried[0], perPiece(largest, /*isMaximum=*/true));
    Value ofLanes = perLane(largest), sum;
    Value scale = exp(arith::SubFOp::create(builder, carried[0], largest));
    Value total = arith::MulFOp::create(builder, carried[1], scale);
    for (Value x : tiles) {
      Value power = exp(arith::SubFOp::create(builder, x, ofLanes));
      sum = sum ? arith::AddFOp::create(builder, sum, power).getResult() : power;
    }
    return {largest, arith::AddFOp::create(builder, total, perPiece(sum, /*isMaximum=*/false))};
  };
  if (isAligned())
    return finishOnline(maximum, sum, emitAlignedTiles(initial, addTiles));
  auto add = [&](ArrayRef<Value> indices, ValueRange carried, Value lastValid = {}) {
    SmallVector<AlignedTile> tiles(indices.size());
    for (auto [tile, index] : llvm::zip_equal(tiles, indices))
      tile.index = index;
    tiles.back().valid = lastValid;
    return addTiles(tiles, carried);
  };
  Value extent = exprs.emit(loops.axes[schedule.vectorAxis].extent, {});
  auto wholeTimes = [&](int64_t step) -> Value {
    if (std::optional<int64_t> known = loops.axes[schedule.vectorAxis].extent.constant())
      return exprs.constant(*known / step * step);
    Value rest = arith::RemUIOp::create(builder, extent, exprs.constant(step));
    return arith::SubIOp::create(builder, extent, rest);
  };
  int64_t step = schedule.lanes * schedule.unroll;
  Value grouped = wholeTimes(step), whole = wholeTimes(schedule.lanes);
  ValueList values = emitFor(exprs.constant(0), grouped, step, initial, [&](Value index, ValueRange carried) {
    SmallVector<Value> indices;
    for (int64_t k = 0; k < schedule.unroll; ++k)
      indices.push_back(reuse(arith::AddIOp::create(builder, index, exprs.constant(k * schedule.lanes))));
    return add(indices, carried);
  });
  if (std::optional<int64_t> known = loops.axes[schedule.vectorAxis].extent.constant()) {
    // The rest is one more group: its loads are under way together, too.
    SmallVector<Value> indices;
    int64_t at = *known / step * step;
    for (; at < *known; at += schedule.lanes)
      indices.push_back(exprs.constant(at));
    if (!indices.empty())
      values = add(indices, values, at > *known ? exprs.constant(*known - at + schedule.lanes) : Value());
    return finishOnline(maximum, sum, values);
  }
  if (grouped != whole)
    values = emitFor(grouped, whole, schedule.lanes, values,
                     [&](Value index, ValueRange carried) { return add(index, carried); });
  if (!isAlwaysFull()) {
    Value isLeft = arith::CmpIOp::create(builder, arith::CmpIPredicate::slt, whole, extent);
    SmallVector<Type> types = llvm::to_vector(ValueRange(values).getTypes());
    values = emitIf(
        isLeft, types, [&] { return add(whole, values, arith::SubIOp::create(builder, extent, whole)); },
        [&] { return values; });
  }
  finishOnline(maximum, sum, values);
}

/// Joins the pairs (largest, sum) of all lanes.
void KernelEmitter::finishOnline(const FusedMember &maximum, const FusedMember &sum, ValueRange values) {
  auto element = cast<FloatType>(getElementTypeOrSelf(values[0].getType()));
  const llvm::fltSemantics &semantics = element.getFloatSemantics();
  auto constant = [&](const APFloat &value) -> Value {
    return arith::ConstantOp::create(builder, builder.getFloatAttr(element, value));
  };
  Value infinite = constant(APFloat::getInf(semantics, /*Negative=*/true));
  // Pairs (largest, sum) of lanes: both sums relative to the larger one.
  auto reduce = tile::ReduceOp::create(builder, TypeRange{element, element}, values, builder.getI64IntegerAttr(0));
  Block *block = builder.createBlock(&reduce.getCombine(), {}, {element, element, element, element},
                                     SmallVector<Location>(4, builder.getLoc()));
  Value largest = arith::MaximumFOp::create(builder, block->getArgument(0), block->getArgument(2));
  auto scaled = [&](unsigned k) -> Value {
    Value factor = approximateExp(builder, arith::SubFOp::create(builder, block->getArgument(k), largest));
    return arith::MulFOp::create(builder, block->getArgument(k + 1), factor);
  };
  Value total = arith::AddFOp::create(builder, scaled(0), scaled(2));
  tile::YieldOp::create(builder, ValueRange{largest, total});
  builder.setInsertionPointAfter(reduce);
  // Nothing but -inf, of which e^(x - maximum) is NaN.
  Value isNothing = arith::CmpFOp::create(builder, arith::CmpFPredicate::OEQ, reduce.getResult(1),
                                          constant(APFloat::getZero(semantics)));
  Value results[] = {
      arith::SelectOp::create(builder, isNothing, infinite, reduce.getResult(0)),
      arith::SelectOp::create(builder, isNothing, constant(APFloat::getQNaN(semantics)), reduce.getResult(1))};
  for (auto [member, value] : llvm::zip(std::array{&maximum, &sum}, results)) {
    Value result = LoopsOp(member->op).getResult(0);
    scopes.back().values[result] = value;
    if (escapes(result))
      store(value, result);
  }
  finished.insert(&sum);
}

} // namespace torch_tile::tile_build
