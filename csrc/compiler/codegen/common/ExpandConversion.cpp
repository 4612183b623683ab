// Conversions between f32 and bf16, f8E4M3FN, f8E5M2, in integer arithmetic: exact on subnormals whatever the FTZ and
// DAZ state.

#include "compiler/codegen/common/MathBuilder.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace torch_tile::codegen {

namespace {
/// An 8-bit float format within f32's bits.
struct Float8Format {
  int mantissaBits;
  int bias;
  uint32_t overflowBits;    // f32 bits from which on the result is inf or NaN
  uint32_t infinityPattern; // result of overflow
  uint32_t nanPattern;
  uint32_t lastFiniteBits = 0; // f32 bits of the largest number that is rounded to a finite one
  bool isFnuz = false;         // 0x80 is NaN, the only one; there is no infinity and no negative zero
};
} // namespace

// f8E4M3FN has no infinity: 480 and above becomes NaN, and so does what rounds to 480.
static constexpr Float8Format kE4M3{3, 7, 1087u << 20, 0x7f, 0x7f, 0x43e80000u}; // 464
static constexpr Float8Format kE5M2{2, 15, 143u << 23, 0x7c, 0x7f, 0x476fffffu}; // below 61440
// NaN from half a step beyond 240 and 57344 on.
static constexpr Float8Format kE4M3Fnuz{3, 8, 0x43780000u, 0x80, 0x80, 0, true};
static constexpr Float8Format kE5M2Fnuz{2, 16, 0x47700000u, 0x80, 0x80, 0, true};

static const Float8Format *formatOf(Type type) {
  return llvm::TypeSwitch<Type, const Float8Format *>(type)
      .Case([](Float8E4M3FNType) { return &kE4M3; })
      .Case([](Float8E5M2Type) { return &kE5M2; })
      .Case([](Float8E4M3FNUZType) { return &kE4M3Fnuz; })
      .Case([](Float8E5M2FNUZType) { return &kE5M2Fnuz; })
      .Default(static_cast<const Float8Format *>(nullptr));
}

static Value truncToBF16ByIntegers(MathBuilder &b, Value x) {
  Value bits = b.bitcast(b.i32(), x);
  Value sixteen = b.integer(16);
  Value isOdd = b.andI(b.shru(bits, sixteen), b.integer(1));
  Value rounded = b.shru(b.addI(bits, b.addI(isOdd, b.integer(0x7fff))), sixteen);
  Value result = b.select(b.isNan(x), b.integer(0x7fc0), rounded);
  return b.bitcast(b.shaped(b.getBF16Type()), arith::TruncIOp::create(b, b.i16(), result));
}

