#pragma once

#include "compiler/codegen/common/ExpandMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSet.h"

#include <initializer_list>

namespace torch_tile::codegen {

/// Builds arithmetic on values of one shape (a scalar or a 1-D vector) in few words.
///
/// Constants are shared within the outermost block they may live in when `enterScope` was called, else created in
/// place.
class MathBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;

  MathBuilder(const mlir::ImplicitLocOpBuilder &builder, Value like);
  MathBuilder(mlir::Operation *op, const ExpandMathOptions &options);

  /// Moves before `op`, takes its location and the shape of its first operand, and shares constants in `op`'s function.
  void enterScope(mlir::Operation *op);
  /// Takes lane count and element type from `type`.
  void setShape(Type type);

  int64_t numLanes() const { return lanes; }
  bool isVector() const { return lanes >= 0; }
  Type elementType() const { return element; }
  Type floatType() const { return shaped(element); }
  Type shaped(Type elementType) const;
  Type i32() { return shaped(getI32Type()); }
  Type i16() { return shaped(getI16Type()); }
  Type i8() { return shaped(getI8Type()); }

  /// A float constant of the current element type (f32 or f64), an i32 constant, an integer constant of any type.
  Value fp(double value);
  Value integer(int32_t value) { return bits(getI32Type(), uint32_t(value)); }
  Value bits(Type elementType, uint64_t value);

  Value add(Value a, Value b) { return mlir::arith::AddFOp::create(*this, a, b); }
  Value sub(Value a, Value b) { return mlir::arith::SubFOp::create(*this, a, b); }
  Value mul(Value a, Value b) { return mlir::arith::MulFOp::create(*this, a, b); }
  Value div(Value a, Value b) { return mlir::arith::DivFOp::create(*this, a, b); }
  Value fma(Value a, Value b, Value c) { return mlir::math::FmaOp::create(*this, a, b, c); }
  Value neg(Value a) { return mlir::arith::NegFOp::create(*this, a); }
  Value abs(Value a) { return mlir::math::AbsFOp::create(*this, a); }
  Value copySign(Value magnitude, Value sign) { return mlir::math::CopySignOp::create(*this, magnitude, sign); }
  Value select(Value c, Value a, Value b) { return mlir::arith::SelectOp::create(*this, c, a, b); }
  Value addI(Value a, Value b) { return mlir::arith::AddIOp::create(*this, a, b); }
  Value subI(Value a, Value b) { return mlir::arith::SubIOp::create(*this, a, b); }
  Value mulI(Value a, Value b) { return mlir::arith::MulIOp::create(*this, a, b); }
  Value andI(Value a, Value b) { return mlir::arith::AndIOp::create(*this, a, b); }
  Value orI(Value a, Value b) { return mlir::arith::OrIOp::create(*this, a, b); }
  Value xorI(Value a, Value b) { return mlir::arith::XOrIOp::create(*this, a, b); }
  Value shl(Value a, Value b) { return mlir::arith::ShLIOp::create(*this, a, b); }
  Value shrs(Value a, Value b) { return mlir::arith::ShRSIOp::create(*this, a, b); }
  Value shru(Value a, Value b) { return mlir::arith::ShRUIOp::create(*this, a, b); }
  Value bitcast(Type type, Value a) { return mlir::arith::BitcastOp::create(*this, type, a); }
  Value sitofp(Value a) { return mlir::arith::SIToFPOp::create(*this, floatType(), a); }

  Value less(Value a, Value b) { return compare(mlir::arith::CmpFPredicate::OLT, a, b); }
  Value equal(Value a, Value b) { return compare(mlir::arith::CmpFPredicate::OEQ, a, b); }
  Value isNan(Value a) { return compare(mlir::arith::CmpFPredicate::UNO, a, a); }
  Value compare(mlir::arith::CmpFPredicate predicate, Value a, Value b) {
    return mlir::arith::CmpFOp::create(*this, predicate, a, b);
  }
  Value compareI(mlir::arith::CmpIPredicate predicate, Value a, Value b) {
    return mlir::arith::CmpIOp::create(*this, predicate, a, b);
  }

