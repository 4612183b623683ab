// Reductions: pieces of a thread, lanes of a piece, threads of a warp, warps of the block.
#include "compiler/codegen/gpu/ThreadLowering.h"
#include "compiler/tile/ir/LinearLayout.h"

using namespace mlir;
using namespace torch_tile::codegen;

static constexpr int64_t warpSize = 32;

/// Warps exchange words of 32 bits.
Value ThreadLowering::shuffleLanes(Value value, Shuffle kind, Value operand) {
  Type element = value.getType(), i32Type = b.getI32Type();
  unsigned width = element.getIntOrFloatBitWidth();
  if (isa<FloatType>(element)) {
    Value bits = arith::BitcastOp::create(b, b.getIntegerType(width), value);
    return arith::BitcastOp::create(b, element, shuffleLanes(bits, kind, operand));
  }
  if (width == 64) {
    Value halves[2] = {arith::TruncIOp::create(b, i32Type, value),
                       arith::TruncIOp::create(b, i32Type, arith::ShRUIOp::create(b, value, i64(32)))};
    for (Value &half : halves)
      half = arith::ExtUIOp::create(b, element, shuffleLanes(half, kind, operand));
    return arith::OrIOp::create(b, halves[0], arith::ShLIOp::create(b, halves[1], i64(32)));
  }
  Value word = width == 32 ? value : arith::ExtUIOp::create(b, i32Type, value).getResult();
  static constexpr StringLiteral names[] = {"llvm.nvvm.shfl.sync.bfly.i32", "llvm.nvvm.shfl.sync.idx.i32",
                                            "llvm.nvvm.shfl.sync.up.i32", "llvm.nvvm.shfl.sync.down.i32"};
  // Lanes that would read beyond the warp read themselves.
  int64_t bound = kind == Shuffle::Up ? 0 : warpSize - 1;
  Value moved = LLVM::CallIntrinsicOp::create(b, i32Type, b.getStringAttr(names[int(kind)]),
                                              ValueRange{i32(-1), word, operand, i32(bound)})
                    .getResult(0);
  return width == 32 ? moved : arith::TruncIOp::create(b, element, moved).getResult();
}

/// Combines over the first `lanes` lanes, a power of two; the others hold copies of those. All get the same bits: where
/// the combiner is not symmetric (zeros of both signs), lanes may differ until the first one's value is theirs.
FailureOr<RowLowering::Tuple> ThreadLowering::combineWarp(tile::ReduceOp op, Tuple tuple, int64_t lanes) {
  for (int64_t distance = lanes / 2; distance > 0; distance /= 2) {
    Tuple others = llvm::map_to_vector<2>(tuple, [&](Value v) { return shuffleLanes(v, Shuffle::Xor, distance); });
    auto combined = combine(op, tuple, others);
    if (failed(combined))
      return failure();
    tuple = *combined;
  }
  for (Value &value : tuple)
    value = shuffleLanes(value, Shuffle::Index, 0);
  return tuple;
}

/// All elements to one tuple, which every thread gets.
FailureOr<RowLowering::Tuple> ThreadLowering::reduceAll(tile::ReduceOp op, RankedTensorType type) {
  SmallVector<Tuple> list;
  for (int64_t piece = 0, end = numRowsOf(type); piece < end; ++piece)
    list.push_back(llvm::map_to_vector<2>(op.getSources(), [&](Value source) { return rows(source)[piece]; }));
  // The last piece may be there for some threads only; the only one is a copy where it is not.
  Tuple last;
  Value isOwner = list.size() > 1 ? isOwned(type, list.size() - 1) : Value();
  if (isOwner)
    last = list.pop_back_val();
  auto combined = combineRows(op, std::move(list));
  if (failed(combined))
    return failure();
  Tuple tuple = *combined;
  if (isOwner) {
    combined = combine(op, tuple, last);
    if (failed(combined))
      return failure();
    for (auto [value, with] : llvm::zip_equal(tuple, *combined))
      value = arith::SelectOp::create(b, isOwner, with, value);
  }
  combined = combineLanes(op, tuple);
  if (failed(combined))
    return failure();
  int64_t numHolding = numHolders(type);
  combined = combineWarp(op, *combined, std::min(numHolding, warpSize));
  if (failed(combined) || numHolding <= warpSize)
    return combined;

  // Each warp leaves its part; then each combines the parts of all.
  int64_t numWarps = numHolding / warpSize;
  SmallVector<Shared> parts;
  auto storages = llvm::map_to_vector(*combined, [&](Value value) { return storageOf(value.getType()); });
  if (failed(reserveShared(op, storages, numWarps, /*isPadded=*/false, parts)))
    return failure();
  Value lane = arith::AndIOp::create(b, threadId, i32(warpSize - 1));
  Value warp = arith::ShRUIOp::create(b, threadId, i32(5));
  Value isWriter = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, i32(0));
  if (numHolding < numThreads)
    isWriter = both(isWriter, arith::CmpIOp::create(b, arith::CmpIPredicate::ult, warp, i32(numWarps)));
  guardedStore(isWriter, [&] {
    for (auto [part, value] : llvm::zip_equal(parts, *combined))
      storeElements(toStorage(value), sharedPtr(part, warp));
  });
  barrier();
  Value place = arith::AndIOp::create(b, lane, i32(numWarps - 1));
  for (auto [part, value] : llvm::zip_equal(parts, *combined))
    value = loadShared(part, place, value.getType());
  hasSharedReaders = true;
  return combineWarp(op, *combined, numWarps);
}

