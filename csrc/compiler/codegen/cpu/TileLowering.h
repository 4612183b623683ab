// tile.kernel -> llvm.func over scalars and one-axis vectors. Shared by the LowerTile*.cpp files, one per family of
// ops.
#pragma once

#include "compiler/codegen/common/RowLowering.h"
#include "compiler/codegen/cpu/CpuOptions.h"

namespace torch_tile::codegen {

/// A tile of shape [d0, ..., N] becomes the row-major list of its rows along the last axis: loads and stores work row
/// by row, a reduction along an outer axis combines rows.
class TileLowering : public RowLowering {
public:
  TileLowering(mlir::tile::KernelOp kernel, const CpuFeatures &features, llvm::StringRef symbol);

  /// Appends the function to `module`. On failure a diagnostic at the op says what is not supported.
  mlir::LogicalResult run(mlir::ModuleOp module);

private:
  //===-- control flow (LowerTile.cpp) ----------------------------------------------------------------------------===//

  void lowerArguments();
  void lowerProgramIds(mlir::Value linear);
  mlir::LogicalResult lowerBlock(mlir::Block &block) override;
  mlir::LogicalResult lowerOp(mlir::Operation *op) override;
  mlir::Value createTruncDivision(bool isSigned, bool isRemainder, mlir::Value lhs, mlir::Value rhs) override;
  /// Signed vectors of 64 bits by way of doubles; `divisor` if it is a known constant.
  mlir::Value divideWide(bool isRemainder, mlir::Value lhs, mlir::Value rhs, std::optional<int64_t> divisor);
  bool hasMaximum() const override { return features.hasMaximum; }

  //===-- shapes (LowerTileShape.cpp) -----------------------------------------------------------------------------===//

  mlir::LogicalResult lowerShape(mlir::Operation *op);
  mlir::LogicalResult lowerTrans(mlir::tile::TransOp op);
  mlir::LogicalResult lowerBroadcast(mlir::tile::BroadcastOp op);
  mlir::LogicalResult lowerInterleave(mlir::tile::InterleaveOp op);
  /// A reshape to one axis of what is one shuffle of a tile of one axis.
  bool lowerAsShuffle(mlir::tile::ReshapeOp op);
  mlir::LogicalResult lowerShuffleXor(mlir::tile::ShuffleXorOp op);
  /// The same elements in row-major order in rows of `lanes`.
  Rows rechunk(llvm::ArrayRef<mlir::Value> source, int64_t lanes);
  mlir::Value fence(mlir::Value value);
  /// R rows of C lanes -> C rows of R lanes.
  Rows transpose(llvm::ArrayRef<mlir::Value> source, int64_t lanes);
  /// The elements of C rows of R lanes in the order of columns, in as many rows of as many lanes.
  Rows interleave(llvm::ArrayRef<mlir::Value> source);

  //===-- memory (LowerTileMemory.cpp) ----------------------------------------------------------------------------===//

  struct Access;
  Access makeAccess(mlir::Type value, mlir::Value base, mlir::Value offset, mlir::ValueRange strides,
                    llvm::ArrayRef<int64_t> staticStrides, mlir::ValueRange valid);
  mlir::LogicalResult lowerLoad(mlir::tile::LoadOp op);
  mlir::LogicalResult lowerStore(mlir::tile::StoreOp op);
  mlir::LogicalResult lowerGather(mlir::tile::GatherOp op);
  /// LowerTileGather.cpp
  bool lowerAsScalarLoads(mlir::tile::GatherOp op);
  /// LowerTileWindows.cpp: of neighbours in memory that fit a register.
  bool lowerAsWindows(mlir::tile::GatherOp op);
  mlir::Type permutedElement(mlir::Type storage);
  mlir::Value permute(mlir::Value window, mlir::Value lanes);
  mlir::LogicalResult lowerScatter(mlir::tile::ScatterOp op);
  mlir::LogicalResult lowerCheckIndex(mlir::tile::CheckIndexOp op);

