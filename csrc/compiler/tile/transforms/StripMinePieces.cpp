// Pieces of tiles, and tiles in scratch.
#include "compiler/tile/transforms/StripMiner.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile;

//===-- positions
//---------------------------------------------------------------------------------------------------===//

int64_t StripMiner::pieceLanes(RankedTensorType type) const {
  int64_t last = type.getShape().back(), size = type.getNumElements();
  bool isPowerOf2 = llvm::all_of(type.getShape(), [](int64_t axis) { return llvm::isPowerOf2_64(axis); });
  int64_t whole = last >= 16 || !isPowerOf2 ? last : size, lanes = std::min(maxPiece, whole);
  while (whole % lanes != 0)
    --lanes;
  return lanes;
}

SmallVector<Value> StripMiner::positionOf(Value start, ArrayRef<int64_t> shape) {
  SmallVector<Value> position(shape.size());
  int64_t inner = 1;
  for (int64_t axis = shape.size() - 1; axis >= 0; --axis) {
    Value outer = divide(start, inner);
    position[axis] = axis == 0 ? outer : modulo(outer, shape[axis]);
    inner *= shape[axis];
  }
  return position;
}

std::pair<int64_t, int64_t> StripMiner::coveredAxes(ArrayRef<int64_t> shape, int64_t lanes) {
  int64_t inner = 1;
  for (int64_t axis = shape.size() - 1; axis > 0; --axis) {
    if (inner * shape[axis] >= lanes)
      return {shape.size() - axis, lanes / inner};
    inner *= shape[axis];
  }
  return {shape.size(), lanes / inner};
}

static SmallVector<int64_t> rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t axis = (int64_t)shape.size() - 2; axis >= 0; --axis)
    strides[axis] = strides[axis + 1] * shape[axis + 1];
  return strides;
}

//===-- scratch
//-----------------------------------------------------------------------------------------------------===//

Type StripMiner::scratchElement(Type element) {
  return isa<PtrType>(element) ? IntegerType::get(element.getContext(), 64) : element;
}

int64_t StripMiner::elementBytes(Type element) {
  element = scratchElement(element);
  return element.isIndex() ? 8 : std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
}

int64_t StripMiner::reserve(Type tile) {
  int64_t offset = scratchBytes;
  scratchBytes +=
      llvm::alignTo(elementBytes(getElementTypeOrSelf(tile)) * cast<RankedTensorType>(tile).getNumElements(), 64);
  return offset;
}

Value StripMiner::scratchAt(Value offset, Type tile) {
  return ScratchOp::create(b, PtrType::get(b.getContext(), scratchElement(getElementTypeOrSelf(tile))), offset);
}

Value StripMiner::scratchFor(Value value) {
  if (Value wanted = preferred.lookup(value))
    return wanted;
  Value offset = i64(reserve(value.getType()));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfterValue(offset);
  return scratchAt(offset, value.getType());
}

void StripMiner::storePiece(Value piece, Value scratch, Value start) {
  auto tile = dyn_cast<RankedTensorType>(piece.getType());
  if (isa<PtrType>(getElementTypeOrSelf(piece.getType())))
    piece = PtrToIntOp::create(b, pieceType(b.getI64Type(), tile ? tile.getNumElements() : 1), piece);
  StoreOp::create(b, piece, scratch, start, ValueRange{}, tile ? ArrayRef<int64_t>{1} : ArrayRef<int64_t>{},
                  ValueRange{});
}

Value StripMiner::loadPiece(Type element, Value scratch, Value start, int64_t lanes) {
  Value loaded = LoadOp::create(b, pieceType(scratchElement(element), lanes), scratch, start, ValueRange{},
                                lanes == 1 ? ArrayRef<int64_t>{} : ArrayRef<int64_t>{1}, ValueRange{}, /*mask=*/Value(),
                                /*other=*/Value());
  if (isa<PtrType>(element))
    loaded = IntToPtrOp::create(b, pieceType(element, lanes), loaded);
  return loaded;
}

