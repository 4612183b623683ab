// The scalar form of every pointwise op: one line each in buildPointwise, longer ones in a function above it.
#include "compiler/graph/ir/Marks.h"
#include "compiler/graph/transforms/ScalarBuilder.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::graph;
using FloatIs = arith::CmpFPredicate;
using IntIs = arith::CmpIPredicate;

namespace {

/// The operands of one op in the type it computes in, and the ops on them. A null Scalar says "not for this type".
struct Operands {
  const ScalarBuilder &s;
  Type type;
  Value a, b;

  bool isFloat() const { return isa<FloatType>(type); }
  bool isBool() const { return type.isInteger(1); }
  bool isUnsigned() const { return type.isUnsignedInteger() || isBool(); }
  Value number(double value) const { return s.constant(type, value); }
  Scalar same(Value value) const { return {value, type}; }
  Scalar boolean(Value value) const { return {value, s.builder.getI1Type()}; }

  template <typename OpT> Scalar unaryFloat() const { return isFloat() ? same(s.make<OpT>(a)) : Scalar(); }
  template <typename OpT> Scalar binaryFloat() const { return isFloat() ? same(s.make<OpT>(a, b)) : Scalar(); }
  template <typename OpT> Scalar binaryInt() const { return isFloat() ? Scalar() : same(s.make<OpT>(a, b)); }
  /// Rounding ops leave integers alone.
  template <typename OpT> Scalar rounding() const { return same(isFloat() ? s.make<OpT>(a) : a); }

  template <typename FloatOp, typename IntOp, typename BoolOp> Scalar binary() const {
    return same(isFloat() ? s.make<FloatOp>(a, b) : isBool() ? s.make<BoolOp>(a, b) : s.make<IntOp>(a, b));
  }
  template <typename FloatOp, typename SignedOp, typename UnsignedOp, typename BoolOp> Scalar extremum() const {
    if (isFloat())
      return same(s.make<FloatOp>(a, b));
    return same(isBool() ? s.make<BoolOp>(a, b) : isUnsigned() ? s.make<UnsignedOp>(a, b) : s.make<SignedOp>(a, b));
  }
  Scalar fma(Value addend) const {
    if (isFloat())
      return same(s.make<math::FmaOp>(a, b, addend));
    return isBool() ? same(s.make<arith::OrIOp>(s.make<arith::AndIOp>(a, b), addend))
                    : same(s.make<arith::AddIOp>(s.make<arith::MulIOp>(a, b), addend));
  }
  template <typename OpT> Scalar logical() const {
    return boolean(s.make<OpT>(s.isNonZero(a, type), s.isNonZero(b, type)));
  }

  Scalar compare(FloatIs floats, IntIs signedInts, IntIs unsignedInts) const {
    if (isFloat())
      return boolean(s.compareFloats(floats, a, b));
    return boolean(s.compareInts(isUnsigned() ? unsignedInts : signedInts, a, b));
  }

  Scalar neg() const {
    if (isBool())
      return {};
    return same(isFloat() ? s.make<arith::NegFOp>(a) : s.make<arith::SubIOp>(number(0), a));
  }
  Scalar abs() const {
    if (isFloat())
      return same(s.make<math::AbsFOp>(a));
    return same(isUnsigned() ? a : s.make<math::AbsIOp>(a));
  }
  Scalar sub() const {
    if (isBool())
      return {};
    return same(isFloat() ? s.make<arith::SubFOp>(a, b) : s.make<arith::SubIOp>(a, b));
  }
  Scalar reciprocal() const { return isFloat() ? same(s.make<arith::DivFOp>(number(1), a)) : Scalar(); }
  Scalar sigmoid() const {
    if (!isFloat())
      return {};
    Value denominator = s.make<arith::AddFOp>(number(1), s.make<math::ExpOp>(s.make<arith::NegFOp>(a)));
    return same(s.make<arith::DivFOp>(number(1), denominator));
  }
  Scalar sign() const {
    if (isBool())
      return same(a);
    Value zero = number(0), one = number(1);
    if (isUnsigned())
      return same(s.select(s.compareInts(IntIs::ne, a, zero), one, zero));
    Value positive = isFloat() ? s.compareFloats(FloatIs::OGT, a, zero) : s.compareInts(IntIs::sgt, a, zero);
    Value negative = isFloat() ? s.compareFloats(FloatIs::OLT, a, zero) : s.compareInts(IntIs::slt, a, zero);
    return same(s.select(positive, one, s.select(negative, number(-1), zero)));
  }
  Scalar relu() const {
    if (isFloat())
      return same(s.select(s.compareFloats(FloatIs::OLT, a, number(0)), number(0), a)); // -0 and NaN stay
    return same(isUnsigned() ? a : s.make<arith::MaxSIOp>(a, number(0)));
  }
  Scalar bitwiseNot() const { return isFloat() ? Scalar() : same(s.make<arith::XOrIOp>(a, s.intConstant(type, -1))); }
  Scalar logicalNot() const { return boolean(s.logicalNot(s.isNonZero(a, type))); }
  Scalar isNan() const { return boolean(isFloat() ? s.isNan(a) : s.intConstant(s.builder.getI1Type(), 0)); }
  Scalar isInf() const {
    if (!isFloat())
      return boolean(s.intConstant(s.builder.getI1Type(), 0));
    return boolean(s.compareFloats(FloatIs::OEQ, s.make<math::AbsFOp>(a), number(INFINITY)));
  }
  Scalar shiftLeft() const;
  Scalar shiftRight() const;
  Scalar divTrunc() const;
  Scalar divFloor() const;
  Scalar fmod() const;
  Scalar remainder() const;
  Scalar pow() const;
  Scalar gelu(StringRef approximate) const;

private:
  struct QuotientAndRemainder {
    Value quotient, remainder;
  };
  QuotientAndRemainder divideInts() const;
  void checkDivisor(Value isZero) const;
  Value shiftInRange() const;
  Value signsDiffer(Value x, Value y) const;
};

} // namespace

