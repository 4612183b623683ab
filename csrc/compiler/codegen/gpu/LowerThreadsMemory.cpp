// Structured loads and stores.
#include "compiler/codegen/gpu/CompileGpuKernel.h"
#include "compiler/codegen/gpu/MemoryAccess.h"
#include "compiler/tile/ir/Marks.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace torch_tile::codegen;

/// Of loads and stores: a number of elements that their offset is a multiple of, where whoever made them knows more
/// than the arithmetic says.
static constexpr llvm::StringLiteral multipleAttrName = "tile.multiple";

/// Of kernels: no axis is empty, so the first element of each structured access lies inside.
static constexpr llvm::StringLiteral neverEmptyAttrName = "tile.never_empty";

static constexpr int64_t warpSize = 32;

Value ThreadLowering::both(Value left, Value right) {
  if (!left || !right)
    return left ? left : right;
  return arith::AndIOp::create(b, left, right);
}

Value ThreadLowering::allLanes(Value mask, Value row) {
  int64_t lanes = lanesOf(row.getType());
  if (isSameAlongPiece(mask, lanes))
    return extract(row, 0);
  // Where the first lane is far enough, the others are.
  if (auto compare = mask.getDefiningOp<arith::CmpIOp>();
      compare && compare.getPredicate() == arith::CmpIPredicate::sge &&
      compare.getLhs().getDefiningOp<tile::IotaOp>() && compare.getRhs().getDefiningOp<tile::SplatOp>())
    return extract(row, 0);
  Value all;
  for (int64_t lane = 0; lane < lanes; ++lane)
    all = both(all, extract(row, lane));
  return all;
}

Value ThreadLowering::isFirstThread() { return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, threadId, i32(0)); }

FailureOr<ThreadLowering::Access> ThreadLowering::makeAccess(Operation *op, Type value, Value base, Value offset,
                                                             ValueRange strides, ArrayRef<int64_t> staticStrides,
                                                             ValueRange valid) {
  Access access;
  access.storage = storageOf(cast<tile::PtrType>(base.getType()).getElementType());
  access.base = elementPtr(scalar(base), access.storage, scalar(offset));
  access.type = dyn_cast<RankedTensorType>(value);
  if (!access.type)
    return access;
  unsigned nextStride = 0;
  for (auto [axis, stride] : llvm::enumerate(staticStrides)) {
    bool isDynamic = ShapedType::isDynamic(stride);
    Value operand = isDynamic ? scalar(strides[nextStride++]) : Value();
    access.staticStrides.push_back(isDynamic ? constantOf(operand) : stride);
    access.strides.push_back(operand);
    Value count = valid.empty() ? Value() : scalar(valid[axis]);
    if (std::optional<int64_t> bound = constantOf(count); bound && *bound >= access.type.getDimSize(axis))
      count = Value();
    access.valid.push_back(count);
  }
  int64_t lanes = lanesOf(access.type), rank = access.type.getRank();
  access.hasWholePieces = valid.empty() || knownMultiple(valid.back()) % lanes == 0;
  if (rank == 1 && !valid.empty())
    access.leastValid = knownLeast(valid.back()).value_or(0);
  access.isContiguous =
      rank > 0 && lanes > 1 && access.staticStrides.back() == 1 && access.type.getShape().back() % lanes == 0;
  access.isRepeated = rank > 0 && access.staticStrides.back() == 0 && !access.valid.back() &&
                      access.type.getShape().back() % lanes == 0;
  if (!access.isContiguous)
    return access;
  // Pieces start at multiples of their size from the start of a row, so rows decide.
  auto strideOf = [&](int64_t axis) {
    return access.staticStrides[axis] ? i64(*access.staticStrides[axis]) : access.strides[axis];
  };
  auto multiple = op->getAttrOfType<IntegerAttr>(multipleAttrName);
  bool isMultiple = isAlignedArgument(kernel, base) &&
                    (knownMultiple(offset) % lanes == 0 || (multiple && multiple.getInt() % lanes == 0));
  for (int64_t axis = 0; axis + 1 < rank; ++axis)
    isMultiple &= access.type.getDimSize(axis) == 1 || knownMultiple(strideOf(axis)) % lanes == 0;
  access.isNeverWhole = alignment == Alignment::None;
  if (isMultiple && !access.isNeverWhole) {
    if (alignment == Alignment::Asked)
      access.isAligned = areArgumentsAligned();
    return access;
  }
  if (access.isNeverWhole)
    return access;
  Value bits = LLVM::PtrToIntOp::create(b, b.getI64Type(), access.base);
  int64_t bytes = bytesOf(access.storage);
  for (int64_t axis = 0; axis + 1 < rank; ++axis) {
    if (access.type.getDimSize(axis) == 1)
      continue;
    bits = arith::OrIOp::create(b, bits, arith::MulIOp::create(b, strideOf(axis), i64(bytes)));
  }
  Value low = arith::AndIOp::create(b, bits, i64(bytes * lanes - 1));
  access.isAligned = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, low, i64(0));
  if (rank == 1)
    access.misalignment = low;
  return access;
}