  /// min and max with a constant that let NaN through; they select minps/maxps with the operands in that order.
  Value clampAbove(Value x, double limit);
  Value clampBelow(Value x, double limit);

  /// Horner's rule with fma, coefficients from the highest degree down.
  Value polynomial(Value x, std::initializer_list<double> coefficients);

  /// An instruction of a GPU that has an error of two units or so in the last place, lane by lane:
  /// "ex2.approx.f32 $0, $1;".
  Value instruction(llvm::StringRef text, mlir::ValueRange operands);
  /// A quotient inside an approximation: on GPU by its faster instruction.
  Value divApproximate(Value a, Value b) {
    bool isExact = expandOptions.hasLibrary || !element.isF32();
    return isExact ? div(a, b) : instruction("div.full.f32 $0, $1, $2;", mlir::ValueRange{a, b});
  }

  /// f32 -> bf16 or f16 on GPU, by the instruction that converts two: one alone takes four times as long.
  Value truncPairsToHalf(Value x, Type half);
  /// f32 -> "e4m3" or "e5m2" as i8, by the instruction that converts two. What is too large is the largest; NaN is
  /// 0x7f.
  Value truncPairsToFloat8(Value x, llvm::StringRef format);
  /// "e4m3" as i8 -> f16, likewise.
  Value extendPairsOfFloat8(Value x, llvm::StringRef format);

  /// Whether the values fill registers of 512 bits for which there are the instructions below.
  bool fillsAvx512() const { return expandOptions.hasAvx512 && element.isF32() && isVector() && lanes % 16 == 0; }
  bool fillsAvx512F64() const { return expandOptions.hasAvx512 && element.isF64() && isVector() && lanes % 8 == 0; }
  /// x * 2^n for an integral n, rounded once; for `fillsAvx512` and `fillsAvx512F64`. Lanes that are not in `kept` (all
  /// are, without it) are 0, and their operands cost nothing: where the result underflows, Intel's processors take the
  /// instruction apart into microcode, 60 ns a register.
  Value scaleByPower(Value x, Value n, Value kept = {});
  /// f32 -> bf16, for `fillsAvx512`; exact where no lane is subnormal or NaN. And whether some lane is.
  Value truncToBF16ByInstruction(Value x);
  Value hasSubnormalOrNan(Value x);

  /// Calls `stem` (say "sin") of Sleef, `ulpSuffix` "u10", on chunks of a register, or of libm lane by lane.
  Value callLibrary(llvm::StringRef stem, llvm::StringRef ulpSuffix, mlir::ValueRange operands);

  /// A function of one f32 in a function of its own, called lane by lane: what is rare and long keeps its registers to
  /// itself.
  Value callOutlined(llvm::StringRef stem, Value operand);
  /// Likewise by registers, for targets with vector functions: `build` makes the body, once for each name in a module.
  Value callOutlinedByRegister(llvm::StringRef stem, Value operand,
                               llvm::function_ref<Value(MathBuilder &, Value)> build);

  const ExpandMathOptions &options() const { return expandOptions; }

private:
  Value constant(Type type, uint64_t bitPattern, mlir::Attribute elementValue);
  /// Applies a function of registers to vectors of any width.
  Value byRegister(int64_t width, mlir::ValueRange operands, llvm::function_ref<Value(mlir::ValueRange)> apply);
  Value callSleef(llvm::StringRef name, int64_t width, mlir::ValueRange operands);
  Value callPerLane(llvm::StringRef name, mlir::ValueRange operands);
  Value callDeclared(llvm::StringRef name, Type type, mlir::ValueRange operands);

  ExpandMathOptions expandOptions;
  int64_t lanes = -1;
  Type element;
  mlir::Block *scope = nullptr;
  mlir::Operation *symbolTable = nullptr;
  llvm::DenseMap<std::pair<Type, uint64_t>, Value> constants;
  llvm::StringSet<> declared;
};

