// Scans. Rows that threads hold side by side are folded by each thread, then by shuffles within a warp, then over the
// warps through shared memory. Other axes go through shared memory element by element.
#include "compiler/codegen/gpu/ThreadLowering.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace torch_tile::codegen;

static constexpr int64_t warpSize = 32;

//===-- rows ----------------------------------------------------------------------------------------------------===//

/// How threads hold the rows of a tile: `width` of them have one piece each of the same row side by side, and a row has
/// so many runs of such pieces.
struct ThreadLowering::ScanRows {
  int64_t width, piecesOfRow, numRows;
  int64_t numLanes() const { return std::min(width, warpSize); }
  int64_t warpsOfRow() const { return std::max<int64_t>(width / warpSize, 1); }
  /// Parts of a row that one warp has.
  int64_t partsOfRow() const { return piecesOfRow * warpsOfRow(); }
};

std::optional<ThreadLowering::ScanRows> ThreadLowering::scanRowsOf(tile::ScanOp op) {
  auto type = cast<RankedTensorType>(op.getSources()[0].getType());
  if (linearLayoutOf(type) || (int64_t)op.getAxis() + 1 != type.getRank() || !llvm::isPowerOf2_64(numThreads))
    return std::nullopt;
  int64_t lanes = lanesOf(type), size = type.getShape().back(), all = type.getNumElements();
  int64_t piece = numThreads * lanes;
  if (size % piece == 0)
    return ScanRows{numThreads, size / piece, all / size};
  // Pieces of whole rows; or copies of all of them.
  if (size % lanes == 0 && llvm::isPowerOf2_64(size / lanes) && (all % piece == 0 || piece % all == 0))
    return ScanRows{size / lanes, 1, numRowsOf(type)};
  return std::nullopt;
}

/// The rows of a tile, one after the other. A reverse scan sees threads, lanes and pieces from the end.
class ThreadLowering::RowScan {
public:
  RowScan(ThreadLowering &lowering, tile::ScanOp op, const ScanRows &shape)
      : t(lowering), b(lowering.b), op(op), shape(shape), isReverse(op.getReverse()) {
    auto type = cast<RankedTensorType>(op.getSources()[0].getType());
    numLanes = t.lanesOf(type);
    auto fromEnd = [&](Value position, int64_t count) -> Value {
      return isReverse ? arith::SubIOp::create(b, t.i32(count - 1), position).getResult() : position;
    };
    lane = fromEnd(arith::AndIOp::create(b, t.threadId, t.i32(shape.numLanes() - 1)), shape.numLanes());
    if (shape.warpsOfRow() > 1) {
      warp = arith::ShRUIOp::create(b, t.threadId, t.i32(5));
      inRow = fromEnd(arith::AndIOp::create(b, warp, t.i32(shape.warpsOfRow() - 1)), shape.warpsOfRow());
    }
  }