/// Where the element with row-major index `index` lies.
std::pair<Value, Value> ThreadLowering::locate(const Access &access, Value index) {
  Value offset, inside;
  for (auto [axis, position] : llvm::enumerate(coordinates(index, access.type.getShape()))) {
    Value wide = arith::ExtUIOp::create(b, b.getI64Type(), position);
    if (access.valid[axis])
      inside = both(inside, arith::CmpIOp::create(b, arith::CmpIPredicate::slt, wide, access.valid[axis]));
    std::optional<int64_t> known = access.staticStrides[axis];
    if (known == 0)
      continue;
    if (known != 1)
      wide = arith::MulIOp::create(b, wide, known ? i64(*known) : access.strides[axis]);
    offset = offset ? arith::AddIOp::create(b, offset, wide).getResult() : wide;
  }
  return {offset ? offset : i64(0), inside};
}

/// `given`: the operation's own mask, if it has one.
ThreadLowering::Piece ThreadLowering::makePiece(const Access &access, int64_t piece, Value given) {
  int64_t lanes = lanesOf(access.type), first = piece * numThreads * lanes;
  Value index = start(access.type, piece);
  // All lanes share the row: only the last axis tells them apart.
  Access row = access;
  Value count = first + numThreads * lanes <= access.leastValid ? Value() : row.valid.back();
  row.valid.back() = Value();
  auto [offset, inside] = locate(row, index);
  Piece result;
  result.isWholeOrEmpty = access.hasWholePieces && !access.isAligned && !access.isNeverWhole;
  result.ptr = elementPtr(access.base, access.storage, offset);
  Type maskType = withLanes(b.getI1Type(), lanes);
  if (count) {
    Value column = arith::ExtUIOp::create(b, b.getI64Type(), coordinates(index, access.type.getShape()).back());
    Value left = arith::SubIOp::create(b, count, column);
    Type wide = withLanes(b.getI64Type(), lanes);
    result.mask = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, broadcast(left, wide), iota(wide));
    result.isFull = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, left, i64(lanes));
  }
  if (inside) {
    result.mask = both(result.mask, broadcast(inside, maskType));
    result.isFull = both(result.isFull, inside);
  }
  if (given && !(isOwned(access.type, piece) ? false : isTrueFrom(given, first))) {
    const Rows &masks = rows(given);
    Value mask = masks[masks.size() == 1 ? 0 : piece];
    result.mask = both(result.mask, mask);
    result.isFull = both(result.isFull, allLanes(given, mask));
    result.isWholeOrEmpty &= isSameAlongPiece(given, lanes);
  }
  return result;
}

/// Without a branch, which would wait for each element before the next is asked for: what is not to be read is read
/// from a place that holds zeros.
Value ThreadLowering::loadOr(Type type, Value ptr, Value condition, Value other) {
  Value safe = arith::SelectOp::create(b, condition, ptr, zerosInMemory());
  Value loaded = loadElements(type, safe);
  return other && !matchPattern(other, m_PosZeroFloat()) && !matchPattern(other, m_Zero())
             ? arith::SelectOp::create(b, condition, loaded, other).getResult()
             : loaded;
}