/// A divisor of 0 ends the kernel with an error, unless it cannot be 0.
void Operands::checkDivisor(Value isZero) const {
  Value divisor = b;
  while (Operation *op = divisor.getDefiningOp()) {
    if (!isa<arith::ExtSIOp, arith::ExtUIOp>(op))
      break;
    divisor = op->getOperand(0);
  }
  if (APInt constant; matchPattern(divisor, m_ConstantInt(&constant)) && !constant.isZero())
    return;
  MLIRContext *context = s.builder.getContext();
  Type i64 = s.builder.getI64Type();
  CheckIndexOp::create(s.builder, s.loc, i64, s.make<arith::ExtUIOp>(i64, isZero),
                       ExprAttr::get(context, GraphDialect::sizes(context).constant(1)), /*wrap=*/UnitAttr(),
                       /*mask=*/Value(), s.builder.getUnitAttr());
}

/// Both towards 0. The hardware faults on a divisor of 0 and on smallest / -1, so neither reaches it: x / -1 is 0 - x,
/// and x / 0 is x with remainder 0 until the program ends with an error (a fault would end the process).
Operands::QuotientAndRemainder Operands::divideInts() const {
  Value zero = number(0), one = number(1);
  Value isZero = s.compareInts(IntIs::eq, b, zero);
  checkDivisor(isZero);
  if (isUnsigned()) {
    Value safe = s.select(isZero, one, b);
    return {s.make<arith::DivUIOp>(a, safe), s.make<arith::RemUIOp>(a, safe)};
  }
  Value isMinusOne = s.compareInts(IntIs::eq, b, number(-1));
  Value safe = s.select(s.make<arith::OrIOp>(isZero, isMinusOne), one, b);
  Value quotient = s.make<arith::DivSIOp>(a, safe);
  Value negated = s.make<arith::SubIOp>(zero, a);
  return {s.select(isMinusOne, negated, quotient), s.make<arith::RemSIOp>(a, safe)};
}

Value Operands::signsDiffer(Value x, Value y) const {
  if (isFloat())
    return s.make<arith::XOrIOp>(s.compareFloats(FloatIs::OLT, x, number(0)),
                                 s.compareFloats(FloatIs::OLT, y, number(0)));
  return s.make<arith::XOrIOp>(s.compareInts(IntIs::slt, x, number(0)), s.compareInts(IntIs::slt, y, number(0)));
}

Scalar Operands::divTrunc() const {
  if (isFloat())
    return same(s.make<math::TruncOp>(s.make<arith::DivFOp>(a, b)));
  return isBool() ? Scalar() : same(divideInts().quotient);
}

