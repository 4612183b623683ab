// Moves of one row of lanes: whole, a prefix, under a mask of any form, from and to addresses of each lane.
#include "compiler/codegen/cpu/TileLowering.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace torch_tile::codegen;

//===-- elements ------------------------------------------------------------------------------------------------===//

Value TileLowering::stackSlot(Type type) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(entryEnd);
  return LLVM::AllocaOp::create(b, ptrType, type, i64(1), /*alignment=*/64);
}

Value TileLowering::spill(Value value) {
  Value slot = stackSlot(value.getType());
  storeElements(value, slot);
  return slot;
}

void TileLowering::laneLoop(Value count, function_ref<void(Value)> body) {
  auto loop = scf::ForOp::create(b, i64(0), count, i64(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

//===-- masks ---------------------------------------------------------------------------------------------------===//

Value TileLowering::clampCount(Value count, int64_t lanes) {
  Value low = arith::MaxSIOp::create(b, count, i64(0));
  return arith::MinSIOp::create(b, low, i64(lanes));
}

Value TileLowering::prefixMask(Value count, int64_t lanes) {
  Value &mask = masks[{count, lanes}];
  if (mask)
    return mask;
  Type type = withLanes(b.getI32Type(), lanes);
  Value narrow = arith::TruncIOp::create(b, b.getI32Type(), clampCount(count, lanes));
  return mask = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, iota(type), broadcast(narrow, type));
}

bool TileLowering::hasMaskedAccess(Type storage) const {
  return bytesOf(storage) >= 4 ? features.hasMaskedWords : features.hasMaskedBytes;
}

//===-- rows ----------------------------------------------------------------------------------------------------===//

/// Of a part of several registers whose length is known: each register by itself, whole, in part, or not at all.
bool TileLowering::hasKnownParts(Type type, Value count) const {
  int64_t lanes = lanesOf(type), perRegister = lanesPerRegister(type);
  return constantOf(count) && perRegister > 1 && lanes > perRegister && llvm::isPowerOf2_64(lanes);
}

int64_t TileLowering::lanesPerRegister(Type type) const {
  return int64_t(features.vectorBits) / (8 * bytesOf(getElementTypeOrSelf(type)));
}

Value TileLowering::loadContiguous(Type type, Value ptr, Value count, Value other) {
  if (!count)
    return loadElements(type, ptr);
  int64_t lanes = lanesOf(type);
  if (hasKnownParts(type, count)) {
    int64_t perRegister = lanesPerRegister(type), known = *constantOf(count);
    Type element = getElementTypeOrSelf(type), part = withLanes(element, perRegister);
    Rows parts;
    for (int64_t first = 0; first < lanes; first += perRegister) {
      int64_t left = known - first;
      if (left <= 0)
        parts.push_back(other ? broadcast(other, part) : zero(part));
      else
        parts.push_back(loadContiguous(part, first ? elementPtr(ptr, element, i64(first)) : ptr,
                                       left >= perRegister ? Value() : i64(left), other));
    }
    return rechunk(parts, lanes).front();
  }
  if (movesInPieces(type, count, /*isStore=*/false))
    return loadPieces(type, ptr, *constantOf(count), other);
  if (lanes == 1)
    return guardedLoad(type, ptr, arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, count, i64(0)), other);
  Value passThrough = other ? broadcast(other, type) : zero(type);
  if (hasMaskedAccess(type))
    return LLVM::MaskedLoadOp::create(b, type, ptr, prefixMask(count, lanes), passThrough, uint32_t(bytesOf(type)));
  // Without masked moves of this width LLVM would emit a branch per lane.
  Value slot = spill(passThrough);
  Type element = getElementTypeOrSelf(type);
  laneLoop(clampCount(count, lanes), [&](Value lane) {
    storeElements(loadElements(element, elementPtr(ptr, element, lane)), elementPtr(slot, element, lane));
  });
  return loadElements(type, slot);
}

void TileLowering::storeContiguous(Value value, Value ptr, Value count) {
  if (!count)
    return storeElements(value, ptr);
  Type type = value.getType();
  int64_t lanes = lanesOf(type);
  if (hasKnownParts(type, count)) {
    int64_t perRegister = lanesPerRegister(type), known = *constantOf(count);
    Type element = getElementTypeOrSelf(type);
    for (int64_t first = 0; first < std::min(lanes, known); first += perRegister)
      storeContiguous(slice(value, first, perRegister), first ? elementPtr(ptr, element, i64(first)) : ptr,
                      known - first >= perRegister ? Value() : i64(known - first));
    return;
  }
  if (movesInPieces(type, count, /*isStore=*/true))
    return storePieces(value, ptr, *constantOf(count));
  if (lanes == 1) {
    Value condition = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, count, i64(0));
    return guardedStore(condition, [&] { storeElements(value, ptr); });
  }
  if (hasMaskedAccess(type)) {
    LLVM::MaskedStoreOp::create(b, value, ptr, prefixMask(count, lanes), uint32_t(bytesOf(type)));
    return;
  }
  Value slot = spill(value);
  Type element = getElementTypeOrSelf(type);
  laneLoop(clampCount(count, lanes), [&](Value lane) {
    storeElements(loadElements(element, elementPtr(slot, element, lane)), elementPtr(ptr, element, lane));
  });
}

