// Quotients and remainders of indices.
#include "compiler/tile/build/ExprEmitter.h"

#include "compiler/tile/ir/Marks.h"
#include "compiler/tile/ir/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace torch_tile::tile_build {

namespace {

/// A tile of one axis whose lanes are `step` apart; a null start stands for 0.
struct Progression {
  Value start;
  int64_t step = 0;
};

} // namespace

static std::optional<int64_t> constantOf(Value value) {
  if (auto splat = value.getDefiningOp<tile::SplatOp>())
    value = splat->getOperand(0);
  IntegerAttr number;
  return matchPattern(value, m_Constant(&number)) ? std::optional(number.getInt()) : std::nullopt;
}

/// `add` and `multiply` make the scalars of what tiles have in common.
static std::optional<Progression> progressionOf(Value tile, function_ref<Value(Value, Value)> add,
                                                function_ref<Value(Value, int64_t)> multiply) {
  Operation *op = tile.getDefiningOp();
  if (auto splat = dyn_cast_or_null<tile::SplatOp>(op))
    return Progression{splat->getOperand(0), 0};
  if (isa_and_nonnull<tile::IotaOp>(op))
    return Progression{Value(), 1};
  if (isa_and_nonnull<arith::AddIOp>(op)) {
    std::optional<Progression> left = progressionOf(op->getOperand(0), add, multiply);
    std::optional<Progression> right = left ? progressionOf(op->getOperand(1), add, multiply) : std::nullopt;
    if (!right)
      return std::nullopt;
    Value start = left->start && right->start ? add(left->start, right->start)
                  : left->start               ? left->start
                                              : right->start;
    return Progression{start, left->step + right->step};
  }
  if (isa_and_nonnull<arith::MulIOp>(op)) {
    std::optional<int64_t> factor = constantOf(op->getOperand(1));
    std::optional<Progression> of = factor ? progressionOf(op->getOperand(0), add, multiply) : std::nullopt;
    if (!of || std::abs(*factor) > INT16_MAX || std::abs(of->step) > INT16_MAX)
      return std::nullopt;
    return Progression{of->start ? multiply(of->start, *factor) : Value(), of->step * *factor};
  }
  return std::nullopt;
}

/// Of what is less than twice the divisor.
Value ExprEmitter::wrapOnce(Value dividend, Value divisor, bool wantRemainder) {
  Value zero = arith::ConstantOp::create(builder, builder.getIntegerAttr(getElementTypeOrSelf(dividend.getType()), 0));
  zero = reuse(zero.getDefiningOp());
  if (auto type = dyn_cast<RankedTensorType>(dividend.getType())) {
    divisor = asTile(divisor, type.getShape());
    zero = asTile(zero, type.getShape());
  }
  Value isPast = reuse(arith::CmpIOp::create(builder, arith::CmpIPredicate::sge, dividend, divisor));
  if (!wantRemainder)
    return isPast;
  return binary<arith::SubIOp>(dividend, reuse(arith::SelectOp::create(builder, isPast, divisor, zero)));
}