/// Floats as in ATen's div_floor_floating: a - fmod(a, b) divides exactly, so the floor is that of the exact quotient.
Scalar Operands::divFloor() const {
  if (isBool())
    return {};
  if (!isFloat()) {
    auto [quotient, remainder] = divideInts();
    if (isUnsigned())
      return same(quotient);
    Value inexact = s.compareInts(IntIs::ne, remainder, number(0));
    Value adjust = s.make<arith::AndIOp>(inexact, signsDiffer(remainder, b));
    return same(s.select(adjust, s.make<arith::SubIOp>(quotient, number(1)), quotient));
  }
  Value zero = number(0), one = number(1);
  Value plain = s.make<arith::DivFOp>(a, b);
  Value mod = s.make<arith::RemFOp>(a, b);
  Value quotient = s.make<arith::DivFOp>(s.make<arith::SubFOp>(a, mod), b);
  Value adjust = s.make<arith::AndIOp>(s.compareFloats(FloatIs::UNE, mod, zero), signsDiffer(b, mod));
  quotient = s.select(adjust, s.make<arith::SubFOp>(quotient, one), quotient);
  Value floor = s.make<math::FloorOp>(quotient);
  Value tooLow = s.compareFloats(FloatIs::OGT, s.make<arith::SubFOp>(quotient, floor), number(0.5));
  floor = s.select(tooLow, s.make<arith::AddFOp>(floor, one), floor);
  Value signedZero = s.make<math::CopySignOp>(zero, plain);
  Value result = s.select(s.compareFloats(FloatIs::UNE, quotient, zero), floor, signedZero);
  return same(s.select(s.compareFloats(FloatIs::OEQ, b, zero), plain, result));
}

Scalar Operands::fmod() const {
  if (isFloat())
    return same(s.make<arith::RemFOp>(a, b));
  return isBool() ? Scalar() : same(divideInts().remainder);
}

Scalar Operands::remainder() const {
  if (isBool())
    return {};
  Value mod = isFloat() ? s.make<arith::RemFOp>(a, b) : divideInts().remainder;
  if (isUnsigned())
    return same(mod);
  Value nonZero = isFloat() ? s.compareFloats(FloatIs::UNE, mod, number(0)) : s.compareInts(IntIs::ne, mod, number(0));
  Value adjust = s.make<arith::AndIOp>(nonZero, signsDiffer(b, mod));
  Value adjusted = isFloat() ? s.make<arith::AddFOp>(mod, b) : s.make<arith::AddIOp>(mod, b);
  return same(s.select(adjust, adjusted, mod));
}

Value Operands::shiftInRange() const {
  return s.compareInts(IntIs::ult, b, s.intConstant(type, type.getIntOrFloatBitWidth()));
}

Scalar Operands::shiftLeft() const {
  if (isFloat() || isBool())
    return {};
  Value inRange = shiftInRange();
  return same(s.select(inRange, s.make<arith::ShLIOp>(a, s.select(inRange, b, number(0))), number(0)));
}

Scalar Operands::shiftRight() const {
  if (isFloat() || isBool())
    return {};
  Value inRange = shiftInRange();
  if (isUnsigned())
    return same(s.select(inRange, s.make<arith::ShRUIOp>(a, s.select(inRange, b, number(0))), number(0)));
  Value last = s.intConstant(type, type.getIntOrFloatBitWidth() - 1);
  return same(s.make<arith::ShRSIOp>(a, s.select(inRange, b, last)));
}

/// Forms of constant exponents that give what C's pow gives everywhere: 0 to the power of -0.5 is inf, whatever its
/// sign, and -inf to the power of 0.5 is inf. (ATen's own for numbers, which differ there, are the importer's.)
Scalar Operands::pow() const {
  if (isBool())
    return {};
  auto times = [&](Value x, Value y) { return isFloat() ? s.make<arith::MulFOp>(x, y) : s.make<arith::MulIOp>(x, y); };
  std::optional<double> exponent;
  APFloat floatValue(0.0);
  APInt intValue;
  if (matchPattern(b, m_ConstantFloat(&floatValue)))
    exponent = FloatAttr::get(b.getType(), floatValue).getValueAsDouble();
  else if (matchPattern(b, m_ConstantInt(&intValue)))
    exponent = isUnsigned() ? double(intValue.getZExtValue()) : double(intValue.getSExtValue());
  if (exponent == 0)
    return same(number(1));
  if (exponent == 1)
    return same(a);
  if (exponent == 2)
    return same(times(a, a));
  if (exponent == 3)
    return same(times(times(a, a), a));
  if (!isFloat())
    return same(s.make<math::IPowIOp>(a, b));
  if (exponent == -1)
    return same(s.make<arith::DivFOp>(number(1), a));
  if (exponent == 0.5 || exponent == -0.5) {
    Value isLowest = s.compareFloats(FloatIs::OEQ, a, number(-INFINITY));
    Value root = s.make<math::SqrtOp>(s.make<arith::AddFOp>(a, number(0))); // -0 + 0 is 0
    root = s.select(isLowest, number(INFINITY), root);
    return same(exponent == 0.5 ? root : s.make<arith::DivFOp>(number(1), root));
  }
  return same(s.make<math::PowFOp>(a, b));
}

