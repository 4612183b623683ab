// Shapes: what changes the order of elements goes through shared memory.
#include "compiler/codegen/gpu/ThreadLowering.h"

using namespace mlir;
using namespace torch_tile::codegen;

//===-- shared memory -------------------------------------------------------------------------------------------===//

/// One padding element follows each run of this many: as many as there are banks.
static constexpr int64_t paddedRun = 32;
/// Of the whole and of its parts: no access is wider.
static constexpr int64_t sharedAlignment = 16;

LogicalResult ThreadLowering::reserveShared(Operation *op, ArrayRef<Type> storages, int64_t numElements, bool isPadded,
                                            SmallVectorImpl<Shared> &parts) {
  int64_t offset = 0;
  for (Type storage : storages) {
    parts.push_back({storage, offset, isPadded});
    int64_t numPlaces = numElements + (isPadded ? numElements / paddedRun : 0);
    offset = llvm::alignTo(offset + numPlaces * bytesOf(storage), sharedAlignment);
  }
  sharedBytes = std::max(sharedBytes, offset);
  if (hasSharedReaders)
    barrier();
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

FailureOr<RowLowering::Rows> ThreadLowering::exchange(Operation *op, Value source, RankedTensorType type,
                                                      function_ref<Value(Value)> sourceIndex, bool isPadded) {
  auto from = cast<RankedTensorType>(source.getType());
  SmallVector<Shared> parts;
  if (failed(reserveShared(op, storageOf(from.getElementType()), from.getNumElements(), isPadded, parts)))
    return failure();
  storeShared(parts[0], Rows(rows(source)), from);
  barrier();
  Rows result;
  for (int64_t piece = 0, end = numRowsOf(type); piece < end; ++piece) {
    SmallVector<Value> lanes;
    Value first = start(type, piece);
    for (int64_t lane = 0, numLanes = lanesOf(type); lane < numLanes; ++lane)
      lanes.push_back(loadShared(parts[0], sourceIndex(addI32(first, lane)), from.getElementType()));
    result.push_back(fromScalars(lanes));
  }
  hasSharedReaders = true;
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
  auto result = exchange(op, op->getOperand(0), to, [](Value index) { return index; });
  if (failed(result))
    return failure();
  set(op->getResult(0), std::move(*result));
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
  if (from.getNumElements() == 1) { // every thread has a copy
    set(op.getResult(), Rows(numRowsOf(to), broadcast(scalar(op.getSource()), rowTypeOf(to))));
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
  auto result = exchange(op, op.getSource(), to, sourceIndex);
  if (failed(result))
    return failure();
  set(op.getResult(), std::move(*result));
  return success();
}

LogicalResult ThreadLowering::lowerTrans(tile::TransOp op) {
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
  auto result = exchange(op, op.getSource(), to, sourceIndex, /*isPadded=*/true);
  if (failed(result))
    return failure();
  set(op.getResult(), std::move(*result));
  return success();
}
