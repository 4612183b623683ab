// Pieces of what is read from memory: accesses of a tile become those of a piece of it.
#include "compiler/tile/transforms/StripMiner.h"

#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tile;

StripMiner::Block1D StripMiner::moveAccess(RankedTensorType type, Value offset, ValueRange strides,
                                           ArrayRef<int64_t> staticStrides, ValueRange valid, Value start,
                                           int64_t lanes) {
  ArrayRef<int64_t> shape = type.getShape();
  auto [numCovered, count] = coveredAxes(shape, lanes);
  int64_t rank = shape.size(), first = rank - numCovered;
  SmallVector<Value> position = positionOf(start, shape);
  Block1D access;
  unsigned nextStride = 0;
  Value isInside;
  for (int64_t axis = 0; axis < rank; ++axis) {
    bool isDynamic = ShapedType::isDynamic(staticStrides[axis]);
    Value stride = isDynamic ? strides[nextStride++] : Value();
    if (axis <= first) {
      Value moved = isDynamic ? arith::MulIOp::create(b, position[axis], stride).getResult()
                              : mul(position[axis], staticStrides[axis]);
      offset = add(offset, moved);
    }
    bool isCovered = axis >= first && lanes > 1;
    if (isCovered) {
      access.shape.push_back(axis == first ? count : shape[axis]);
      access.staticStrides.push_back(staticStrides[axis]);
      if (isDynamic)
        access.strides.push_back(stride);
    }
    if (valid.empty())
      continue;
    if (isCovered) {
      access.valid.push_back(axis == first ? arith::SubIOp::create(b, valid[axis], position[axis]).getResult()
                                           : Value(valid[axis]));
    } else {
      Value isAxisInside = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, position[axis], valid[axis]);
      isInside = isInside ? arith::AndIOp::create(b, isInside, isAxisInside).getResult() : isAxisInside;
    }
  }
  if (isInside && !access.valid.empty())
    access.valid[0] = arith::SelectOp::create(b, isInside, access.valid[0], i64(0));
  else if (isInside)
    access.valid.push_back(isInside); // of a scalar: an i1
  access.offset = offset;
  return access;
}

FailureOr<Value> StripMiner::pieceOfLoad(LoadOp op, Value start, int64_t lanes) {
  auto mask = op.getMask() ? piece(op.getMask(), start, lanes) : FailureOr<Value>(Value());
  if (failed(mask))
    return failure();
  Block1D access = moveAccess(tileOf(op.getResult()), op.getOffset(), op.getStrides(), op.getStaticStrides(),
                              op.getValid(), start, lanes);
  Type element = getElementTypeOrSelf(op.getType());
  if (lanes == 1) {
    Value isInside = access.valid.empty() ? Value() : access.valid[0];
    if (*mask && isInside)
      isInside = arith::AndIOp::create(b, isInside, *mask);
    return LoadOp::create(b, element, op.getBase(), access.offset, ValueRange{}, ArrayRef<int64_t>{}, ValueRange{},
                          isInside ? isInside : *mask, op.getOther())
        .getResult();
  }
  Value shapedMask = *mask ? reshape(*mask, access.shape) : Value();
  Value loaded = LoadOp::create(b, RankedTensorType::get(access.shape, element), op.getBase(), access.offset,
                                access.strides, access.staticStrides, access.valid, shapedMask, op.getOther());
  return reshape(loaded, {lanes});
}

FailureOr<Value> StripMiner::pieceOfTake(TakeOp op, Value start, int64_t lanes) {
  auto scratch = inScratch(op.getSource());
  auto indices = piece(op.getIndices(), start, lanes);
  if (failed(scratch) || failed(indices))
    return failure();
  RankedTensorType source = tileOf(op.getSource()), result = tileOf(op.getResult());
  int64_t inner = 1;
  for (int64_t axis = op.getAxis() + 1; axis < source.getRank(); ++axis)
    inner *= source.getDimSize(axis);
  int64_t sourceSize = source.getDimSize(op.getAxis()), resultSize = result.getDimSize(op.getAxis());
  Type wide = pieceType(b.getI64Type(), lanes);
  auto constant = [&](int64_t value) { return splat(i64(value), lanes); };
  Value index = *indices;
  if (!getElementTypeOrSelf(index.getType()).isInteger(64))
    index = arith::ExtSIOp::create(b, wide, index);
  index = arith::MinUIOp::create(b, index, constant(sourceSize - 1));
  Value flat = lanes == 1 ? start : arith::AddIOp::create(b, IotaOp::create(b, wide), splat(start, lanes)).getResult();
  auto split = [&](Value value, int64_t by, bool isRemainder) -> Value {
    if (llvm::isPowerOf2_64(by))
      return isRemainder ? arith::AndIOp::create(b, value, constant(by - 1)).getResult()
                         : arith::ShRUIOp::create(b, value, constant(llvm::Log2_64(by))).getResult();
    return isRemainder ? arith::RemUIOp::create(b, value, constant(by)).getResult()
                       : arith::DivUIOp::create(b, value, constant(by)).getResult();
  };
  Value outer = split(flat, resultSize * inner, /*isRemainder=*/false);
  Value offset = arith::AddIOp::create(b, arith::MulIOp::create(b, outer, constant(sourceSize * inner)),
                                       arith::MulIOp::create(b, index, constant(inner)));
  offset = arith::AddIOp::create(b, offset, split(flat, inner, /*isRemainder=*/true));
  return GatherOp::create(b, pieceType(source.getElementType(), lanes), *scratch, offset, Value(), Value()).getResult();
}

