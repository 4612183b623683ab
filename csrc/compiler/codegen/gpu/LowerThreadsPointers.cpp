// Tiles of pointers. Each element has an address of its own; lanes that turn out to lie side by side travel as one
// word.
#include "compiler/codegen/gpu/ThreadLowering.h"
#include "compiler/tile/ir/Marks.h"

using namespace mlir;
using namespace torch_tile::codegen;

SmallVector<ThreadLowering::PointerPiece> ThreadLowering::makePointerPieces(Type type, Value base, Value offsets,
                                                                            Value mask) {
  Type storage = storageOf(cast<tile::PtrType>(getElementTypeOrSelf(base.getType())).getElementType());
  int64_t bytes = bytesOf(storage), lanes = lanesOf(type);
  Value root = rootOfPointers(base);
  bool isTile = isa<RankedTensorType>(base.getType());
  auto pick = [&](Value value, size_t piece) { return rows(value)[rows(value).size() == 1 ? 0 : piece]; };
  auto equals = [&](Value left, Value right) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, left, right);
  };
  // Memory that an argument points to is known to be the device's, and maybe to be read alone; an integer is not.
  Value origin = isTile && root ? LLVM::PtrToIntOp::create(b, b.getI64Type(), scalar(root)).getResult() : Value();
  bool isRow = false;
  if (isTile && !offsets && lanes > 1) {
    Progression known = knownProgression(base, lanes);
    isRow = known.step == 1 && known.multiple % (bytes * lanes) == 0;
  }
  // Whoever launches the kernel has asked, or the kernel does, whether arguments begin at multiples of 16 bytes.
  bool isNeighbour = !isTile && alignment != Alignment::None && areNeighbours(kernel, base, offsets, lanes);
  Value isAligned = isNeighbour && alignment == Alignment::Asked ? areArgumentsAligned() : Value();
  isRow |= isNeighbour && !isAligned;
  SmallVector<PointerPiece> result;
  for (int64_t piece = 0, end = numRowsOf(type); piece < end; ++piece) {
    PointerPiece part;
    part.isRow = isRow;
    if (mask)
      part.mask = pick(mask, piece);
    if (isRow || isNeighbour) { // one address is enough
      Value first;
      if (isTile) {
        first = extract(rows(base)[piece], 0);
        first = root ? elementPtr(scalar(root), b.getI8Type(), arith::SubIOp::create(b, first, origin))
                     : LLVM::IntToPtrOp::create(b, ptrType, first).getResult();
      } else {
        Value offset = extract(pick(offsets, piece), 0);
        first = elementPtr(scalar(base), storage, createIndexCast(offset, b.getI64Type(), /*isSigned=*/true));
      }
      for (int64_t lane = 0; lane < lanes; ++lane)
        part.lanes.push_back(lane == 0 ? first : elementPtr(first, storage, i64(lane)));
      part.isWholeOrEmpty = mask && isSameAlongPiece(mask, lanes);
      part.isWholeOrEmpty &= !isAligned;
      part.isWhole = both(isAligned, mask ? allLanes(mask, part.mask) : Value());
      result.push_back(std::move(part));
      continue;
    }
    SmallVector<Value> addresses;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      Value offset;
      if (offsets) {
        Value row = pick(offsets, piece);
        offset = createIndexCast(extract(row, lane), b.getI64Type(), /*isSigned=*/true);
      }
      if (!isTile) {
        part.lanes.push_back(offset ? elementPtr(scalar(base), storage, offset) : scalar(base));
        continue;
      }
      Value address = extract(rows(base)[piece], lane);
      if (offset)
        address = arith::AddIOp::create(b, address, arith::MulIOp::create(b, offset, i64(bytes)));
      addresses.push_back(address);
      part.lanes.push_back(root ? elementPtr(scalar(root), b.getI8Type(), arith::SubIOp::create(b, address, origin))
                                : LLVM::IntToPtrOp::create(b, ptrType, address).getResult());
    }
    if (isTile && lanes > 1) {
      Value low = arith::AndIOp::create(b, addresses[0], i64(bytes * lanes - 1));
      part.isWhole = equals(low, i64(0));
      for (int64_t lane = 1; lane < lanes; ++lane)
        part.isWhole =
            both(part.isWhole, equals(addresses[lane], arith::AddIOp::create(b, addresses[0], i64(bytes * lane))));
      if (part.mask)
        part.isWhole = both(part.isWhole, allLanes(mask, part.mask));
    }
    result.push_back(std::move(part));
  }
  return result;
}

