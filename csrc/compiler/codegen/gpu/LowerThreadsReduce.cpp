// Reductions: pieces of a thread, lanes of a piece, threads of a warp, warps of the block.
#include "compiler/codegen/gpu/ThreadLowering.h"

using namespace mlir;
using namespace torch_tile::codegen;

static constexpr int64_t warpSize = 32;

/// Warps exchange words of 32 bits.
Value ThreadLowering::shuffleLanes(Value value, Shuffle kind, int64_t operand) {
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
  StringRef name = kind == Shuffle::Xor ? "llvm.nvvm.shfl.sync.bfly.i32" : "llvm.nvvm.shfl.sync.idx.i32";
  Value moved = LLVM::CallIntrinsicOp::create(b, i32Type, b.getStringAttr(name),
                                              ValueRange{i32(-1), word, i32(operand), i32(warpSize - 1)})
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

/// Each result is combined by the threads that hold it, element after element.
LogicalResult ThreadLowering::reduceThroughShared(tile::ReduceOp op, RankedTensorType type) {
  int64_t axis = op.getAxis(), size = type.getDimSize(axis), inner = 1;
  for (int64_t k = axis + 1; k < type.getRank(); ++k)
    inner *= type.getDimSize(k);
  auto storages = llvm::map_to_vector(op.getSources(),
                                      [&](Value source) { return storageOf(getElementTypeOrSelf(source.getType())); });
  SmallVector<Shared> parts;
  if (failed(reserveShared(op, storages, type.getNumElements(), /*isPadded=*/inner == 1, parts)))
    return failure();
  for (auto [part, source] : llvm::zip_equal(parts, op.getSources()))
    storeShared(part, source, type);
  barrier();

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

LogicalResult ThreadLowering::lowerReduce(tile::ReduceOp op) {
  auto type = cast<RankedTensorType>(op.getSources()[0].getType());
  int64_t numResults = type.getNumElements() / type.getDimSize(op.getAxis());
  for (Value result : op.getResults()) {
    auto tile = dyn_cast<RankedTensorType>(result.getType());
    if ((tile ? tile.getNumElements() : 1) != numResults)
      return op.emitOpError("expected results to be the sources without the axis, got ")
             << type << " and " << result.getType();
  }
  if (numResults != 1 || !llvm::isPowerOf2_64(numHolders(type)))
    return reduceThroughShared(op, type);
  auto tuple = reduceAll(op, type);
  if (failed(tuple))
    return failure();
  for (auto [result, value] : llvm::zip_equal(op.getResults(), *tuple))
    set(result, {value});
  return success();
}