/// Lanes of vectors: what they have in common is divided once, so that the rest has few bits, whatever the dividend.
/// Null where that is not known to be so. The dividend is not negative.
Value ExprEmitter::divideLanes(Value dividend, int64_t divisor, bool wantRemainder) {
  auto type = dyn_cast<RankedTensorType>(dividend.getType());
  if (!type || type.getRank() != 1 || divisor < 2)
    return {};
  std::optional<Progression> lanes = progressionOf(
      dividend, [&](Value a, Value b) { return binary<arith::AddIOp>(a, b); },
      [&](Value a, int64_t factor) { return binary<arith::MulIOp>(a, constant(factor)); });
  if (!lanes || lanes->step < 1)
    return {};
  int64_t numLanes = type.getDimSize(0), largest = divisor - 1 + lanes->step * (numLanes - 1);
  if (divisor > INT32_MAX / 2 || largest > INT32_MAX)
    return {};
  Type i32 = builder.getI32Type();
  auto narrowType = type.clone(i32);
  auto narrow = [&](int64_t value) {
    return reuse(arith::ConstantOp::create(builder, builder.getI32IntegerAttr((int32_t)value)));
  };
  Value rest = reuse(tile::IotaOp::create(builder, narrowType));
  if (lanes->step != 1)
    rest = binary<arith::MulIOp>(rest, narrow(lanes->step));
  if (lanes->start) {
    Value first = binary<arith::RemUIOp>(lanes->start, constant(divisor));
    rest = binary<arith::AddIOp>(rest, reuse(arith::TruncIOp::create(builder, i32, first)));
  }
  Value small;
  if (largest < 2 * divisor) {
    small = wrapOnce(rest, narrow(divisor), wantRemainder);
  } else {
    // With 2^16 / divisor rounded up, the product is exact while rest * divisor is less than 2^16.
    Value quotient =
        largest * divisor < 1 << 16 && !llvm::isPowerOf2_64(divisor)
            ? binary<arith::ShRUIOp>(binary<arith::MulIOp>(rest, narrow((1 << 16) / divisor + 1)), narrow(16))
            : binary<arith::DivUIOp>(rest, narrow(divisor));
    small = wantRemainder ? binary<arith::SubIOp>(rest, binary<arith::MulIOp>(quotient, narrow(divisor))) : quotient;
  }
  auto widened = arith::ExtUIOp::create(builder, type, small);
  if (!wantRemainder && lanes->step <= divisor)
    widened->setAttr(tile::kStepsOfOne, builder.getUnitAttr());
  if (wantRemainder && lanes->step == 1 && divisor <= numLanes)
    widened->setAttr(tile::kAllBelow, builder.getI64IntegerAttr(divisor));
  Value result = reuse(widened);
  if (wantRemainder || !lanes->start)
    return result;
  return binary<arith::AddIOp>(result, binary<arith::DivUIOp>(lanes->start, constant(divisor)));
}

Value ExprEmitter::divide(SizeExpr a, SizeExpr b, const Bindings &bindings, bool wantRemainder) {
  Value x = valueOf(a, bindings);
  SizeRange range = facts.range(a);
  std::optional<int64_t> length = b.constant();
  if (!isGpu && length && range.min >= 0)
    if (Value value = divideLanes(x, *length, wantRemainder))
      return value;
  Value y = valueOf(b, bindings);
  if (isGpu && length && wantRemainder && range.min >= 0 && range.max / 2 < *length)
    return wrapOnce(x, y, /*wantRemainder=*/true);
  // Vectors of processors divide signed integers in fewer steps.
  bool isVector = !isGpu && (isa<RankedTensorType>(x.getType()) || isa<RankedTensorType>(y.getType()));
  if (range.min >= 0 && facts.range(b).min >= 0) {
    if (isVector)
      return wantRemainder ? binary<arith::RemSIOp>(x, y) : binary<arith::DivSIOp>(x, y);
    return wantRemainder ? binary<arith::RemUIOp>(x, y) : binary<arith::DivUIOp>(x, y);
  }
  // Floor: the remainder takes the divisor's sign.
  Value remainder = binary<arith::RemSIOp>(x, y);
  Value zero = constant(0);
  if (auto type = dyn_cast<RankedTensorType>(remainder.getType())) {
    zero = asTile(zero, type.getShape());
    y = asTile(y, type.getShape());
  }
  Value isNonZero = reuse(arith::CmpIOp::create(builder, arith::CmpIPredicate::ne, remainder, zero));
  Value mixed = reuse(arith::XOrIOp::create(builder, remainder, y));
  Value differs = reuse(arith::CmpIOp::create(builder, arith::CmpIPredicate::slt, mixed, zero));
  Value adjust = reuse(arith::AndIOp::create(builder, isNonZero, differs));
  if (wantRemainder)
    return reuse(
        arith::SelectOp::create(builder, adjust, reuse(arith::AddIOp::create(builder, remainder, y)), remainder));
  Value quotient = binary<arith::DivSIOp>(x, y);
  Value one = constant(1);
  if (auto type = dyn_cast<RankedTensorType>(quotient.getType()))
    one = asTile(one, type.getShape());
  return reuse(
      arith::SelectOp::create(builder, adjust, reuse(arith::SubIOp::create(builder, quotient, one)), quotient));
}

} // namespace torch_tile::tile_build