//===-- masks of any form -----------------------------------------------------------------------------------------===//

// Most vectors lie whole inside: those are moved without a mask. Masked moves take twice as long where memory is the
// limit, and where there are none of the width, the lanes go one by one.

/// Longer masks than a register of 64 lanes would be taken apart lane by lane.
Value TileLowering::areAllTrue(Value mask) {
  constexpr int64_t registerLanes = 64;
  for (int64_t lanes = lanesOf(mask.getType()); lanes > registerLanes && lanes % 2 == 0; lanes /= 2)
    mask = arith::AndIOp::create(b, slice(mask, 0, lanes / 2), slice(mask, lanes / 2, lanes / 2));
  return LLVM::vector_reduce_and::create(b, b.getI1Type(), mask);
}

/// One branch for all rows: a branch for each would keep the rows' loads apart, and code generation takes long over
/// them.
Value TileLowering::areAllTrue(ArrayRef<Value> masks) {
  llvm::SmallSetVector<Value, 4> different(masks.begin(), masks.end());
  Value all;
  for (Value mask : different)
    all = all ? arith::AndIOp::create(b, all, mask).getResult() : mask;
  return areAllTrue(all);
}

TileLowering::Rows TileLowering::loadMasked(Type type, ArrayRef<Value> ptrs, ArrayRef<Value> masks, Value other) {
  SmallVector<Type> types(ptrs.size(), type);
  auto branch = scf::IfOp::create(b, types, areAllTrue(masks), /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(b, llvm::map_to_vector(ptrs, [&](Value ptr) { return loadElements(type, ptr); }));
  b.setInsertionPointToEnd(branch.elseBlock());
  Value passThrough = other ? broadcast(other, type) : zero(type);
  SmallVector<Value> loaded;
  if (hasMaskedAccess(type)) {
    for (auto [ptr, mask] : llvm::zip_equal(ptrs, masks))
      loaded.push_back(LLVM::MaskedLoadOp::create(b, type, ptr, mask, passThrough, uint32_t(bytesOf(type))));
  } else {
    Type element = getElementTypeOrSelf(type);
    Value slot = spillRows(SmallVector<Value>(ptrs.size(), passThrough));
    forEachActive(element, ptrs, masks, [&](Value place, Value ptr) {
      storeElements(loadElements(element, ptr), elementPtr(slot, element, place));
    });
    for (size_t row = 0; row < ptrs.size(); ++row)
      loaded.push_back(loadElements(type, elementPtr(slot, element, i64(row * lanesOf(type)))));
  }
  scf::YieldOp::create(b, loaded);
  return Rows(branch.getResults());
}

void TileLowering::storeMasked(ArrayRef<Value> values, ArrayRef<Value> ptrs, ArrayRef<Value> masks) {
  Type type = values[0].getType();
  auto branch = scf::IfOp::create(b, areAllTrue(masks), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  for (auto [value, ptr] : llvm::zip_equal(values, ptrs))
    storeElements(value, ptr);
  b.setInsertionPointToStart(branch.elseBlock());
  if (hasMaskedAccess(type)) {
    for (auto [value, ptr, mask] : llvm::zip_equal(values, ptrs, masks))
      LLVM::MaskedStoreOp::create(b, value, ptr, mask, uint32_t(bytesOf(type)));
    return;
  }
  Type element = getElementTypeOrSelf(type);
  Value slot = spillRows(values);
  forEachActive(element, ptrs, masks, [&](Value place, Value ptr) {
    storeElements(loadElements(element, elementPtr(slot, element, place)), ptr);
  });
}

/// Rows one after the other in stack memory.
Value TileLowering::spillRows(ArrayRef<Value> values) {
  Type element = getElementTypeOrSelf(values[0].getType());
  int64_t lanes = lanesOf(values[0].getType());
  Value slot = stackSlot(LLVM::LLVMArrayType::get(element, values.size() * lanes));
  for (auto [row, value] : llvm::enumerate(values))
    storeElements(value, elementPtr(slot, element, i64(row * lanes)));
  return slot;
}

/// The lanes of all rows that masks leave, one by one: the number of a lane in the tile, and its address.
void TileLowering::forEachActive(Type element, ArrayRef<Value> ptrs, ArrayRef<Value> masks,
                                 function_ref<void(Value place, Value ptr)> body) {
  int64_t lanes = lanesOf(masks[0].getType());
  Value maskSlot = spillRows(llvm::map_to_vector(masks, [&](Value mask) { return toStorage(mask); }));
  auto visitRow = [&](Value row, Value ptr) {
    laneLoop(i64(lanes), [&](Value lane) {
      Value place = row ? arith::AddIOp::create(b, arith::MulIOp::create(b, row, i64(lanes)), lane).getResult() : lane;
      Value isActive = loadElements(b.getI8Type(), elementPtr(maskSlot, b.getI8Type(), place));
      guardedStore(fromStorage(isActive, b.getI1Type()), [&] { body(place, elementPtr(ptr, element, lane)); });
    });
  };
  if (ptrs.size() == 1)
    return visitRow({}, ptrs[0]);
  Value ptrSlot = stackSlot(LLVM::LLVMArrayType::get(ptrType, ptrs.size()));
  auto ptrAt = [&](Value row) { return elementPtr(ptrSlot, ptrType, row); };
  for (auto [row, ptr] : llvm::enumerate(ptrs))
    LLVM::StoreOp::create(b, ptr, ptrAt(i64(row)), /*alignment=*/8);
  laneLoop(i64(ptrs.size()),
           [&](Value row) { visitRow(row, LLVM::LoadOp::create(b, ptrType, ptrAt(row), /*alignment=*/8)); });
}

/// One element for all lanes, which is read where the mask leaves any. No branch: elsewhere the stack is read.
Value TileLowering::loadUniform(Type type, Value ptr, Value mask, Value other) {
  Value isAny = LLVM::vector_reduce_or::create(b, b.getI1Type(), mask);
  Type element = getElementTypeOrSelf(type);
  if (!idleSlot)
    idleSlot = stackSlot(b.getI64Type());
  Value from = arith::SelectOp::create(b, isAny, ptr, idleSlot);
  Value loaded = broadcast(loadElements(element, from), type);
  return arith::SelectOp::create(b, mask, loaded, other ? broadcast(other, type) : zero(type));
}

Value TileLowering::lanePtr(Value base, Type element, Value offsets) {
  int64_t lanes = lanesOf(offsets.getType());
  if (!base)
    return LLVM::IntToPtrOp::create(b, withLanes(ptrType, lanes), offsets);
  if (lanes == 1)
    return elementPtr(base, element, createIndexCast(offsets, b.getI64Type(), /*isSigned=*/true));
  return LLVM::GEPOp::create(b, withLanes(ptrType, lanes), element, base, ArrayRef<LLVM::GEPArg>{offsets});
}

Value TileLowering::gatherLanes(Type type, Value base, Value offsets, Value mask, Value other) {
  Type element = getElementTypeOrSelf(type);
  int64_t lanes = lanesOf(type);
  if (lanes == 1) {
    Value ptr = lanePtr(base, element, offsets);
    return mask ? guardedLoad(type, ptr, mask, other) : loadElements(type, ptr);
  }
  Value passThrough = other ? broadcast(other, type) : zero(type);
  if (bytesOf(element) >= 4 && features.hasGather) {
    if (!mask)
      mask = constant(withLanes(b.getI1Type(), lanes), 1);
    Value ptrs = lanePtr(base, element, offsets);
    return LLVM::masked_gather::create(b, type, ptrs, mask, ValueRange{passThrough}, uint32_t(bytesOf(element)));
  }
  Value slot = spill(passThrough), offsetSlot = spill(offsets), maskSlot = mask ? spill(toStorage(mask)) : Value();
  Type offsetType = getElementTypeOrSelf(offsets.getType());
  laneLoop(i64(lanes), [&](Value lane) {
    auto copy = [&] {
      Value offset = loadElements(offsetType, elementPtr(offsetSlot, offsetType, lane));
      Value ptr = lanePtr(base, element, offset);
      storeElements(loadElements(element, ptr), elementPtr(slot, element, lane));
    };
    if (!mask)
      return copy();
    Value isActive = loadElements(b.getI8Type(), elementPtr(maskSlot, b.getI8Type(), lane));
    guardedStore(fromStorage(isActive, b.getI1Type()), copy);
  });
  return loadElements(type, slot);
}

void TileLowering::scatterLanes(Value value, Value base, Value offsets, Value mask) {
  Type type = value.getType(), element = getElementTypeOrSelf(type);
  int64_t lanes = lanesOf(type);
  if (lanes == 1) {
    Value ptr = lanePtr(base, element, offsets);
    if (!mask)
      return storeElements(value, ptr);
    return guardedStore(mask, [&] { storeElements(value, ptr); });
  }
  if (bytesOf(element) >= 4 && features.hasScatter) {
    if (!mask)
      mask = constant(withLanes(b.getI1Type(), lanes), 1);
    Value ptrs = lanePtr(base, element, offsets);
    LLVM::masked_scatter::create(b, value, ptrs, mask, uint32_t(bytesOf(element)));
    return;
  }
  Value slot = spill(value), offsetSlot = spill(offsets), maskSlot = mask ? spill(toStorage(mask)) : Value();
  Type offsetType = getElementTypeOrSelf(offsets.getType());
  laneLoop(i64(lanes), [&](Value lane) {
    auto copy = [&] {
      Value offset = loadElements(offsetType, elementPtr(offsetSlot, offsetType, lane));
      Value ptr = lanePtr(base, element, offset);
      storeElements(loadElements(element, elementPtr(slot, element, lane)), ptr);
    };
    if (!mask)
      return copy();
    Value isActive = loadElements(b.getI8Type(), elementPtr(maskSlot, b.getI8Type(), lane));
    guardedStore(fromStorage(isActive, b.getI1Type()), copy);
  });
}

/// Lanes that are taken one by one without a loop.
static constexpr int64_t unrolledLanes = 16;

LogicalResult TileLowering::foldLanes(Region &combiner, Value value, Value base, Value offsets, Value mask) {
  Type element = getElementTypeOrSelf(value.getType()), storage = storageOf(element);
  LogicalResult result = success();
  auto fold = [&](Value lane, Value offset) {
    Value ptr = elementPtr(base, storage, createIndexCast(offset, b.getI64Type(), /*isSigned=*/true));
    auto combined = combine(combiner, {fromStorage(loadElements(storage, ptr), element)}, {lane});
    result = success(succeeded(result) && succeeded(combined));
    if (succeeded(combined))
      storeElements(toStorage(combined->front()), ptr);
  };
  int64_t lanes = lanesOf(offsets.getType());
  if (lanes == 1) {
    if (mask)
      guardedStore(mask, [&] { fold(value, offsets); });
    else
      fold(value, offsets);
    return result;
  }
  Value slot = spill(toStorage(value)), offsetSlot = spill(offsets), maskSlot = mask ? spill(toStorage(mask)) : Value();
  Type offsetType = getElementTypeOrSelf(offsets.getType());
  if (!mask && lanes <= unrolledLanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      Value stored = loadElements(storage, elementPtr(slot, storage, i64(lane)));
      fold(fromStorage(stored, element), loadElements(offsetType, elementPtr(offsetSlot, offsetType, i64(lane))));
    }
    return result;
  }
  laneLoop(i64(lanes), [&](Value lane) {
    auto foldLane = [&] {
      Value stored = loadElements(storage, elementPtr(slot, storage, lane));
      fold(fromStorage(stored, element), loadElements(offsetType, elementPtr(offsetSlot, offsetType, lane)));
    };
    if (!mask)
      return foldLane();
    Value isActive = loadElements(b.getI8Type(), elementPtr(maskSlot, b.getI8Type(), lane));
    guardedStore(fromStorage(isActive, b.getI1Type()), foldLane);
  });
  return result;
}
