// Rows that may begin anywhere in memory, because their length is no multiple of 16 bytes or they are parts of longer
// ones. Tiles begin at the last multiple of 16 bytes before the row, so that all pieces but the first and the last lie
// whole inside of it and are one access each.
#include "compiler/fusion/Access.h"
#include "compiler/tile/build/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using torch_tile::fusion::Axis;
using torch_tile::fusion::strideAlong;
using torch_tile::fusion::withoutAxis;

namespace torch_tile::tile_build {

bool KernelEmitter::isAlignedToo(SizeExpr offset) {
  if (!isAligned() || hasRows())
    return false;
  SizeContext &sizes = loops.sizes();
  SizeExpr distance = sizes.sub(withoutAxis(sizes, offset, vectorName()), schedule.alignedOffset);
  return loops.facts().divides(sizes.constant(schedule.alignedLanes), loops.facts().simplify(distance)) == Proof::Yes;
}

/// How far into a word of memory the row begins, which is not before its buffer.
Value KernelEmitter::lanesBeforeRow() {
  Value offset = exprs.emit(schedule.alignedOffset, bindings);
  return reuse(arith::RemUIOp::create(builder, offset, exprs.constant(schedule.alignedLanes)));
}

void KernelEmitter::enterTile(const AlignedTile &tile) {
  bindings[vectorName()] = tile.index;
  tilePlace = tile.place;
  skippedLanes = tile.skipped;
  validLanes = tile.valid;
  fewerLanes = tile.lanes;
  isSurrounded = tile.isSurrounded;
}

Value KernelEmitter::skippedMask() {
  if (!skippedLanes)
    return {};
  Type i32 = builder.getI32Type();
  Value position = reuse(tile::IotaOp::create(builder, RankedTensorType::get(tileShape(), i32)));
  Value first = reuse(arith::TruncIOp::create(builder, i32, skippedLanes));
  first = reuse(tile::SplatOp::create(builder, position.getType(), first));
  return reuse(arith::CmpIOp::create(builder, arith::CmpIPredicate::sge, position, first));
}

/// Whether a single tile has all of the vector axis, on GPU, however a row lies.
bool KernelEmitter::isOneTile() const {
  std::optional<int64_t> extent = loops.axes[schedule.vectorAxis].extent.constant();
  return options.isGpu && extent && *extent > 0 && *extent + schedule.mostSkipped() <= schedule.lanes;
}

/// All tiles of a row, as many at once as are under way together. The first one and those at the end have masks.
KernelEmitter::ValueList KernelEmitter::emitAlignedTiles(ValueRange carried, TilesFn body) {
  const Axis &axis = loops.axes[schedule.vectorAxis];
  int64_t lanes = schedule.lanes, step = lanes * schedule.unroll;
  Value skipped = lanesBeforeRow();
  auto add = [&](Value a, Value b) { return reuse(arith::AddIOp::create(builder, a, b)); };
  auto tileAt = [&](Value place) {
    AlignedTile tile;
    tile.place = place;
    tile.index = reuse(arith::SubIOp::create(builder, place, skipped));
    return tile;
  };
  bool isLastSurrounded = false; // of the tiles without masks
  auto group = [&](Value place, ValueRange inner) {
    SmallVector<AlignedTile> tiles;
    for (int64_t k = 0; k < schedule.unroll; ++k) {
      tiles.push_back(tileAt(k == 0 ? place : add(place, exprs.constant(k * lanes))));
      tiles.back().isSurrounded = isLastSurrounded;
    }
    return body(tiles, inner);
  };
  AlignedTile first = tileAt(exprs.constant(0));
  first.skipped = skipped;
  ValueList values(carried);
  auto loop = [&](Value from, Value to, int64_t by, ValueRange inner, LoopFn each) {
    return emitReducedFor(from, to, by, axis.extent, by / lanes, inner, each);
  };

  if (std::optional<int64_t> known = axis.extent.constant()) {
    if (*known < lanes)
      first.valid = add(exprs.constant(*known), skipped);
    // Tiles from the second to this one lie inside of the row, wherever it begins.
    int64_t whole = std::max<int64_t>(*known / lanes, 1), grouped = (whole - 1) / schedule.unroll * schedule.unroll;
    isLastSurrounded = *known - whole * lanes >= schedule.mostSkipped();
    first.isOnly = isOneTile();
    SmallVector<AlignedTile> others = {first};
    for (int64_t k = 1 + grouped; k * lanes < *known + schedule.mostSkipped(); ++k) {
      others.push_back(tileAt(exprs.constant(k * lanes)));
      if (k >= whole)
        others.back().valid = add(exprs.constant(*known - k * lanes), skipped);
      else
        others.back().isSurrounded = isLastSurrounded;
    }
    ArrayRef<AlignedTile> left = others;
    if (schedule.lastLanes > 0 && left.size() > 1) {
      others.back().lanes = schedule.lastLanes;
      values = body(left.take_back(), values);
      left = left.drop_back();
    }
    for (; !left.empty(); left = left.drop_front(std::min<size_t>(left.size(), schedule.unroll)))
      values = body(left.take_front(schedule.unroll), values);
    if (grouped > 0)
      values = loop(exprs.constant(lanes), exprs.constant((1 + grouped) * lanes), step, values, group);
    return values;
  }

  Value low = exprs.constant(lanes), end = add(exprs.emit(axis.extent, {}), skipped);
  first.valid = reuse(arith::MinSIOp::create(builder, end, low));
  values = body(first, values);
  Value length = reuse(arith::SubIOp::create(builder, reuse(arith::MaxSIOp::create(builder, end, low)), low));
  auto wholeTimes = [&](int64_t tile) {
    Value rest = arith::RemUIOp::create(builder, length, exprs.constant(tile));
    return add(low, arith::SubIOp::create(builder, length, rest));
  };
  Value grouped = low, whole = wholeTimes(lanes);
  if (schedule.unroll > 1) {
    grouped = wholeTimes(step);
    values = loop(low, grouped, step, values, group);
  }
  values =
      loop(grouped, whole, lanes, values, [&](Value place, ValueRange inner) { return body(tileAt(place), inner); });
  Value isLeft = arith::CmpIOp::create(builder, arith::CmpIPredicate::slt, whole, end);
  SmallVector<Type> types = llvm::to_vector(ValueRange(values).getTypes());
  return emitIf(
      isLeft, types,
      [&] {
        AlignedTile last = tileAt(whole);
        last.valid = reuse(arith::SubIOp::create(builder, end, whole));
        return body(last, values);
      },
      [&] { return values; });
}

/// The tiles of a row, one after the other.
KernelEmitter::ValueList KernelEmitter::emitAlignedRow(ValueRange carried, BodyFn body) {
  return emitAlignedTiles(carried, [&](ArrayRef<AlignedTile> tiles, ValueRange inner) {
    return emitSteps((int64_t)tiles.size(), inner, [&](int64_t k, ValueRange before) {
      enterTile(tiles[k]);
      std::optional<ScopeGuard> scope;
      if (!tiles[k].isOnly)
        scope.emplace(*this);
      ValueList values = body(before);
      leaveTile();
      return values;
    });
  });
}

/// The only tile of a program, along a parallel axis: most have no masks.
void KernelEmitter::emitAlignedBlock() {
  Value skipped = lanesBeforeRow(), zero = exprs.constant(0), lanes = exprs.constant(schedule.lanes);
  auto compare = [&](arith::CmpIPredicate predicate, Value left, Value right) {
    return reuse(arith::CmpIOp::create(builder, predicate, left, right));
  };
  AlignedTile tile;
  tile.place = blockLow;
  tile.index = reuse(arith::SubIOp::create(builder, blockLow, skipped));
  Value left = reuse(arith::SubIOp::create(builder, blockHigh, tile.index));
  // What lies elsewhere in memory is read in words as well, which reach beyond the tile.
  bool hasOthers = llvm::any_of(loops.accesses(), [&](const FusedLoops::Access &access) {
    std::optional<SizeExpr> stride = strideAlong(loops.sizes(), access.offset, vectorName());
    return stride && stride->isConstant(1) && !isAlignedToo(access.offset);
  });
  int64_t reach = hasOthers ? schedule.mostSkipped() : 0;
  Value most = exprs.constant(reach), enough = exprs.constant(schedule.lanes + reach);
  Value isWhole = reuse(arith::AndIOp::create(builder, compare(arith::CmpIPredicate::sge, tile.index, most),
                                              compare(arith::CmpIPredicate::sge, left, enough)));
  auto emit = [&]() -> ValueList {
    enterTile(tile);
    emitStages();
    leaveTile();
    return {};
  };
  tile.isSurrounded = hasOthers;
  emitIf(isWhole, {}, emit, [&] {
    tile.isSurrounded = false;
    Value isFirst = compare(arith::CmpIPredicate::eq, blockLow, zero);
    tile.skipped = reuse(arith::SelectOp::create(builder, isFirst, skipped, zero));
    tile.valid = reuse(arith::MinSIOp::create(builder, left, lanes));
    return emit();
  });
}

} // namespace torch_tile::tile_build