/// Inline forms, f32 only.
/// @{
mlir::Value expF32(MathBuilder &b, mlir::Value x);
/// On GPU: relative error |x| * 2^-24 and two units in the last place; subnormal results are 0.
mlir::Value expApproximate(MathBuilder &b, mlir::Value x);
mlir::Value exp2F32(MathBuilder &b, mlir::Value x);
mlir::Value expm1F32(MathBuilder &b, mlir::Value x);
mlir::Value tanhF32(MathBuilder &b, mlir::Value x);
mlir::Value sinhF32(MathBuilder &b, mlir::Value x);
mlir::Value coshF32(MathBuilder &b, mlir::Value x);
mlir::Value erfF32(MathBuilder &b, mlir::Value x);
mlir::Value erfcF32(MathBuilder &b, mlir::Value x);
mlir::Value atanF32(MathBuilder &b, mlir::Value x);
mlir::Value logF32(MathBuilder &b, mlir::Value x);
mlir::Value log2F32(MathBuilder &b, mlir::Value x);
mlir::Value log10F32(MathBuilder &b, mlir::Value x);
mlir::Value log1pF32(MathBuilder &b, mlir::Value x);
mlir::Value asinhF32(MathBuilder &b, mlir::Value x);
mlir::Value acoshF32(MathBuilder &b, mlir::Value x);
/// @}

/// A positive finite number is 2^exponent * (1 + fraction), the fraction in [-1/4, 1/2).
struct SplitF32 {
  mlir::Value fraction, exponent; // both f32
};
SplitF32 splitF32(MathBuilder &b, mlir::Value x);
/// 2^x * (1 + factorLow) for x from -200 to 150 or NaN.
mlir::Value exp2InTwo(MathBuilder &b, mlir::Value x, mlir::Value factorLow);
/// 1.25 units in the last place.
mlir::Value powF32(MathBuilder &b, mlir::Value x, mlir::Value y);

/// f64 on AVX-512, below one unit in the last place, in half the time that Sleef takes: for `fillsAvx512F64`. Arguments
/// of sine and cosine that are not moderate are the library's.
/// @{
mlir::Value expF64(MathBuilder &b, mlir::Value x);
mlir::Value expm1F64(MathBuilder &b, mlir::Value x);
mlir::Value sinF64(MathBuilder &b, mlir::Value x);
mlir::Value cosF64(MathBuilder &b, mlir::Value x);
mlir::Value erfF64(MathBuilder &b, mlir::Value x);
mlir::Value erfcF64(MathBuilder &b, mlir::Value x);
/// @}

/// f32: inline for moderate arguments, else the library's.
/// @{
mlir::Value sinF32(MathBuilder &b, mlir::Value x);
mlir::Value cosF32(MathBuilder &b, mlir::Value x);
mlir::Value tanF32(MathBuilder &b, mlir::Value x);
/// @}

/// A function of libm, by its name for f64, computed inline in f64; null if there is no form.
mlir::Value callWide(MathBuilder &b, llvm::StringRef stem, mlir::ValueRange operands);
/// The remainder of a division towards zero, f32 or f64, exactly.
mlir::Value remainderF(MathBuilder &b, mlir::Value x, mlir::Value y);

/// Integer base to an integer power: wraps; a negative exponent gives 0 but for bases 1 and -1, as torch's integer pow.
mlir::Value ipowi(MathBuilder &b, mlir::Value base, mlir::Value exponent);
/// Float base (f32 or f64) to an integer power.
mlir::Value fpowi(MathBuilder &b, mlir::Value base, mlir::Value exponent);

/// arith.extf and arith.truncf between f32/f64 and bf16, f16 or the f8 types; null when the op needs no expansion.
mlir::Value expandExtF(MathBuilder &b, mlir::arith::ExtFOp op);
mlir::Value expandTruncF(MathBuilder &b, mlir::arith::TruncFOp op);

} // namespace torch_tile::codegen
