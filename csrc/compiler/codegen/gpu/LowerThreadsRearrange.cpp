// Elements that change their places: through shared memory.
#include "compiler/codegen/gpu/ThreadLowering.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace torch_tile::codegen;

static constexpr int64_t warpSize = 32;

LogicalResult ThreadLowering::lowerCat(tile::CatOp op) {
  auto from = cast<RankedTensorType>(op.getLhs().getType()), to = cast<RankedTensorType>(op.getType());
  int64_t half = from.getNumElements();
  auto sourceIndex = [&](Value index) -> Value { return arith::RemUIOp::create(b, index, i32(half)); };
  auto left = exchange(op, op.getLhs(), to, sourceIndex);
  if (failed(left))
    return failure();
  auto right = exchange(op, op.getRhs(), to, sourceIndex);
  if (failed(right))
    return failure();
  Rows result;
  for (int64_t piece = 0, end = numRowsOf(to); piece < end; ++piece) {
    SmallVector<Value> isLeft;
    for (int64_t lane = 0, lanes = lanesOf(to); lane < lanes; ++lane)
      isLeft.push_back(arith::CmpIOp::create(b, arith::CmpIPredicate::ult, addI32(start(to, piece), lane), i32(half)));
    result.push_back(arith::SelectOp::create(b, fromScalars(isLeft), (*left)[piece], (*right)[piece]));
  }
  set(op.getResult(), std::move(result));
  return success();
}

LogicalResult ThreadLowering::lowerJoin(tile::JoinOp op) {
  auto to = cast<RankedTensorType>(op.getType());
  SmallVector<Rows, 2> sides;
  for (Value side : {op.getLhs(), op.getRhs()}) {
    if (!isa<RankedTensorType>(side.getType())) {
      sides.push_back(Rows(numRowsOf(to), broadcast(scalar(side), rowTypeOf(to))));
      continue;
    }
    auto spread =
        exchange(op, side, to, [&](Value index) -> Value { return arith::ShRUIOp::create(b, index, i32(1)); });
    if (failed(spread))
      return failure();
    sides.push_back(std::move(*spread));
  }
  Rows result;
  for (int64_t piece = 0, end = numRowsOf(to); piece < end; ++piece) {
    SmallVector<Value> isRight;
    for (int64_t lane = 0, lanes = lanesOf(to); lane < lanes; ++lane)
      isRight.push_back(arith::TruncIOp::create(b, b.getI1Type(), addI32(start(to, piece), lane)));
    result.push_back(arith::SelectOp::create(b, fromScalars(isRight), sides[1][piece], sides[0][piece]));
  }
  set(op.getResult(), std::move(result));
  return success();
}

LogicalResult ThreadLowering::lowerSplit(tile::SplitOp op) {
  for (auto [side, result] : llvm::enumerate(op->getResults())) {
    auto place = [&, side = side](Value index) -> Value {
      return addI32(arith::ShLIOp::create(b, index, i32(1)), int64_t(side));
    };
    auto moved = exchange(op, op.getSource(), result.getType(), place);
    if (failed(moved))
      return failure();
    set(result, std::move(*moved));
  }
  return success();
}

LogicalResult ThreadLowering::lowerTake(tile::TakeOp op) {
  auto from = cast<RankedTensorType>(op.getSource().getType()), to = cast<RankedTensorType>(op.getType());
  int64_t axis = op.getAxis(), size = from.getDimSize(axis);
  const Rows indices = rows(op.getIndices());
  int64_t lanes = lanesOf(to), next = 0;
  auto sourceIndex = [&](Value index) {
    Value along = createIndexCast(extract(indices[next / lanes], next % lanes), b.getI32Type(), /*isSigned=*/true);
    ++next;
    // Outside of the axis any element will do.
    along = arith::MinUIOp::create(b, along, i32(size - 1));
    SmallVector<Value> place = coordinates(index, to.getShape());
    Value result = i32(0);
    for (auto [k, position] : llvm::enumerate(place)) {
      result = arith::MulIOp::create(b, result, i32(from.getDimSize(k)));
      result = arith::AddIOp::create(b, result, int64_t(k) == axis ? along : position);
    }
    return result;
  };
  auto result = exchange(op, op.getSource(), to, sourceIndex);
  if (failed(result))
    return failure();
  set(op.getResult(), std::move(*result));
  return success();
}