  LogicalResult run() {
    for (Value source : op.getSources())
      results.push_back(t.rows(source));
    for (int64_t piece = 0, end = results[0].size(); piece < end; ++piece)
      if (failed(scanWarp(piece)))
        return failure();
    if (shape.warpsOfRow() > 1 && failed(leaveTotals()))
      return failure();
    for (int64_t row = 0; row < shape.numRows; ++row)
      if (failed(finishRow(row)))
        return failure();
    for (auto [k, result] : llvm::enumerate(op.getOutputs())) {
      t.set(result, results[k]);
      if (shape.numRows == 1 && !isReverse)
        t.scanTotals[result] = totals[k];
    }
    return success();
  }

private:
  int64_t pieceAt(int64_t row, int64_t k) const {
    return row * shape.piecesOfRow + (isReverse ? shape.piecesOfRow - 1 - k : k);
  }
  FailureOr<Tuple> combine(const Tuple &before, const Tuple &next) { return t.combine(op.getCombine(), before, next); }
  Tuple select(Value condition, const Tuple &yes, const Tuple &no) {
    Tuple result;
    for (auto [left, right] : llvm::zip_equal(yes, no))
      result.push_back(arith::SelectOp::create(b, condition, left, right));
    return result;
  }
  Value isAtLeast(Value position, int64_t bound) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::uge, position, t.i32(bound));
  }
  Tuple shuffle(const Tuple &tuple, Shuffle kind, Value operand) {
    return llvm::map_to_vector<2>(tuple, [&](Value value) { return t.shuffleLanes(value, kind, operand); });
  }
  /// Of the lane so many places before.
  Tuple before(const Tuple &tuple, int64_t distance) {
    return shuffle(tuple, isReverse ? Shuffle::Down : Shuffle::Up, t.i32(distance));
  }
  Tuple ofLastLane(const Tuple &tuple) {
    return shuffle(tuple, Shuffle::Index, t.i32(isReverse ? 0 : shape.numLanes() - 1));
  }

  /// The fold of all lanes up to each one. `position` is that of a lane.
  FailureOr<Tuple> scanLanes(Tuple tuple, Value position, int64_t count,
                             llvm::function_ref<Tuple(Tuple, int64_t)> far) {
    for (int64_t distance = 1; distance < count; distance *= 2) {
      FailureOr<Tuple> combined = combine(far(tuple, distance), tuple);
      if (failed(combined))
        return failure();
      tuple = select(isAtLeast(position, distance), *combined, tuple);
    }
    return tuple;
  }

  /// What a thread holds of a piece, then what the threads of a warp do.
  LogicalResult scanWarp(int64_t piece) {
    SmallVector<Tuple> elements;
    Tuple sum;
    for (int64_t k = 0; k < numLanes; ++k) {
      int64_t place = isReverse ? numLanes - 1 - k : k;
      Tuple next = llvm::map_to_vector<2>(results, [&](Rows &list) { return t.extract(list[piece], place); });
      if (k > 0) {
        FailureOr<Tuple> combined = combine(sum, next);
        if (failed(combined))
          return failure();
        next = *combined;
      }
      sum = next;
      elements.push_back(next);
    }
    auto far = [&](const Tuple &tuple, int64_t distance) { return before(tuple, distance); };
    FailureOr<Tuple> scanned = scanLanes(sum, lane, shape.numLanes(), far);
    if (failed(scanned))
      return failure();
    local.push_back(std::move(elements));
    upToThread.push_back(shape.numLanes() > 1 ? before(*scanned, 1) : Tuple());
    bool isCarried = shape.warpsOfRow() == 1 && (shape.numRows == 1 || shape.piecesOfRow > 1);
    upToWarp.push_back(isCarried ? ofLastLane(*scanned) : Tuple());
    inWarp.push_back(*scanned);
    return success();
  }

  /// The last thread of each warp leaves the fold of its elements of each piece.
  LogicalResult leaveTotals() {
    int64_t numWarps = t.numThreads / warpSize, numPieces = inWarp.size();
    auto storages = llvm::map_to_vector(inWarp[0], [](Value value) { return storageOf(value.getType()); });
    if (failed(t.reserveShared(op, storages, numWarps * numPieces, /*isPadded=*/false, parts)))
      return failure();
    Value isLast = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, t.i32(warpSize - 1));
    t.guardedStore(isLast, [&] {
      for (auto [piece, tuple] : llvm::enumerate(inWarp))
        for (auto [part, value] : llvm::zip_equal(parts, tuple))
          t.storeElements(t.toStorage(value), t.sharedPtr(part, t.addI32(warp, int64_t(piece) * numWarps)));
    });
    t.barrier();
    t.hasSharedReaders = true;
    return success();
  }

  /// The fold of all parts of a row before each one, 32 of them in the lanes of each warp; `total` gets that of all.
  FailureOr<SmallVector<Tuple>> scanParts(int64_t row, Tuple &total) {
    int64_t numParts = shape.partsOfRow(), warpsOfRow = shape.warpsOfRow(), numWarps = t.numThreads / warpSize;
    Value own = arith::AndIOp::create(b, t.threadId, t.i32(warpSize - 1));
    Value firstWarp = arith::SubIOp::create(b, warp, arith::AndIOp::create(b, warp, t.i32(warpsOfRow - 1)));
    auto far = [&](const Tuple &tuple, int64_t distance) { return shuffle(tuple, Shuffle::Up, t.i32(distance)); };
    SmallVector<Tuple> exclusive;
    for (int64_t first = 0; first < numParts; first += warpSize) {
      int64_t count = std::min(warpSize, numParts - first);
      // In the order of the scan: part number `place` is one of a piece and a warp.
      Value place = arith::MinUIOp::create(b, t.addI32(own, first), t.i32(numParts - 1));
      if (isReverse)
        place = arith::SubIOp::create(b, t.i32(numParts - 1), place);
      Value piece = arith::DivUIOp::create(b, place, t.i32(warpsOfRow));
      Value index = arith::AddIOp::create(b, arith::RemUIOp::create(b, place, t.i32(warpsOfRow)), firstWarp);
      index = arith::AddIOp::create(b, index, arith::MulIOp::create(b, piece, t.i32(numWarps)));
      index = t.addI32(index, row * shape.piecesOfRow * numWarps);
      Tuple tuple;
      for (auto [part, value] : llvm::zip_equal(parts, inWarp[0]))
        tuple.push_back(t.loadShared(part, index, value.getType()));
      FailureOr<Tuple> scanned = scanLanes(tuple, own, count, far);
      if (succeeded(scanned) && first > 0)
        scanned = combine(total, *scanned);
      if (failed(scanned))
        return failure();
      Tuple previous = far(*scanned, 1);
      if (first > 0)
        previous = select(isAtLeast(own, 1), previous, total);
      exclusive.push_back(previous);
      total = shuffle(*scanned, Shuffle::Index, t.i32(count - 1));
    }
    return exclusive;
  }

  LogicalResult finishRow(int64_t row) {
    SmallVector<Tuple> exclusive;
    Tuple total;
    if (shape.warpsOfRow() > 1) {
      FailureOr<SmallVector<Tuple>> scanned = scanParts(row, total);
      if (failed(scanned))
        return failure();
      exclusive = std::move(*scanned);
    }
    for (int64_t k = 0; k < shape.piecesOfRow; ++k) {
      int64_t piece = pieceAt(row, k);
      Tuple prefix; // of all before the warp's part; nothing for the first one
      if (shape.warpsOfRow() > 1) {
        int64_t place = k * shape.warpsOfRow();
        Value from = t.addI32(inRow, place % warpSize);
        prefix = shuffle(exclusive[place / warpSize], Shuffle::Index, from);
      } else if (k > 0) {
        prefix = total;
      }
      if (failed(addPrefix(piece, prefix, /*mayBeFirst=*/k == 0)))
        return failure();
      if (shape.warpsOfRow() > 1)
        continue;
      FailureOr<Tuple> sum = k > 0 ? combine(total, upToWarp[piece]) : FailureOr<Tuple>(upToWarp[piece]);
      if (failed(sum))
        return failure();
      total = *sum;
    }
    totals = total;
    return success();
  }

  /// Combines what comes before the warp's part, and before the thread's, with the thread's elements.
  LogicalResult addPrefix(int64_t piece, const Tuple &prefix, bool mayBeFirst) {
    const Tuple &thread = upToThread[piece];
    Value isInside = thread.empty() ? Value() : isAtLeast(lane, 1);
    Value follows = !prefix.empty() && mayBeFirst ? isAtLeast(inRow, 1) : Value();
    Tuple before = prefix.empty() ? thread : prefix;
    Value exists = prefix.empty() ? isInside : follows;
    if (!prefix.empty() && !thread.empty()) {
      FailureOr<Tuple> both = combine(prefix, thread);
      if (failed(both))
        return failure();
      Tuple inside = follows ? select(follows, *both, thread) : *both;
      before = select(isInside, inside, prefix);
      exists = follows ? arith::OrIOp::create(b, follows, isInside).getResult() : Value();
    }
    SmallVector<SmallVector<Value>> lanes(results.size(), SmallVector<Value>(numLanes));
    for (auto [k, element] : llvm::enumerate(local[piece])) {
      Tuple value = element;
      if (!before.empty()) {
        FailureOr<Tuple> combined = combine(before, element);
        if (failed(combined))
          return failure();
        value = exists ? select(exists, *combined, element) : *combined;
      }
      for (auto [list, each] : llvm::zip_equal(lanes, value))
        list[isReverse ? numLanes - 1 - int64_t(k) : int64_t(k)] = each;
    }
    for (auto [list, scalars] : llvm::zip_equal(results, lanes))
      list[piece] = t.fromScalars(scalars);
    return success();
  }

  ThreadLowering &t;
  ImplicitLocOpBuilder &b;
  tile::ScanOp op;
  const ScanRows &shape;
  bool isReverse;
  int64_t numLanes;
  /// Of the thread among the lanes that have a part of a row, of its warp in the block, and among those of the row.
  Value lane, warp, inRow;
  SmallVector<Rows> results;
  /// By piece: the folds of the thread's own elements, of the threads before it in its warp, and of the whole warp.
  SmallVector<SmallVector<Tuple>> local;
  SmallVector<Tuple> upToThread, inWarp, upToWarp;
  SmallVector<Shared> parts;
  Tuple totals;
};