//===-- rows side by side ---------------------------------------------------------------------------------------===//

bool ThreadLowering::areSegments(RankedTensorType type, int64_t axis) const {
  return axis + 1 == type.getRank() && tile::areRowsInWarps(type.getShape(), numThreads, lanesOf(type));
}

/// Whether a row's result is wanted only by the threads that hold the row.
static bool isSpreadAgain(Value result, RankedTensorType type) {
  return llvm::all_of(result.getUsers(), [&](Operation *user) {
    auto expand = dyn_cast<tile::ExpandDimsOp>(user);
    return expand && llvm::all_of(expand->getUsers(), [&](Operation *last) {
             auto spread = dyn_cast<tile::BroadcastOp>(last);
             return spread && cast<RankedTensorType>(spread.getType()).getShape() == type.getShape() &&
                    cast<RankedTensorType>(spread.getType()).getEncoding() == type.getEncoding();
           });
  });
}

/// Pieces of a row, lanes of a piece, then the threads that hold a row, by shuffles.
LogicalResult ThreadLowering::reduceSegments(tile::ReduceOp op, RankedTensorType type) {
  int64_t numHolding = std::min(type.getShape().back() / lanesOf(type), numThreads);
  int64_t piecesOfRow = type.getShape().back() / lanesOf(type) / numHolding;
  SmallVector<Rows> results(op.getNumResults());
  for (int64_t piece = 0, end = numRowsOf(type); piece < end; piece += piecesOfRow) {
    SmallVector<Tuple> list;
    for (int64_t k = 0; k < piecesOfRow; ++k)
      list.push_back(llvm::map_to_vector<2>(op.getSources(), [&](Value source) { return rows(source)[piece + k]; }));
    auto combined = combineRows(op, std::move(list));
    if (failed(combined))
      return failure();
    combined = combineLanes(op, Tuple(*combined));
    if (failed(combined))
      return failure();
    for (int64_t distance = numHolding / 2; distance > 0; distance /= 2) {
      Tuple others =
          llvm::map_to_vector<2>(*combined, [&](Value v) { return shuffleLanes(v, Shuffle::Xor, distance); });
      combined = combine(op, *combined, others);
      if (failed(combined))
        return failure();
    }
    for (auto [list, value] : llvm::zip_equal(results, *combined))
      list.append(piecesOfRow, value);
  }
  SmallVector<std::pair<Value, Rows *>> moved;
  for (auto [result, list] : llvm::zip_equal(op.getResults(), results)) {
    auto tile = dyn_cast<RankedTensorType>(result.getType());
    if (isSpreadAgain(result, type))
      segmentRows[result] = list;
    else if (numHolding == 1 && tile && lanesOf(tile) == 1 && numRowsOf(tile) == (int64_t)list.size())
      set(result, list); // each thread wants what it has
    else
      moved.push_back({result, &list});
  }
  if (moved.empty())
    return success();
  // One thread of each row leaves its result for those that hold it.
  auto storages = llvm::map_to_vector(moved, [&](auto &each) { return storageOf(each.second->front().getType()); });
  SmallVector<Shared> parts;
  int64_t size = type.getShape().back();
  if (failed(reserveShared(op, storages, type.getNumElements() / size, /*isPadded=*/false, parts)))
    return failure();
  for (int64_t piece = 0, end = numRowsOf(type); piece < end; piece += piecesOfRow) {
    Value index = rawStart(type, piece);
    Value isFirst =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, arith::RemUIOp::create(b, index, i32(size)), i32(0));
    guardedStore(isFirst, [&] {
      Value place = arith::DivUIOp::create(b, index, i32(size));
      for (auto [part, each] : llvm::zip_equal(parts, moved))
        storeElements(toStorage((*each.second)[piece]), sharedPtr(part, place));
    });
  }
  barrier();
  for (auto [part, each] : llvm::zip_equal(parts, moved)) {
    auto tile = dyn_cast<RankedTensorType>(each.first.getType());
    Type element = getElementTypeOrSelf(each.first.getType());
    Rows list;
    for (int64_t piece = 0, end = tile ? numRowsOf(tile) : 1; piece < end; ++piece) {
      SmallVector<Value> lanes;
      Value first = tile ? start(tile, piece) : i32(0);
      for (int64_t lane = 0, numLanes = tile ? lanesOf(tile) : 1; lane < numLanes; ++lane)
        lanes.push_back(loadShared(part, addI32(first, lane), element));
      list.push_back(fromScalars(lanes));
    }
    set(each.first, std::move(list));
  }
  hasSharedReaders = true;
  return success();
}

