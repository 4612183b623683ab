// Products of blocks by instructions of a warp (mma.sync), whose operands are in registers.
#pragma once

#include "compiler/tile/ir/MatrixInstructions.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace torch_tile::codegen {

/// The instructions of one product. Operands of f32 become sums of terms that instructions take: see InputPrecision.
class WarpProduct {
public:
  WarpProduct(mlir::ImplicitLocOpBuilder &b, mlir::tile::DotOp dot);

  /// How many reads of an operand, 32 bytes of the depth each, one instruction takes.
  int64_t readsPerStep() const { return isBf16() ? 2 : 1; }

  using Registers = llvm::SmallVector<mlir::Value>;
  /// Terms of a block of an operand, the largest first; of several, what stands for it in other products comes last.
  using Terms = llvm::SmallVector<Registers>;
  Terms termsOf(llvm::ArrayRef<Registers> reads, bool isLeft);

  /// Adds the product of 16 rows and of 8 of 16 columns, the first or the second, to four sums of this thread.
  void multiply(const Terms &left, const Terms &right, int64_t eight, llvm::SmallVectorImpl<mlir::Value> &sums);

private:
  bool isBf16() const {
    return precision == mlir::tile::InputPrecision::Bf16x3 || precision == mlir::tile::InputPrecision::Bf16x6;
  }
  mlir::Value roundToTf32(mlir::Value value);
  mlir::Value roundToBf16(mlir::Value value);
  mlir::Value pack(mlir::Value low, mlir::Value high);
  llvm::SmallVector<mlir::Value> split(mlir::Value word);
  void call(llvm::ArrayRef<mlir::Value> left, llvm::ArrayRef<mlir::Value> right,
            llvm::SmallVectorImpl<mlir::Value> &sums);

  mlir::ImplicitLocOpBuilder &b;
  mlir::Type element;
  mlir::tile::InputPrecision precision;
};

} // namespace torch_tile::codegen
