// Shapes: what changes the order of elements goes through shared memory.
#include "compiler/codegen/gpu/ThreadLowering.h"
#include "compiler/tile/ir/LinearLayout.h"
#include "compiler/tile/ir/MatrixOperands.h"

using namespace mlir;
using namespace torch_tile::codegen;

//===-- shared memory -------------------------------------------------------------------------------------------===//

/// One padding element follows each run of this many: as many as there are banks.
static constexpr int64_t paddedRun = 32;
/// Of the whole and of its parts: no access is wider.
static constexpr int64_t sharedAlignment = 16;
/// Of what is moved at once, in blocks that have no more shared memory for other reasons.
static constexpr int64_t maxExchangedBytes = 32 * 1024;

LogicalResult ThreadLowering::reserveShared(Operation *op, ArrayRef<Type> storages, int64_t numElements, bool isPadded,
                                            SmallVectorImpl<Shared> &parts) {
  int64_t offset = 0;
  for (Type storage : storages) {
    parts.push_back({storage, offset, isPadded});
    int64_t numPlaces = numElements + (isPadded ? numElements / paddedRun : 0);
    offset = llvm::alignTo(offset + numPlaces * bytesOf(storage), sharedAlignment);
  }
  useShared(offset);
  awaitReaders();
  return success();
}

Value ThreadLowering::sharedPtr(const Shared &part, Value index) {
  if (part.isPadded) {
    Value padding = arith::DivUIOp::create(b, index, i32(paddedRun));
    index = arith::AddIOp::create(b, index, padding);
  }
  Value base = sharedBase;
  if (part.byteOffset)
    base = LLVM::GEPOp::create(b, sharedPtrType, b.getI8Type(), base, ArrayRef<LLVM::GEPArg>{int32_t(part.byteOffset)});
  return LLVM::GEPOp::create(b, sharedPtrType, part.storage, base, ArrayRef<LLVM::GEPArg>{index});
}

void ThreadLowering::storeShared(const Shared &part, const Rows &pieces, RankedTensorType type) {
  for (auto [piece, row] : llvm::enumerate(pieces)) {
    Value value = toStorage(row), first = start(type, piece);
    int64_t lanes = lanesOf(value.getType());
    auto store = [&] {
      if (!part.isPadded) {
        LLVM::StoreOp::create(b, value, sharedPtr(part, first),
                              unsigned(std::min(sharedAlignment, lanes * bytesOf(part.storage))));
        return;
      }
      for (int64_t lane = 0; lane < lanes; ++lane)
        storeElements(extract(value, lane), sharedPtr(part, addI32(first, lane)));
    };
    if (Value isOwner = isOwned(type, piece))
      guardedStore(isOwner, store);
    else
      store();
  }
}

Value ThreadLowering::loadShared(const Shared &part, Value index, Type element) {
  return fromStorage(loadElements(part.storage, sharedPtr(part, index)), element);
}

FailureOr<Value> ThreadLowering::heldPtr(Operation *op, Type type, int64_t piece, Value index, int64_t offset) {
  auto tile = dyn_cast<RankedTensorType>(type);
  if (!held || programsPerBlock > 1 || !tile || tile.getNumElements() % (numThreads * lanesOf(tile)) != 0)
    return op->emitOpError("expected a tile in whole pieces of all threads, in a kernel with tile.held_bytes and one "
                           "program per block");
  Type storage = storageOf(tile.getElementType());
  Value base = LLVM::AddressOfOp::create(b, sharedPtrType, held.getSymName());
  if (offset)
    base = LLVM::GEPOp::create(b, sharedPtrType, b.getI8Type(), base, ArrayRef<LLVM::GEPArg>{int32_t(offset)});
  Value place = arith::TruncIOp::create(b, b.getI32Type(), scalar(index));
  place = arith::AddIOp::create(b, place, rawStart(tile, piece));
  return LLVM::GEPOp::create(b, sharedPtrType, storage, base, ArrayRef<LLVM::GEPArg>{place}).getResult();
}