//===-- other axes ----------------------------------------------------------------------------------------------===//

/// What a thread holds of a column is combined before any of it moves. Returns the tile that is left.
FailureOr<RankedTensorType> ThreadLowering::foldPieces(tile::ReduceOp op, RankedTensorType type,
                                                       SmallVectorImpl<Rows> &sources) {
  for (Value source : op.getSources())
    sources.push_back(rows(source));
  int64_t lanes = lanesOf(type), held = numThreads * lanes, numPieces = numRowsOf(type);
  if (op.getAxis() != 0 || type.getRank() != 2 || type.getNumElements() % held != 0 || numPieces < 2)
    return type;
  int64_t inner = type.getDimSize(1), apart = inner % held == 0 ? inner / held : 1;
  if (inner % held != 0 && held % inner != 0)
    return type;
  SmallVector<Rows> folded(sources.size());
  for (int64_t first = 0; first < apart; ++first) {
    SmallVector<Tuple> list;
    for (int64_t piece = first; piece < numPieces; piece += apart)
      list.push_back(llvm::map_to_vector<2>(sources, [&](const Rows &source) { return source[piece]; }));
    auto combined = combineRows(op, std::move(list));
    if (failed(combined))
      return failure();
    for (auto [rows, value] : llvm::zip_equal(folded, *combined))
      rows.push_back(value);
  }
  sources.assign(folded.begin(), folded.end());
  return RankedTensorType::get({apart * held / inner, inner}, type.getElementType(), type.getEncoding());
}

/// Threads that share a result: as many as leave about as many parts as each of them has elements.
int64_t ThreadLowering::partsOf(int64_t numResults, int64_t size) const {
  int64_t parts = 1;
  while (parts * parts < size && parts * 2 * numResults <= numThreads)
    parts *= 2;
  return size >= 4 * parts || parts * parts >= size ? parts : 1;
}

