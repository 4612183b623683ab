// Structured loads and stores, gather, scatter and index checks.
#include "artifact/KernelAbi.h"
#include "compiler/codegen/cpu/TileLowering.h"

using namespace mlir;
using namespace torch_tile::codegen;

/// Rows of an access that has one address, from which the others are a distance away.
static constexpr int64_t manyRows = 4;

/// A structured access with its operands lowered.
struct TileLowering::Access {
  SmallVector<int64_t> shape; // without the last axis
  int64_t lanes = 1;
  Type storage;
  Value base; // already moved by the offset
  SmallVector<std::optional<int64_t>> staticStrides;
  SmallVector<Value> strides;
  SmallVector<Value> valid; // null where every index is valid
};

TileLowering::Access TileLowering::makeAccess(Type value, Value base, Value offset, ValueRange strides,
                                              ArrayRef<int64_t> staticStrides, ValueRange valid) {
  Access access;
  access.storage = storageOf(cast<tile::PtrType>(base.getType()).getElementType());
  access.base = elementPtr(scalar(base), access.storage, scalar(offset));
  auto tile = dyn_cast<RankedTensorType>(value);
  ArrayRef<int64_t> shape = tile ? tile.getShape() : ArrayRef<int64_t>();
  access.lanes = lanesOf(value);
  access.shape.assign(shape.begin(), shape.end());
  unsigned nextStride = 0;
  for (auto [axis, stride] : llvm::enumerate(staticStrides)) {
    bool isDynamic = ShapedType::isDynamic(stride);
    Value operand = isDynamic ? scalar(strides[nextStride++]) : Value();
    std::optional<int64_t> known = isDynamic ? constantOf(operand) : stride;
    access.staticStrides.push_back(known);
    access.strides.push_back(operand);
    Value count = valid.empty() ? Value() : scalar(valid[axis]);
    if (std::optional<int64_t> bound = constantOf(count); bound && *bound >= shape[axis])
      count = Value();
    access.valid.push_back(count);
  }
  // The rows' addresses are the first one's and a distance. Hidden from the analysis of loops, they are no induction
  // variables of their own: to choose registers for all of them in nested loops takes code generation 50 ms.
  if (tile && numRowsOf(value) >= manyRows)
    access.base = LLVM::StripInvariantGroupOp::create(b, ptrType, access.base);
  return access;
}

//===-- structured access ---------------------------------------------------------------------------------------===//

/// Walks the rows of a structured access: the address of each row's first element and the number of its lanes in range
/// (null: all).
template <typename Builder, typename AccessT>
static void forEachRow(Builder &b, const AccessT &access, function_ref<Value(Value, Value)> addOffset,
                       function_ref<void(int64_t row, Value ptr, Value count)> body) {
  auto i64 = [&](int64_t value) -> Value { return arith::ConstantOp::create(b, b.getI64IntegerAttr(value)); };
  int64_t rank = access.shape.size(), numRows = 1;
  for (int64_t axis = 0; axis + 1 < rank; ++axis)
    numRows *= access.shape[axis];
  for (int64_t row = 0; row < numRows; ++row) {
    int64_t rest = row, known = 0;
    Value offset, isInside;
    for (int64_t axis = rank - 2; axis >= 0; --axis) {
      int64_t position = rest % access.shape[axis];
      rest /= access.shape[axis];
      if (access.staticStrides[axis]) {
        known += position * *access.staticStrides[axis];
      } else if (position != 0) {
        Value moved = position == 1 ? access.strides[axis]
                                    : arith::MulIOp::create(b, access.strides[axis], i64(position)).getResult();
        offset = offset ? arith::AddIOp::create(b, offset, moved).getResult() : moved;
      }
      if (Value count = access.valid[axis]) {
        Value isAxisInside = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, i64(position), count);
        isInside = isInside ? arith::AndIOp::create(b, isInside, isAxisInside).getResult() : isAxisInside;
      }
    }
    if (known != 0)
      offset = offset ? arith::AddIOp::create(b, offset, i64(known)).getResult() : i64(known);
    // A row beyond the tensor may be no memory of the process, where even masked access takes hundreds of cycles.
    if (offset && isInside)
      offset = arith::SelectOp::create(b, isInside, offset, i64(0));
    Value ptr = offset ? addOffset(access.base, offset) : access.base;
    Value count = rank == 0 ? Value() : access.valid[rank - 1];
    if (isInside)
      count = arith::SelectOp::create(b, isInside, count ? count : i64(access.lanes), i64(0));
    body(row, ptr, count);
  }
}