LogicalResult ThreadLowering::gatherPointers(tile::GatherOp op) {
  orderAccess(op);
  Type element = getElementTypeOrSelf(op.getType()), storage = storageOf(element);
  int64_t lanes = lanesOf(op.getType());
  unsigned bytes = bytesOf(storage);
  SmallVector<PointerPiece> parts = makePointerPieces(op.getType(), op.getBase(), op.getOffsets(), op.getMask());
  auto loadSingle = [&](const PointerPiece &part, size_t piece) -> Value {
    Value other;
    if (op.getOther())
      other = rows(op.getOther())[rows(op.getOther()).size() == 1 ? 0 : piece];
    SmallVector<Value> scalars;
    for (auto [lane, ptr] : llvm::enumerate(part.lanes)) {
      if (!part.mask) {
        scalars.push_back(loadElements(storage, ptr));
        continue;
      }
      Value kept = other ? toStorage(extract(other, lane)) : Value();
      Value mask = extract(part.mask, lane);
      scalars.push_back(op->hasAttr(tile::kOneOfSeveral) ? guardedLoad(storage, ptr, mask, kept)
                                                         : loadOr(storage, ptr, mask, kept));
    }
    return fromScalars(scalars);
  };
  Rows result;
  Type type = withLanes(storage, lanes);
  Type words = bytes * lanes % 4 == 0 ? withLanes(b.getI32Type(), bytes * lanes / 4) : type;
  auto as = [&](Type to, Value value) -> Value {
    return value.getType() == to ? value : LLVM::BitcastOp::create(b, to, value).getResult();
  };
  if (parts[0].isRow && (!parts[0].mask || parts[0].isWholeOrEmpty)) {
    for (auto [piece, part] : llvm::enumerate(parts)) {
      auto load = [&, &part = part] {
        return LLVM::LoadOp::create(b, words, part.lanes[0], bytes * lanes).getResult();
      };
      Value loaded;
      if (part.mask) {
        auto branch = scf::IfOp::create(b, words, part.isWhole, /*addThenBlock=*/true, /*addElseBlock=*/true);
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(branch.thenBlock());
        scf::YieldOp::create(b, load());
        b.setInsertionPointToEnd(branch.elseBlock());
        Value rest = zero(words);
        if (op.getOther()) {
          const Rows &others = rows(op.getOther());
          rest = as(words, broadcast(toStorage(others[others.size() == 1 ? 0 : piece]), type));
        }
        scf::YieldOp::create(b, rest);
        loaded = branch.getResult(0);
      } else {
        loaded = load();
      }
      result.push_back(fromStorage(as(type, loaded), element));
    }
    set(op.getResult(), result);
    return success();
  }
  if (lanes == 1 || !parts[0].isWhole) {
    for (auto [piece, part] : llvm::enumerate(parts))
      result.push_back(fromStorage(loadSingle(part, piece), element));
    set(op.getResult(), result);
    return success();
  }
  // All pieces in one branch, so that their loads are under way together.
  Value condition;
  for (const PointerPiece &part : parts)
    condition = both(condition, part.isWhole);
  auto branch = scf::IfOp::create(b, SmallVector<Type>(parts.size(), words), condition, /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    SmallVector<Value> whole, single;
    b.setInsertionPointToEnd(branch.thenBlock());
    for (const PointerPiece &part : parts)
      whole.push_back(LLVM::LoadOp::create(b, words, part.lanes[0], bytes * lanes));
    scf::YieldOp::create(b, whole);
    b.setInsertionPointToEnd(branch.elseBlock());
    for (auto [piece, part] : llvm::enumerate(parts))
      single.push_back(as(words, loadSingle(part, piece)));
    scf::YieldOp::create(b, single);
  }
  for (Value loaded : branch.getResults())
    result.push_back(fromStorage(as(type, loaded), element));
  set(op.getResult(), result);
  return success();
}

LogicalResult ThreadLowering::scatterPointers(tile::ScatterOp op) {
  if (!op.getCombine().empty())
    return op.emitOpError("unsupported on gpu: a combiner");
  orderAccess(op);
  auto type = dyn_cast<RankedTensorType>(op.getValue().getType());
  SmallVector<PointerPiece> parts =
      makePointerPieces(op.getValue().getType(), op.getBase(), op.getOffsets(), op.getMask());
  auto storeIf = [&](Value condition, function_ref<void()> store) {
    if (condition)
      guardedStore(condition, store);
    else
      store();
  };
  const Rows stored = rows(op.getValue());
  for (auto [piece, part] : llvm::enumerate(parts)) {
    Value value = toStorage(stored[piece]);
    auto storeSingle = [&, &part = part] {
      for (auto [lane, ptr] : llvm::enumerate(part.lanes)) {
        Value mask = part.mask ? extract(part.mask, lane) : Value();
        Value single = extract(value, lane);
        storeIf(mask, [&, &ptr = ptr] { storeElements(single, ptr); });
      }
    };
    storeIf(type ? isOwned(type, piece) : isFirstThread(), [&, &part = part] {
      unsigned bytes = unsigned(bytesOf(value.getType()) * lanesOf(value.getType()));
      auto storeWhole = [&, &part = part] { LLVM::StoreOp::create(b, value, part.lanes[0], bytes); };
      if (part.isRow && !part.mask)
        return storeWhole();
      if (part.isWholeOrEmpty)
        return guardedStore(part.isWhole, storeWhole);
      if (!part.isWhole)
        return storeSingle();
      storeWholeOr(part.isWhole, storeWhole, storeSingle);
    });
  }
  return success();
}