/// Where there are fewer results than threads, several threads combine parts of each: afterwards `parts` holds
/// `numParts` rows of results.
LogicalResult ThreadLowering::combineParts(tile::ReduceOp op, int64_t numResults, int64_t size, int64_t inner,
                                           int64_t numParts, SmallVectorImpl<Shared> &parts) {
  Value result = arith::RemUIOp::create(b, threadId, i32(numResults));
  Value own = arith::DivUIOp::create(b, threadId, i32(numResults)), last = i32(numParts - 1);
  Value isWriter = arith::CmpIOp::create(b, arith::CmpIPredicate::ule, own, last);
  Value part = arith::MinUIOp::create(b, own, last);
  Value outer = arith::DivUIOp::create(b, result, i32(inner)), rest = arith::RemUIOp::create(b, result, i32(inner));
  Value first = arith::AddIOp::create(b, arith::MulIOp::create(b, outer, i32(size * inner)), rest);
  auto loadStep = [&](Value step) {
    Value index = arith::AddIOp::create(b, first, arith::MulIOp::create(b, step, i32(inner)));
    Tuple values;
    for (auto [shared, source] : llvm::zip_equal(parts, op.getSources()))
      values.push_back(fromScalars({loadShared(shared, index, getElementTypeOrSelf(source.getType()))}));
    return values;
  };
  Value next = arith::AddIOp::create(b, part, i32(numParts));
  auto loop = scf::ForOp::create(b, next, i32(size), i32(numParts), loadStep(part));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    auto combined = combine(op, Tuple(loop.getRegionIterArgs()), loadStep(loop.getInductionVar()));
    if (failed(combined))
      return failure();
    scf::YieldOp::create(b, *combined);
  }
  hasSharedReaders = true;
  auto storages = llvm::map_to_vector(parts, [](const Shared &shared) { return shared.storage; });
  parts.clear();
  if (failed(reserveShared(op, storages, numResults * numParts, /*isPadded=*/false, parts)))
    return failure();
  guardedStore(isWriter, [&] {
    Value place = arith::AddIOp::create(b, arith::MulIOp::create(b, part, i32(numResults)), result);
    for (auto [shared, value] : llvm::zip_equal(parts, loop.getResults()))
      storeElements(toStorage(value), sharedPtr(shared, place));
  });
  barrier();
  return success();
}

/// Each result is combined by the threads that hold it, element after element.
LogicalResult ThreadLowering::reduceThroughShared(tile::ReduceOp op, RankedTensorType type, ArrayRef<Rows> sources) {
  int64_t axis = op.getAxis(), size = type.getDimSize(axis), inner = 1;
  for (int64_t k = axis + 1; k < type.getRank(); ++k)
    inner *= type.getDimSize(k);
  auto storages = llvm::map_to_vector(op.getSources(),
                                      [&](Value source) { return storageOf(getElementTypeOrSelf(source.getType())); });
  SmallVector<Shared> parts;
  if (failed(reserveShared(op, storages, type.getNumElements(), /*isPadded=*/inner == 1, parts)))
    return failure();
  for (auto [part, source] : llvm::zip_equal(parts, sources))
    storeShared(part, source, type);
  barrier();

  int64_t numResults = type.getNumElements() / size;
  if (int64_t numParts = partsOf(numResults, size); numParts > 1) {
    if (failed(combineParts(op, numResults, size, inner, numParts, parts)))
      return failure();
    size = numParts;
    inner = numResults;
  }
  auto resultType = dyn_cast<RankedTensorType>(op.getResult(0).getType());
  int64_t numPieces = resultType ? numRowsOf(resultType) : 1, lanes = resultType ? lanesOf(resultType) : 1;
  // Index of the first element of each result.
  SmallVector<Value> firsts;
  for (int64_t piece = 0; piece < numPieces; ++piece)
    for (int64_t lane = 0; lane < lanes; ++lane) {
      Value index = resultType ? addI32(start(resultType, piece), lane) : i32(0);
      Value outer = arith::DivUIOp::create(b, index, i32(inner)), rest = arith::RemUIOp::create(b, index, i32(inner));
      firsts.push_back(arith::AddIOp::create(b, arith::MulIOp::create(b, outer, i32(size * inner)), rest));
    }
  auto loadStep = [&](Value step) {
    SmallVector<Value> flat;
    for (int64_t piece = 0; piece < numPieces; ++piece)
      for (auto [part, source] : llvm::zip_equal(parts, op.getSources())) {
        SmallVector<Value> scalars;
        for (int64_t lane = 0; lane < lanes; ++lane) {
          Value index = arith::AddIOp::create(b, firsts[piece * lanes + lane], step);
          scalars.push_back(loadShared(part, index, getElementTypeOrSelf(source.getType())));
        }
        flat.push_back(fromScalars(scalars));
      }
    return flat;
  };
  size_t numSources = op.getSources().size();
  SmallVector<Value> flat = loadStep(i32(0));
  auto loop = scf::ForOp::create(b, i32(inner), i32(size * inner), i32(inner), flat);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    SmallVector<Value> next = loadStep(loop.getInductionVar()), yielded;
    for (int64_t piece = 0; piece < numPieces; ++piece) {
      auto sliceOf = [&](ValueRange values) { return Tuple(values.slice(piece * numSources, numSources)); };
      auto combined = combine(op, sliceOf(loop.getRegionIterArgs()), sliceOf(next));
      if (failed(combined))
        return failure();
      llvm::append_range(yielded, *combined);
    }
    scf::YieldOp::create(b, yielded);
  }
  hasSharedReaders = true;
  for (auto [index, result] : llvm::enumerate(op.getResults())) {
    Rows list;
    for (int64_t piece = 0; piece < numPieces; ++piece)
      list.push_back(loop.getResult(piece * numSources + index));
    set(result, std::move(list));
  }
  return success();
}