//===-- evenly spaced addresses
//-------------------------------------------------------------------------------------===//

Value StripMiner::uniformValue(Value value) {
  if (!tileOf(value))
    return value;
  Operation *op = value.getDefiningOp();
  if (!op)
    return Value();
  if (auto source = dyn_cast<SplatOp>(op))
    return source.getSource();
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto elements = dyn_cast<SplatElementsAttr>(constant.getValue());
    return elements ? arith::ConstantOp::create(b, cast<TypedAttr>(elements.getSplatValue<Attribute>())).getResult()
                    : Value();
  }
  if (isa<BroadcastOp, ExpandDimsOp, ReshapeOp, TransOp>(op))
    return uniformValue(op->getOperand(0));
  bool isInteger = isa<arith::ArithDialect>(op->getDialect()) && OpTrait::hasElementwiseMappableTraits(op) &&
                   op->getNumResults() == 1 && getElementTypeOrSelf(value.getType()).isIntOrIndex() &&
                   recomputeCost(value) >= 0;
  if (!isInteger)
    return Value();
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    Value scalar = uniformValue(operand);
    if (!scalar)
      return Value();
    mapping.map(operand, scalar);
  }
  Operation *clone = b.clone(*op, mapping);
  clone->getResult(0).setType(getElementTypeOrSelf(value.getType()));
  return clone->getResult(0);
}

std::optional<StripMiner::Stride> StripMiner::lastStride(Value value) {
  RankedTensorType type = tileOf(value);
  if (!type || type.getRank() == 0 || type.getShape().back() == 1)
    return Stride{};
  std::optional<Stride> stride = evenStride(value);
  auto integer = dyn_cast<IntegerType>(type.getElementType());
  if (!stride || !integer || integer.getWidth() >= 64)
    return stride;
  // Narrow integers wrap, and masks of the same values count on it: evenly spaced are those that a row steps over
  // without going around.
  if (!stride->more.empty())
    return std::nullopt;
  stride->known = llvm::SignExtend64((uint64_t)stride->known, integer.getWidth());
  int64_t length = type.getShape().back();
  bool goesAround = std::abs((double)stride->known) * (double)(length - 1) >= std::ldexp(1.0, integer.getWidth() - 1);
  return goesAround ? std::nullopt : stride;
}

std::optional<StripMiner::Stride> StripMiner::evenStride(Value value) {
  RankedTensorType type = tileOf(value);
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (isa<IotaOp>(op))
    return Stride{1, {}};
  if (isa<SplatOp>(op))
    return Stride{};
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue()) ? std::optional<Stride>(Stride{}) : std::nullopt;
  if (isa<BroadcastOp, ExpandDimsOp, ReshapeOp>(op)) {
    Value source = op->getOperand(0);
    int64_t last = tileOf(source).getShape().back();
    if (isa<BroadcastOp>(op) && last == 1)
      return Stride{};
    return last == type.getShape().back() ? lastStride(source) : std::nullopt;
  }
  auto combine = [&](Value left, Value right, bool isDifference) -> std::optional<Stride> {
    auto lhs = lastStride(left), rhs = lastStride(right);
    if (!lhs || !rhs)
      return std::nullopt;
    lhs->known += isDifference ? -rhs->known : rhs->known;
    for (Value more : rhs->more)
      lhs->more.push_back(isDifference ? arith::SubIOp::create(b, i64(0), more).getResult() : more);
    return lhs;
  };
  if (isa<PtrAddOp, arith::AddIOp>(op))
    return combine(op->getOperand(0), op->getOperand(1), /*isDifference=*/false);
  if (isa<arith::SubIOp>(op))
    return combine(op->getOperand(0), op->getOperand(1), /*isDifference=*/true);
  if (isa<arith::ExtSIOp, arith::IndexCastOp>(op))
    return lastStride(op->getOperand(0));
  auto isEven = [&](Value operand) {
    auto stride = lastStride(operand);
    return stride && stride->known == 0 && stride->more.empty();
  };
  if (isa<arith::MulIOp>(op)) {
    Value left = op->getOperand(0), right = op->getOperand(1);
    if (isEven(left))
      std::swap(left, right);
    if (isEven(right)) {
      if (isEven(left))
        return Stride{};
      auto stride = lastStride(left);
      Value factor = stride ? uniformValue(right) : Value();
      if (!factor)
        return std::nullopt;
      APInt known;
      if (matchPattern(factor, m_ConstantInt(&known)) && stride->more.empty())
        return Stride{stride->known * known.getSExtValue(), {}};
      Value wide = toI64(factor);
      Stride result;
      if (stride->known != 0)
        result.more.push_back(mul(wide, stride->known));
      for (Value more : stride->more)
        result.more.push_back(arith::MulIOp::create(b, more, wide));
      return result;
    }
    return std::nullopt;
  }
  if (OpTrait::hasElementwiseMappableTraits(op) && isRecomputable(value) && llvm::all_of(op->getOperands(), isEven))
    return Stride{};
  return std::nullopt;
}

