// What LowerThreadsMemory.cpp and LowerThreadsAcross.cpp share.
#pragma once

#include "compiler/codegen/gpu/ThreadLowering.h"

namespace torch_tile::codegen {

/// A structured access with its operands lowered.
struct ThreadLowering::Access {
  mlir::RankedTensorType type; // null for a scalar
  mlir::Type storage;
  mlir::Value base; // already moved by the offset
  llvm::SmallVector<std::optional<int64_t>> staticStrides;
  llvm::SmallVector<mlir::Value> strides;
  llvm::SmallVector<mlir::Value> valid; // null where every index is valid
  /// The lanes of a piece lie side by side in memory.
  bool isContiguous = false;
  /// Whether pieces are aligned as a whole; the same for all threads. Null if they are, or if lanes are single.
  mlir::Value isAligned;
  /// Bytes from the last aligned address on (i64), if that has to be asked.
  mlir::Value misalignment;
  /// Elements are accessed one by one, though they lie side by side.
  bool isNeverWhole = false;
  /// All lanes of a piece are the same element.
  bool isRepeated = false;
  /// A piece lies inside of what is valid as a whole, or not at all.
  bool hasWholePieces = true;
  /// So many elements of the only axis are valid at least.
  int64_t leastValid = 0;
};

/// One piece of a contiguous access.
struct ThreadLowering::Piece {
  mlir::Value ptr;
  mlir::Value mask;   // lanes to access; null for all
  mlir::Value isFull; // all lanes are; null if always
  bool isWholeOrEmpty = false;
};

} // namespace torch_tile::codegen