//===-- fragments of matrix instructions ------------------------------------------------------------------------===//

/// Registers along the axis, then threads of the warp along it; the results are a slice of the layout.
LogicalResult ThreadLowering::reduceFragments(tile::ReduceOp op, RankedTensorType type) {
  tile::LinearAttr layout = linearLayoutOf(type);
  int64_t vector = layout.getVector(), axis = op.getAxis();
  auto isAlong = [&](int64_t move) { return tile::axisMove(move, type.getShape()).axis == axis; };
  bool isLaneAlong = vector > 1 && isAlong(1);
  // By the result's piece, those that are combined into it.
  SmallVector<SmallVector<Tuple>> lists;
  for (int64_t piece = 0, end = numRowsOf(type); piece < end; ++piece) {
    size_t number = 0, bit = 1;
    for (auto [k, move] : llvm::enumerate(layout.getRegisters())) {
      if (isAlong(move) || int64_t(1) << k < vector)
        continue;
      number += (piece * vector >> k) % 2 ? bit : 0;
      bit *= 2;
    }
    lists.resize(std::max(lists.size(), number + 1));
    lists[number].push_back(llvm::map_to_vector<2>(op.getSources(), [&](Value source) { return rows(source)[piece]; }));
  }
  SmallVector<Rows> results(op.getNumResults());
  for (SmallVector<Tuple> &list : lists) {
    auto combined = combineRows(op, std::move(list));
    if (succeeded(combined) && isLaneAlong)
      combined = combineLanes(op, Tuple(*combined));
    for (auto [bit, move] : llvm::enumerate(layout.getThreads())) {
      if (failed(combined))
        return failure();
      if (!isAlong(move))
        continue;
      Tuple others = llvm::map_to_vector<2>(*combined, [&](Value value) {
        SmallVector<Value> lanes;
        for (int64_t lane = 0, end = lanesOf(value.getType()); lane < end; ++lane)
          lanes.push_back(shuffleLanes(extract(value, lane), Shuffle::Xor, int64_t(1) << bit));
        return fromScalars(lanes);
      });
      combined = combine(op, *combined, others);
    }
    if (failed(combined))
      return failure();
    for (auto [rows, value] : llvm::zip_equal(results, *combined))
      rows.push_back(value);
  }
  for (auto [result, rows] : llvm::zip_equal(op.getResults(), results))
    set(result, rows);
  return success();
}

static Attribute layoutEncoding(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile ? tile.getEncoding() : Attribute();
}

LogicalResult ThreadLowering::lowerReduce(tile::ReduceOp op) {
  auto type = cast<RankedTensorType>(op.getSources()[0].getType());
  int64_t numResults = type.getNumElements() / type.getDimSize(op.getAxis());
  for (Value result : op.getResults()) {
    auto tile = dyn_cast<RankedTensorType>(result.getType());
    if ((tile ? tile.getNumElements() : 1) != numResults)
      return op.emitOpError("expected results to be the sources without the axis, got ")
             << type << " and " << result.getType();
  }
  if (linearLayoutOf(type))
    return reduceFragments(op, type);
  if (numResults != 1 && areSegments(type, op.getAxis()))
    return reduceSegments(op, type);
  if (numResults != 1 || !llvm::isPowerOf2_64(numHolders(type))) {
    SmallVector<Rows> sources;
    auto left = foldPieces(op, type, sources);
    if (failed(left))
      return failure();
    if (left->getDimSize(op.getAxis()) == 1 && left->getEncoding() == layoutEncoding(op.getResult(0).getType())) {
      for (auto [result, list] : llvm::zip_equal(op.getResults(), sources))
        set(result, list);
      return success();
    }
    return reduceThroughShared(op, *left, sources);
  }
  auto tuple = reduceAll(op, type);
  if (failed(tuple))
    return failure();
  for (auto [result, value] : llvm::zip_equal(op.getResults(), *tuple))
    set(result, {value});
  return success();
}
