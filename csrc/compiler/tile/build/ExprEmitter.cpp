#include "compiler/tile/build/ExprEmitter.h"

#include "compiler/tile/ir/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace torch_tile::tile_build {

Value toTile(ImplicitLocOpBuilder &builder, Value value, ArrayRef<int64_t> shape) {
  if (shape.empty())
    return value;
  if (auto type = dyn_cast<RankedTensorType>(value.getType())) {
    if (type.getRank() == (int64_t)shape.size())
      return value;
    assert(type.getRank() == 1 && shape.size() == 2 && type.getDimSize(0) == shape[1] && "lanes of a tile of rows");
    auto row = RankedTensorType::get({1, shape[1]}, type.getElementType());
    value = tile::ExpandDimsOp::create(builder, row, value, builder.getI64IntegerAttr(0));
    return tile::BroadcastOp::create(builder, RankedTensorType::get(shape, type.getElementType()), value);
  }
  return tile::SplatOp::create(builder, RankedTensorType::get(shape, value.getType()), value);
}

Value ExprEmitter::constant(int64_t value) {
  if (isNarrow) // of sums, modulo 2^32
    return reuse(arith::ConstantOp::create(builder, builder.getI32IntegerAttr((int32_t)value)));
  return reuse(arith::ConstantOp::create(builder, builder.getI64IntegerAttr(value)));
}

Value ExprEmitter::asTile(Value value, ArrayRef<int64_t> shape) {
  Value tile = toTile(builder, value, shape);
  return tile == value ? tile : reuse(tile.getDefiningOp());
}

bool ExprEmitter::usesBinding(SizeExpr expr, const Bindings &bindings) const {
  return llvm::any_of(expr.symbols(), [&](std::string_view name) { return bindings.contains(StringRef(name)); });
}

Value ExprEmitter::emit(SizeExpr expr, const Bindings &bindings) {
  known.clear();
  return valueOf(expr, bindings);
}

Value ExprEmitter::emitNarrow(SizeExpr expr, const Bindings &bindings) {
  isNarrow = true;
  Value value = emit(expr, bindings);
  isNarrow = false;
  return value;
}

bool ExprEmitter::fitsNarrow(SizeExpr expr) const {
  auto fits = [&](SizeExpr part) {
    SizeRange range = facts.range(part);
    return range.min >= INT32_MIN && range.max <= INT32_MAX && fitsNarrow(part);
  };
  return llvm::all_of(SizeContext::terms(expr), [&](const SizeTerm &term) {
    return llvm::all_of(term.factors, [&](const auto &factor) {
      std::optional<SizeCall> call = SizeContext::asCall(factor.first);
      return !call || llvm::all_of(call->args, fits);
    });
  });
}

/// Expressions share their parts, and so do their values.
Value ExprEmitter::valueOf(SizeExpr expr, const Bindings &bindings) {
  auto it = known.find(expr.opaque());
  return it != known.end() ? it->second : known[expr.opaque()] = sumOf(expr, bindings);
}

Value ExprEmitter::sumOf(SizeExpr expr, const Bindings &bindings) {
  if (std::optional<int64_t> value = expr.constant())
    return constant(*value);
  if (!usesBinding(expr, bindings)) {
    Value value = argument(expr);
    return isNarrow ? reuse(arith::TruncIOp::create(builder, builder.getI32Type(), value)) : value;
  }
  SizeContext &sizes = facts.sizes();
  // Terms free of loop variables are one argument together.
  SizeExpr fixed = sizes.constant(0);
  Value sum;
  for (const SizeTerm &term : SizeContext::terms(expr)) {
    SizeExpr factor = sizes.constant(term.coefficient);
    Value product;
    for (const auto &[atomExpr, power] : term.factors)
      for (int k = 0; k < power; ++k) {
        if (!usesBinding(atomExpr, bindings)) {
          factor = sizes.mul(factor, atomExpr);
          continue;
        }
        Value value = atom(atomExpr, bindings);
        product = product ? binary<arith::MulIOp>(product, value) : value;
      }
    if (!product) {
      fixed = sizes.add(fixed, factor);
      continue;
    }
    if (!factor.isConstant(1))
      product = binary<arith::MulIOp>(product, valueOf(factor, bindings));
    sum = sum ? binary<arith::AddIOp>(sum, product) : product;
  }
  if (!fixed.isConstant(0))
    sum = binary<arith::AddIOp>(sum, valueOf(fixed, bindings));
  return sum;
}

Value ExprEmitter::atom(SizeExpr expr, const Bindings &bindings) {
  if (std::optional<std::string_view> name = expr.symbol())
    return bindings.lookup(StringRef(*name));
  SizeCall call = *SizeContext::asCall(expr);
  switch (call.fn) {
  case SizeFn::FloorDiv:
  case SizeFn::CleanDiv:
    return divide(call.args[0], call.args[1], bindings, false);
  case SizeFn::Mod:
  case SizeFn::PythonMod:
    return divide(call.args[0], call.args[1], bindings, true);
  case SizeFn::TruncDiv:
    return binary<arith::DivSIOp>(valueOf(call.args[0], bindings), valueOf(call.args[1], bindings));
  case SizeFn::CeilDiv: {
    // ceil(a / b) = -floor(-a / b)
    SizeContext &sizes = facts.sizes();
    return binary<arith::SubIOp>(constant(0), divide(sizes.neg(call.args[0]), call.args[1], bindings, false));
  }
  case SizeFn::Min:
  case SizeFn::Max: {
    Value value = valueOf(call.args[0], bindings);
    for (SizeExpr arg : llvm::drop_begin(call.args))
      value = call.fn == SizeFn::Min ? binary<arith::MinSIOp>(value, valueOf(arg, bindings))
                                     : binary<arith::MaxSIOp>(value, valueOf(arg, bindings));
    return value;
  }
  default: // of sizes alone: an argument
    break;
  }
  llvm_unreachable("unknown size function");
}

} // namespace torch_tile::tile_build
