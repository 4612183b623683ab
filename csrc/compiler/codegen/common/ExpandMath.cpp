#include "compiler/codegen/common/ExpandMath.h"
#include "compiler/codegen/common/MathBuilder.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;

namespace torch_tile::codegen {

/// f64 inline where it fills registers of 512 bits, for what is faster so.
static Value inlineF64(MathBuilder &b, Value x, StringRef stem) {
  if (!b.fillsAvx512F64())
    return {};
  return stem == "exp"     ? expF64(b, x)
         : stem == "expm1" ? expm1F64(b, x)
         : stem == "sin"   ? sinF64(b, x)
         : stem == "cos"   ? cosF64(b, x)
         : stem == "erf"   ? erfF64(b, x)
         : stem == "erfc"  ? erfcF64(b, x)
                           : Value();
}

/// Functions of f64 that Sleef computes to one unit in the last place but for the ends: it overflows from 2^511 on,
/// where asinh and acosh are log(2x), and gives 0 for subnormal numbers, which are their own asinh, tan and log1p.
static Value libraryF64(MathBuilder &b, Value x, StringRef stem, StringRef ulpSuffix) {
  if (!b.options().hasLibrary)
    return b.callLibrary(stem, ulpSuffix, x);
  Value size = b.abs(x), result;
  if (stem == "asinh" || stem == "acosh") {
    // Scaled into the range where both are log(2x) and Sleef's do not overflow.
    Value isLarge = b.less(b.fp(0x1p500), size), isHuge = b.less(b.fp(0x1p800), size);
    Value scaled = b.mul(x, b.select(isHuge, b.fp(0x1p-600), b.fp(0x1p-450)));
    Value near = b.callLibrary(stem, ulpSuffix, b.select(isLarge, scaled, x));
    Value rest = b.select(isHuge, b.fp(600 * 0x1.62e42fefa39efp-1), b.fp(450 * 0x1.62e42fefa39efp-1));
    result = b.select(isLarge, b.add(near, b.copySign(rest, x)), near);
  } else {
    result = b.callLibrary(stem, ulpSuffix, x);
  }
  bool isOwn = stem == "asinh" || stem == "tan" || stem == "log1p";
  return isOwn ? b.select(b.less(size, b.fp(0x1p-54)), x, result) : result;
}

/// f32 inline, f64 by the library. (Sleef's f32 sinh, cosh, asinh and acosh overflow long before the result does.)
template <typename Inline>
static Value inlineOrLibrary(MathBuilder &b, Value x, StringRef stem, StringRef ulpSuffix, Inline expand) {
  if (b.elementType().isF32())
    return expand(b, x);
  Value inlined = inlineF64(b, x, stem);
  return inlined ? inlined : libraryF64(b, x, stem, ulpSuffix);
}

static Value clampF(MathBuilder &b, math::ClampFOp op) {
  Value raised = b.select(b.less(op.getValue(), op.getMin()), op.getMin(), op.getValue());
  return b.select(b.less(op.getMax(), raised), op.getMax(), raised);
}

static Value isFinite(MathBuilder &b, Value x) {
  return b.less(b.abs(x), b.fp(std::numeric_limits<double>::infinity()));
}

static Value isNormal(MathBuilder &b, Value x) {
  double smallest =
      b.elementType().isF32() ? double(std::numeric_limits<float>::min()) : std::numeric_limits<double>::min();
  return b.andI(isFinite(b, x), b.compare(arith::CmpFPredicate::OGE, b.abs(x), b.fp(smallest)));
}

/// What all lanes of a vector are; null if it is not known.
static Value splatSource(Value vector) {
  if (auto broadcast = vector.getDefiningOp<vector::BroadcastOp>())
    return isa<VectorType>(broadcast.getSource().getType()) ? Value() : broadcast.getSource();
  auto shuffle = vector.getDefiningOp<LLVM::ShuffleVectorOp>();
  if (!shuffle || !llvm::all_of(shuffle.getMask(), [](int32_t lane) { return lane == 0; }))
    return {};
  auto inserted = shuffle.getV1().getDefiningOp<LLVM::InsertElementOp>();
  return inserted && matchPattern(inserted.getPosition(), m_Zero()) ? inserted.getValue() : Value();
}

/// 1 / divisor, if that is a constant and neither is subnormal.
static std::optional<double> constantReciprocal(Value divisor) {
  Value scalar = isa<VectorType>(divisor.getType()) ? splatSource(divisor) : Value();
  APFloat value(0.0f);
  if (!matchPattern(divisor, m_ConstantFloat(&value)) && !(scalar && matchPattern(scalar, m_ConstantFloat(&value))))
    return std::nullopt;
  APFloat reciprocal(1.0f);
  reciprocal.divide(value, APFloat::rmNearestTiesToEven);
  if (!value.isNormal() || !reciprocal.isNormal())
    return std::nullopt;
  return reciprocal.convertToFloat();
}

/// On GPU, f32. By a factor that all lanes share: one division for all of them.
static Value divideApproximately(MathBuilder &b, arith::DivFOp op) {
  if (!b.elementType().isF32())
    return {};
  if (std::optional<double> reciprocal = constantReciprocal(op.getRhs()))
    return b.mul(op.getLhs(), b.fp(*reciprocal));
  if (!op->hasAttr(approximateAttrName))
    return b.divApproximate(op.getLhs(), op.getRhs());
  if (Value scalar = splatSource(op.getRhs())) {
    Value one = arith::ConstantOp::create(b, b.getF32FloatAttr(1.0f));
    Value reciprocal = arith::DivFOp::create(b, one, scalar);
    return b.mul(op.getLhs(), vector::BroadcastOp::create(b, op.getType(), reciprocal));
  }
  Value reciprocal = b.instruction("rcp.approx.ftz.f32 $0, $1;", op.getRhs());
  return matchPattern(op.getLhs(), m_OneFloat()) ? reciprocal : b.mul(op.getLhs(), reciprocal);
}

/// The value of one float op on `x` (its operands in computation type); null when the op stays.
static Value expandFloatOp(MathBuilder &b, Operation *op, ValueRange x) {
  auto library = [&](StringRef stem, StringRef ulpSuffix = "u10") { return b.callLibrary(stem, ulpSuffix, x); };
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::ExpOp exp) {
        bool mayApproximate = exp->hasAttr(approximateAttrName) && !b.options().hasLibrary && b.elementType().isF32();
        return mayApproximate ? expApproximate(b, x[0]) : inlineOrLibrary(b, x[0], "exp", "u10", expF32);
      })
      .Case([&](arith::DivFOp division) { return divideApproximately(b, division); })
      .Case([&](math::TanhOp) { return inlineOrLibrary(b, x[0], "tanh", "u10", tanhF32); })
      .Case([&](math::ErfOp) { return inlineOrLibrary(b, x[0], "erf", "u10", erfF32); })
      .Case([&](math::LogOp) { return inlineOrLibrary(b, x[0], "log", "u10", logF32); })
      .Case([&](math::RsqrtOp) { return b.div(b.fp(1.0), math::SqrtOp::create(b, x[0])); })
      .Case([&](math::Exp2Op exp) {
        bool mayApproximate = exp->hasAttr(approximateAttrName) && !b.options().hasLibrary && b.elementType().isF32();
        return mayApproximate ? b.instruction("ex2.approx.ftz.f32 $0, $1;", x[0])
                              : inlineOrLibrary(b, x[0], "exp2", "u10", exp2F32);
      })
      .Case([&](math::ExpM1Op) { return inlineOrLibrary(b, x[0], "expm1", "u10", expm1F32); })
      .Case([&](math::Log1pOp) { return inlineOrLibrary(b, x[0], "log1p", "u10", log1pF32); })
      .Case([&](math::Log2Op) { return inlineOrLibrary(b, x[0], "log2", "u10", log2F32); })
      .Case([&](math::Log10Op) { return inlineOrLibrary(b, x[0], "log10", "u10", log10F32); })
      .Case([&](math::SinOp) { return inlineOrLibrary(b, x[0], "sin", "u10", sinF32); })
      .Case([&](math::CosOp) { return inlineOrLibrary(b, x[0], "cos", "u10", cosF32); })
      .Case([&](math::PowFOp) {
        bool isInline = !b.options().hasLibrary && b.elementType().isF32();
        return isInline ? powF32(b, x[0], x[1]) : library("pow");
      })
      .Case([&](math::ErfcOp) { return inlineOrLibrary(b, x[0], "erfc", "u15", erfcF32); })
      .Case([&](math::TanOp) { return inlineOrLibrary(b, x[0], "tan", "u10", tanF32); })
      .Case([&](math::AsinOp) { return library("asin"); })
      .Case([&](math::AcosOp) { return library("acos"); })
      .Case([&](math::AtanOp) { return inlineOrLibrary(b, x[0], "atan", "u10", atanF32); })
      .Case([&](math::Atan2Op) { return library("atan2"); })
      .Case([&](math::SinhOp) { return inlineOrLibrary(b, x[0], "sinh", "u10", sinhF32); })
      .Case([&](math::CoshOp) { return inlineOrLibrary(b, x[0], "cosh", "u10", coshF32); })
      .Case([&](math::AsinhOp) { return inlineOrLibrary(b, x[0], "asinh", "u10", asinhF32); })
      .Case([&](math::AcoshOp) { return inlineOrLibrary(b, x[0], "acosh", "u10", acoshF32); })
      .Case([&](math::AtanhOp) { return library("atanh"); })
      .Case([&](math::CbrtOp) { return library("cbrt"); })
      .Case([&](math::FPowIOp power) { return fpowi(b, x[0], power.getRhs()); })
      .Case([&](arith::RemFOp) { return remainderF(b, x[0], x[1]); })
      .Default(Value());
}

