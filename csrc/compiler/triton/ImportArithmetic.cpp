// Conversions, Triton's own arithmetic, and functions of libraries by name.
#include "compiler/tile/ir/Marks.h"
#include "compiler/triton/TritonImporter.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace torch_tile::triton;

static Type withElement(Type type, Type element) {
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile ? Type(tile.clone(element)) : element;
}

/// Marks a quotient as the nearest float.
static Value rounded(Value quotient) {
  quotient.getDefiningOp()->setAttr(tile::kRounded, UnitAttr::get(quotient.getContext()));
  return quotient;
}

TritonImporter::Value TritonImporter::constant(Type type, double value) {
  auto element = cast<FloatType>(getElementTypeOrSelf(type));
  TypedAttr attr = b.getFloatAttr(element, value);
  if (auto tile = dyn_cast<RankedTensorType>(type))
    attr = DenseElementsAttr::get(tile, static_cast<Attribute>(attr));
  return arith::ConstantOp::create(b, attr);
}

TritonImporter::Value TritonImporter::integerConstant(Type type, int64_t value) {
  auto element = cast<IntegerType>(getElementTypeOrSelf(type));
  TypedAttr attr =
      IntegerAttr::get(element, APInt(element.getWidth(), value, /*isSigned=*/true, /*implicitTrunc=*/true));
  if (auto tile = dyn_cast<RankedTensorType>(type))
    attr = DenseElementsAttr::get(tile, static_cast<Attribute>(attr));
  return arith::ConstantOp::create(b, attr);
}

TritonImporter::Value TritonImporter::bitcast(Value value, Type type) {
  if (value.getType() == type)
    return value;
  if (isa<tile::PtrType>(getElementTypeOrSelf(type)))
    return tile::PtrCastOp::create(b, type, value);
  return arith::BitcastOp::create(b, type, value);
}

TritonImporter::Value TritonImporter::convertFloat(Value value, Type type, bool towardsZero) {
  Type from = getElementTypeOrSelf(value.getType()), to = getElementTypeOrSelf(type);
  unsigned fromWidth = from.getIntOrFloatBitWidth(), toWidth = to.getIntOrFloatBitWidth();
  if (from == to)
    return value;
  if (fromWidth == toWidth)
    return convertFloat(arith::ExtFOp::create(b, withElement(type, b.getF32Type()), value), type, towardsZero);
  if (fromWidth < toWidth)
    return arith::ExtFOp::create(b, type, value);
  Value nearest = arith::TruncFOp::create(b, type, value);
  if (!towardsZero)
    return nearest;
  // One step back where rounding went away from zero: magnitudes order as their bits.
  Value back = arith::ExtFOp::create(b, value.getType(), nearest);
  Value isBeyond = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, math::AbsFOp::create(b, back),
                                         math::AbsFOp::create(b, value));
  Type bits = withElement(type, b.getIntegerType(toWidth));
  Value lower = arith::SubIOp::create(b, arith::BitcastOp::create(b, bits, nearest), integerConstant(bits, 1));
  return arith::SelectOp::create(b, isBeyond, arith::BitcastOp::create(b, type, lower), nearest);
}