LogicalResult ThreadLowering::lowerHold(tile::HoldOp op) {
  for (auto [piece, row] : llvm::enumerate(rows(op.getValue()))) {
    FailureOr<Value> ptr = heldPtr(op, op.getValue().getType(), piece, op.getIndex(), op.getOffset());
    if (failed(ptr))
      return failure();
    Value value = toStorage(row);
    LLVM::StoreOp::create(b, value, *ptr,
                          unsigned(std::min(sharedAlignment, lanesOf(value.getType()) * bytesOf(value.getType()))));
  }
  return success();
}

/// Volatile: what is read again is to be read again, not to stay in registers.
LogicalResult ThreadLowering::lowerHeld(tile::HeldOp op) {
  Rows result;
  Type element = getElementTypeOrSelf(op.getType());
  int64_t lanes = lanesOf(op.getType());
  Type type = withLanes(storageOf(element), lanes);
  for (int64_t piece = 0, end = numRowsOf(op.getType()); piece < end; ++piece) {
    FailureOr<Value> ptr = heldPtr(op, op.getType(), piece, op.getIndex(), op.getOffset());
    if (failed(ptr))
      return failure();
    auto alignment = unsigned(std::min(sharedAlignment, lanes * bytesOf(storageOf(element))));
    result.push_back(fromStorage(LLVM::LoadOp::create(b, type, *ptr, alignment, /*isVolatile=*/true), element));
  }
  set(op.getResult(), result);
  return success();
}

/// What operands of products lay in is free outside of their loops.
int64_t ThreadLowering::exchangeBytes() const {
  return pipelinedDepth > 0 ? maxExchangedBytes : std::max(maxExchangedBytes, stagedBytes);
}

/// What shared memory does not hold at once moves in rounds.
FailureOr<RowLowering::Rows> ThreadLowering::exchangeRows(Operation *op, Rows source, RankedTensorType from, Type type,
                                                          function_ref<Value(Value)> sourceIndex, bool isPadded) {
  auto to = dyn_cast<RankedTensorType>(type);
  Type storage = storageOf(from.getElementType());
  int64_t numElements = from.getNumElements(), atOnce = numElements;
  while (atOnce * bytesOf(storage) > exchangeBytes() && atOnce % 2 == 0)
    atOnce /= 2;
  isPadded &= atOnce == numElements;
  SmallVector<Value> indices, moved;
  for (int64_t piece = 0, end = to ? numRowsOf(to) : 1; piece < end; ++piece)
    for (int64_t lane = 0, numLanes = to ? lanesOf(to) : 1; lane < numLanes; ++lane)
      indices.push_back(sourceIndex(to ? addI32(start(to, piece), lane) : i32(0)));
  for (int64_t first = 0; first < numElements; first += atOnce) {
    SmallVector<Shared> parts;
    if (failed(reserveShared(op, storage, atOnce, isPadded, parts)))
      return failure();
    if (atOnce == numElements) {
      storeShared(parts[0], source, from);
      barrier();
      for (Value index : indices)
        moved.push_back(loadShared(parts[0], index, from.getElementType()));
    } else {
      auto isNow = [&](Value place) -> Value {
        return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, place, i32(atOnce));
      };
      for (auto [piece, row] : llvm::enumerate(source)) {
        Value value = toStorage(row), place = addI32(start(from, piece), -first);
        for (int64_t lane = 0, lanes = lanesOf(value.getType()); lane < lanes; ++lane) {
          Value index = addI32(place, lane);
          guardedStore(both(isNow(index), isOwned(from, piece)),
                       [&] { storeElements(extract(value, lane), sharedPtr(parts[0], index)); });
        }
      }
      barrier();
      for (auto [k, index] : llvm::enumerate(indices)) {
        Value place = addI32(index, -first), isHere = isNow(place);
        place = arith::SelectOp::create(b, isHere, place, i32(0));
        Value value = loadShared(parts[0], place, from.getElementType());
        if (first == 0)
          moved.push_back(value);
        else
          moved[k] = arith::SelectOp::create(b, isHere, value, moved[k]);
      }
    }
    hasSharedReaders = true;
  }
  Rows result;
  int64_t lanes = to ? lanesOf(to) : 1;
  for (size_t piece = 0; piece * lanes < moved.size(); ++piece)
    result.push_back(fromScalars(ArrayRef(moved).slice(piece * lanes, lanes)));
  return result;
}

//===-- computed again ------------------------------------------------------------------------------------------===//

/// Operations that may be repeated for each element instead of moving it.
static constexpr int maxComputed = 24;

