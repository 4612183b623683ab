// tile.kernel -> llvm.func over scalars and one-axis vectors. Shared by the LowerTile*.cpp files, one per family of
// ops.
#pragma once

#include "compiler/codegen/cpu/CpuOptions.h"
#include "compiler/tile/ir/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/DenseMap.h"

namespace torch_tile::codegen {

/// Lowers one kernel in one walk; DialectConversion would cost more than all of code generation's own passes.
///
/// A scalar stays a scalar. A tile of shape [d0, ..., N] becomes the row-major list of its rows along the last axis,
/// each a vector of N lanes (a scalar when N is 1). `index` becomes i64. Everything else follows from that: pointwise
/// ops are repeated per row, loads and stores work row by row, a reduction along an outer axis combines rows.
class TileLowering {
public:
  TileLowering(mlir::tile::KernelOp kernel, const CpuFeatures &features, llvm::StringRef symbol);

  /// Appends the function to `module`. On failure a diagnostic at the op says what is not supported.
  mlir::LogicalResult run(mlir::ModuleOp module);

private:
  using Rows = llvm::SmallVector<mlir::Value, 1>;

  //===-- types (LowerTile.cpp) ---------------------------------------------------------------------------------===//

  static int64_t lanesOf(mlir::Type type);
  static int64_t numRowsOf(mlir::Type type);
  /// i64 for index, the type itself otherwise.
  static mlir::Type elementOf(mlir::Type type);
  static mlir::Type rowTypeOf(mlir::Type type);
  static mlir::Type withLanes(mlir::Type element, int64_t lanes);
  static void appendRowTypes(mlir::Type type, llvm::SmallVectorImpl<mlir::Type> &types);
  mlir::LogicalResult verifyTypes();

  //===-- values --------------------------------------------------------------------------------------------------===//

  const Rows &rows(mlir::Value value) { return values[value]; }
  mlir::Value scalar(mlir::Value value) { return values[value].front(); }
  void set(mlir::Value value, Rows rows) { values[value] = std::move(rows); }
  void appendRows(mlir::ValueRange operands, llvm::SmallVectorImpl<mlir::Value> &flat);
  /// Takes as many values from the front of `flat` as `value` has rows.
  void setFromFlat(mlir::Value value, mlir::ValueRange &flat);

  mlir::Value constant(mlir::Type type, int64_t value);
  mlir::Value i64(int64_t value) { return constant(b.getI64Type(), value); }
  mlir::Value zero(mlir::Type type);
  mlir::Value iota(mlir::Type type, int64_t step = 1);
  mlir::Value broadcast(mlir::Value value, mlir::Type type);
  mlir::Value extract(mlir::Value vector, int64_t lane);
  mlir::Value slice(mlir::Value vector, int64_t offset, int64_t size);
  mlir::Value shuffle(mlir::Value first, mlir::Value second, llvm::ArrayRef<int32_t> mask);
  mlir::Value fromScalars(llvm::ArrayRef<mlir::Value> scalars);
  static std::optional<int64_t> constantOf(mlir::Value value);

  //===-- control flow (LowerTile.cpp) ----------------------------------------------------------------------------===//

  void lowerArguments();
  void lowerProgramIds(mlir::Value linear);
  mlir::LogicalResult lowerBlock(mlir::Block &block);
  mlir::LogicalResult lowerOp(mlir::Operation *op);
  mlir::LogicalResult lowerFor(mlir::scf::ForOp op);
  mlir::LogicalResult lowerIf(mlir::scf::IfOp op);
  mlir::LogicalResult lowerWhile(mlir::scf::WhileOp op);
  mlir::LogicalResult lowerUniform(mlir::tile::UniformOp op);

  //===-- pointwise (LowerTileArith.cpp) --------------------------------------------------------------------------===//

  mlir::LogicalResult lowerConstant(mlir::arith::ConstantOp op);
  mlir::LogicalResult lowerPointwise(mlir::Operation *op);
  /// The op on one row. Scalar operands widen to the widest operand, so a scalar combiner region can be applied to
  /// vectors.
  mlir::FailureOr<llvm::SmallVector<mlir::Value, 1>> createRow(mlir::Operation *op,
                                                               llvm::SmallVector<mlir::Value> operands);
  mlir::Value createClone(mlir::Operation *op, mlir::ValueRange operands, mlir::Type resultType);
  mlir::Value createDivision(mlir::Operation *op, mlir::Value lhs, mlir::Value rhs);
  mlir::Value createMaximum(bool isMaximum, mlir::Value lhs, mlir::Value rhs);
  mlir::Value createTruncDivision(bool isSigned, bool isRemainder, mlir::Value lhs, mlir::Value rhs);
  mlir::Value createIndexCast(mlir::Value value, mlir::Type resultElement, bool isSigned);
  mlir::Value convertFloat(mlir::Value value, mlir::Type element);