/// A row's mask and how many of its lanes are in range (null: all) as one mask.
Value TileLowering::maskOfRow(Value mask, Value count) {
  if (!count)
    return mask;
  int64_t lanes = lanesOf(mask.getType());
  Value inside = lanes == 1 ? arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, count, i64(0)).getResult()
                            : prefixMask(count, lanes);
  return arith::AndIOp::create(b, mask, inside);
}

LogicalResult TileLowering::lowerLoad(tile::LoadOp op) {
  Access access =
      makeAccess(op.getType(), op.getBase(), op.getOffset(), op.getStrides(), op.getStaticStrides(), op.getValid());
  Type element = op.getBase().getType().getElementType();
  Type type = withLanes(access.storage, access.lanes);
  Value other = op.getOther() ? toStorage(scalar(op.getOther())) : Value();
  std::optional<int64_t> stride = access.shape.empty() ? std::optional<int64_t>(1) : access.staticStrides.back();
  Rows result;
  auto addOffset = [&](Value base, Value offset) { return elementPtr(base, access.storage, offset); };
  Rows masks = op.getMask() ? rows(op.getMask()) : Rows();
  if (!masks.empty() && stride == 1 && access.lanes > 1) {
    SmallVector<Value> ptrs;
    forEachRow(b, access, addOffset, [&](int64_t row, Value ptr, Value count) {
      ptrs.push_back(ptr);
      masks[row] = maskOfRow(masks[row], count);
    });
    for (Value loaded : loadMasked(type, ptrs, masks, other))
      result.push_back(fromStorage(loaded, element));
    set(op.getResult(), result);
    return success();
  }
  forEachRow(b, access, addOffset, [&](int64_t row, Value ptr, Value count) {
    Value loaded;
    if (!masks.empty()) {
      Value mask = maskOfRow(masks[row], count);
      if (stride == 0 && access.lanes > 1) {
        loaded = loadUniform(type, ptr, mask, other);
      } else {
        Type offsetType = withLanes(b.getI64Type(), access.lanes);
        Value offsets =
            access.lanes == 1 ? i64(0)
            : stride
                ? iota(offsetType, *stride)
                : arith::MulIOp::create(b, iota(offsetType), broadcast(access.strides.back(), offsetType)).getResult();
        loaded = gatherLanes(type, ptr, offsets, mask, other);
      }
    } else if (stride == 1 || access.lanes == 1) {
      loaded = loadContiguous(type, ptr, count, other);
    } else if (stride == 0) {
      Value one = loadContiguous(access.storage, ptr, count, other);
      loaded = broadcast(one, type);
      if (count)
        loaded = arith::SelectOp::create(b, prefixMask(count, access.lanes), loaded,
                                         other ? broadcast(other, type) : zero(type));
    } else if (canLoadStrided(type, stride, count)) {
      loaded = loadStrided(type, ptr, *stride, count, other);
    } else if (movesLaneByLane(type, count, /*isStore=*/false)) {
      loaded = loadLaneByLane(type, ptr, stride, access.strides.back(), count, other);
    } else {
      // Offsets of a known stride fit 32 bits, which halves the registers they need.
      bool isSmall = stride && llvm::isInt<32>(*stride * access.lanes);
      Type offsetType = withLanes(b.getIntegerType(isSmall ? 32 : 64), access.lanes);
      Value offsets =
          stride ? iota(offsetType, *stride)
                 : arith::MulIOp::create(b, iota(offsetType), broadcast(access.strides.back(), offsetType)).getResult();
      loaded = gatherLanes(type, ptr, offsets, count ? prefixMask(count, access.lanes) : Value(), other);
    }
    result.push_back(fromStorage(loaded, element));
  });
  set(op.getResult(), result);
  return success();
}