/// A partner is in another lane of the piece, in another thread of the warp, or in another piece of the thread; only
/// what is in another warp goes through shared memory.
LogicalResult ThreadLowering::lowerShuffleXor(tile::ShuffleXorOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  int64_t mask = op.getMask(), lanes = lanesOf(type), warp = std::min<int64_t>(numHolders(type), warpSize) * lanes,
          all = numHolders(type) * lanes;
  bool isWithinWarp = (mask & (all - 1)) < warp;
  if (linearLayoutOf(type) || !isWithinWarp || isa<tile::PtrType>(type.getElementType())) {
    auto moved = exchange(op, op.getSource(), type,
                          [&](Value index) -> Value { return arith::XOrIOp::create(b, index, i32(mask)); });
    if (failed(moved))
      return failure();
    set(op.getResult(), std::move(*moved));
    return success();
  }
  const Rows source = rows(op.getSource());
  int64_t lane = mask & (lanes - 1), thread = (mask & (all - 1)) / lanes;
  Rows result;
  for (size_t piece = 0; piece < source.size(); ++piece) {
    Value partner = source[piece ^ (size_t)(mask / all)];
    SmallVector<Value> elements;
    for (int64_t k = 0; k < lanes; ++k) {
      Value element = extract(partner, k ^ lane);
      elements.push_back(thread == 0 ? element : shuffleLanes(element, Shuffle::Xor, thread));
    }
    result.push_back(fromScalars(elements));
  }
  set(op.getResult(), std::move(result));
  return success();
}

LogicalResult ThreadLowering::lowerExtract(tile::ExtractOp op) {
  APInt position;
  auto total = scanTotals.find(op.getSource());
  if (total != scanTotals.end() && matchPattern(op.getPosition(), m_ConstantInt(&position)) &&
      position == cast<RankedTensorType>(op.getSource().getType()).getNumElements() - 1) {
    set(op.getResult(), {total->second});
    return success();
  }
  auto result = exchange(op, op.getSource(), op.getType(), [&](Value) {
    return createIndexCast(scalar(op.getPosition()), b.getI32Type(), /*isSigned=*/true);
  });
  if (failed(result))
    return failure();
  set(op.getResult(), std::move(*result));
  return success();
}

LogicalResult ThreadLowering::lowerHistogram(tile::HistogramOp op) {
  auto from = cast<RankedTensorType>(op.getSource().getType()), to = cast<RankedTensorType>(op.getType());
  Type count = b.getI32Type();
  SmallVector<Shared> parts;
  if (failed(reserveShared(op, count, to.getNumElements(), /*isPadded=*/false, parts)))
    return failure();
  storeShared(parts[0], Rows(numRowsOf(to), zero(withLanes(count, lanesOf(to)))), to);
  barrier();
  const Rows sources = rows(op.getSource());
  for (auto [piece, row] : llvm::enumerate(sources)) {
    Value owner = isOwned(from, piece);
    for (int64_t lane = 0, lanes = lanesOf(row.getType()); lane < lanes; ++lane) {
      Value value = createIndexCast(extract(row, lane), b.getI64Type(), /*isSigned=*/true);
      Value inside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, value, i64(to.getNumElements()));
      if (op.getMask())
        inside = both(inside, extract(rows(op.getMask())[piece], lane));
      guardedStore(both(owner, inside), [&] {
        Value place = arith::TruncIOp::create(b, b.getI32Type(), value);
        LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::add, sharedPtr(parts[0], place), i32(1),
                                  LLVM::AtomicOrdering::monotonic, "block");
      });
    }
  }
  barrier();
  Rows result;
  for (int64_t piece = 0, end = numRowsOf(to); piece < end; ++piece) {
    SmallVector<Value> lanes;
    for (int64_t lane = 0, numLanes = lanesOf(to); lane < numLanes; ++lane)
      lanes.push_back(createIndexCast(loadShared(parts[0], addI32(start(to, piece), lane), count), elementOf(to),
                                      /*isSigned=*/false));
    result.push_back(fromScalars(lanes));
  }
  hasSharedReaders = true;
  set(op.getResult(), std::move(result));
  return success();
}

/// The region is written once for each group of neighbours that a thread holds.
LogicalResult ThreadLowering::lowerMap(tile::MapOp op) {
  auto type = cast<RankedTensorType>(op.getSources()[0].getType());
  int64_t pack = op.getPack(), lanes = lanesOf(type), numPieces = numRowsOf(type);
  if (lanes % pack != 0)
    return op.emitOpError("unsupported on gpu: ") << pack << " neighbours at once, a thread holds " << lanes;
  Block &body = op.getBody().front();
  SmallVector<SmallVector<Value>> results(op.getNumResults());
  for (int64_t piece = 0; piece < numPieces; ++piece)
    for (int64_t first = 0; first < lanes; first += pack) {
      unsigned next = 0;
      for (Value source : op.getSources())
        for (int64_t k = 0; k < pack; ++k)
          set(body.getArgument(next++), {extract(rows(source)[piece], first + k)});
      if (failed(lowerBlock(body)))
        return failure();
      for (auto [index, value] : llvm::enumerate(body.getTerminator()->getOperands()))
        results[index / pack].push_back(scalar(value));
    }
  for (auto [result, scalars] : llvm::zip_equal(op.getResults(), results)) {
    Rows list;
    for (int64_t piece = 0; piece < numPieces; ++piece)
      list.push_back(fromScalars(ArrayRef(scalars).slice(piece * lanes, lanes)));
    set(result, std::move(list));
  }
  return success();
}