bool ThreadLowering::isComputable(Value value, int &budget) const {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  Operation *op = value.getDefiningOp();
  if (!type || !op || --budget < 0)
    return false;
  if (!isa<IntegerType, IndexType, tile::PtrType>(type.getElementType()))
    return false;
  if (isa<tile::SplatOp, tile::IotaOp>(op))
    return true;
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
    return elements && elements.isSplat();
  }
  if (isa<tile::BroadcastOp, tile::ExpandDimsOp, tile::ReshapeOp, tile::TransOp>(op))
    return isComputable(op->getOperand(0), budget);
  bool isPointwise = isa<tile::PtrAddOp>(op) ||
                     (isa<arith::ArithDialect>(op->getDialect()) && OpTrait::hasElementwiseMappableTraits(op));
  return isPointwise && op->getNumResults() == 1 &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return isComputable(operand, budget); });
}

FailureOr<Value> ThreadLowering::computeElement(Value value, Value index) {
  auto type = cast<RankedTensorType>(value.getType());
  Operation *op = value.getDefiningOp();
  if (isa<tile::SplatOp>(op) || isa<arith::ConstantOp>(op))
    return extract(rows(value)[0], 0);
  if (isa<tile::IotaOp>(op))
    return createIndexCast(index, elementOf(type), /*isSigned=*/false);
  if (isa<tile::ExpandDimsOp, tile::ReshapeOp>(op))
    return computeElement(op->getOperand(0), index);
  if (isa<tile::BroadcastOp, tile::TransOp>(op)) {
    auto from = cast<RankedTensorType>(op->getOperand(0).getType());
    SmallVector<Value> place = coordinates(index, type.getShape());
    if (auto trans = dyn_cast<tile::TransOp>(op)) {
      SmallVector<Value> moved(place.size());
      for (auto [axis, source] : llvm::enumerate(trans.getPerm()))
        moved[source] = place[axis];
      place = moved;
    }
    Value linear = i32(0);
    for (auto [axis, position] : llvm::enumerate(place)) {
      linear = arith::MulIOp::create(b, linear, i32(from.getDimSize(axis)));
      if (from.getDimSize(axis) > 1)
        linear = arith::AddIOp::create(b, linear, position);
    }
    return computeElement(op->getOperand(0), linear);
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    auto element = computeElement(operand, index);
    if (failed(element))
      return failure();
    operands.push_back(*element);
  }
  if (auto add = dyn_cast<tile::PtrAddOp>(op)) {
    Type storage = storageOf(cast<tile::PtrType>(getElementTypeOrSelf(add.getType())).getElementType());
    Value bytes = createIndexCast(operands[1], b.getI64Type(), /*isSigned=*/true);
    return arith::AddIOp::create(b, operands[0], arith::MulIOp::create(b, bytes, i64(bytesOf(storage)))).getResult();
  }
  auto row = createRow(op, std::move(operands));
  return failed(row) ? FailureOr<Value>() : FailureOr<Value>(row->front());
}

FailureOr<RowLowering::Rows> ThreadLowering::computeRows(Value source, RankedTensorType type,
                                                         function_ref<Value(Value)> sourceIndex) {
  Rows result;
  for (int64_t piece = 0, end = numRowsOf(type); piece < end; ++piece) {
    SmallVector<Value> lanes;
    for (int64_t lane = 0, numLanes = lanesOf(type); lane < numLanes; ++lane) {
      auto element = computeElement(source, sourceIndex(addI32(start(type, piece), lane)));
      if (failed(element))
        return failure();
      lanes.push_back(*element);
    }
    result.push_back(fromScalars(lanes));
  }
  return result;
}

//===-- ops -----------------------------------------------------------------------------------------------------===//

LogicalResult ThreadLowering::lowerIota(tile::IotaOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  if (type.getRank() != 1 || !type.getElementType().isIntOrIndex())
    return op.emitOpError("expected one axis of integers, got ") << type;
  Rows result;
  for (int64_t piece = 0, end = numRowsOf(type); piece < end; ++piece) {
    Value first = createIndexCast(start(type, piece), elementOf(type), /*isSigned=*/false);
    Type row = rowTypeOf(type);
    result.push_back(arith::AddIOp::create(b, broadcast(first, row), iota(row)));
  }
  set(op.getResult(), result);
  return success();
}

