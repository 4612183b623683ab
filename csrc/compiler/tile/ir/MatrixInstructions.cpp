#include "compiler/tile/ir/MatrixInstructions.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tile;

/// Of the K axis, what one matrix instruction takes of each operand.
static constexpr int64_t instructionBytes = 32;

bool tile::hasMatrixInstruction(DotOp dot) {
  auto lhs = cast<RankedTensorType>(dot.getLhs().getType()), rhs = cast<RankedTensorType>(dot.getRhs().getType()),
       acc = cast<RankedTensorType>(dot.getType());
  Type element = lhs.getElementType();
  if (acc.getRank() != 2 || element != rhs.getElementType())
    return false;
  bool isSum = acc.getElementType().isF32() ? element.isF16() || element.isBF16()
                                            : acc.getElementType().isInteger(32) && element.isInteger(8);
  int64_t step = instructionBytes * 8 / element.getIntOrFloatBitWidth();
  auto fits = [](int64_t size, int64_t least) { return size >= least && llvm::isPowerOf2_64(size); };
  // Only elements of 16 bits are transposed when they are read.
  bool canRead = element.getIntOrFloatBitWidth() == 16 ||
                 (!dot.getLhs().getDefiningOp<TransOp>() && dot.getRhs().getDefiningOp<TransOp>());
  return isSum && canRead && fits(acc.getDimSize(0), leastFragmentSize) && fits(acc.getDimSize(1), leastFragmentSize) &&
         fits(lhs.getDimSize(1), step);
}

bool tile::hasWarpGroupInstruction(DotOp dot) {
  // Elements of 8 bits are read along the depth alone, which is how hasMatrixInstruction takes them.
  return hasMatrixInstruction(dot) && cast<RankedTensorType>(dot.getType()).getDimSize(0) >= warpGroupRows;
}