int64_t StripMiner::squareOf(TransOp op) {
  RankedTensorType type = tileOf(op.getResult());
  if (type.getRank() != 2 || op.getPerm()[0] != 1 || !type.getElementType().isIntOrFloat() ||
      type.getElementType().getIntOrFloatBitWidth() < 8)
    return 0;
  int64_t side = type.getElementType().getIntOrFloatBitWidth() > 32 ? 4 : 8;
  return type.getDimSize(0) % side == 0 && type.getDimSize(1) % side == 0 ? side : 0;
}

/// Elements of a column lie far apart, so a piece of a row of the result would be loaded one by one.
LogicalResult StripMiner::storeTransposed(TransOp op, int64_t side, Value scratch) {
  auto source = inScratch(op.getSource());
  if (failed(source))
    return failure();
  RankedTensorType type = tileOf(op.getResult());
  int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  auto square = RankedTensorType::get({side, side}, type.getElementType());
  return loop(columns, side, [&](Value column) {
    return loop(rows, side, [&](Value row) {
      Value loaded = LoadOp::create(b, square, *source, add(mul(column, rows), row), ValueRange{},
                                    ArrayRef<int64_t>{rows, 1}, ValueRange{}, Value(), Value());
      Value turned = TransOp::create(b, square, loaded, op.getPerm());
      StoreOp::create(b, turned, scratch, add(mul(row, columns), column), ValueRange{}, ArrayRef<int64_t>{columns, 1},
                      ValueRange{});
      return success();
    });
  });
}

LogicalResult StripMiner::storeAll(Value value, Value scratch) {
  if (auto trans = value.getDefiningOp<TransOp>(); trans && !scratchOf.contains(value))
    if (int64_t side = squareOf(trans))
      return storeTransposed(trans, side, scratch);
  return overPieces(tileOf(value), [&](Value start, int64_t lanes) -> LogicalResult {
    auto part = piece(value, start, lanes);
    if (failed(part))
      return failure();
    storePiece(*part, scratch, start);
    return success();
  });
}

LogicalResult StripMiner::keepNow(Operation *op) {
  for (Value result : op->getResults())
    if (!scratchOf.contains(result) && isLong(result.getType()) && failed(inScratch(result)))
      return failure();
  return success();
}

/// Happens at the place of the value, whoever asks: what it is made of is at hand there, and memory is as it should be.
FailureOr<Value> StripMiner::inScratch(Value value) {
  if (Value scratch = scratchOf.lookup(value))
    return scratch;
  OpBuilder::InsertionGuard guard(b);
  Operation *op = value.getDefiningOp();
  b.setLoc(value.getLoc());
  bool isInRegisters = !isLong(value.getType());
  if (op && isInRegisters)
    b.setInsertionPointAfter(op);
  else if (op)
    b.setInsertionPoint(op);
  else
    b.setInsertionPointToStart(value.getParentBlock());
  Value scratch = scratchFor(value);
  SmallVector<Scope *> outer;
  std::swap(outer, scopes);
  LogicalResult result = success();
  {
    ScopeGuard scope(*this);
    RankedTensorType type = tileOf(value);
    auto constant = value.getDefiningOp<arith::ConstantOp>();
    if (isInRegisters) {
      Value flat = reshape(value, {type.getNumElements()});
      if (isa<PtrType>(type.getElementType()))
        flat = PtrToIntOp::create(b, RankedTensorType::get({type.getNumElements()}, b.getI64Type()), flat);
      StoreOp::create(b, flat, scratch, i64(0), ValueRange{}, ArrayRef<int64_t>{1}, ValueRange{});
    } else if (constant && !isa<SplatElementsAttr>(constant.getValue())) {
      auto all = llvm::to_vector(cast<DenseElementsAttr>(constant.getValue()).getValues<Attribute>());
      int64_t lanes = pieceLanes(RankedTensorType::get({type.getNumElements()}, type.getElementType()));
      auto part = RankedTensorType::get({lanes}, type.getElementType());
      for (int64_t start = 0; start < type.getNumElements(); start += lanes)
        storePiece(arith::ConstantOp::create(b, DenseElementsAttr::get(part, ArrayRef(all).slice(start, lanes))),
                   scratch, i64(start));
    } else {
      result = storeAll(value, scratch);
    }
  }
  std::swap(outer, scopes);
  if (failed(result))
    return failure();
  return scratchOf[value] = scratch;
}

