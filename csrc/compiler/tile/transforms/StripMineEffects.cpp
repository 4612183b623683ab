// Stores, checks, atomics, printing, and what goes element by element.
#include "compiler/tile/transforms/StripMiner.h"

using namespace mlir;
using namespace mlir::tile;

LogicalResult StripMiner::lowerStore(StoreOp op) {
  return overPieces(tileOf(op.getValue()), [&](Value start, int64_t lanes) -> LogicalResult {
    auto value = piece(op.getValue(), start, lanes);
    auto mask = op.getMask() ? piece(op.getMask(), start, lanes) : FailureOr<Value>(Value());
    if (failed(value) || failed(mask))
      return failure();
    b.setLoc(op.getLoc());
    Block1D access = moveAccess(tileOf(op.getValue()), op.getOffset(), op.getStrides(), op.getStaticStrides(),
                                op.getValid(), start, lanes);
    if (lanes == 1) {
      Value isInside = access.valid.empty() ? Value() : access.valid[0];
      if (*mask && isInside)
        isInside = arith::AndIOp::create(b, isInside, *mask);
      StoreOp::create(b, *value, op.getBase(), access.offset, ValueRange{}, ArrayRef<int64_t>{}, ValueRange{},
                      isInside ? isInside : *mask);
      return success();
    }
    StoreOp::create(b, reshape(*value, access.shape), op.getBase(), access.offset, access.strides, access.staticStrides,
                    access.valid, *mask ? reshape(*mask, access.shape) : Value());
    return success();
  });
}

LogicalResult StripMiner::lowerScatter(ScatterOp op) {
  RankedTensorType type = tileOf(op.getValue());
  return overPieces(type, [&](Value start, int64_t lanes) -> LogicalResult {
    auto value = piece(op.getValue(), start, lanes);
    auto mask = op.getMask() ? piece(op.getMask(), start, lanes) : FailureOr<Value>(Value());
    if (failed(value) || failed(mask))
      return failure();
    Value isActive = *mask ? splat(*mask, lanes) : Value();
    bool isFold = !op.getCombine().empty();
    auto row = isFold ? FailureOr<std::optional<RowAccess>>(std::nullopt)
                      : rowAccess(op.getBase(), op.getOffsets(), type, start, lanes);
    if (failed(row))
      return failure();
    b.setLoc(op.getLoc());
    // Where all lanes meet at one address, the last one has to win: that is scatter's promise, not store's.
    bool isOnePlace = *row && !(*row)->staticStrides.empty() && (*row)->staticStrides[0] == 0;
    if (*row && !isOnePlace) {
      StoreOp::create(b, *value, (*row)->base, (*row)->offset, (*row)->strides, (*row)->staticStrides, ValueRange{},
                      isActive);
      return success();
    }
    auto base = piece(op.getBase(), start, lanes);
    auto offsets = op.getOffsets() ? piece(op.getOffsets(), start, lanes) : FailureOr<Value>(Value());
    if (failed(base) || failed(offsets))
      return failure();
    auto made = ScatterOp::create(b, *value, *base, *offsets, isActive);
    if (isFold) {
      IRMapping mapping;
      op.getCombine().cloneInto(&made.getCombine(), mapping);
    }
    return success();
  });
}

LogicalResult StripMiner::lowerCheckIndex(CheckIndexOp op) {
  Value result = op.getResult();
  Value scratch = result.use_empty() ? Value() : scratchFor(result);
  LogicalResult done = overPieces(tileOf(op.getIndex()), [&](Value start, int64_t lanes) -> LogicalResult {
    auto index = piece(op.getIndex(), start, lanes);
    auto mask = op.getMask() ? piece(op.getMask(), start, lanes) : FailureOr<Value>(Value());
    if (failed(index) || failed(mask))
      return failure();
    b.setLoc(op.getLoc());
    IRMapping mapping;
    mapping.map(op.getIndex(), *index);
    if (op.getMask())
      mapping.map(op.getMask(), *mask);
    if (op.getValid())
      mapping.map(op.getValid(), arith::SubIOp::create(b, op.getValid(), start).getResult());
    Value checked = b.clone(*op, mapping)->getResult(0);
    checked.setType(pieceType(result.getType(), lanes));
    if (scratch)
      storePiece(checked, scratch, start);
    return success();
  });
  if (scratch)
    scratchOf[result] = scratch;
  return done;
}