LogicalResult ThreadLowering::lowerReshape(Operation *op) {
  auto from = cast<RankedTensorType>(op->getOperand(0).getType()),
       to = cast<RankedTensorType>(op->getResult(0).getType());
  if (auto it = segmentRows.find(op->getOperand(0)); it != segmentRows.end()) {
    segmentRows[op->getResult(0)] = Rows(it->second);
    return success();
  }
  if (from.getNumElements() != to.getNumElements())
    return op->emitOpError("expected as many elements as before, got ") << from << " and " << to;
  if (from.getEncoding() == to.getEncoding()) {
    set(op->getResult(0), rows(op->getOperand(0)));
    return success();
  }
  int budget = maxComputed;
  auto same = [](Value index) { return index; };
  auto result = isComputable(op->getOperand(0), budget) ? computeRows(op->getOperand(0), to, same)
                                                        : exchange(op, op->getOperand(0), to, same);
  if (failed(result))
    return failure();
  set(op->getResult(0), std::move(*result));
  return success();
}

/// Of a slice of the result's layout: for each piece of the result the piece of the source with its elements, if no
/// element has to move.
static std::optional<SmallVector<int64_t>> repeatedPieces(RankedTensorType from, RankedTensorType to) {
  auto source = dyn_cast_if_present<tile::LinearAttr>(from.getEncoding()),
       target = dyn_cast_if_present<tile::LinearAttr>(to.getEncoding());
  if (!source || !target)
    return std::nullopt;
  tile::LinearAttr slice = target;
  SmallVector<bool> isRepeated;
  for (auto [axis, size] : llvm::enumerate(from.getShape())) {
    isRepeated.push_back(size == 1 && to.getDimSize(axis) != 1);
    if (isRepeated.back())
      slice = tile::sliceLayout(slice, to.getShape(), axis);
  }
  if (slice != source || (source.getVector() != 1 && source.getVector() != target.getVector()))
    return std::nullopt;
  SmallVector<int64_t> result;
  int64_t vector = target.getVector();
  for (int64_t piece = 0; piece < target.getNumPieces(); ++piece) {
    int64_t number = 0, bit = 1; // of the source's register
    for (auto [k, move] : llvm::enumerate(target.getRegisters())) {
      tile::AxisMove along = tile::axisMove(move, to.getShape());
      if (along.axis >= 0 && isRepeated[along.axis])
        continue;
      number += (piece * vector >> k) % 2 ? bit : 0;
      bit *= 2;
    }
    result.push_back(number / source.getVector());
  }
  return result;
}

LogicalResult ThreadLowering::lowerConvertLayout(tile::ConvertLayoutOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  int64_t bytes = bytesOf(storageOf(type.getElementType()));
  // Rows of whole words: they are permuted, so that threads of neighbouring rows meet different banks.
  bool isMatrix = type.getRank() == 2 && llvm::all_of(type.getShape(), llvm::isPowerOf2_64) &&
                  type.getDimSize(1) * bytes >= 2 * sharedAlignment;
  if (isMatrix && type.getNumElements() * bytes <= exchangeBytes()) {
    useShared(type.getNumElements() * bytes);
    awaitReaders();
    SharedMatrix matrix = matrixOf(type, sharedPtr({b.getI8Type(), 0, false}, i32(0)));
    storeMatrix(matrix, op.getSource());
    barrier();
    hasSharedReaders = true;
    set(op.getResult(), loadMatrix(matrix, type));
    return success();
  }
  auto result = exchange(op, op.getSource(), type, [](Value index) { return index; });
  if (failed(result))
    return failure();
  set(op.getResult(), std::move(*result));
  return success();
}

