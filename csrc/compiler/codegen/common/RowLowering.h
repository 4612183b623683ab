// What lowering a tile.kernel has in common on all targets. Implemented in the LowerRows*.cpp files, one per family of
// ops.
#pragma once

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
/// A scalar stays a scalar. A tile becomes a list of rows, each a vector of the same number of lanes (a scalar for one
/// lane). `index` becomes i64. Which element lies in which row and lane is the target's choice; it is the same for all
/// tiles that meet in one pointwise op, which is therefore repeated per row.
class RowLowering {
public:
  virtual ~RowLowering() = default;

protected:
  using Rows = llvm::SmallVector<mlir::Value, 1>;
  using Tuple = llvm::SmallVector<mlir::Value, 2>;

  explicit RowLowering(mlir::tile::KernelOp kernel);

  //===-- types (LowerRows.cpp) ---------------------------------------------------------------------------------===//

  /// Of tiles: the row-major list of rows along the last axis, unless the target says otherwise. Of vectors and
  /// scalars: their elements.
  virtual int64_t lanesOf(mlir::Type type) const;
  virtual int64_t numRowsOf(mlir::Type type) const;
  /// i64 for index and, in tiles, for pointers; the type itself otherwise.
  static mlir::Type elementOf(mlir::Type type);
  mlir::Type rowTypeOf(mlir::Type type) const;
  static mlir::Type withLanes(mlir::Type element, int64_t lanes);
  void appendRowTypes(mlir::Type type, llvm::SmallVectorImpl<mlir::Type> &types) const;
  /// Fails with a diagnostic at what `target` cannot hold. `verifyTile` looks at the type of a tile.
  mlir::LogicalResult
  verifyTypes(llvm::StringRef target,
              llvm::function_ref<mlir::LogicalResult(mlir::Operation *, mlir::RankedTensorType)> verifyTile);

  //===-- values ------------------------------------------------------------------------------------------------===//

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

  //===-- control flow ------------------------------------------------------------------------------------------===//

  /// Everything but the terminator, which belongs to the op that holds the block.
  virtual mlir::LogicalResult lowerBlock(mlir::Block &block);
  /// Falls back on lowerCommonOp.
  virtual mlir::LogicalResult lowerOp(mlir::Operation *op) = 0;
  /// Control flow, constants, pointers, random numbers and pointwise ops; any other op is an error.
  mlir::LogicalResult lowerCommonOp(mlir::Operation *op, llvm::StringRef target);
  mlir::LogicalResult lowerPointer(mlir::Operation *op);
  mlir::LogicalResult lowerFor(mlir::scf::ForOp op);
  mlir::LogicalResult lowerIf(mlir::scf::IfOp op);
  mlir::LogicalResult lowerWhile(mlir::scf::WhileOp op);
  mlir::LogicalResult lowerUniform(mlir::tile::UniformOp op);
  virtual mlir::Value createUniform(mlir::tile::UniformOp op, mlir::Value seed, mlir::Value counter);
  llvm::SmallVector<mlir::Value, 4> randomWords(mlir::tile::UniformOp op, mlir::Value seed, mlir::Value quarter);
  mlir::Value randomWordOf(mlir::tile::UniformOp op, mlir::Value seed, mlir::Value counter);
  mlir::Value toUniform(mlir::Value word);

  //===-- pointwise (LowerRowsArith.cpp) ------------------------------------------------------------------------===//