LogicalResult StripMiner::makeShort(Value value) {
  if (Operation *op = value.getDefiningOp(); op && isPiecewise(op))
    b.setInsertionPoint(op);
  b.setLoc(value.getLoc());
  Value whole;
  if (RankedTensorType type = tileOf(value)) {
    ScopeGuard scope(*this);
    auto made = piece(value, i64(0), type.getNumElements());
    if (failed(made))
      return failure();
    whole = splat(*made, type.getNumElements());
    if (!tileOf(whole)) // one element
      whole = SplatOp::create(b, RankedTensorType::get({1}, whole.getType()), whole);
    whole = reshape(whole, type.getShape());
  } else {
    ScopeGuard scope(*this);
    auto made = createPiece(cast<OpResult>(value), i64(0), 1);
    if (failed(made))
      return failure();
    whole = *made;
  }
  // Results of one op are told apart by pieces; the uses by ops to come are all there are.
  value.replaceAllUsesWith(whole);
  return success();
}

LogicalResult StripMiner::keepResults(Operation *op, ValueRange places) {
  for (auto [result, place] : llvm::zip_equal(op->getResults(), places)) {
    scratchOf[result] = place;
    if (!isLong(result.getType()) && failed(makeShort(result)))
      return failure();
  }
  return success();
}

//===-- pieces
//------------------------------------------------------------------------------------------------------===//

FailureOr<Value> StripMiner::piece(Value value, Value start, int64_t lanes) {
  RankedTensorType type = tileOf(value);
  if (!type)
    return value;
  auto key = std::make_tuple(value, start, lanes);
  for (Scope *scope : scopes)
    if (auto known = scope->pieces.find(key); known != scope->pieces.end())
      return known->second;
  Operation *op = value.getDefiningOp();
  if (Value scratch = scratchOf.lookup(value))
    return scopes.back()->pieces[key] = loadPiece(type.getElementType(), scratch, start, lanes);
  bool canCompute =
      op && isPiecewise(op) && (isLong(type) || llvm::is_contained(replaced, op) || isRecomputable(value));
  if (auto constant = value.getDefiningOp<arith::ConstantOp>())
    canCompute = isa<SplatElementsAttr>(constant.getValue());
  // Registers hold what is short; isRecomputable counts those as known, but only some are computed.
  if (canCompute && !isLong(type) && !llvm::is_contained(replaced, op))
    canCompute = isFree(op) ||
                 (recomputeCost(value) <= 16 && isa<BroadcastOp, ExpandDimsOp, ReshapeOp, PtrAddOp>(op)) ||
                 (isa<arith::ArithDialect>(op->getDialect()) && type.getElementType().isIntOrIndex() &&
                  llvm::none_of(op->getOperandTypes(), [](Type t) { return isa<FloatType>(getElementTypeOrSelf(t)); }));
  if (!canCompute) {
    if (!isLong(type) && lanes == type.getNumElements() && lanes > 1)
      return scopes.back()->pieces[key] = reshape(value, {lanes});
    auto scratch = inScratch(value);
    if (failed(scratch))
      return failure();
    return scopes.back()->pieces[key] = loadPiece(type.getElementType(), *scratch, start, lanes);
  }
  auto made = createPiece(cast<OpResult>(value), start, lanes);
  if (failed(made))
    return failure();
  Value result = *made;
  Scope &scope = *scopes.back();
  scope.pieces[key] = result;
  bool coversAll = scope.numElements == type.getNumElements() && scope.lanes == lanes && scope.start == start;
  if (coversAll && isLong(type) && anchorsOf[value].size() > 1 && !isRecomputable(value) &&
      !(isa<LoadOp>(op) || rowGathers.contains(op) ||
        (isa<arith::ArithDialect>(op->getDialect()) &&
         !isa<arith::DivFOp, arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp>(op)))) {
    Value scratch = scratchFor(value);
    storePiece(result, scratch, start);
    scope.kept.emplace_back(value, scratch);
  }
  return result;
}