Value ThreadLowering::zerosInMemory() {
  constexpr llvm::StringLiteral name = "tile_zeros";
  constexpr unsigned globalSpace = 1;
  auto module = function->getParentOfType<ModuleOp>();
  auto type = LLVM::LLVMArrayType::get(b.getI8Type(), 16);
  if (!module.lookupSymbol<LLVM::GlobalOp>(name)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(function);
    auto zeros = LLVM::GlobalOp::create(b, type, /*isConstant=*/true, LLVM::Linkage::Internal, name, Attribute(),
                                        /*alignment=*/16, globalSpace);
    Block *body = b.createBlock(&zeros.getInitializerRegion());
    b.setInsertionPointToEnd(body);
    LLVM::ReturnOp::create(b, LLVM::ZeroOp::create(b, type).getResult());
  }
  Value address = LLVM::AddressOfOp::create(b, LLVM::LLVMPointerType::get(b.getContext(), globalSpace), name);
  return LLVM::AddrSpaceCastOp::create(b, ptrType, address);
}

//===-- structured access ---------------------------------------------------------------------------------------===//

/// All pieces in one branch, so that their loads are under way together: whole, or element by element. `isMixed`: some
/// thread of each warp has a part of a piece, so the branch would be taken, and waited for, by all.
SmallVector<Value> ThreadLowering::loadPieces(const Access &access, ArrayRef<Piece> parts, Value other,
                                              bool firstIsInside, bool isMixed) {
  int64_t lanes = lanesOf(access.type);
  Type type = withLanes(access.storage, lanes);
  unsigned elementBytes = bytesOf(access.storage);
  Value condition = access.isAligned;
  for (const Piece &part : parts)
    condition = both(condition, part.isFull);
  auto loadSingle = [&](const Piece &part) -> Value {
    if (isMixed && part.mask) {
      SmallVector<Value> scalars;
      for (int64_t lane = 0; lane < lanes; ++lane) {
        Value ptr = LLVM::GEPOp::create(b, ptrType, access.storage, part.ptr, ArrayRef<LLVM::GEPArg>{(int32_t)lane});
        scalars.push_back(guardedLoad(access.storage, ptr, extract(part.mask, lane), other));
      }
      return fromScalars(scalars);
    }
    return part.mask ? LLVM::MaskedLoadOp::create(b, type, part.ptr, part.mask,
                                                  other ? broadcast(other, type) : zero(type), elementBytes)
                           .getResult()
                     : loadElements(type, part.ptr);
  };
  if (access.isNeverWhole || isMixed)
    return llvm::map_to_vector(parts, loadSingle);
  if (!condition)
    return llvm::map_to_vector(parts, [&](const Piece &part) -> Value {
      return LLVM::LoadOp::create(b, type, part.ptr, elementBytes * lanes);
    });
  // Branches meet in words: narrow elements would be taken apart, and so waited for, in the branch that loads them
  // whole.
  int64_t bits = elementBytes * lanes * 8;
  Type words = bits % 32 == 0 ? withLanes(b.getI32Type(), bits / 32) : type;
  auto as = [&](Type to, Value value) -> Value {
    return value.getType() == to ? value : LLVM::BitcastOp::create(b, to, value).getResult();
  };
  if (llvm::all_of(parts, [](const Piece &part) { return part.isWholeOrEmpty; }))
    return llvm::map_to_vector(parts, [&](const Piece &part) -> Value {
      if (!part.isFull)
        return LLVM::LoadOp::create(b, type, part.ptr, elementBytes * lanes);
      if (firstIsInside) { // as single elements do, without a branch
        Value ptr = arith::SelectOp::create(b, part.isFull, part.ptr, access.base);
        Value loaded = LLVM::LoadOp::create(b, words, ptr, elementBytes * lanes);
        Value rest = other ? as(words, broadcast(other, type)) : zero(words);
        return as(type, arith::SelectOp::create(b, part.isFull, loaded, rest));
      }
      auto branch = scf::IfOp::create(b, words, part.isFull, /*addThenBlock=*/true, /*addElseBlock=*/true);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToEnd(branch.thenBlock());
      scf::YieldOp::create(b, ValueRange(LLVM::LoadOp::create(b, words, part.ptr, elementBytes * lanes)));
      b.setInsertionPointToEnd(branch.elseBlock());
      scf::YieldOp::create(b, ValueRange(other ? as(words, broadcast(other, type)) : zero(words)));
      b.setInsertionPointAfter(branch);
      return as(type, branch.getResult(0));
    });
  auto branch = scf::IfOp::create(b, SmallVector<Type>(parts.size(), words), condition, /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    SmallVector<Value> whole, single;
    b.setInsertionPointToEnd(branch.thenBlock());
    for (const Piece &part : parts)
      whole.push_back(LLVM::LoadOp::create(b, words, part.ptr, elementBytes * lanes));
    scf::YieldOp::create(b, whole);
    b.setInsertionPointToEnd(branch.elseBlock());
    for (const Piece &part : parts)
      single.push_back(as(words, loadSingle(part)));
    scf::YieldOp::create(b, single);
  }
  return llvm::map_to_vector(branch.getResults(), [&](Value value) { return as(type, value); });
}