/// Whether a GPU has an instruction for a conversion, and code generation finds it.
static bool isInstruction(MathBuilder &b, Operation *cast) {
  auto isHalf = [](Type type) { return getElementTypeOrSelf(type).isF16() || getElementTypeOrSelf(type).isBF16(); };
  auto isFloat = [](Type type) { return getElementTypeOrSelf(type).isF32(); };
  Type from = cast->getOperand(0).getType(), to = cast->getResult(0).getType();
  return !b.options().hasLibrary && ((isHalf(from) && isFloat(to)) || (isFloat(from) && isHalf(to)));
}

/// Ops whose result is not a float of the operand's type, or that need no widening.
static Value expandOtherOp(MathBuilder &b, Operation *op) {
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](arith::ExtFOp cast) { return isInstruction(b, cast) ? Value() : expandExtF(b, cast); })
      .Case([&](arith::TruncFOp cast) {
        if (!isInstruction(b, cast))
          return expandTruncF(b, cast);
        bool isPairs = b.isVector() && b.numLanes() % 2 == 0;
        return isPairs ? b.truncPairsToHalf(cast.getIn(), getElementTypeOrSelf(cast.getType())) : Value();
      })
      .Case([&](math::IPowIOp power) { return ipowi(b, power.getLhs(), power.getRhs()); })
      .Case([&](math::ClampFOp clamp) { return clampF(b, clamp); })
      .Case([&](math::IsNaNOp test) { return b.isNan(test.getOperand()); })
      .Case([&](math::IsInfOp test) {
        return b.equal(b.abs(test.getOperand()), b.fp(std::numeric_limits<double>::infinity()));
      })
      .Case([&](math::IsFiniteOp test) { return isFinite(b, test.getOperand()); })
      .Case([&](math::IsNormalOp test) { return isNormal(b, test.getOperand()); })
      .Default(Value());
}

