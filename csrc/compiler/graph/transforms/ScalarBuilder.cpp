#include "compiler/graph/transforms/ScalarBuilder.h"

#include "llvm/ADT/APFloat.h"

#include <cmath>

using namespace mlir;
using namespace mlir::graph;

Type mlir::graph::computeType(Type elementType) {
  if (isa<FloatType>(elementType) && elementType.getIntOrFloatBitWidth() < 32)
    return Float32Type::get(elementType.getContext());
  return elementType;
}

static bool isBool(Type type) { return type.isInteger(1); }
static bool isUnsigned(Type type) { return type.isUnsignedInteger() || isBool(type); }

Value ScalarBuilder::floatConstant(Type type, double value) const {
  return make<arith::ConstantOp>(mlir::cast<FloatType>(type), builder.getFloatAttr(type, value));
}

Value ScalarBuilder::intConstant(Type type, int64_t value) const {
  Type signless = scalarType(type);
  return make<arith::ConstantOp>(signless, IntegerAttr::get(signless, APInt(signless.getIntOrFloatBitWidth(), value,
                                                                            true, /*implicitTrunc=*/true)));
}

Value ScalarBuilder::constant(Type type, double value) const {
  if (isa<FloatType>(type))
    return floatConstant(type, value);
  return intConstant(type, isBool(type) ? value != 0 : int64_t(value));
}

Value ScalarBuilder::constant(Type type, Attribute number) const {
  if (auto value = dyn_cast<FloatAttr>(number)) {
    if (isa<FloatType>(type)) {
      // Through f32 for the narrow ones, as ATen converts a Python float.
      APFloat converted = value.getValue();
      bool losesInfo;
      if (computeType(type) != type)
        converted.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &losesInfo);
      converted.convert(mlir::cast<FloatType>(type).getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
      return make<arith::ConstantOp>(mlir::cast<FloatType>(type), FloatAttr::get(type, converted));
    }
    return constant(type, value.getValueAsDouble());
  }
  if (auto value = dyn_cast<IntegerAttr>(number)) {
    int64_t integer = isBool(value.getType()) ? value.getValue().getZExtValue() : value.getValue().getSExtValue();
    if (isa<FloatType>(type))
      return constant(type, builder.getF64FloatAttr(double(integer)));
    return intConstant(type, isBool(type) ? integer != 0 : integer);
  }
  return {};
}

Value ScalarBuilder::logicalNot(Value condition) const {
  return make<arith::XOrIOp>(condition, intConstant(builder.getI1Type(), 1));
}

Value ScalarBuilder::isNonZero(Value value, Type type) const {
  if (isBool(type))
    return value;
  if (isa<FloatType>(type)) {
    value = cast(value, type, computeType(type));
    return compareFloats(arith::CmpFPredicate::UNE, value, floatConstant(value.getType(), 0));
  }
  return compareInts(arith::CmpIPredicate::ne, value, intConstant(type, 0));
}

Value ScalarBuilder::isNan(Value value) const { return compareFloats(arith::CmpFPredicate::UNO, value, value); }

/// x86's conversion: the smallest integer for NaN and out of range. arith.fptosi alone is poison there. Integers below
/// 32 bits take the low bits of the i32 (uint8: i64) conversion.
Value ScalarBuilder::floatToInt(Value value, Type to) const {
  Type wide = to.isUnsignedInteger() || to.isInteger(64) ? builder.getI64Type() : builder.getI32Type();
  Type source = value.getType();
  unsigned bits = wide.getIntOrFloatBitWidth();
  double limit = std::ldexp(1.0, bits - 1);
  Value inRange = make<arith::AndIOp>(compareFloats(arith::CmpFPredicate::OGE, value, floatConstant(source, -limit)),
                                      compareFloats(arith::CmpFPredicate::OLT, value, floatConstant(source, limit)));
  Value safe = select(inRange, value, floatConstant(source, 0));
  Value smallest = intConstant(wide, bits == 64 ? INT64_MIN : INT32_MIN);
  Value converted = select(inRange, make<arith::FPToSIOp>(wide, safe), smallest);
  Type signless = scalarType(to);
  return signless == wide ? converted : make<arith::TruncIOp>(signless, converted);
}

