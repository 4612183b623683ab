#include "compiler/tile/ir/MatrixInstructions.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tile;

/// Of the K axis, what one matrix instruction takes of each operand.
static constexpr int64_t instructionBytes = 32;

std::optional<InputPrecision> tile::inputPrecisionNamed(StringRef name) {
  return llvm::StringSwitch<std::optional<InputPrecision>>(name)
      .Case("ieee", InputPrecision::Ieee)
      .Case("tf32", InputPrecision::Tf32)
      .Case("tf32x3", InputPrecision::Tf32x3)
      .Case("bf16x3", InputPrecision::Bf16x3)
      .Case("bf16x6", InputPrecision::Bf16x6)
      .Default(std::nullopt);
}

InputPrecision tile::inputPrecisionOf(DotOp dot) {
  auto name = dot->getAttrOfType<StringAttr>(inputPrecisionAttrName);
  return name ? inputPrecisionNamed(name.getValue()).value_or(InputPrecision::Ieee) : InputPrecision::Ieee;
}

/// Whether the types of operands and sums are those of an instruction.
static bool hasInstructionTypes(Type element, Type sum, InputPrecision precision) {
  if (element.isF32())
    return sum.isF32() && precision != InputPrecision::Ieee;
  if (element.isF16() || element.isBF16())
    return sum.isF32();
  return element.isInteger(8) && sum.isInteger(32);
}

bool tile::hasMatrixInstruction(DotOp dot) {
  auto lhs = cast<RankedTensorType>(dot.getLhs().getType()), rhs = cast<RankedTensorType>(dot.getRhs().getType()),
       acc = cast<RankedTensorType>(dot.getType());
  Type element = lhs.getElementType();
  InputPrecision precision = inputPrecisionOf(dot);
  if (acc.getRank() != 2 || element != rhs.getElementType() ||
      !hasInstructionTypes(element, acc.getElementType(), precision))
    return false;
  int64_t step = instructionBytes * 8 / element.getIntOrFloatBitWidth();
  if (element.isF32() && (precision == InputPrecision::Bf16x3 || precision == InputPrecision::Bf16x6))
    step *= 2; // terms of 16 bits
  auto fits = [](int64_t size, int64_t least) { return size >= least && llvm::isPowerOf2_64(size); };
  return fits(acc.getDimSize(0), leastFragmentSize) && fits(acc.getDimSize(1), leastFragmentSize) &&
         fits(lhs.getDimSize(1), step);
}

bool tile::hasWarpGroupInstruction(DotOp dot) {
  auto lhs = cast<RankedTensorType>(dot.getLhs().getType());
  int64_t bits = lhs.getElementTypeBitWidth();
  // Only elements of 16 bits are transposed when they are read. Other floats are rounded before, in registers.
  bool canRead =
      bits == 16 || (bits == 8 && !dot.getLhs().getDefiningOp<TransOp>() && dot.getRhs().getDefiningOp<TransOp>());
  return canRead && hasMatrixInstruction(dot) && cast<RankedTensorType>(dot.getType()).getDimSize(0) >= warpGroupRows;
}
