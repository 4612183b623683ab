// Arithmetic of positions and shapes of pieces, folded where it is known.
#include "compiler/tile/transforms/StripMiner.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile;

Value StripMiner::i64(int64_t value) {
  Value &constant = constants[value];
  if (!constant) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&kernel.getBody().front());
    constant = arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
  }
  return constant;
}

static std::optional<int64_t> constantOf(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  return std::nullopt;
}

Value StripMiner::splat(Value scalar, int64_t lanes) {
  return lanes == 1 || isa<RankedTensorType>(scalar.getType())
             ? scalar
             : SplatOp::create(b, pieceType(scalar.getType(), lanes), scalar).getResult();
}

Value StripMiner::reshape(Value tile, ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(tile.getType());
  if (type.getShape() == shape)
    return tile;
  return ReshapeOp::create(b, RankedTensorType::get(shape, type.getElementType()), tile);
}

Value StripMiner::add(Value left, Value right) {
  if (constantOf(left) == 0)
    return right;
  if (constantOf(right) == 0)
    return left;
  return arith::AddIOp::create(b, left, right);
}

Value StripMiner::mul(Value value, int64_t factor) {
  if (factor == 1)
    return value;
  if (factor == 0)
    return i64(0);
  if (auto known = constantOf(value))
    return i64(*known * factor);
  return arith::MulIOp::create(b, value, i64(factor));
}

Value StripMiner::divide(Value value, int64_t divisor) {
  if (divisor == 1)
    return value;
  if (auto known = constantOf(value))
    return i64(*known / divisor);
  if (llvm::isPowerOf2_64(divisor))
    return arith::ShRUIOp::create(b, value, i64(llvm::Log2_64(divisor)));
  return arith::DivUIOp::create(b, value, i64(divisor));
}

Value StripMiner::modulo(Value value, int64_t divisor) {
  if (divisor == 1)
    return i64(0);
  if (auto known = constantOf(value))
    return i64(*known % divisor);
  if (llvm::isPowerOf2_64(divisor))
    return arith::AndIOp::create(b, value, i64(divisor - 1));
  return arith::RemUIOp::create(b, value, i64(divisor));
}

Value StripMiner::toI64(Value scalar) {
  if (scalar.getType().isIndex())
    return arith::IndexCastOp::create(b, b.getI64Type(), scalar);
  if (scalar.getType().isInteger(64))
    return scalar;
  return arith::ExtSIOp::create(b, b.getI64Type(), scalar);
}