LogicalResult TileLowering::lowerStore(tile::StoreOp op) {
  Access access = makeAccess(op.getValue().getType(), op.getBase(), op.getOffset(), op.getStrides(),
                             op.getStaticStrides(), op.getValid());
  std::optional<int64_t> stride = access.shape.empty() ? std::optional<int64_t>(1) : access.staticStrides.back();
  const Rows values = rows(op.getValue());
  Rows masks = op.getMask() ? rows(op.getMask()) : Rows();
  auto addOffset = [&](Value base, Value offset) { return elementPtr(base, access.storage, offset); };
  if (!masks.empty() && stride == 1 && access.lanes > 1) {
    SmallVector<Value> ptrs, stored;
    forEachRow(b, access, addOffset, [&](int64_t row, Value ptr, Value count) {
      ptrs.push_back(ptr);
      stored.push_back(toStorage(values[row]));
      masks[row] = maskOfRow(masks[row], count);
    });
    storeMasked(stored, ptrs, masks);
    return success();
  }
  forEachRow(b, access, addOffset, [&](int64_t row, Value ptr, Value count) {
    Value value = toStorage(values[row]), mask;
    if (!masks.empty()) {
      mask = maskOfRow(masks[row], count);
      if (access.lanes == 1)
        return guardedStore(mask, [&] { storeElements(value, ptr); });
    } else if (stride == 1 || access.lanes == 1) {
      return storeContiguous(value, ptr, count);
    } else if (movesLaneByLane(value.getType(), count, /*isStore=*/true)) {
      return storeLaneByLane(value, ptr, stride, access.strides.back(), count);
    }
    bool isSmall = stride && llvm::isInt<32>(*stride * access.lanes);
    Type offsetType = withLanes(b.getIntegerType(isSmall ? 32 : 64), access.lanes);
    Value offsets =
        stride ? iota(offsetType, *stride)
               : arith::MulIOp::create(b, iota(offsetType), broadcast(access.strides.back(), offsetType)).getResult();
    if (!mask && count)
      mask = prefixMask(count, access.lanes);
    scatterLanes(value, ptr, offsets, mask);
  });
  return success();
}

//===-- indexed access ------------------------------------------------------------------------------------------===//

/// Where the elements of an access lie: a base and offsets in elements, or no base and addresses.
std::pair<Value, TileLowering::Rows> TileLowering::elementAddresses(Value base, Value offsets) {
  if (isa<tile::PtrType>(base.getType()))
    return {scalar(base), offsets ? rows(offsets) : Rows{i64(0)}};
  Rows addresses = rows(base);
  if (!offsets)
    return {Value(), addresses};
  int64_t bytes = bytesOf(storageOf(cast<tile::PtrType>(getElementTypeOrSelf(base.getType())).getElementType()));
  const Rows moves = rows(offsets);
  for (auto [address, move] : llvm::zip_equal(addresses, moves)) {
    Value wide = createIndexCast(move, b.getI64Type(), /*isSigned=*/true);
    address = arith::AddIOp::create(b, address, arith::MulIOp::create(b, wide, constant(wide.getType(), bytes)));
  }
  return {Value(), addresses};
}

LogicalResult TileLowering::lowerGather(tile::GatherOp op) {
  if (lowerAsScalarLoads(op) || lowerAsWindows(op))
    return success();
  Type element = getElementTypeOrSelf(op.getType()), storage = storageOf(element);
  auto pick = [&](Value operand, size_t row) -> Value {
    if (!operand)
      return Value();
    const Rows &list = rows(operand);
    return list[list.size() == 1 ? 0 : row];
  };
  auto [base, offsets] = elementAddresses(op.getBase(), op.getOffsets());
  if (numRowsOf(op.getType()) != (int64_t)offsets.size() || lanesOf(op.getType()) != lanesOf(offsets[0].getType()))
    return op.emitOpError("expected a result of the offsets' shape, got ") << op.getType();
  Type type = withLanes(storage, lanesOf(op.getType()));
  Rows result;
  for (auto [row, offset] : llvm::enumerate(offsets)) {
    Value mask = pick(op.getMask(), row), other = pick(op.getOther(), row);
    if (mask)
      mask = broadcast(mask, withLanes(b.getI1Type(), lanesOf(type)));
    Value loaded = gatherLanes(type, base, offset, mask, other ? toStorage(other) : Value());
    result.push_back(fromStorage(loaded, element));
  }
  set(op.getResult(), result);
  return success();
}

LogicalResult TileLowering::lowerScatter(tile::ScatterOp op) {
  auto [base, offsets] = elementAddresses(op.getBase(), op.getOffsets());
  const Rows stored = rows(op.getValue());
  if (offsets.size() != stored.size() || lanesOf(op.getValue().getType()) != lanesOf(offsets[0].getType()))
    return op.emitOpError("expected values of the offsets' shape, got ") << op.getValue().getType();
  if (!base && !op.getCombine().empty())
    return op.emitOpError("unsupported: a combiner with a tile of pointers");
  for (auto [row, offset] : llvm::enumerate(offsets)) {
    Value mask;
    if (op.getMask()) {
      const Rows &list = rows(op.getMask());
      mask = broadcast(list[list.size() == 1 ? 0 : row], withLanes(b.getI1Type(), lanesOf(offset.getType())));
    }
    if (op.getCombine().empty())
      scatterLanes(toStorage(stored[row]), base, offset, mask);
    else if (failed(foldLanes(op.getCombine(), stored[row], base, offset, mask)))
      return failure();
  }
  return success();
}