LogicalResult ThreadLowering::lowerBroadcast(tile::BroadcastOp op) {
  auto from = cast<RankedTensorType>(op.getSource().getType()), to = cast<RankedTensorType>(op.getType());
  if (from.getRank() != to.getRank())
    return op.emitOpError("expected equal ranks, got ") << from << " and " << to;
  for (auto [source, target] : llvm::zip_equal(from.getShape(), to.getShape()))
    if (source != 1 && source != target)
      return op.emitOpError("expected axes to be equal or 1, got ") << from << " and " << to;
  if (auto it = segmentRows.find(op.getSource()); it != segmentRows.end()) {
    Rows result;
    for (Value value : Rows(it->second))
      result.push_back(broadcast(value, rowTypeOf(to)));
    set(op.getResult(), std::move(result));
    return success();
  }
  if (auto pieces = repeatedPieces(from, to)) {
    const Rows source = rows(op.getSource());
    set(op.getResult(), llvm::map_to_vector<1>(*pieces, [&](int64_t piece) {
          return lanesOf(from) == lanesOf(to) ? source[piece] : broadcast(source[piece], rowTypeOf(to));
        }));
    return success();
  }
  if (from.getNumElements() == 1) { // every thread has a copy
    set(op.getResult(), Rows(numRowsOf(to), broadcast(scalar(op.getSource()), rowTypeOf(to))));
    return success();
  }
  // A row is one piece, and its source the element of the same thread.
  if (from.getShape().back() == 1 && lanesOf(from) == 1 && to.getShape().back() == lanesOf(to) &&
      from.getNumElements() * lanesOf(to) == to.getNumElements() && from.getNumElements() % numThreads == 0) {
    Rows result;
    for (Value value : Rows(rows(op.getSource())))
      result.push_back(broadcast(value, rowTypeOf(to)));
    set(op.getResult(), std::move(result));
    return success();
  }
  auto sourceIndex = [&](Value index) {
    Value result;
    int64_t stride = from.getNumElements();
    for (auto [axis, position] : llvm::enumerate(coordinates(index, to.getShape()))) {
      stride /= from.getDimSize(axis);
      if (from.getDimSize(axis) == 1)
        continue;
      Value step = stride == 1 ? position : arith::MulIOp::create(b, position, i32(stride)).getResult();
      result = result ? arith::AddIOp::create(b, result, step).getResult() : step;
    }
    return result;
  };
  int budget = maxComputed;
  auto result = isComputable(op.getSource(), budget) ? computeRows(op.getSource(), to, sourceIndex)
                                                     : exchange(op, op.getSource(), to, sourceIndex);
  if (failed(result))
    return failure();
  set(op.getResult(), std::move(*result));
  return success();
}

LogicalResult ThreadLowering::lowerTrans(tile::TransOp op) {
  // Matrix instructions read the source.
  auto isMatrixDot = [](Operation *user) {
    auto dot = dyn_cast<tile::DotOp>(user);
    return dot && linearLayoutOf(dot.getType());
  };
  bool isRead = tile::storedOperand(op) != op.getResult() && llvm::all_of(op->getUses(), [&](OpOperand &use) {
                  return isMatrixDot(use.getOwner()) && use.getOperandNumber() < 2;
                });
  if (isRead)
    return success();
  auto from = cast<RankedTensorType>(op.getSource().getType()), to = cast<RankedTensorType>(op.getType());
  ArrayRef<int64_t> perm = op.getPerm();
  int64_t rank = from.getRank();
  SmallVector<bool> seen(rank, false);
  for (int64_t axis : perm) {
    if ((int64_t)perm.size() != rank || axis < 0 || axis >= rank || seen[axis])
      return op.emitOpError("expected a permutation of the axes of ") << from;
    seen[axis] = true;
  }
  SmallVector<int64_t> strides(rank, 1);
  for (int64_t axis = rank - 2; axis >= 0; --axis)
    strides[axis] = strides[axis + 1] * from.getDimSize(axis + 1);
  for (int64_t axis = 0; axis < rank; ++axis)
    if (to.getDimSize(axis) != from.getDimSize(perm[axis]))
      return op.emitOpError("expected axis ")
             << axis << " of the result to have the size of axis " << perm[axis] << ", got " << from << " and " << to;
  auto sourceIndex = [&](Value index) {
    Value result = i32(0);
    for (auto [axis, position] : llvm::enumerate(coordinates(index, to.getShape())))
      result = arith::AddIOp::create(b, result, arith::MulIOp::create(b, position, i32(strides[perm[axis]])));
    return result;
  };
  int budget = maxComputed;
  auto result = isComputable(op.getSource(), budget) ? computeRows(op.getSource(), to, sourceIndex)
                                                     : exchange(op, op.getSource(), to, sourceIndex, /*isPadded=*/true);
  if (failed(result))
    return failure();
  set(op.getResult(), std::move(*result));
  return success();
}