std::optional<LogicalResult> TritonImporter::importArithmetic(Operation *op, StringRef name) {
  Type type = op->getNumResults() ? resultType(op) : Type();
  if (op->getNumResults() && !type)
    return LogicalResult(error(op) << name << " of type " << op->getResult(0).getType());
  if (name == "tt.bitcast") {
    set(op, bitcast(operand(op, 0), type));
    return success();
  }
  if (name == "tt.fp_to_fp") {
    auto rounding = dyn_cast_or_null<IntegerAttr>(attribute(op, "rounding"));
    Value value = operand(op, 0);
    // To 8 bits Triton saturates; NaN stays.
    auto target = cast<FloatType>(getElementTypeOrSelf(type));
    if (target.getWidth() == 8 && getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth() > 8) {
      double largest = APFloat::getLargest(target.getFloatSemantics()).convertToDouble();
      if (getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth() < 32)
        value = arith::ExtFOp::create(b, withElement(value.getType(), b.getF32Type()), value);
      Type wide = value.getType();
      value = arith::MinimumFOp::create(b, arith::MaximumFOp::create(b, value, constant(wide, -largest)),
                                        constant(wide, largest));
    }
    set(op, convertFloat(value, type, /*towardsZero=*/rounding && rounding.getInt() == 0));
    return success();
  }
  if (name == "tt.clampf") {
    Value x = operand(op, 0), low = operand(op, 1), high = operand(op, 2);
    bool keepsNan = (integer(op, "propagateNan") & 0xFFFF) != 0;
    set(op, keepsNan ? arith::MinimumFOp::create(b, arith::MaximumFOp::create(b, x, low), high).getResult()
                     : arith::MinNumFOp::create(b, arith::MaxNumFOp::create(b, x, low), high).getResult());
    return success();
  }
  if (name == "tt.precise_sqrt") {
    set(op, math::SqrtOp::create(b, operand(op, 0)));
    return success();
  }
  if (name == "tt.precise_divf") {
    set(op, rounded(arith::DivFOp::create(b, operand(op, 0), operand(op, 1))));
    return success();
  }
  if (name == "tt.mulhiui") {
    Type element = getElementTypeOrSelf(type);
    if (element.getIntOrFloatBitWidth() <= 32) {
      Type wide = withElement(type, b.getI64Type());
      Value product = arith::MulIOp::create(b, arith::ExtUIOp::create(b, wide, operand(op, 0)),
                                            arith::ExtUIOp::create(b, wide, operand(op, 1)));
      Value high = arith::ShRUIOp::create(b, product, integerConstant(wide, element.getIntOrFloatBitWidth()));
      set(op, arith::TruncIOp::create(b, type, high));
    } else {
      set(op, arith::MulUIExtendedOp::create(b, operand(op, 0), operand(op, 1)).getHigh());
    }
    return success();
  }
  if (name == "tt.extern_elementwise")
    return importLibraryCall(op);
  if (name == "tt.elementwise_inline_asm")
    return LogicalResult(error(op) << "inline assembly" << (pointersFirst ? "" : " is for GPUs"));
  return std::nullopt;
}

//===-- libraries
//---------------------------------------------------------------------------------------------------===//