static bool isScalarOr1D(Type type) {
  auto shaped = dyn_cast<ShapedType>(type);
  if (!shaped)
    return true;
  auto vector = dyn_cast<VectorType>(type);
  return vector && vector.getRank() == 1 && !vector.isScalable();
}

static Value widenToF32(MathBuilder &b, Value value) {
  Type wide = b.shaped(b.getF32Type());
  auto extension = arith::ExtFOp::create(b, wide, value);
  Value expanded = expandExtF(b, extension);
  if (!expanded)
    return extension;
  extension.erase();
  return expanded;
}

/// To whole numbers, of what is converted from float16. LLVM would have the instruction for float32 in float16, element
/// by element on processors without instructions of that type. Such numbers are below 2^22, so that adding 1.5 * 2^23
/// leaves no bit of a fraction.
static Value roundedHalf(MathBuilder &b, Operation *op, Value x) {
  Value shift = b.fp(12582912.0), one = b.fp(1), zero = b.fp(0);
  Value magnitude = isa<math::TruncOp>(op) ? b.abs(x) : x;
  Value nearest = b.sub(b.add(magnitude, shift), shift), result = nearest;
  if (isa<math::CeilOp>(op))
    result = b.add(nearest, b.select(b.less(nearest, magnitude), one, zero));
  else if (!isa<math::RoundEvenOp>(op))
    result = b.sub(nearest, b.select(b.less(magnitude, nearest), one, zero));
  return b.copySign(result, x);
}

