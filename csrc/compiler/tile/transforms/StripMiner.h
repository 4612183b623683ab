// Loops over pieces of tiles that registers do not hold. Shared by the StripMine*.cpp files, one per family of ops.
#pragma once

#include "compiler/tile/ir/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tile {

/// A long tile is never made as a whole. It is either computed piece by piece in the loop of the op that needs it, or
/// lies in scratch in row-major order. A piece is a number of neighbours in that order, as a tile of one axis, or a
/// scalar: reshapes and new axes are no work.
class StripMiner {
public:
  StripMiner(KernelOp kernel, int64_t lanes, int64_t vectorBits);
  LogicalResult run();

private:
  //===-- which values (StripMine.cpp) ----------------------------------------------------------------------------===//

  static RankedTensorType tileOf(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }
  bool isLong(Type type) const;
  bool hasLong(TypeRange types) const {
    return llvm::any_of(types, [&](Type type) { return isLong(type); });
  }
  bool touchesLong(Operation *op) const { return hasLong(op->getOperandTypes()) || hasLong(op->getResultTypes()); }
  /// Ops that need a loop of their own at their place, however small their tiles are.
  static bool isAnchor(Operation *op);
  /// Ops that make pieces of their result from pieces of their operands, or from operands in scratch.
  static bool isPiecewise(Operation *op);
  /// Whether pieces can be computed anywhere for a few integer operations: addresses and masks.
  bool isRecomputable(Value value);
  int64_t recomputeCost(Value value);
  bool isFree(Operation *op);
  void findAnchors(Block &block);
  /// Operands that `user` reads out of order, so that they have to lie in scratch.
  static bool needsScratch(Operation *user, Value operand);
  bool mustKeep(Operation *op);
  bool mayAlias(Value base, Value other);

  //===-- pieces (StripMinePieces.cpp)
  //------------------------------------------------------------------------------===//

  /// Pieces made in one loop body.
  struct Scope {
    llvm::DenseMap<std::tuple<Value, Value, int64_t>, Value> pieces;
    /// The loop visits every piece of `lanes` elements of tiles of this many elements; 0 if it does not.
    int64_t numElements = 0, lanes = 0;
    Value start;
    SmallVector<std::pair<Value, Value>> kept; // value and its scratch, usable after the loop
  };
  struct ScopeGuard;

  /// Elements [start, start + lanes) of a tile. A scalar for one lane; what is no tile stays as it is.
  FailureOr<Value> piece(Value value, Value start, int64_t lanes);
  FailureOr<Value> createPiece(OpResult value, Value start, int64_t lanes);
  FailureOr<Value> pieceOfSplit(OpResult half, Value start, int64_t lanes);
  FailureOr<Value> pieceOfBroadcast(BroadcastOp op, Value start, int64_t lanes);
  FailureOr<Value> pieceOfTrans(TransOp op, Value start, int64_t lanes);
  FailureOr<Value> pieceOfLoad(LoadOp op, Value start, int64_t lanes);
  FailureOr<Value> pieceOfGather(GatherOp op, Value start, int64_t lanes);
  FailureOr<Value> pieceOfTake(TakeOp op, Value start, int64_t lanes);
  FailureOr<Value> pieceOfShuffleXor(ShuffleXorOp op, Value start, int64_t lanes);
  FailureOr<Value> pieceOfClone(OpResult value, Value start, int64_t lanes);
  /// Where a piece starts in a structured access, and what is left of it.
  struct Block1D {
    Value offset;
    SmallVector<Value> strides, valid;
    SmallVector<int64_t> staticStrides, shape; // of the axes that the piece covers
  };
  Block1D moveAccess(RankedTensorType type, Value offset, ValueRange strides, ArrayRef<int64_t> staticStrides,
                     ValueRange valid, Value start, int64_t lanes);

  /// The stride of a tile of integers or pointers (in elements) along its last axis, the same in all rows; nothing if
  /// there is none.
  struct Stride {
    int64_t known = 0;
    SmallVector<Value, 1> more; // i64 scalars to add
  };
  std::optional<Stride> lastStride(Value value);
  std::optional<Stride> evenStride(Value value); // in unbounded numbers
  /// The scalar that all elements of a tile are; null if they differ.
  Value uniformValue(Value value);
  /// The first address of a row access and its stride; fails where addresses are not evenly spaced.
  struct RowAccess {
    Value base, offset;
    SmallVector<Value> strides;
    SmallVector<int64_t> staticStrides;
  };
  FailureOr<std::optional<RowAccess>> rowAccess(Value base, Value offsets, RankedTensorType type, Value start,
                                                int64_t lanes);

  /// Position along each axis of the element `start`.
  SmallVector<Value> positionOf(Value start, ArrayRef<int64_t> shape);
  /// How many trailing axes a piece covers, and its size along the first of them.
  static std::pair<int64_t, int64_t> coveredAxes(ArrayRef<int64_t> shape, int64_t lanes);
  int64_t pieceLanes(RankedTensorType type) const;