LogicalResult ThreadLowering::lowerLoad(tile::LoadOp op) {
  orderAccess(op);
  auto access =
      makeAccess(op, op.getType(), op.getBase(), op.getOffset(), op.getStrides(), op.getStaticStrides(), op.getValid());
  if (failed(access))
    return failure();
  Type element = getElementTypeOrSelf(op.getType());
  Value other = op.getOther() ? toStorage(scalar(op.getOther())) : Value();
  if (!access->type) {
    Value loaded = op.getMask() ? loadOr(access->storage, access->base, scalar(op.getMask()), other)
                                : loadElements(access->storage, access->base);
    set(op.getResult(), {fromStorage(loaded, element)});
    return success();
  }
  int64_t lanes = lanesOf(access->type);
  // Every tile of the kernel has a valid element, its first.
  bool firstIsInside = kernel->hasAttr(neverEmptyAttrName);
  Rows result;
  SmallVector<Piece> parts;
  for (int64_t piece = 0, end = numRowsOf(access->type); piece < end; ++piece) {
    Value given = op.getMask() ? rows(op.getMask())[piece] : Value();
    if (!access->isContiguous) {
      SmallVector<Value> scalars;
      Value index = start(access->type, piece);
      bool isOne = access->isRepeated && !given;
      for (int64_t lane = 0; lane < (isOne ? 1 : lanes); ++lane) {
        auto [offset, inside] = locate(*access, addI32(index, lane));
        Value ptr = elementPtr(access->base, access->storage, offset);
        if (inside && !given && firstIsInside && lanes == 1) {
          // A branch would wait for each element: what lies outside reads the tile's first one instead.
          ptr = arith::SelectOp::create(b, inside, ptr, access->base);
          Value rest = other ? other : zero(access->storage);
          scalars.push_back(arith::SelectOp::create(b, inside, loadElements(access->storage, ptr), rest));
          continue;
        }
        inside = both(inside, given ? extract(given, lane) : Value());
        scalars.push_back(!inside                            ? loadElements(access->storage, ptr)
                          : op->hasAttr(tile::kOneOfSeveral) ? guardedLoad(access->storage, ptr, inside, other)
                                                             : loadOr(access->storage, ptr, inside, other));
      }
      Value loaded = isOne ? broadcast(scalars[0], withLanes(access->storage, lanes)) : fromScalars(scalars);
      result.push_back(fromStorage(loaded, element));
      continue;
    }
    parts.push_back(makePiece(*access, piece, op.getMask()));
  }
  if (access->isContiguous && canLoadAcross(*access)) {
    result = loadAcrossOrSingle(op, *access, parts, other);
    for (Value &row : result)
      row = fromStorage(row, element);
    set(op.getResult(), result);
    return success();
  }
  // Of a mask, or at the end of an aligned row, some pieces may be whole and others empty: each has a branch of its
  // own.
  bool endsAligned = op->hasAttr(multipleAttrName);
  size_t together = op.getMask() || endsAligned ? 1 : parts.size();
  bool isMixed = endsAligned && !op.getMask() && numThreads == warpSize && !access->isAligned;
  for (size_t k = 0; access->isContiguous && k < parts.size(); k += together)
    for (Value loaded : loadPieces(*access, ArrayRef(parts).slice(k, together), other, firstIsInside && !op.getMask(),
                                   isMixed && parts[k].mask))
      result.push_back(fromStorage(loaded, element));
  set(op.getResult(), result);
  return success();
}