FailureOr<Value> StripMiner::createPiece(OpResult value, Value start, int64_t lanes) {
  Operation *op = value.getOwner();
  b.setLoc(op->getLoc());
  Type type = pieceType(value.getType(), lanes);
  Type element = getElementTypeOrSelf(type);
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    Attribute number = cast<SplatElementsAttr>(constant.getValue()).getSplatValue<Attribute>();
    if (lanes == 1)
      return arith::ConstantOp::create(b, cast<TypedAttr>(number)).getResult();
    return arith::ConstantOp::create(b, DenseElementsAttr::get(cast<ShapedType>(type), number)).getResult();
  }
  if (isa<IotaOp>(op)) {
    Value first = start;
    if (element.isIndex())
      first = arith::IndexCastOp::create(b, element, first);
    else if (element.getIntOrFloatBitWidth() < 64)
      first = arith::TruncIOp::create(b, element, first);
    if (lanes == 1)
      return first;
    return arith::AddIOp::create(b, IotaOp::create(b, type), splat(first, lanes)).getResult();
  }
  if (auto source = dyn_cast<SplatOp>(op))
    return splat(source.getSource(), lanes);
  if (auto repeat = dyn_cast<BroadcastOp>(op))
    return pieceOfBroadcast(repeat, start, lanes);
  if (isa<ExpandDimsOp, ReshapeOp>(op))
    return piece(op->getOperand(0), start, lanes);
  if (auto trans = dyn_cast<TransOp>(op))
    return pieceOfTrans(trans, start, lanes);
  if (auto extract = dyn_cast<ExtractOp>(op))
    return piece(extract.getSource(), extract.getPosition(), 1);
  if (auto load = dyn_cast<LoadOp>(op))
    return pieceOfLoad(load, start, lanes);
  if (auto gather = dyn_cast<GatherOp>(op))
    return pieceOfGather(gather, start, lanes);
  if (auto take = dyn_cast<TakeOp>(op))
    return pieceOfTake(take, start, lanes);
  if (auto join = dyn_cast<JoinOp>(op)) {
    auto lhs = piece(join.getLhs(), divide(start, 2), std::max<int64_t>(1, lanes / 2)),
         rhs = piece(join.getRhs(), divide(start, 2), std::max<int64_t>(1, lanes / 2));
    if (failed(lhs) || failed(rhs))
      return failure();
    if (lanes == 1) {
      Value isLeft = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, modulo(start, 2), i64(0));
      return arith::SelectOp::create(b, isLeft, *lhs, *rhs).getResult();
    }
    SmallVector<int64_t> shape = lanes == 2 ? SmallVector<int64_t>{2} : SmallVector<int64_t>{lanes / 2, 2};
    Value joined = JoinOp::create(b, RankedTensorType::get(shape, element), *lhs, *rhs);
    return reshape(joined, {lanes});
  }
  if (isa<SplitOp>(op))
    return pieceOfSplit(value, start, lanes);
  if (auto shuffle = dyn_cast<ShuffleXorOp>(op))
    return pieceOfShuffleXor(shuffle, start, lanes);
  return pieceOfClone(value, start, lanes);
}

/// A piece of as many elements as twice the lower bits of the mask at least has partners within one piece.
FailureOr<Value> StripMiner::pieceOfShuffleXor(ShuffleXorOp op, Value start, int64_t lanes) {
  auto scratch = inScratch(op.getSource());
  if (failed(scratch))
    return failure();
  Type element = tileOf(op.getResult()).getElementType();
  int64_t mask = op.getMask(), within = mask & (lanes - 1), beyond = mask & ~(lanes - 1);
  Value offset = beyond == 0 ? start : arith::XOrIOp::create(b, start, i64(beyond)).getResult();
  Value loaded =
      LoadOp::create(b, pieceType(scratchElement(element), lanes), *scratch, offset, ValueRange{},
                     lanes == 1 ? ArrayRef<int64_t>{} : ArrayRef<int64_t>{1}, ValueRange{}, Value(), Value());
  if (within != 0)
    loaded = ShuffleXorOp::create(b, loaded, within);
  if (isa<PtrType>(element))
    loaded = IntToPtrOp::create(b, pieceType(element, lanes), loaded);
  return loaded;
}