  //===-- scratch -------------------------------------------------------------------------------------------------===//

  static int64_t elementBytes(Type element);
  static Type scratchElement(Type element);
  int64_t reserve(Type tile);
  Value scratchAt(Value offset, Type tile);
  /// Scratch for a value: where its user wants it, if somewhere, or a new place.
  Value scratchFor(Value value);
  void storePiece(Value piece, Value scratch, Value start);
  Value loadPiece(Type element, Value scratch, Value start, int64_t lanes);
  /// Brings a value into scratch if it is not there.
  FailureOr<Value> inScratch(Value value);
  LogicalResult storeAll(Value value, Value scratch);
  /// The side of the squares that registers transpose; 0 where pieces of columns are loaded instead.
  int64_t squareOf(TransOp op);
  LogicalResult storeTransposed(TransOp op, int64_t side, Value scratch);
  LogicalResult keepNow(Operation *op);
  /// A tile for registers out of what lies in scratch or can be computed.
  LogicalResult makeShort(Value value);
  /// The results of an op lie in these places; short ones are loaded again as values.
  LogicalResult keepResults(Operation *op, ValueRange places);

  //===-- ops -----------------------------------------------------------------------------------------------------===//

  LogicalResult runBlock(Block &block, function_ref<LogicalResult()> finish = {});
  LogicalResult lowerAnchor(Operation *op);
  LogicalResult lowerStore(StoreOp op);
  LogicalResult lowerScatter(ScatterOp op);
  LogicalResult lowerCheckIndex(CheckIndexOp op);
  LogicalResult lowerAtomic(Operation *op);
  LogicalResult lowerPrint(PrintOp op);
  LogicalResult lowerAssert(AssertOp op);
  LogicalResult lowerHistogram(HistogramOp op);
  LogicalResult lowerMap(MapOp op);
  LogicalResult lowerCat(CatOp op);
  LogicalResult lowerReduce(ReduceOp op);
  LogicalResult lowerScan(ScanOp op);
  LogicalResult lowerLongScan(ScanOp op, ValueRange sources, ValueRange scratch);
  LogicalResult lowerDot(DotOp op);
  LogicalResult lowerFor(scf::ForOp op);
  LogicalResult lowerWhile(scf::WhileOp op);
  LogicalResult lowerIf(scf::IfOp op);
  LogicalResult lowerShortAccess(Operation *op);

  /// The combiner on tiles of one axis or on scalars.
  FailureOr<SmallVector<Value>> combine(Region &region, ValueRange lhs, ValueRange rhs);
  static bool isPointwise(Region &region);

  //===-- building ------------------------------------------------------------------------------------------------===//

  Value i64(int64_t value);
  static Type pieceType(Type type, int64_t lanes) {
    Type element = getElementTypeOrSelf(type);
    return lanes == 1 ? element : Type(RankedTensorType::get({lanes}, element));
  }
  Value splat(Value scalar, int64_t lanes);
  Value reshape(Value tile, ArrayRef<int64_t> shape);
  Value add(Value a, Value b);
  Value mul(Value a, int64_t b);
  Value divide(Value a, int64_t b);
  Value modulo(Value a, int64_t b);
  Value toI64(Value scalar);
  /// for start in [0, size) by step, the first iteration alone if there is one only.
  LogicalResult loop(int64_t size, int64_t step, function_ref<LogicalResult(Value)> body);
  /// A loop over the pieces of tiles of a type.
  LogicalResult overPieces(RankedTensorType type, function_ref<LogicalResult(Value start, int64_t lanes)> body);
  void finishScope(Scope &scope);

  KernelOp kernel;
  int64_t maxPiece;
  int64_t vectorBits; // of a register of the target
  ImplicitLocOpBuilder b;
  bool isGeneral = false; // tiles of several axes are long, whatever their size
  int64_t scratchBytes = 0;
  llvm::DenseMap<int64_t, Value> constants;
  llvm::DenseMap<Value, Value> scratchOf; // values that lie in scratch
  llvm::DenseMap<Value, Value> preferred; // where a value is wanted
  llvm::DenseMap<Value, int64_t> costs;   // of recomputing; see recomputeCost
  llvm::DenseSet<Value> toKeep;           // values that are put into scratch at their own place
  llvm::DenseSet<Operation *> rowGathers; // gathers whose pieces are neighbours in memory: as cheap to load again
  llvm::DenseMap<Value, llvm::SmallSetVector<Operation *, 4>> anchorsOf; // who needs a value, through pointwise ops
  SmallVector<Scope *> scopes;
  SmallVector<Operation *> replaced;
};

struct StripMiner::ScopeGuard {
  explicit ScopeGuard(StripMiner &miner) : miner(miner) { miner.scopes.push_back(&scope); }
  ~ScopeGuard() { miner.scopes.pop_back(); }
  StripMiner &miner;
  Scope scope;
};

/// Loop-carried tiles that grow by the same amount everywhere become a tile from before the loop and a carried scalar.
void splitCarriedTiles(KernelOp kernel);

} // namespace mlir::tile
