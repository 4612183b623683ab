// Which products matrix instructions of a GPU make.
#pragma once

#include "compiler/tile/ir/TileDialect.h"

namespace mlir::tile {

/// The least rows and columns of a warp: the columns of two instructions, which are read together.
inline constexpr int64_t leastFragmentSize = 16;
/// Rows of an instruction of four warps.
inline constexpr int64_t warpGroupRows = 64;

/// Of products of f32: what operands are rounded to for matrix instructions. Absent: "ieee".
inline constexpr llvm::StringLiteral inputPrecisionAttrName = "tile.input_precision";

/// `Ieee`: products of f32. `Tf32`: operands have 11 bits. `Tf32x3`: operands are two terms of 11 bits; the product of
/// the small ones is left out. `Bf16x3`, `Bf16x6`: so with two or three terms of 8 bits.
enum class InputPrecision { Ieee, Tf32, Tf32x3, Bf16x3, Bf16x6 };

/// By the name that the language has for it; nothing for another name.
std::optional<InputPrecision> inputPrecisionNamed(StringRef name);
InputPrecision inputPrecisionOf(DotOp dot);

/// Floats of 8 bits that matrix instructions take, where the GPU has them.
bool isFloat8(Type element);

/// What a GPU has.
struct MatrixFeatures {
  /// Instructions of four warps that read operands from shared memory (wgmma).
  bool hasWarpGroups = false;
  /// Products of floats of 8 bits.
  bool hasFloat8 = false;
};

/// Whether a product is made by matrix instructions on GPU.
bool hasMatrixInstruction(DotOp dot);

/// Whether instructions of four warps can make it, where the GPU has them.
bool hasWarpGroupInstruction(DotOp dot);

} // namespace mlir::tile