Scalar Operands::gelu(StringRef approximate) const {
  if (!isFloat())
    return {};
  auto mul = [&](Value x, Value y) { return s.make<arith::MulFOp>(x, y); };
  auto add = [&](Value x, Value y) { return s.make<arith::AddFOp>(x, y); };
  if (approximate == "tanh") {
    constexpr double kBeta = 0.7978845608028654; // sqrt(2 / pi)
    Value cube = mul(mul(a, a), a);
    Value inner = mul(number(kBeta), add(a, mul(number(0.044715), cube)));
    return same(mul(mul(number(0.5), a), add(number(1), s.make<math::TanhOp>(inner))));
  }
  if (approximate != "none")
    return {};
  constexpr double kSqrtHalf = 0.7071067811865476;
  return same(mul(mul(a, number(0.5)), add(number(1), s.make<math::ErfOp>(mul(a, number(kSqrtHalf))))));
}

static Scalar buildOne(const Operands &x, Operation *op) {
  return llvm::TypeSwitch<Operation *, Scalar>(op)
      .Case([&](ExpOp) { return x.unaryFloat<math::ExpOp>(); })
      .Case([&](Exp2Op) { return x.unaryFloat<math::Exp2Op>(); })
      .Case([&](Expm1Op) { return x.unaryFloat<math::ExpM1Op>(); })
      .Case([&](LogOp) { return x.unaryFloat<math::LogOp>(); })
      .Case([&](Log2Op) { return x.unaryFloat<math::Log2Op>(); })
      .Case([&](Log10Op) { return x.unaryFloat<math::Log10Op>(); })
      .Case([&](Log1pOp) { return x.unaryFloat<math::Log1pOp>(); })
      .Case([&](SqrtOp) { return x.unaryFloat<math::SqrtOp>(); })
      .Case([&](RsqrtOp) { return x.unaryFloat<math::RsqrtOp>(); })
      .Case([&](ReciprocalOp) { return x.reciprocal(); })
      .Case([&](SinOp) { return x.unaryFloat<math::SinOp>(); })
      .Case([&](CosOp) { return x.unaryFloat<math::CosOp>(); })
      .Case([&](TanOp) { return x.unaryFloat<math::TanOp>(); })
      .Case([&](AsinOp) { return x.unaryFloat<math::AsinOp>(); })
      .Case([&](AcosOp) { return x.unaryFloat<math::AcosOp>(); })
      .Case([&](AtanOp) { return x.unaryFloat<math::AtanOp>(); })
      .Case([&](SinhOp) { return x.unaryFloat<math::SinhOp>(); })
      .Case([&](CoshOp) { return x.unaryFloat<math::CoshOp>(); })
      .Case([&](TanhOp) { return x.unaryFloat<math::TanhOp>(); })
      .Case([&](AsinhOp) { return x.unaryFloat<math::AsinhOp>(); })
      .Case([&](AcoshOp) { return x.unaryFloat<math::AcoshOp>(); })
      .Case([&](AtanhOp) { return x.unaryFloat<math::AtanhOp>(); })
      .Case([&](ErfOp) { return x.unaryFloat<math::ErfOp>(); })
      .Case([&](ErfcOp) { return x.unaryFloat<math::ErfcOp>(); })
      .Case([&](SigmoidOp) { return x.sigmoid(); })
      .Case([&](NegOp) { return x.neg(); })
      .Case([&](AbsOp) { return x.abs(); })
      .Case([&](SignOp) { return x.sign(); })
      .Case([&](FloorOp) { return x.rounding<math::FloorOp>(); })
      .Case([&](CeilOp) { return x.rounding<math::CeilOp>(); })
      .Case([&](RoundOp) { return x.rounding<math::RoundEvenOp>(); })
      .Case([&](TruncOp) { return x.rounding<math::TruncOp>(); })
      .Case([&](ReluOp) { return x.relu(); })
      .Case([&](BitwiseNotOp) { return x.bitwiseNot(); })
      .Case([&](LogicalNotOp) { return x.logicalNot(); })
      .Case([&](IsnanOp) { return x.isNan(); })
      .Case([&](IsinfOp) { return x.isInf(); })
      .Case([&](AddOp) { return x.binary<arith::AddFOp, arith::AddIOp, arith::OrIOp>(); })
      .Case([&](SubOp) { return x.sub(); })
      .Case([&](MulOp) { return x.binary<arith::MulFOp, arith::MulIOp, arith::AndIOp>(); })
      .Case([&](DivOp) { return x.binaryFloat<arith::DivFOp>(); })
      .Case([&](DivFloorOp) { return x.divFloor(); })
      .Case([&](DivTruncOp) { return x.divTrunc(); })
      .Case([&](RemainderOp) { return x.remainder(); })
      .Case([&](FmodOp) { return x.fmod(); })
      .Case([&](PowOp) { return x.pow(); })
      .Case([&](Atan2Op) { return x.binaryFloat<math::Atan2Op>(); })
      .Case([&](MaximumOp) { return x.extremum<arith::MaximumFOp, arith::MaxSIOp, arith::MaxUIOp, arith::OrIOp>(); })
      .Case([&](MinimumOp) { return x.extremum<arith::MinimumFOp, arith::MinSIOp, arith::MinUIOp, arith::AndIOp>(); })
      .Case([&](CopysignOp) { return x.binaryFloat<math::CopySignOp>(); })
      .Case([&](BitwiseAndOp) { return x.binaryInt<arith::AndIOp>(); })
      .Case([&](BitwiseOrOp) { return x.binaryInt<arith::OrIOp>(); })
      .Case([&](BitwiseXorOp) { return x.binaryInt<arith::XOrIOp>(); })
      .Case([&](ShiftLeftOp) { return x.shiftLeft(); })
      .Case([&](ShiftRightOp) { return x.shiftRight(); })
      .Case([&](LogicalAndOp) { return x.logical<arith::AndIOp>(); })
      .Case([&](LogicalOrOp) { return x.logical<arith::OrIOp>(); })
      .Case([&](LogicalXorOp) { return x.logical<arith::XOrIOp>(); })
      .Case([&](EqOp) { return x.compare(FloatIs::OEQ, IntIs::eq, IntIs::eq); })
      .Case([&](NeOp) { return x.compare(FloatIs::UNE, IntIs::ne, IntIs::ne); })
      .Case([&](LtOp) { return x.compare(FloatIs::OLT, IntIs::slt, IntIs::ult); })
      .Case([&](LeOp) { return x.compare(FloatIs::OLE, IntIs::sle, IntIs::ule); })
      .Case([&](GtOp) { return x.compare(FloatIs::OGT, IntIs::sgt, IntIs::ugt); })
      .Case([&](GeOp) { return x.compare(FloatIs::OGE, IntIs::sge, IntIs::uge); })
      .Case([&](GeluOp gelu) { return x.gelu(gelu.getApproximate()); })
      .Default(Scalar());
}

