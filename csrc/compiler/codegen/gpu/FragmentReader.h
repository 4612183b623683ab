// Reads operands of matrix instructions from shared memory.
#pragma once

#include "compiler/codegen/gpu/ThreadLowering.h"

namespace torch_tile::codegen {

/// Of shared memory that is read and written at once, and of an instruction's share of the depth.
inline constexpr int64_t wordBytes = 16, stepBytes = 32;

/// Reads blocks of an operand: 16 rows of the left operand, or 16 columns of the right one, by 32 bytes of the depth.
///
/// A thread gets registers in the order of the instructions. Of the left operand these are rows t / 4 and t / 4 + 8 of
/// the first half of the depth, then of the second half; of the right one, both halves of columns t / 4, then of
/// columns t / 4 + 8. Elements of 8 bytes have one half.
struct ThreadLowering::FragmentReader {
  /// `outer`: where the warp's share of rows (left) or columns (right) begins, a sum of powers of two that no block
  /// adds. `firstRow`: a row of the memory that is added, a multiple of eight; null for 0.
  FragmentReader(ThreadLowering &lowering, const SharedMatrix &matrix, bool isLeft, mlir::Value outer,
                 mlir::Value firstRow = {});

  /// Registers of this thread. `outer` and `depth` are elements from the warp's share on, as powers of two that the
  /// share's start has not; `row` is added to the rows of the memory, a multiple of eight.
  llvm::SmallVector<mlir::Value> read(int64_t outer, int64_t depth, int64_t row = 0) const;

private:
  /// How it lies decides how it is read. `Rows`: words of 16 bytes lie along the depth (ldmatrix). `Halves`: elements
  /// of 16 bits, transposed (ldmatrix.trans). `Bytes`: so for pairs of elements of 8 bits, which move on to the threads
  /// that need them. `Elements`: one by one.
  enum class Mode { Rows, Halves, Bytes, Elements };

  void placeWords(bool isLeft, mlir::Value outer, mlir::Value firstRow);
  mlir::Value bit(int64_t which, int64_t value) const;
  mlir::Value at(int64_t row, int64_t columnByte) const;
  llvm::SmallVector<mlir::Value> readMatrices(mlir::Value ptr) const;
  llvm::SmallVector<mlir::Value> readBytes(mlir::Value ptr) const;
  llvm::SmallVector<mlir::Value> readElements(int64_t row, int64_t columnByte) const;

  ThreadLowering &lowering;
  const SharedMatrix &matrix;
  bool isLeft, isDepthAlongRow;
  Mode mode;
  int64_t panel;
  mlir::Value rowStart, inPanel; // of this thread: bytes to its row's start, and its place there
};

} // namespace torch_tile::codegen