/// Lane by lane and in order, so that colliding lanes each take effect.
LogicalResult StripMiner::lowerAtomic(Operation *op) {
  Value result = op->getResult(0);
  RankedTensorType type = tileOf(result);
  Value scratch = result.use_empty() ? Value() : scratchFor(result);
  ScopeGuard scope(*this);
  LogicalResult done = loop(type.getNumElements(), 1, [&](Value start) {
    IRMapping mapping;
    for (Value operand : op->getOperands()) {
      auto part = piece(operand, start, 1);
      if (failed(part))
        return LogicalResult(failure());
      mapping.map(operand, *part);
    }
    b.setLoc(op->getLoc());
    Operation *clone = b.clone(*op, mapping);
    clone->getResult(0).setType(type.getElementType());
    if (scratch)
      storePiece(clone->getResult(0), scratch, start);
    return success();
  });
  if (failed(done) || !scratch)
    return done;
  scratchOf[result] = scratch;
  return isLong(type) ? success() : makeShort(result);
}

/// Element by element, with its position.
LogicalResult StripMiner::lowerPrint(PrintOp op) {
  ArrayRef<int32_t> isSigned = op.getIsSigned().value_or(ArrayRef<int32_t>());
  for (auto [index, value] : llvm::enumerate(op.getValues())) {
    auto flag = isSigned.empty() ? DenseI32ArrayAttr() : b.getDenseI32ArrayAttr(isSigned[index]);
    RankedTensorType type = tileOf(value);
    auto print = [&](ValueRange values, int64_t rank, ArrayRef<int64_t> shape) {
      auto made = PrintOp::create(b, op.getPrefixAttr(), values, op.getHexAttr(), flag);
      made->setAttr("tile.operand", b.getI64IntegerAttr(op.getValues().size() == 1 ? -1 : int64_t(index)));
      if (rank)
        made->setAttr("tile.shape", b.getDenseI64ArrayAttr(shape));
    };
    if (!type) {
      print({value}, 0, {});
      continue;
    }
    ScopeGuard scope(*this);
    if (failed(loop(type.getNumElements(), 1, [&](Value start) {
          auto part = piece(value, start, 1);
          if (failed(part))
            return LogicalResult(failure());
          b.setLoc(op.getLoc());
          SmallVector<Value> values = positionOf(start, type.getShape());
          values.push_back(*part);
          print(values, type.getRank(), type.getShape());
          return success();
        })))
      return failure();
  }
  return success();
}

LogicalResult StripMiner::lowerAssert(AssertOp op) {
  return overPieces(tileOf(op.getCondition()), [&](Value start, int64_t lanes) -> LogicalResult {
    auto condition = piece(op.getCondition(), start, lanes);
    if (failed(condition))
      return failure();
    b.setLoc(op.getLoc());
    AssertOp::create(b, *condition, op.getMessageAttr());
    return success();
  });
}

LogicalResult StripMiner::lowerHistogram(HistogramOp op) {
  Value result = op.getResult(), scratch = scratchFor(result);
  RankedTensorType type = tileOf(result);
  Type element = type.getElementType();
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(element)),
        one = arith::ConstantOp::create(b, b.getIntegerAttr(element, 1));
  LogicalResult cleared = overPieces(type, [&](Value start, int64_t lanes) -> LogicalResult {
    storePiece(splat(zero, lanes), scratch, start);
    return success();
  });
  ScopeGuard scope(*this);
  LogicalResult counted = loop(tileOf(op.getSource()).getNumElements(), 1, [&](Value start) -> LogicalResult {
    auto value = piece(op.getSource(), start, 1);
    auto mask = op.getMask() ? piece(op.getMask(), start, 1) : FailureOr<Value>(Value());
    if (failed(value) || failed(mask))
      return failure();
    b.setLoc(op.getLoc());
    Value bin = toI64(*value);
    Value isCounted = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, bin, i64(type.getNumElements()));
    if (*mask)
      isCounted = arith::AndIOp::create(b, isCounted, *mask);
    Value before =
        LoadOp::create(b, element, scratch, bin, ValueRange{}, ArrayRef<int64_t>{}, ValueRange{}, isCounted, Value());
    StoreOp::create(b, arith::AddIOp::create(b, before, one), scratch, bin, ValueRange{}, ArrayRef<int64_t>{},
                    ValueRange{}, isCounted);
    return success();
  });
  if (failed(cleared) || failed(counted))
    return failure();
  scratchOf[result] = scratch;
  return isLong(type) ? success() : makeShort(result);
}