  mlir::LogicalResult lowerConstant(mlir::arith::ConstantOp op);
  /// A constant tile of different elements.
  virtual mlir::FailureOr<Rows> createDenseConstant(mlir::arith::ConstantOp op, llvm::ArrayRef<mlir::Attribute> all);
  mlir::LogicalResult lowerPointwise(mlir::Operation *op);
  /// The op on one row. Scalar operands widen to the widest operand, so a scalar combiner region can be applied to
  /// vectors.
  mlir::FailureOr<llvm::SmallVector<mlir::Value, 1>> createRow(mlir::Operation *op,
                                                               llvm::SmallVector<mlir::Value> operands);
  mlir::Value createClone(mlir::Operation *op, mlir::ValueRange operands, mlir::Type resultType);
  mlir::Value createDivision(mlir::Operation *op, mlir::Value lhs, mlir::Value rhs);
  virtual mlir::Value createMaximum(bool isMaximum, mlir::Value lhs, mlir::Value rhs);
  /// Whether the target has an instruction for a maximum that passes NaN on; selects serve otherwise.
  virtual bool hasMaximum() const { return false; }
  /// `rhs` is a divisor that cannot trap.
  virtual mlir::Value createTruncDivision(bool isSigned, bool isRemainder, mlir::Value lhs, mlir::Value rhs);
  mlir::Value createIndexCast(mlir::Value value, mlir::Type resultElement, bool isSigned);
  mlir::Value convertFloat(mlir::Value value, mlir::Type element);
  virtual mlir::Value widenFloat(mlir::Value value, mlir::Type type);

  //===-- elements in memory (LowerRowsMemory.cpp) --------------------------------------------------------------===//

  /// How an element lies in memory: i1 as a byte, small floats as integers of their width (x86 has better masked moves
  /// for those).
  static mlir::Type storageOf(mlir::Type element);
  mlir::Value toStorage(mlir::Value value);
  mlir::Value fromStorage(mlir::Value stored, mlir::Type element);
  static int64_t bytesOf(mlir::Type storage);
  mlir::Value elementPtr(mlir::Value base, mlir::Type storage, mlir::Value index);
  /// Aligned like one element.
  mlir::Value loadElements(mlir::Type type, mlir::Value ptr);
  void storeElements(mlir::Value value, mlir::Value ptr);
  /// A scalar that is read only under a condition; `other` (zero if null) stands for it elsewhere.
  mlir::Value guardedLoad(mlir::Type type, mlir::Value ptr, mlir::Value condition, mlir::Value other);
  void guardedStore(mlir::Value condition, llvm::function_ref<void()> store);

  //===-- effects on single elements (LowerRowsEffects.cpp) -----------------------------------------------------===//

  /// Combines `value` with the element at `ptr`, and gives what was there, as it is stored. `scope` is of the target's.
  mlir::Value updateAtomically(mlir::tile::AtomicRmwOp op, mlir::Value ptr, mlir::Value value,
                               llvm::StringRef scope = {});
  mlir::Value updateExtremum(mlir::tile::AtomicRmwOp op, mlir::Value ptr, mlir::Value value, llvm::StringRef scope);
  /// The start of a printed line, in the form of printf: program, index, prefix. `operand` is -1 where there is one.
  static std::string printedPlace(llvm::ArrayRef<int64_t> shape, llvm::StringRef prefix, int64_t operand);
  /// How printf writes `value`, which becomes what it takes: a pointer, f64 or i64.
  std::string printedValue(mlir::tile::PrintOp op, mlir::Value &value, bool isUnsigned);

  //===-- reductions (LowerRowsReduce.cpp) ----------------------------------------------------------------------===//

  /// Applies the combiner, whose region is scalar, to scalars or vectors.
  mlir::FailureOr<Tuple> combine(mlir::Region &combiner, const Tuple &lhs, const Tuple &rhs);
  mlir::FailureOr<Tuple> combine(mlir::tile::ReduceOp op, const Tuple &lhs, const Tuple &rhs) {
    return combine(op.getCombine(), lhs, rhs);
  }
  /// What the body of a combiner computes.
  mlir::LogicalResult lowerCombiner(mlir::Block &block);
  /// Halves of a list, and of the lanes, until one is left: the order of combination depends on the shape alone.
  mlir::FailureOr<Tuple> combineRows(mlir::tile::ReduceOp op, llvm::SmallVector<Tuple> list);
  mlir::FailureOr<Tuple> combineLanes(mlir::tile::ReduceOp op, Tuple vectors);

  mlir::tile::KernelOp kernel;
  mlir::ImplicitLocOpBuilder b;
  llvm::DenseMap<mlir::Value, Rows> values;
  mlir::LLVM::LLVMPointerType ptrType;
};

} // namespace torch_tile::codegen