/// The instruction flushes subnormals and keeps a NaN's payload; the way that does not is taken where there are any.
static Value truncToBF16(MathBuilder &b, Value x) {
  if (!b.options().hasBf16Conversion || !b.fillsAvx512() || !llvm::isPowerOf2_64(b.numLanes()))
    return truncToBF16ByIntegers(b, x);
  Type type = b.shaped(b.getBF16Type());
  auto choice = scf::IfOp::create(b, TypeRange{type}, b.hasSubnormalOrNan(x), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  scf::YieldOp::create(b, truncToBF16ByIntegers(b, x));
  b.setInsertionPointToStart(choice.elseBlock());
  scf::YieldOp::create(b, b.truncToBF16ByInstruction(x));
  return choice.getResult(0);
}

static Value extendFromBF16(MathBuilder &b, Value x) {
  Value bits = arith::ExtUIOp::create(b, b.i32(), b.bitcast(b.i16(), x));
  return b.bitcast(b.shaped(b.getF32Type()), b.shl(bits, b.integer(16)));
}

/// "e4m3" where there are instructions for the format's pairs; empty otherwise.
static StringRef pairsOf(MathBuilder &b, const Float8Format &format) {
  bool hasPairs = b.options().hasFloat8Conversion && b.isVector() && b.numLanes() % 2 == 0;
  return !hasPairs ? "" : &format == &kE4M3 ? "e4m3" : &format == &kE5M2 ? "e5m2" : "";
}

/// The instruction knows neither what is too large nor the sign of NaN.
static Value truncByInstruction(MathBuilder &b, Value x, const Float8Format &format, StringRef name) {
  Value pattern = b.truncPairsToFloat8(x, name);
  Value bits = b.bitcast(b.i32(), x);
  Value special = b.integer(int32_t(format.infinityPattern));
  if (format.nanPattern != format.infinityPattern)
    special = b.select(b.isNan(x), b.integer(int32_t(format.nanPattern)), special);
  special = b.orI(special, b.andI(b.shru(bits, b.integer(24)), b.integer(0x80)));
  // The largest number that rounds to a finite one, half a step beyond the largest of those.
  Value isInRange =
      b.compare(arith::CmpFPredicate::OLE, b.abs(x), b.bitcast(x.getType(), b.integer(int32_t(format.lastFiniteBits))));
  return b.select(isInRange, pattern, arith::TruncIOp::create(b, b.i8(), special));
}

static Value truncToFloat8(MathBuilder &b, Value x, Type resultElement, const Float8Format &format) {
  if (StringRef name = pairsOf(b, format); !name.empty())
    return b.bitcast(b.shaped(resultElement), truncByInstruction(b, x, format, name));
  Value bits = b.bitcast(b.i32(), x);
  Value sign = b.andI(bits, b.integer(int32_t(0x80000000)));
  Value magnitude = b.xorI(bits, sign);
  int dropped = 23 - format.mantissaBits;

  // Normal: rebase the exponent, round to nearest even.
  Value isOdd = b.andI(b.shru(magnitude, b.integer(dropped)), b.integer(1));
  uint32_t rebase = uint32_t(format.bias - 127) << 23;
  Value normal = b.addI(b.addI(magnitude, b.integer(int32_t(rebase + (1u << (dropped - 1)) - 1))), isOdd);
  normal = b.shru(normal, b.integer(dropped));

  // Subnormal: adding a power of two whose ulp is the format's smallest step makes the adder round.
  int32_t anchorBits = (127 - format.bias + dropped + 1) << 23;
  Value anchor = b.integer(anchorBits);
  Type floatType = b.shaped(b.getF32Type());
  Value sum = b.add(b.bitcast(floatType, magnitude), b.bitcast(floatType, anchor));
  Value subnormal = b.subI(b.bitcast(b.i32(), sum), anchor);

  auto ult = arith::CmpIPredicate::ult;
  Value smallestNormal = b.integer((127 - format.bias + 1) << 23);
  Value result = b.select(b.compareI(ult, magnitude, smallestNormal), subnormal, normal);
  Value isInRange = b.compareI(ult, magnitude, b.integer(int32_t(format.overflowBits)));
  result = b.select(isInRange, result, b.integer(int32_t(format.infinityPattern)));
  if (format.nanPattern != format.infinityPattern)
    result = b.select(b.isNan(x), b.integer(int32_t(format.nanPattern)), result);
  Value signBit = b.shru(sign, b.integer(24));
  if (format.isFnuz) {
    Value isZero = b.compareI(arith::CmpIPredicate::eq, result, b.integer(0));
    signBit = b.select(isZero, b.integer(0), signBit);
  }
  result = b.orI(result, signBit);
  return b.bitcast(b.shaped(resultElement), arith::TruncIOp::create(b, b.i8(), result));
}

static Value extendFromFloat8(MathBuilder &b, Value x, const Float8Format &format) {
  if (StringRef name = pairsOf(b, format); !name.empty())
    return arith::ExtFOp::create(b, b.shaped(b.getF32Type()), b.extendPairsOfFloat8(b.bitcast(b.i8(), x), name));
  Value bits = arith::ExtUIOp::create(b, b.i32(), b.bitcast(b.i8(), x));
  Value magnitude = b.andI(bits, b.integer(0x7f));
  Value sign = b.shl(b.andI(bits, b.integer(0x80)), b.integer(24));
  int shift = 23 - format.mantissaBits;
  Value normal = b.addI(b.shl(magnitude, b.integer(shift)), b.integer((127 - format.bias) << 23));

  // A subnormal is its mantissa times the smallest step: a small integer, exact in f32.
  Type floatType = b.shaped(b.getF32Type());
  Value step = b.bitcast(floatType, b.integer((127 - format.bias + 1 - format.mantissaBits) << 23));
  Value subnormal = b.mul(arith::SIToFPOp::create(b, floatType, magnitude), step);
  Value isSubnormal = b.compareI(arith::CmpIPredicate::ult, magnitude, b.integer(1 << format.mantissaBits));
  Value result = b.select(isSubnormal, b.bitcast(b.i32(), subnormal), normal);

  if (format.isFnuz) {
    Value isNan = b.compareI(arith::CmpIPredicate::eq, bits, b.integer(0x80));
    return b.bitcast(floatType, b.select(isNan, b.integer(0x7fc00000), b.orI(result, sign)));
  }
  if (format.infinityPattern == format.nanPattern) {
    Value isNan = b.compareI(arith::CmpIPredicate::eq, magnitude, b.integer(int32_t(format.nanPattern)));
    result = b.select(isNan, b.integer(0x7fc00000), result);
  } else {
    // The largest exponent stays the largest: inf and NaN keep their mantissa.
    Value isSpecial = b.compareI(arith::CmpIPredicate::uge, magnitude, b.integer(int32_t(format.infinityPattern)));
    result = b.select(isSpecial, b.orI(result, b.integer(0x7f800000)), result);
  }
  return b.bitcast(floatType, b.orI(result, sign));
}

Value truncF32ToBF16(ImplicitLocOpBuilder &builder, Value value) {
  MathBuilder b(builder, value);
  return truncToBF16(b, value);
}

Value extendBF16ToF32(ImplicitLocOpBuilder &builder, Value value) {
  MathBuilder b(builder, value);
  return extendFromBF16(b, value);
}

Value expandExtF(MathBuilder &b, arith::ExtFOp op) {
  Type source = getElementTypeOrSelf(op.getIn().getType());
  Value extended;
  if (source.isBF16())
    extended = extendFromBF16(b, op.getIn());
  else if (const Float8Format *format = formatOf(source))
    extended = extendFromFloat8(b, op.getIn(), *format);
  else
    return {};
  if (extended.getType() == op.getType())
    return extended;
  if (getElementTypeOrSelf(op.getType()).getIntOrFloatBitWidth() < 32) // f8 -> f16: every f8 is an f16
    return arith::TruncFOp::create(b, op.getType(), extended);
  return arith::ExtFOp::create(b, op.getType(), extended);
}

Value expandTruncF(MathBuilder &b, arith::TruncFOp op) {
  Type source = getElementTypeOrSelf(op.getIn().getType()), target = getElementTypeOrSelf(op.getType());
  bool isNarrow = target.isBF16() || target.isF16() || formatOf(target);
  if (!isNarrow || (source.isF32() && target.isF16()))
    return {};
  Value input = op.getIn();
  Type floatType = b.shaped(b.getF32Type());
  if (source.isF64())
    input = arith::TruncFOp::create(b, floatType, input);
  else if (source.isBF16())
    input = extendFromBF16(b, input);
  else if (source.isF16())
    input = arith::ExtFOp::create(b, floatType, input);
  if (target.isF16())
    return arith::TruncFOp::create(b, op.getType(), input);
  if (target.isBF16())
    return truncToBF16(b, input);
  return truncToFloat8(b, input, target, *formatOf(target));
}

} // namespace torch_tile::codegen