/// Every second element of the source, from the first or the second on.
FailureOr<Value> StripMiner::pieceOfSplit(OpResult half, Value start, int64_t lanes) {
  auto scratch = inScratch(half.getOwner()->getOperand(0));
  if (failed(scratch))
    return failure();
  Type element = tileOf(half).getElementType();
  Value offset = add(mul(start, 2), i64(half.getResultNumber()));
  Value loaded =
      LoadOp::create(b, pieceType(scratchElement(element), lanes), *scratch, offset, ValueRange{},
                     lanes == 1 ? ArrayRef<int64_t>{} : ArrayRef<int64_t>{2}, ValueRange{}, Value(), Value());
  if (isa<PtrType>(element))
    loaded = IntToPtrOp::create(b, pieceType(element, lanes), loaded);
  return loaded;
}

FailureOr<Value> StripMiner::pieceOfClone(OpResult value, Value start, int64_t lanes) {
  Operation *op = value.getOwner();
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    auto part = piece(operand, start, lanes);
    if (failed(part))
      return failure();
    mapping.map(operand, *part);
  }
  b.setLoc(op->getLoc());
  Operation *clone = b.clone(*op, mapping);
  for (OpResult result : clone->getResults())
    result.setType(pieceType(result.getType(), lanes));
  // Of an op with several results, the others are pieces too.
  for (auto [original, made] : llvm::zip_equal(op->getResults(), clone->getResults()))
    scopes.back()->pieces[std::make_tuple(Value(original), start, lanes)] = made;
  return clone->getResult(value.getResultNumber());
}

FailureOr<Value> StripMiner::pieceOfBroadcast(BroadcastOp op, Value start, int64_t lanes) {
  RankedTensorType from = tileOf(op.getSource());
  ArrayRef<int64_t> shape = tileOf(op.getResult()).getShape(), source = from.getShape();
  auto [numCovered, count] = coveredAxes(shape, lanes);
  int64_t rank = shape.size(), first = rank - numCovered;
  SmallVector<Value> position = positionOf(start, shape);
  SmallVector<int64_t> strides = rowMajorStrides(source), sourceShape, shapeOfPiece;
  Value sourceStart = i64(0);
  for (int64_t axis = 0; axis <= first; ++axis)
    if (source[axis] != 1)
      sourceStart = add(sourceStart, mul(position[axis], strides[axis]));
  int64_t sourceLanes = 1;
  for (int64_t axis = first; axis < rank; ++axis) {
    shapeOfPiece.push_back(axis == first ? count : shape[axis]);
    sourceShape.push_back(source[axis] == 1 ? 1 : shapeOfPiece.back());
    sourceLanes *= sourceShape.back();
  }
  auto part = piece(op.getSource(), sourceStart, sourceLanes);
  if (failed(part) || sourceLanes == lanes)
    return part;
  if (sourceLanes == 1)
    return splat(*part, lanes);
  Value wide =
      BroadcastOp::create(b, RankedTensorType::get(shapeOfPiece, from.getElementType()), reshape(*part, sourceShape));
  return reshape(wide, {lanes});
}

FailureOr<Value> StripMiner::pieceOfTrans(TransOp op, Value start, int64_t lanes) {
  auto scratch = inScratch(op.getSource());
  if (failed(scratch))
    return failure();
  SmallVector<int64_t> strides = rowMajorStrides(tileOf(op.getSource()).getShape()), permuted;
  for (int64_t axis : op.getPerm())
    permuted.push_back(strides[axis]);
  Block1D access = moveAccess(tileOf(op.getResult()), i64(0), {}, permuted, {}, start, lanes);
  Type element = tileOf(op.getResult()).getElementType();
  Value loaded = LoadOp::create(
      b, lanes == 1 ? scratchElement(element) : Type(RankedTensorType::get(access.shape, scratchElement(element))),
      *scratch, access.offset, ValueRange{}, access.staticStrides, ValueRange{}, Value(), Value());
  if (lanes > 1)
    loaded = reshape(loaded, {lanes});
  if (isa<PtrType>(element))
    loaded = IntToPtrOp::create(b, pieceType(element, lanes), loaded);
  return loaded;
}