/// libdevice's names are C's with a prefix, and an `f` at the end for f32. Here are those that are one operation;
/// Triton's front end makes the others of these (torch_tile/triton/libdevice.py).
LogicalResult TritonImporter::importLibraryCall(Operation *op) {
  auto symbol = dyn_cast_or_null<StringAttr>(attribute(op, "symbol"));
  StringRef full = symbol ? symbol.getValue() : "", name = full;
  Type type = resultType(op);
  SmallVector<Value> x = operands(op->getOperands());
  if (!name.consume_front("__nv_"))
    return error(op) << "a function of a library: " << full;
  auto unary = [&](Value value) {
    set(op, value);
    return success();
  };
  Type operandType = x[0].getType();
  Type element = getElementTypeOrSelf(operandType);
  bool isF32 = element.isF32(), isF64 = element.isF64();
  if (isF32 && !name.starts_with("fast_") && name.ends_with("f") && name != "erf" && name != "ffsf")
    name = name.drop_back();
  if (name.consume_front("fast_") && name.ends_with("f"))
    name = name.drop_back();
  auto fp = [&](double value) { return constant(operandType, value); };
  auto add = [&](Value l, Value r) -> Value { return arith::AddFOp::create(b, l, r); };
  auto sub = [&](Value l, Value r) -> Value { return arith::SubFOp::create(b, l, r); };
  auto mul = [&](Value l, Value r) -> Value { return arith::MulFOp::create(b, l, r); };
  auto div = [&](Value l, Value r) -> Value { return arith::DivFOp::create(b, l, r); };
  auto compare = [&](arith::CmpFPredicate predicate, Value l, Value r) -> Value {
    return arith::CmpFOp::create(b, predicate, l, r);
  };
  auto asResult = [&](Value condition) -> Value {
    return getElementTypeOrSelf(type).isInteger(1) ? condition : arith::ExtUIOp::create(b, type, condition).getResult();
  };
  if (isF32 || isF64) {
    Type bits = withElement(operandType, b.getIntegerType(isF32 ? 32 : 64));
    if (name == "exp")
      return unary(math::ExpOp::create(b, x[0]));
    if (name == "exp2")
      return unary(math::Exp2Op::create(b, x[0]));
    if (name == "expm1")
      return unary(math::ExpM1Op::create(b, x[0]));
    if (name == "log")
      return unary(math::LogOp::create(b, x[0]));
    if (name == "log2")
      return unary(math::Log2Op::create(b, x[0]));
    if (name == "log10")
      return unary(math::Log10Op::create(b, x[0]));
    if (name == "log1p")
      return unary(math::Log1pOp::create(b, x[0]));
    if (name == "sqrt" || name == "fsqrt_rn" || name == "sqrt_rn" || name == "dsqrt_rn")
      return unary(math::SqrtOp::create(b, x[0]));
    if (name == "rsqrt" || name == "rsqrt_rn" || name == "frsqrt_rn")
      return unary(math::RsqrtOp::create(b, x[0]));
    if (name == "cbrt")
      return unary(math::CbrtOp::create(b, x[0]));
    if (name == "sin")
      return unary(math::SinOp::create(b, x[0]));
    if (name == "cos")
      return unary(math::CosOp::create(b, x[0]));
    if (name == "tan")
      return unary(math::TanOp::create(b, x[0]));
    if (name == "asin")
      return unary(math::AsinOp::create(b, x[0]));
    if (name == "acos")
      return unary(math::AcosOp::create(b, x[0]));
    if (name == "atan")
      return unary(math::AtanOp::create(b, x[0]));
    if (name == "sinh")
      return unary(math::SinhOp::create(b, x[0]));
    if (name == "cosh")
      return unary(math::CoshOp::create(b, x[0]));
    if (name == "tanh")
      return unary(math::TanhOp::create(b, x[0]));
    if (name == "asinh")
      return unary(math::AsinhOp::create(b, x[0]));
    if (name == "acosh")
      return unary(math::AcoshOp::create(b, x[0]));
    if (name == "atanh")
      return unary(math::AtanhOp::create(b, x[0]));
    if (name == "erf")
      return unary(math::ErfOp::create(b, x[0]));
    if (name == "erfc")
      return unary(math::ErfcOp::create(b, x[0]));
    if (name == "floor")
      return unary(math::FloorOp::create(b, x[0]));
    if (name == "ceil")
      return unary(math::CeilOp::create(b, x[0]));
    if (name == "trunc")
      return unary(math::TruncOp::create(b, x[0]));
    if (name == "rint" || name == "nearbyint")
      return unary(math::RoundEvenOp::create(b, x[0]));
    if (name == "round")
      return unary(math::RoundOp::create(b, x[0]));
    if (name == "fabs")
      return unary(math::AbsFOp::create(b, x[0]));
    if (name == "pow")
      return unary(math::PowFOp::create(b, x[0], x[1]));
    if (name == "powi" || name == "powi.f")
      return unary(math::FPowIOp::create(b, x[0], x[1]));
    if (name == "atan2")
      return unary(math::Atan2Op::create(b, x[0], x[1]));
    if (name == "fmin")
      return unary(arith::MinNumFOp::create(b, x[0], x[1]));
    if (name == "fmax")
      return unary(arith::MaxNumFOp::create(b, x[0], x[1]));
    if (name == "fmod")
      return unary(arith::RemFOp::create(b, x[0], x[1]));
    if (name == "copysign")
      return unary(math::CopySignOp::create(b, x[0], x[1]));
    if (name == "fma" || name == "fma_rn" || name == "fmaf_rn" || name == "fmaf")
      return unary(math::FmaOp::create(b, x[0], x[1], x[2]));
    if (name == "fdivide")
      return unary(div(x[0], x[1]));
    if (name == "fdiv_rn" || name == "ddiv_rn" || name == "div_rn")
      return unary(rounded(div(x[0], x[1])));
    if (name == "fadd_rn" || name == "dadd_rn")
      return unary(add(x[0], x[1]));
    if (name == "fsub_rn" || name == "dsub_rn")
      return unary(sub(x[0], x[1]));
    if (name == "fmul_rn" || name == "dmul_rn")
      return unary(mul(x[0], x[1]));
    if (name == "frcp_rn" || name == "drcp_rn" || name == "rcp_rn")
      return unary(div(fp(1), x[0]));
    if (name == "isnan" || name == "isnand")
      return unary(asResult(compare(arith::CmpFPredicate::UNO, x[0], x[0])));
    if (name == "isinf" || name == "isinfd")
      return unary(asResult(compare(arith::CmpFPredicate::OEQ, math::AbsFOp::create(b, x[0]),
                                    fp(std::numeric_limits<double>::infinity()))));
    if (name == "finite" || name == "isfinited" || name == "finitef")
      return unary(asResult(compare(arith::CmpFPredicate::OLT, math::AbsFOp::create(b, x[0]),
                                    fp(std::numeric_limits<double>::infinity()))));
    if (name == "signbit" || name == "signbitd")
      return unary(asResult(arith::CmpIOp::create(b, arith::CmpIPredicate::slt, arith::BitcastOp::create(b, bits, x[0]),
                                                  integerConstant(bits, 0))));
    if (name == "float_as_int" || name == "double_as_longlong" || name == "float_as_uint")
      return unary(arith::BitcastOp::create(b, type, x[0]));
  }
  if (isa<IntegerType>(element)) {
    if (name == "abs" || name == "llabs")
      return unary(math::AbsIOp::create(b, x[0]));
    if (name == "min" || name == "llmin")
      return unary(arith::MinSIOp::create(b, x[0], x[1]));
    if (name == "max" || name == "llmax")
      return unary(arith::MaxSIOp::create(b, x[0], x[1]));
    if (name == "umin" || name == "ullmin")
      return unary(arith::MinUIOp::create(b, x[0], x[1]));
    if (name == "umax" || name == "ullmax")
      return unary(arith::MaxUIOp::create(b, x[0], x[1]));
    auto asI = [&](Value value) -> Value {
      unsigned from = getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth(),
               to = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
      return from > to   ? arith::TruncIOp::create(b, type, value).getResult()
             : from < to ? arith::ExtUIOp::create(b, type, value).getResult()
                         : value;
    };
    if (name == "clz" || name == "clzll")
      return unary(asI(math::CountLeadingZerosOp::create(b, x[0])));
    if (name == "popc" || name == "popcll")
      return unary(asI(math::CtPopOp::create(b, x[0])));
    if (name == "ffs" || name == "ffsll") {
      Value zeros = math::CountTrailingZerosOp::create(b, x[0]);
      Value isZero = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x[0], integerConstant(operandType, 0));
      Value first = arith::AddIOp::create(b, zeros, integerConstant(operandType, 1));
      return unary(asI(arith::SelectOp::create(b, isZero, integerConstant(operandType, 0), first)));
    }
    if (name == "mulhi" || name == "mul64hi")
      return unary(arith::MulSIExtendedOp::create(b, x[0], x[1]).getHigh());
    if (name == "umulhi" || name == "umul64hi")
      return unary(arith::MulUIExtendedOp::create(b, x[0], x[1]).getHigh());
    if (name == "int_as_float" || name == "longlong_as_double" || name == "uint_as_float")
      return unary(arith::BitcastOp::create(b, type, x[0]));
  }
  return error(op) << "the library function " << full;
}
