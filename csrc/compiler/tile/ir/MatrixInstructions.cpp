#include "compiler/tile/ir/MatrixInstructions.h"
#include "compiler/tile/ir/MatrixOperands.h"

#include "llvm/ADT/Sequence.h"
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

bool tile::isFloat8(Type element) { return isa<Float8E4M3FNType, Float8E5M2Type>(element); }

/// Whether the types of operands and sums are those of an instruction.
static bool hasInstructionTypes(Type element, Type sum, InputPrecision precision) {
  if (element.isF32())
    return sum.isF32() && precision != InputPrecision::Ieee;
  if (element.isF64())
    return sum.isF64();
  if (element.isF16() || element.isBF16() || isFloat8(element))
    return sum.isF32();
  return element.isInteger(8) && sum.isInteger(32);
}

bool tile::hasMatrixInstruction(DotOp dot) {
  auto lhs = cast<RankedTensorType>(dot.getLhs().getType()), rhs = cast<RankedTensorType>(dot.getRhs().getType()),
       acc = cast<RankedTensorType>(dot.getType());
  Type element = lhs.getElementType();
  InputPrecision precision = inputPrecisionOf(dot);
  if (element != rhs.getElementType() || !hasInstructionTypes(element, acc.getElementType(), precision))
    return false;
  int64_t step = instructionBytes * 8 / element.getIntOrFloatBitWidth();
  if (element.isF32() && (precision == InputPrecision::Bf16x3 || precision == InputPrecision::Bf16x6))
    step *= 2; // terms of 16 bits
  auto fits = [](int64_t size, int64_t least) { return size >= least && llvm::isPowerOf2_64(size); };
  ArrayRef<int64_t> shape = acc.getShape();
  // Of several matrices each begins at a row whose words are permuted as those of the first one.
  if (shape.size() == 3)
    step = std::max<int64_t>(step, 8);
  return fits(shape.end()[-2], leastFragmentSize) && fits(shape.back(), leastFragmentSize) &&
         fits(lhs.getShape().back(), step) && (shape.size() == 2 || fits(shape[0], 1));
}

Value tile::storedOperand(Value operand) {
  auto trans = operand.getDefiningOp<TransOp>();
  if (!trans)
    return operand;
  SmallVector<int64_t> matrices(trans.getPerm());
  std::swap(matrices.end()[-1], matrices.end()[-2]);
  return llvm::equal(matrices, llvm::seq<int64_t>(matrices.size())) ? trans.getSource() : operand;
}

bool tile::hasWarpGroupInstruction(DotOp dot) {
  auto lhs = cast<RankedTensorType>(dot.getLhs().getType());
  int64_t bits = lhs.getElementTypeBitWidth();
  // Only elements of 16 bits are transposed when they are read. Other floats are rounded before, in registers.
  bool canRead =
      bits == 16 || (bits == 8 && !dot.getLhs().getDefiningOp<TransOp>() && dot.getRhs().getDefiningOp<TransOp>());
  return lhs.getRank() == 2 && canRead && hasMatrixInstruction(dot) &&
         cast<RankedTensorType>(dot.getType()).getDimSize(0) >= warpGroupRows;
}