/// PTX's conversion, with the widths that nvcc takes for static_cast (ATen's casts to uint8 go by way of int64): the
/// nearest integer of the range. NaN gives 0, or the smallest integer from f64 and to i64.
Value ScalarBuilder::floatToIntSaturating(Value value, Type from, Type to) const {
  unsigned toBits = to.getIntOrFloatBitWidth();
  unsigned bits = to.isUnsignedInteger() ? 64 : std::max(toBits, 16u);
  Type wide = builder.getIntegerType(bits), source = value.getType();
  double limit = std::ldexp(1.0, bits - 1);
  Value notAbove = compareFloats(arith::CmpFPredicate::OLT, value, floatConstant(source, limit));
  Value inRange =
      make<arith::AndIOp>(compareFloats(arith::CmpFPredicate::OGE, value, floatConstant(source, -limit)), notAbove);
  Value smallest = make<arith::ConstantOp>(wide, builder.getIntegerAttr(wide, APInt::getSignedMinValue(bits)));
  Value largest = make<arith::ConstantOp>(wide, builder.getIntegerAttr(wide, APInt::getSignedMaxValue(bits)));
  Value ofNan = from.isF64() || bits == 64 ? smallest : intConstant(wide, 0);
  Value nearest = select(notAbove, smallest, largest);
  nearest = select(isNan(value), ofNan, nearest);
  Value safe = select(inRange, value, floatConstant(source, 0));
  Value converted = select(inRange, make<arith::FPToSIOp>(wide, safe), nearest);
  Type signless = scalarType(to);
  return signless == wide ? converted : make<arith::TruncIOp>(signless, converted);
}

Value ScalarBuilder::cast(Value value, Type from, Type to, bool saturates) const {
  if (from == to)
    return value;
  if (isBool(to))
    return isNonZero(value, from);
  Type signless = scalarType(to);
  if (isa<FloatType>(to)) {
    // Narrow floats are reached through f32 from everything, so f64 and integers round twice, as in ATen.
    Type middle = computeType(to);
    if (isa<FloatType>(from)) {
      value = from.getIntOrFloatBitWidth() < 32 ? builder.createOrFold<arith::ExtFOp>(loc, builder.getF32Type(), value)
                                                : value;
      if (value.getType().getIntOrFloatBitWidth() < middle.getIntOrFloatBitWidth())
        value = builder.createOrFold<arith::ExtFOp>(loc, middle, value);
      else if (value.getType() != middle)
        value = builder.createOrFold<arith::TruncFOp>(loc, middle, value);
    } else if (isUnsigned(from)) {
      value = builder.createOrFold<arith::UIToFPOp>(loc, middle, value);
    } else {
      value = builder.createOrFold<arith::SIToFPOp>(loc, middle, value);
    }
    if (saturates && isa<Float8E4M3FNType>(to)) {
      double largest = APFloat::getLargest(mlir::cast<FloatType>(to).getFloatSemantics()).convertToDouble();
      value = make<arith::MaximumFOp>(value, floatConstant(middle, -largest)); // NaN stays NaN
      value = make<arith::MinimumFOp>(value, floatConstant(middle, largest));
    }
    return middle == to ? value : builder.createOrFold<arith::TruncFOp>(loc, to, value);
  }
  if (isa<FloatType>(from)) {
    Value number = cast(value, from, computeType(from));
    return saturates ? floatToIntSaturating(number, from, to) : floatToInt(number, to);
  }
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to.getIntOrFloatBitWidth();
  if (fromBits == toBits)
    return value;
  if (fromBits > toBits)
    return builder.createOrFold<arith::TruncIOp>(loc, signless, value);
  return isUnsigned(from) ? builder.createOrFold<arith::ExtUIOp>(loc, signless, value)
                          : builder.createOrFold<arith::ExtSIOp>(loc, signless, value);
}