void ThreadLowering::storeWholeOr(Value condition, function_ref<void()> storeWhole, function_ref<void()> storeSingle) {
  auto branch = scf::IfOp::create(b, TypeRange{}, condition, /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  storeWhole();
  b.setInsertionPointToStart(branch.elseBlock());
  storeSingle();
  for (Block *block : {branch.thenBlock(), branch.elseBlock()})
    if (!block->mightHaveTerminator()) {
      b.setInsertionPointToEnd(block);
      scf::YieldOp::create(b);
    }
}

LogicalResult ThreadLowering::lowerStore(tile::StoreOp op) {
  orderAccess(op);
  auto access = makeAccess(op, op.getValue().getType(), op.getBase(), op.getOffset(), op.getStrides(),
                           op.getStaticStrides(), op.getValid());
  if (failed(access))
    return failure();
  if (!access->type) {
    Value mask = op.getMask() ? scalar(op.getMask()) : Value();
    guardedStore(both(isFirstThread(), mask), [&] { storeElements(toStorage(scalar(op.getValue())), access->base); });
    return success();
  }
  int64_t lanes = lanesOf(access->type);
  unsigned elementBytes = bytesOf(access->storage);
  auto storeIf = [&](Value condition, function_ref<void()> store) {
    if (condition)
      guardedStore(condition, store);
    else
      store();
  };
  const Rows stored = rows(op.getValue());
  for (int64_t piece = 0, end = stored.size(); piece < end; ++piece) {
    Value value = toStorage(stored[piece]);
    storeIf(isOwned(access->type, piece), [&] {
      if (!access->isContiguous) {
        Value index = start(access->type, piece), isFirst;
        if (access->isRepeated && !op.getMask()) // by one thread of those that hold the row
          isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                          coordinates(index, access->type.getShape()).back(), i32(0));
        for (int64_t lane = 0; lane < (isFirst ? 1 : lanes); ++lane) {
          auto [offset, inside] = locate(*access, addI32(index, lane));
          inside = both(inside, isFirst);
          if (op.getMask())
            inside = both(inside, extract(rows(op.getMask())[piece], lane));
          Value ptr = elementPtr(access->base, access->storage, offset);
          storeIf(inside, [&] { storeElements(extract(value, lane), ptr); });
        }
        return;
      }
      Piece part = makePiece(*access, piece, op.getMask());
      auto storeSingle = [&] {
        if (part.mask)
          LLVM::MaskedStoreOp::create(b, value, part.ptr, part.mask, elementBytes);
        else
          storeElements(value, part.ptr);
      };
      if (access->isNeverWhole)
        return storeSingle();
      if (!access->isAligned && !part.isFull) {
        LLVM::StoreOp::create(b, value, part.ptr, elementBytes * lanes);
        return;
      }
      if (part.isWholeOrEmpty)
        return guardedStore(part.isFull, [&] { LLVM::StoreOp::create(b, value, part.ptr, elementBytes * lanes); });
      storeWholeOr(
          both(access->isAligned, part.isFull),
          [&] { LLVM::StoreOp::create(b, value, part.ptr, elementBytes * lanes); }, storeSingle);
    });
  }
  return success();
}
