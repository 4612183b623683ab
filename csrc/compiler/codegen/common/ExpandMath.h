#pragma once

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

#include <string>

namespace torch_tile::codegen {

/// What the host offers for functions that have no inline form.
struct ExpandMathOptions {
  /// The Sleef functions of libtorch_cpu (Sleef_sinf16_u10, ...) may be called. Without them scalar libm functions are
  /// called lane by lane.
  bool hasSleef = true;
  /// Nothing may be called at all: what has no other inline form is computed in f64.
  bool hasLibrary = true;
  /// Register width of the Sleef variants to call: 512 (f16/d8), 256 (f8/d4) or 128 (f4/d2, AArch64 only).
  int vectorBits = 512;
  /// Instructions of x86: vscalefps on 512 bits; vcvtneps2bf16.
  bool hasAvx512 = false, hasBf16Conversion = false;
  /// Instructions of a GPU that convert pairs of f8E4M3FN and f8E5M2.
  bool hasFloat8Conversion = false;
  /// sin, cos and tan of f32 get an inline path, taken when every lane is of moderate size, in an scf.if. Off: always
  /// a call.
  bool hasInlineTrig = true;
};

/// On math.exp and arith.divf: an instruction's approximation will do. A target without one ignores it.
inline constexpr llvm::StringLiteral approximateAttrName = "tile.approximate";
/// On arith.divf: a GPU's division with an error of two units in the last place will do, for all operands.
inline constexpr llvm::StringLiteral fullRangeAttrName = "tile.full_range";

/// Replaces math ops and low-precision conversions by arith, math.fma, vector and calls, for CPU.
///
/// Before / after: math.exp %x : vector<16xf32>  ->  range reduction, polynomial in math.fma, scaling by integer ops;
///                 math.asin %x : vector<32xf32> ->  two calls of Sleef_asinf16_u10, declared in the nearest symbol
///                 table.
/// Needs:    values are scalars or 1-D vectors; other ranks are left alone. scf is not lowered yet (sin, cos, tan and
///           ipowi create scf ops).
/// Keeps:    ops the hardware has (fma, sqrt, floor, ceil, trunc, roundeven, round, absf, copysign, integer counts).
/// Numerics: f32 exp, exp2, log within 1 ulp; expm1, tanh, log1p, log2, log10 within 1.5; sin, cos, sinh, cosh within
///           2; erf within 2.1; asinh, acosh within 3; atan and tan within 1.3, erfc within 1.7; f64 erf within 1.3;
///           the rest, and f64, is Sleef's 1 ulp (erfc 1.5). Subnormal inputs and results, infinities and signed zeros
///           as in C; NaN gives NaN. No fast-math flags, no contraction. The result of a lane does not depend on the
///           vector width. truncf to bf16 and f8 is that of torch: round to nearest even, exact on subnormals; f64
///           rounds to f32 first.
/// Why here: after tiles have become vectors (the widths are known), before scf and arith become LLVM.
void expandMath(mlir::Operation *root, const ExpandMathOptions &options = {});

/// Names of the functions that `root` declares without a body, sorted: what a loader must resolve.
llvm::SmallVector<std::string> collectExternalSymbols(mlir::Operation *root);

/// Building blocks for code that creates vectors itself. Scalars and 1-D vectors.
/// @{
/// f32 -> bf16, round to nearest even; NaN becomes the quiet NaN 0x7fc0. (vcvtneps2bf16 alone would flush subnormals.)
mlir::Value truncF32ToBF16(mlir::ImplicitLocOpBuilder &builder, mlir::Value value);
mlir::Value extendBF16ToF32(mlir::ImplicitLocOpBuilder &builder, mlir::Value value);
/// e^x, tanh(x) and 1 / (1 + e^-x) of f32.
mlir::Value expandExpF32(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value expandTanhF32(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
mlir::Value expandSigmoidF32(mlir::ImplicitLocOpBuilder &builder, mlir::Value x);
/// @}

} // namespace torch_tile::codegen