LogicalResult ThreadLowering::lowerScan(tile::ScanOp op) {
  if (std::optional<ScanRows> shape = scanRowsOf(op))
    return RowScan(*this, op, *shape).run();
  return scanThroughShared(op);
}

//===-- other axes ----------------------------------------------------------------------------------------------===//

/// Product of the sizes of the axes after `axis`.
static int64_t innerSize(RankedTensorType type, int64_t axis) {
  int64_t inner = 1;
  for (int64_t k = axis + 1; k < type.getRank(); ++k)
    inner *= type.getDimSize(k);
  return inner;
}

/// Each element is combined with what lies 1, 2, 4, ... places before it: what it then holds reaches twice as far.
LogicalResult ThreadLowering::scanThroughShared(tile::ScanOp op) {
  auto type = cast<RankedTensorType>(op.getSources()[0].getType());
  int64_t axis = op.getAxis(), size = type.getDimSize(axis), inner = innerSize(type, axis);
  int64_t numPieces = numRowsOf(type), lanes = lanesOf(type);
  SmallVector<Rows> held;
  for (Value source : op.getSources())
    held.push_back(rows(source));
  SmallVector<Value> positions; // along the axis, from where the scan begins
  for (int64_t piece = 0; piece < numPieces; ++piece)
    for (int64_t lane = 0; lane < lanes; ++lane) {
      Value index = addI32(start(type, piece), lane);
      Value position = arith::RemUIOp::create(b, arith::DivUIOp::create(b, index, i32(inner)), i32(size));
      positions.push_back(op.getReverse() ? arith::SubIOp::create(b, i32(size - 1), position).getResult() : position);
    }
  for (int64_t distance = 1; distance < size; distance *= 2) {
    int64_t offset = (op.getReverse() ? distance : -distance) * inner;
    // The first ones read themselves, and keep what they hold.
    SmallVector<Rows> before;
    for (auto [source, list] : llvm::zip_equal(op.getSources(), held)) {
      auto from = cast<RankedTensorType>(source.getType());
      size_t next = 0;
      auto sourceIndex = [&](Value index) -> Value {
        Value reaches = arith::CmpIOp::create(b, arith::CmpIPredicate::uge, positions[next++], i32(distance));
        return arith::SelectOp::create(b, reaches, addI32(index, offset), index);
      };
      auto moved = exchangeRows(op, list, from, from, sourceIndex);
      if (failed(moved))
        return failure();
      before.push_back(std::move(*moved));
    }
    for (int64_t piece = 0; piece < numPieces; ++piece) {
      Tuple left = llvm::map_to_vector<2>(before, [&](const Rows &list) { return list[piece]; });
      Tuple right = llvm::map_to_vector<2>(held, [&](const Rows &list) { return list[piece]; });
      auto combined = combine(op.getCombine(), left, right);
      if (failed(combined))
        return failure();
      SmallVector<Value> reaches;
      for (int64_t lane = 0; lane < lanes; ++lane)
        reaches.push_back(
            arith::CmpIOp::create(b, arith::CmpIPredicate::uge, positions[piece * lanes + lane], i32(distance)));
      Value condition = fromScalars(reaches);
      for (auto [list, value] : llvm::zip_equal(held, *combined))
        list[piece] = arith::SelectOp::create(b, condition, value, list[piece]);
    }
  }
  for (auto [result, list] : llvm::zip_equal(op.getOutputs(), held))
    set(result, list);
  return success();
}