static bool isFromHalf(Value x) {
  auto extension = x.getDefiningOp<arith::ExtFOp>();
  return extension && getElementTypeOrSelf(extension.getIn()).isF16();
}

static void expandOp(MathBuilder &b, Operation *op) {
  b.enterScope(op);
  Type element = b.elementType();
  Value result;
  bool isRounding = isa<math::FloorOp, math::CeilOp, math::TruncOp, math::RoundEvenOp>(op);
  if (isRounding && element.isF32() && isFromHalf(op->getOperand(0))) {
    result = roundedHalf(b, op, op->getOperand(0));
  } else if (element.isF32() || element.isF64()) {
    if (auto sincos = dyn_cast<math::SincosOp>(op)) {
      Value x = sincos.getOperand();
      Value sine = inlineOrLibrary(b, x, "sin", "u10", sinF32);
      Value cosine = inlineOrLibrary(b, x, "cos", "u10", cosF32);
      op->replaceAllUsesWith(ValueRange{sine, cosine});
      op->erase();
      return;
    }
    result = expandFloatOp(b, op, op->getOperands());
  } else if ((element.isF16() || element.isBF16()) &&
             (isa<math::MathDialect>(op->getDialect()) || isa<arith::RemFOp>(op))) {
    // Half types compute in f32 and round once.
    SmallVector<Value> wide(op->getOperands());
    for (Value &operand : wide)
      if (getElementTypeOrSelf(operand.getType()) == element)
        operand = widenToF32(b, operand);
    b.setShape(wide[0].getType());
    if (Value value = isRounding && element.isF16() ? roundedHalf(b, op, wide[0]) : expandFloatOp(b, op, wide)) {
      auto rounding = arith::TruncFOp::create(b, op->getResult(0).getType(), value);
      Value expanded = expandTruncF(b, rounding);
      result = expanded ? expanded : rounding.getResult();
      if (expanded)
        rounding.erase();
    }
    b.setShape(op->getOperand(0).getType());
  }
  if (!result)
    result = expandOtherOp(b, op);
  if (!result)
    return;
  op->getResult(0).replaceAllUsesWith(result);
  op->erase();
}

void expandMath(Operation *root, const ExpandMathOptions &options) {
  MLIRContext *context = root->getContext();
  Dialect *math = context->getLoadedDialect<math::MathDialect>();
  SmallVector<Operation *> worklist;
  root->walk([&](Operation *op) {
    bool isCandidate =
        (math && op->getDialect() == math) || isa<arith::ExtFOp, arith::TruncFOp>(op) ||
        (isa<arith::RemFOp>(op) && (!options.hasLibrary || isa<VectorType>(op->getResult(0).getType()))) ||
        (!options.hasLibrary && isa<arith::DivFOp>(op) &&
         (op->hasAttr(approximateAttrName) || op->hasAttr(fullRangeAttrName)));
    if (isCandidate && llvm::all_of(op->getOperandTypes(), isScalarOr1D))
      worklist.push_back(op);
  });
  if (worklist.empty())
    return;
  MathBuilder builder(root, options);
  for (Operation *op : worklist)
    expandOp(builder, op);
}

SmallVector<std::string> collectExternalSymbols(Operation *root) {
  SmallVector<std::string> names;
  root->walk([&](LLVM::LLVMFuncOp function) {
    if (function.isExternal())
      names.push_back(function.getSymName().str());
  });
  llvm::sort(names);
  names.erase(llvm::unique(names), names.end());
  return names;
}

} // namespace torch_tile::codegen