  //===-- shapes (LowerTileShape.cpp) -----------------------------------------------------------------------------===//

  mlir::LogicalResult lowerShape(mlir::Operation *op);
  mlir::LogicalResult lowerTrans(mlir::tile::TransOp op);
  mlir::LogicalResult lowerBroadcast(mlir::tile::BroadcastOp op);
  /// The same elements in row-major order in rows of `lanes`.
  Rows rechunk(llvm::ArrayRef<mlir::Value> source, int64_t lanes);
  /// R rows of C lanes -> C rows of R lanes.
  Rows transpose(llvm::ArrayRef<mlir::Value> source, int64_t lanes);

  //===-- memory (LowerTileMemory.cpp) ----------------------------------------------------------------------------===//

  struct Access;
  Access makeAccess(mlir::Type value, mlir::Value base, mlir::Value offset, mlir::ValueRange strides,
                    llvm::ArrayRef<int64_t> staticStrides, mlir::ValueRange valid);
  mlir::LogicalResult lowerLoad(mlir::tile::LoadOp op);
  mlir::LogicalResult lowerStore(mlir::tile::StoreOp op);
  mlir::LogicalResult lowerGather(mlir::tile::GatherOp op);
  mlir::LogicalResult lowerScatter(mlir::tile::ScatterOp op);
  mlir::LogicalResult lowerCheckIndex(mlir::tile::CheckIndexOp op);

  /// How an element lies in memory: i1 as a byte, small floats as integers of their width (x86 has better masked moves
  /// for those).
  static mlir::Type storageOf(mlir::Type element);
  mlir::Value toStorage(mlir::Value value);
  mlir::Value fromStorage(mlir::Value stored, mlir::Type element);
  static int64_t bytesOf(mlir::Type storage);
  mlir::Value elementPtr(mlir::Value base, mlir::Type storage, mlir::Value index);
  mlir::Value loadElements(mlir::Type type, mlir::Value ptr);
  void storeElements(mlir::Value value, mlir::Value ptr);
  /// Lanes below `count`.
  mlir::Value prefixMask(mlir::Value count, int64_t lanes);
  mlir::Value clampCount(mlir::Value count, int64_t lanes);
  bool hasMaskedAccess(mlir::Type storage) const;
  /// Contiguous lanes; `count` may be null. Values are in storage form.
  mlir::Value loadContiguous(mlir::Type type, mlir::Value ptr, mlir::Value count, mlir::Value other);
  void storeContiguous(mlir::Value value, mlir::Value ptr, mlir::Value count);
  /// Lanes at base + offsets; `mask` and `other` may be null.
  mlir::Value gatherLanes(mlir::Type type, mlir::Value base, mlir::Value offsets, mlir::Value mask, mlir::Value other);
  void scatterLanes(mlir::Value value, mlir::Value base, mlir::Value offsets, mlir::Value mask);
  mlir::Value guardedLoad(mlir::Type type, mlir::Value ptr, mlir::Value condition, mlir::Value other);

  /// Stack memory for what needs a lane-by-lane loop: allocated once per call of the function, never per program.
  mlir::Value stackSlot(mlir::Type type);
  mlir::Value spill(mlir::Value value);
  void laneLoop(mlir::Value count, llvm::function_ref<void(mlir::Value lane)> body);

  //===-- reductions (LowerTileReduce.cpp) ------------------------------------------------------------------------===//

  mlir::LogicalResult lowerReduce(mlir::tile::ReduceOp op);
  using Tuple = llvm::SmallVector<mlir::Value, 2>;
  mlir::FailureOr<Tuple> combine(mlir::tile::ReduceOp op, const Tuple &lhs, const Tuple &rhs);
  mlir::FailureOr<Tuple> combineRows(mlir::tile::ReduceOp op, llvm::SmallVector<Tuple> list);
  mlir::FailureOr<Tuple> combineLanes(mlir::tile::ReduceOp op, Tuple vectors);

  mlir::tile::KernelOp kernel;
  CpuFeatures features;
  std::string symbol;
  mlir::ImplicitLocOpBuilder b;
  llvm::DenseMap<mlir::Value, Rows> values;
  mlir::LLVM::LLVMFuncOp function;
  mlir::Operation *entryEnd = nullptr;
  mlir::LLVM::LLVMPointerType ptrType;
  mlir::Value contextPtr, scratch, errorFlag;
  mlir::Value programIds[3], gridSizes[3];
  /// Masks of the block being lowered, by count and lanes.
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> masks;
};

} // namespace torch_tile::codegen