/// One unsigned comparison finds both kinds of bad index. The cold branch finds the first bad lane, keeps what the
/// error message needs and raises a flag, which the program loop looks at; until then bad lanes hold 0.
LogicalResult TileLowering::lowerCheckIndex(tile::CheckIndexOp op) {
  Value size = scalar(op.getSize());
  const Rows indices = rows(op.getIndex());
  Rows result;
  for (auto [row, index] : llvm::enumerate(indices)) {
    int64_t lanes = lanesOf(index.getType());
    Type element = getElementTypeOrSelf(index.getType());
    bool isWide = element.getIntOrFloatBitWidth() == 64;
    // With 32-bit indices every size beyond their range is the same, so compare with the largest index allowed.
    Value largest = arith::SubIOp::create(b, size, i64(1));
    Value bound = size;
    if (!isWide) {
      largest = arith::MinSIOp::create(b, largest, i64(INT32_MAX));
      largest = arith::TruncIOp::create(b, element, largest);
      bound = arith::TruncIOp::create(b, element, size);
    }
    Value wrapped = index;
    if (op.getWrap()) {
      Value isNegative = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, index, zero(index.getType()));
      Value moved = arith::AddIOp::create(b, index, broadcast(bound, index.getType()));
      wrapped = arith::SelectOp::create(b, isNegative, moved, index);
    }
    // A size of zero makes the largest index -1, which as unsigned would allow everything.
    Value isInside = arith::CmpIOp::create(b, arith::CmpIPredicate::ule, wrapped, broadcast(largest, index.getType()));
    Value hasElements = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, size, i64(0));
    isInside = arith::AndIOp::create(b, isInside, broadcast(hasElements, isInside.getType()));
    Value active;
    if (op.getValid()) {
      // `valid` counts along the first axis: lanes of a one-axis tile, rows of any other.
      Value count = scalar(op.getValid());
      auto tile = dyn_cast<RankedTensorType>(op.getIndex().getType());
      if (tile && tile.getRank() > 1) {
        int64_t position = row / (indices.size() / tile.getDimSize(0));
        active =
            broadcast(arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, count, i64(position)), isInside.getType());
      } else if (lanes == 1) {
        active = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, count, i64(0));
      } else {
        active = prefixMask(count, lanes);
      }
    }
    if (op.getMask()) {
      const Rows &list = rows(op.getMask());
      Value mask = broadcast(list[list.size() == 1 ? 0 : row], isInside.getType());
      active = active ? arith::AndIOp::create(b, active, mask).getResult() : mask;
    }
    Value failing = arith::XOrIOp::create(b, isInside, constant(isInside.getType(), 1));
    if (active)
      failing = arith::AndIOp::create(b, failing, active);
    Value safe = active ? arith::AndIOp::create(b, isInside, active).getResult() : isInside;
    result.push_back(arith::SelectOp::create(b, safe, wrapped, zero(index.getType())));

    Value any = lanes == 1 ? failing : LLVM::vector_reduce_or::create(b, b.getI1Type(), failing).getResult();
    torch_tile::KernelError code =
        op.getDivision() ? torch_tile::KernelError::DivisionByZero : torch_tile::KernelError::IndexOutOfRange;
    raise(any, static_cast<int32_t>(code), [&] {
      Value bad = index;
      if (lanes > 1) {
        Type bits = b.getIntegerType(lanes);
        Value first = LLVM::CountTrailingZerosOp::create(b, bits, LLVM::BitcastOp::create(b, bits, failing),
                                                         /*is_zero_poison=*/true);
        first = lanes > 64   ? arith::TruncIOp::create(b, b.getI64Type(), first).getResult()
                : lanes < 64 ? arith::ExtUIOp::create(b, b.getI64Type(), first).getResult()
                             : first;
        bad = LLVM::ExtractElementOp::create(b, index, first);
      }
      // KernelContext: scratch, error[3].
      Value fields[] = {createIndexCast(bad, b.getI64Type(), /*isSigned=*/true), size, i64(op.getLine())};
      for (auto [position, field] : llvm::enumerate(fields))
        storeElements(field, elementPtr(contextPtr, b.getI64Type(), i64(position + 1)));
    });
  }
  set(op.getResult(), result);
  return success();
}