Value mlir::graph::buildPointwise(ScalarBuilder &scalars, Operation *op, ValueRange operands) {
  auto elementType = [](Value tensor) { return cast<GraphTensorType>(tensor.getType()).getElementType(); };
  Type result = elementType(op->getResult(0));
  if (auto cast = dyn_cast<CastOp>(op))
    return scalars.cast(operands[0], elementType(cast.getX()), result, cast->hasAttr(kSaturate));
  if (auto where = dyn_cast<WhereOp>(op)) {
    Value condition = scalars.isNonZero(operands[0], elementType(where.getCondition()));
    return scalars.select(condition, scalars.cast(operands[1], elementType(where.getA()), result),
                          scalars.cast(operands[2], elementType(where.getB()), result));
  }
  Type operandType = elementType(op->getOperand(0));
  if (!operandType.isIntOrFloat())
    return {};
  SmallVector<Value, 3> inputs;
  for (auto [tensor, value] : llvm::zip(op->getOperands(), operands)) {
    if (elementType(tensor) != operandType)
      return {};
    inputs.push_back(scalars.cast(value, operandType, computeType(operandType)));
  }
  Operands x{scalars, computeType(operandType), inputs[0], inputs.size() > 1 ? inputs[1] : Value()};
  if (isa<FmaOp>(op))
    return scalars.cast(x.fma(inputs[2]).value, x.type, result);
  Scalar answer = buildOne(x, op);
  if (answer && op->hasAttr(kAtMostZero))
    answer.value.getDefiningOp()->setDiscardableAttr(kAtMostZero, UnitAttr::get(op->getContext()));
  return answer ? scalars.cast(answer.value, answer.type, result) : Value();
}