FailureOr<std::optional<StripMiner::RowAccess>> StripMiner::rowAccess(Value base, Value offsets, RankedTensorType type,
                                                                      Value start, int64_t lanes) {
  std::optional<RowAccess> none;
  RowAccess access;
  if (lanes > 1) {
    if (type.getShape().back() % lanes != 0)
      return none;
    auto stride = lastStride(base);
    auto more = offsets ? lastStride(offsets) : Stride{};
    if (!stride || !more)
      return none;
    llvm::append_range(stride->more, more->more);
    Value total;
    for (Value term : stride->more)
      total = total ? arith::AddIOp::create(b, total, term).getResult() : term;
    int64_t known = stride->known + more->known;
    if (total && known != 0)
      total = arith::AddIOp::create(b, total, i64(known));
    if (total)
      access.strides.push_back(total);
    access.staticStrides.push_back(total ? ShapedType::kDynamic : known);
  }
  auto first = piece(base, start, 1);
  auto offset = offsets ? piece(offsets, start, 1) : FailureOr<Value>(Value());
  if (failed(first) || failed(offset))
    return failure();
  access.base = *first;
  access.offset = *offset ? toI64(*offset) : i64(0);
  return std::optional<RowAccess>(access);
}

/// What is copied rather than loaded again stays in the first-level cache, beside what it was copied from.
static constexpr int64_t maxCopyBytes = 8192;

FailureOr<Value> StripMiner::pieceOfGather(GatherOp op, Value start, int64_t lanes) {
  RankedTensorType type = tileOf(op.getResult());
  auto mask = op.getMask() ? piece(op.getMask(), start, lanes) : FailureOr<Value>(Value());
  if (failed(mask))
    return failure();
  Value isActive = *mask ? splat(*mask, lanes) : Value();
  Type result = pieceType(op.getType(), lanes);
  Value other = op.getOther();
  if (other && tileOf(other)) {
    if (Value scalar = uniformValue(other)) {
      other = scalar;
    } else {
      auto part = piece(other, start, lanes);
      if (failed(part))
        return failure();
      other = *part;
    }
  }
  bool isOtherTile = other && tileOf(other);
  auto row = rowAccess(op.getBase(), op.getOffsets(), type, start, lanes);
  if (failed(row))
    return failure();
  b.setLoc(op.getLoc());
  Value loaded;
  if (*row) {
    // Under a mask, rows may begin anywhere and each piece asks anew; a copy in the first-level cache is aligned.
    bool isSmall = type.getNumElements() * elementBytes(type.getElementType()) <= maxCopyBytes;
    if (lanes > 1 && (*row)->staticStrides[0] == 1 && !(isActive && isSmall))
      rowGathers.insert(op);
    loaded = LoadOp::create(b, result, (*row)->base, (*row)->offset, (*row)->strides, (*row)->staticStrides,
                            ValueRange{}, isActive, isOtherTile ? Value() : other);
  } else {
    auto base = piece(op.getBase(), start, lanes);
    auto offsets = op.getOffsets() ? piece(op.getOffsets(), start, lanes) : FailureOr<Value>(Value());
    if (failed(base) || failed(offsets))
      return failure();
    return GatherOp::create(b, result, *base, *offsets, isActive, other).getResult();
  }
  if (isOtherTile && isActive)
    loaded = arith::SelectOp::create(b, isActive, loaded, other);
  return loaded;
}