LogicalResult StripMiner::lowerMap(MapOp op) {
  int64_t pack = op.getPack();
  SmallVector<Value> scratch = llvm::map_to_vector(op.getResults(), [&](Value result) { return scratchFor(result); });
  RankedTensorType type = tileOf(op.getResult(0));
  Block &body = op.getBody().front();
  ScopeGuard scope(*this);
  LogicalResult done = loop(type.getNumElements(), pack, [&](Value start) -> LogicalResult {
    IRMapping mapping;
    for (auto [index, source] : llvm::enumerate(op.getSources()))
      for (int64_t k = 0; k < pack; ++k) {
        auto part = piece(source, add(start, i64(k)), 1);
        if (failed(part))
          return failure();
        mapping.map(body.getArgument(index * pack + k), *part);
      }
    for (Operation &inner : body.without_terminator())
      b.clone(inner, mapping);
    for (auto [index, target] : llvm::enumerate(scratch))
      for (int64_t k = 0; k < pack; ++k)
        storePiece(mapping.lookupOrDefault(body.getTerminator()->getOperand(index * pack + k)), target,
                   add(start, i64(k)));
    return success();
  });
  if (failed(done))
    return failure();
  return keepResults(op, scratch);
}

LogicalResult StripMiner::lowerCat(CatOp op) {
  Value result = op.getResult(), scratch = scratchFor(result);
  RankedTensorType half = tileOf(op.getLhs());
  for (auto [index, source] : llvm::enumerate(op->getOperands()))
    if (failed(overPieces(half, [&, source = source, index = index](Value start, int64_t lanes) -> LogicalResult {
          auto part = piece(source, start, lanes);
          if (failed(part))
            return failure();
          storePiece(*part, scratch, add(start, i64(index * half.getNumElements())));
          return success();
        })))
      return failure();
  scratchOf[result] = scratch;
  return isLong(result.getType()) ? success() : makeShort(result);
}

/// Tiles in registers whose addresses are evenly spaced become structured accesses.
LogicalResult StripMiner::lowerShortAccess(Operation *op) {
  auto gather = dyn_cast<GatherOp>(op);
  auto scatter = dyn_cast<ScatterOp>(op);
  Value base = op->getOperand(gather ? 0 : 1), offsets = gather ? gather.getOffsets() : scatter.getOffsets();
  RankedTensorType type = gather ? tileOf(gather.getResult()) : tileOf(scatter.getValue());
  if (!type || type.getRank() != 1 || type.getNumElements() == 1 || (scatter && !scatter.getCombine().empty()))
    return success();
  b.setInsertionPoint(op);
  b.setLoc(op->getLoc());
  ScopeGuard scope(*this);
  auto row = rowAccess(base, offsets, type, i64(0), type.getNumElements());
  if (failed(row))
    return failure();
  if (!*row)
    return success();
  Value mask = gather ? gather.getMask() : scatter.getMask();
  if (mask)
    mask = splat(mask, type.getNumElements());
  if (scatter) {
    if ((*row)->staticStrides[0] == 0)
      return success();
    StoreOp::create(b, scatter.getValue(), (*row)->base, (*row)->offset, (*row)->strides, (*row)->staticStrides,
                    ValueRange{}, mask);
    replaced.push_back(op);
    return success();
  }
  Value other = gather.getOther();
  bool isOtherTile = other && tileOf(other);
  if (Value scalar = isOtherTile ? uniformValue(other) : Value()) {
    other = scalar;
    isOtherTile = false;
  }
  Value loaded = LoadOp::create(b, type, (*row)->base, (*row)->offset, (*row)->strides, (*row)->staticStrides,
                                ValueRange{}, mask, isOtherTile ? Value() : other);
  if (isOtherTile && mask)
    loaded = arith::SelectOp::create(b, mask, loaded, other);
  gather.getResult().replaceAllUsesWith(loaded);
  replaced.push_back(op);
  return success();
}