  /// Lanes below `count`.
  mlir::Value prefixMask(mlir::Value count, int64_t lanes);
  mlir::Value clampCount(mlir::Value count, int64_t lanes);
  bool hasMaskedAccess(mlir::Type storage) const;
  bool hasKnownParts(mlir::Type type, mlir::Value count) const;
  int64_t lanesPerRegister(mlir::Type type) const;
  /// Contiguous lanes; `count` may be null. Values are in storage form.
  mlir::Value loadContiguous(mlir::Type type, mlir::Value ptr, mlir::Value count, mlir::Value other);
  void storeContiguous(mlir::Value value, mlir::Value ptr, mlir::Value count);
  std::pair<mlir::Value, Rows> elementAddresses(mlir::Value base, mlir::Value offsets);
  /// Pointers to base + offsets, or to the addresses `offsets` where base is null.
  mlir::Value maskOfRow(mlir::Value mask, mlir::Value count);
  mlir::Value areAllTrue(mlir::Value mask);
  mlir::Value areAllTrue(llvm::ArrayRef<mlir::Value> masks);
  /// Rows of neighbours in memory under masks of any form; `other` may be null.
  Rows loadMasked(mlir::Type type, llvm::ArrayRef<mlir::Value> ptrs, llvm::ArrayRef<mlir::Value> masks,
                  mlir::Value other);
  void storeMasked(llvm::ArrayRef<mlir::Value> values, llvm::ArrayRef<mlir::Value> ptrs,
                   llvm::ArrayRef<mlir::Value> masks);
  mlir::Value loadUniform(mlir::Type type, mlir::Value ptr, mlir::Value mask, mlir::Value other);
  mlir::Value spillRows(llvm::ArrayRef<mlir::Value> values);
  void forEachActive(mlir::Type element, llvm::ArrayRef<mlir::Value> ptrs, llvm::ArrayRef<mlir::Value> masks,
                     llvm::function_ref<void(mlir::Value place, mlir::Value ptr)> body);
  mlir::Value lanePtr(mlir::Value base, mlir::Type element, mlir::Value offsets);
  /// Lanes at base + offsets; `mask` and `other` may be null; see lanePtr.
  /// Of elements `stride` apart (LowerTileStrided.cpp), known and small. `count`, if any, is how many lanes are read;
  /// the rest are `other`.
  bool canLoadStrided(mlir::Type type, std::optional<int64_t> stride, mlir::Value count) const;
  mlir::Value loadStrided(mlir::Type type, mlir::Value ptr, int64_t stride, mlir::Value count, mlir::Value other);
  mlir::Value loadReversed(mlir::Type type, mlir::Value ptr, mlir::Value count, mlir::Value other);
  mlir::Value loadStridedPiece(mlir::Type type, mlir::Value ptr, int64_t first, int64_t stride, mlir::Value count);
  /// LowerTilePieces.cpp: what has no instruction, without a loop. `count` is null or a constant.
  bool movesInPieces(mlir::Type type, mlir::Value count, bool isStore) const;
  mlir::Value loadPieces(mlir::Type type, mlir::Value ptr, int64_t known, mlir::Value other);
  void storePieces(mlir::Value value, mlir::Value ptr, int64_t known);
  bool movesLaneByLane(mlir::Type type, mlir::Value count, bool isStore) const;
  mlir::Value stridedPtr(mlir::Type element, mlir::Value ptr, std::optional<int64_t> known, mlir::Value stride,
                         int64_t lane);
  mlir::Value loadLaneByLane(mlir::Type type, mlir::Value ptr, std::optional<int64_t> known, mlir::Value stride,
                             mlir::Value count, mlir::Value other);
  void storeLaneByLane(mlir::Value value, mlir::Value ptr, std::optional<int64_t> known, mlir::Value stride,
                       mlir::Value count);
  mlir::Value gatherLanes(mlir::Type type, mlir::Value base, mlir::Value offsets, mlir::Value mask, mlir::Value other);
  void scatterLanes(mlir::Value value, mlir::Value base, mlir::Value offsets, mlir::Value mask);
  /// Memory is replaced by what the combiner makes of it and the value, lane after lane. `value` is no storage form.
  mlir::LogicalResult foldLanes(mlir::Region &combiner, mlir::Value value, mlir::Value base, mlir::Value offsets,
                                mlir::Value mask);

  /// Stack memory for what needs a lane-by-lane loop: allocated once per call of the function, never per program.
  mlir::Value stackSlot(mlir::Type type);
  mlir::Value spill(mlir::Value value);
  void laneLoop(mlir::Value count, llvm::function_ref<void(mlir::Value lane)> body);

  //===-- effects on scalars (LowerTileEffects.cpp) ---------------------------------------------------------------===//

  mlir::LogicalResult lowerAtomicRmw(mlir::tile::AtomicRmwOp op);
  mlir::LogicalResult lowerAtomicCas(mlir::tile::AtomicCasOp op);
  mlir::LogicalResult lowerPrint(mlir::tile::PrintOp op);
  mlir::LogicalResult lowerAssert(mlir::tile::AssertOp op);
  /// `body` where `mask` (which may be null) is true; its value, 0 elsewhere.
  mlir::Value guarded(mlir::Type type, mlir::Value mask, llvm::function_ref<mlir::Value()> body);
  /// The address of zero-terminated text.
  mlir::Value textConstant(llvm::StringRef text);
  void raise(mlir::Value condition, int32_t code, llvm::function_ref<void()> fillDetails);
  /// `write` unless an index of this program was out of range: such an index became 0, and element 0 is not to be
  /// written.
  mlir::LogicalResult writeUnlessFailed(llvm::function_ref<mlir::LogicalResult()> write);

  //===-- reductions and scans (LowerTileReduce.cpp) --------------------------------------------------------------===//

  mlir::LogicalResult lowerReduce(mlir::tile::ReduceOp op);
  /// One lane for each row.
  mlir::FailureOr<Tuple> combineLanesOfRows(mlir::tile::ReduceOp op, llvm::SmallVector<Tuple> list);
  mlir::LogicalResult lowerScan(mlir::tile::ScanOp op);
  mlir::LogicalResult lowerExtract(mlir::tile::ExtractOp op);

  CpuFeatures features;
  std::string symbol;
  mlir::ModuleOp module;
  mlir::LLVM::LLVMFuncOp function;
  mlir::Operation *entryEnd = nullptr;
  mlir::Value contextPtr, scratch, errorFlag;
  bool checksIndices = false;
  /// Memory that may be read where nothing is wanted.
  mlir::Value idleSlot;
  mlir::Value programIds[3], gridSizes[3];
  /// Masks of the block being lowered, by count and lanes.
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> masks;
};

} // namespace torch_tile::codegen
