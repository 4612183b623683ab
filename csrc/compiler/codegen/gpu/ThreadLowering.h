// tile.kernel with layouts -> llvm.func for one thread of a block. Shared by the LowerThreads*.cpp files, one per
// family of ops.
#pragma once

#include "compiler/codegen/common/RowLowering.h"
#include "compiler/codegen/gpu/GpuOptions.h"

#include "llvm/ADT/PointerIntPair.h"
#include "llvm/ADT/SetVector.h"

namespace torch_tile::codegen {

/// What an index out of range calls.
inline constexpr llvm::StringLiteral assertFunctionName = "__assertfail";
/// What prints: takes a format and the memory in which the arguments lie.
inline constexpr llvm::StringLiteral printFunctionName = "vprintf";

/// Of kernels: roundings may be left out as Triton leaves them out.
inline constexpr llvm::StringLiteral fastArithmeticAttrName = "tile.fast_arithmetic";

/// Marks exponentials and divisions whose error disappears in what is made of them: the logistic function's, and those
/// of exp(x - maximum), which are 1 at most.
void markApproximate(mlir::tile::KernelOp kernel);

/// Whether an access of memory writes, and the pointers it goes through.
bool isWrite(mlir::Operation *op);
mlir::Value baseOf(mlir::Operation *op);
/// Elements from one offset to another, if they differ by a constant.
std::optional<int64_t> distanceBetween(mlir::Value from, mlir::Value to);

/// Of kernels: by argument, what an integer, or a pointer's address, is divisible by; 0 where nothing is known.
inline constexpr llvm::StringLiteral argumentMultiplesAttrName = "tile.argument_multiples";

/// Of kernels: bytes of staged operands; how many iterations ahead operands are loaded, plus one. Of loops: operands
/// are staged. Of products: groups of products under way when the next one is asked for.
inline constexpr llvm::StringLiteral stagedBytesAttrName = "tile.staged_bytes", numStagesAttrName = "tile.num_stages",
                                     pipelinedAttrName = "tile.pipelined", inFlightAttrName = "tile.in_flight";

/// Loads operands of products in loops ahead of their use, into shared memory.
void pipelineLoads(mlir::tile::KernelOp kernel, const GpuOptions &options);

/// Whether a product by matrix instructions finds its left operand in registers, as they take it.
bool isLeftInRegisters(mlir::tile::DotOp op);

/// A number that an integer of a kernel, or the address of a pointer, is always divisible by.
int64_t knownMultiple(mlir::Value value);

/// What an integer of a kernel never is below or above, where that follows from its last operations.
std::optional<int64_t> knownLeast(mlir::Value value);
std::optional<int64_t> knownMost(mlir::Value value);

/// How a tile of integers grows along the lanes of a piece, if that is known, and what the piece's first one is
/// divisible by.
struct Progression {
  std::optional<int64_t> step;
  int64_t multiple = 1;
};
Progression knownProgression(mlir::Value value, int64_t lanes);

/// Whether the lanes of each piece of an access by index lie side by side in memory, and begin at a multiple of their
/// size if the argument does.
bool areNeighbours(mlir::tile::KernelOp kernel, mlir::Value base, mlir::Value offsets, int64_t lanes);
/// Whether whoever launches the kernel sees to it that the buffer begins at a multiple of 16 bytes.
bool isAlignedArgument(mlir::tile::KernelOp kernel, mlir::Value base);
/// Elements of a tile that a thread has side by side.
int64_t pieceLanes(mlir::Type type);

/// Whether all lanes of a piece agree on a mask, which is made of positions and scalars.
bool isSameAlongPiece(mlir::Value mask, int64_t lanes);

/// Whether a mask is true for all elements from number `first` on, as one that skips the first few is.
bool isTrueFrom(mlir::Value mask, int64_t first);

/// A program is a block of threads that all run the same scalars and control flow; the rows of a tile are the pieces of
/// it that the thread holds (see tile.layout). What moves elements between threads goes through shared memory.
///
/// Parameters of the kernel: its pointers and, as i64, its scalars in order; then, if it has scratch memory, a pointer
/// to the scratch of all programs and the bytes of one. The grid is that of the launch; where blocks hold several
/// programs (tile.programs_per_block), their number is the last parameter.
class ThreadLowering : public RowLowering {
public:
  ThreadLowering(mlir::tile::KernelOp kernel, llvm::StringRef symbol, const GpuOptions &options);

  /// Appends the function to `module`. On failure a diagnostic at the op says what is not supported.
  mlir::LogicalResult run(mlir::ModuleOp module);

  /// Shared memory of a block that the launch provides, beside what the code declares; known after `run`.
  int64_t launchSharedBytes() const { return launchBytes; }
  int64_t threadsOfBlock() const { return numThreads * programsPerBlock; }

private:
  //===-- layout (LowerThreads.cpp) -----------------------------------------------------------------------------===//

  int64_t lanesOf(mlir::Type type) const override;
  int64_t numRowsOf(mlir::Type type) const override;
  /// The layout of a tile that has one of #tile.linear, else null.
  static mlir::tile::LinearAttr linearLayoutOf(mlir::Type type);
  /// Row-major index of the thread's first element.
  mlir::Value threadStart(mlir::tile::LinearAttr layout);
  /// Threads that hold different elements of a tile: fewer than there are where the tile is small.
  int64_t numHolders(mlir::RankedTensorType type) const;
  /// Row-major index of the first element of a piece, before and after counting from the first element again (i32).
  mlir::Value rawStart(mlir::RankedTensorType type, int64_t piece);
  mlir::Value start(mlir::RankedTensorType type, int64_t piece);
  /// Whether the piece is no copy; null if it never is.
  mlir::Value isOwned(mlir::RankedTensorType type, int64_t piece);
  /// Position on each axis of a row-major index.
  llvm::SmallVector<mlir::Value> coordinates(mlir::Value index, llvm::ArrayRef<int64_t> shape);
  mlir::Value i32(int64_t value) { return constant(b.getI32Type(), value); }
  mlir::Value addI32(mlir::Value value, int64_t offset);

  //===-- control flow (LowerThreads.cpp) -----------------------------------------------------------------------===//

  void lowerArguments();
  llvm::SmallVector<mlir::Type> parameterTypes();
  void setFunctionAttributes();
  mlir::Value readRegister(llvm::StringRef name);
  void splitBlock();
  mlir::LogicalResult lowerBlock(mlir::Block &block) override;
  mlir::LogicalResult lowerOp(mlir::Operation *op) override;
  mlir::Value widenFloat(mlir::Value value, mlir::Type type) override;
  mlir::Value createMaximum(bool isMaximum, mlir::Value lhs, mlir::Value rhs) override;
  mlir::Value createUniform(mlir::tile::UniformOp op, mlir::Value seed, mlir::Value counter) override;
  mlir::LogicalResult lowerLoop(mlir::scf::ForOp op);
  mlir::FailureOr<Rows> createDenseConstant(mlir::arith::ConstantOp op, llvm::ArrayRef<mlir::Attribute> all) override;

  //===-- order of accesses (LowerThreadsOrder.cpp) -------------------------------------------------------------===//

  /// An access since the last barrier, and whether it is repeated: of another iteration of a loop, the same op at other
  /// addresses.
  using Pending = llvm::PointerIntPair<mlir::Operation *, 1, bool>;
  void barrier();
  /// A barrier if `op` may touch what another thread has touched since the last one.
  void orderAccess(mlir::Operation *op);
  void orderLoop(mlir::Operation *loop);
  bool mayConflict(Pending earlier, mlir::Operation *later) const;

  //===-- memory (LowerThreadsMemory.cpp) -----------------------------------------------------------------------===//

  /// One access of a whole piece where the condition holds, else one for each element.
  void storeWholeOr(mlir::Value condition, llvm::function_ref<void()> storeWhole,
                    llvm::function_ref<void()> storeSingle);
  /// Whether all memory that is accessed in pieces starts at a multiple of 16 bytes; asked once, at the kernel's start,
  /// unless the kernel's attribute answers.
  mlir::Value areArgumentsAligned();
  /// Of a loop there are two versions, one for each answer.
  enum class Alignment { Asked, All, None };
  struct Access;
  mlir::FailureOr<Access> makeAccess(mlir::Operation *op, mlir::Type value, mlir::Value base, mlir::Value offset,
                                     mlir::ValueRange strides, llvm::ArrayRef<int64_t> staticStrides,
                                     mlir::ValueRange valid);
  struct Piece;
  Piece makePiece(const Access &access, int64_t piece, mlir::Value mask);
  /// Element offset of one lane of a piece, and whether it is valid (null if always).
  std::pair<mlir::Value, mlir::Value> locate(const Access &access, mlir::Value index);
  mlir::LogicalResult lowerLoad(mlir::tile::LoadOp op);
  mlir::LogicalResult lowerStore(mlir::tile::StoreOp op);
  mlir::Value loadOr(mlir::Type type, mlir::Value ptr, mlir::Value condition, mlir::Value other);
  mlir::Value zerosInMemory();
  mlir::LogicalResult lowerGather(mlir::tile::GatherOp op);
  mlir::LogicalResult lowerScatter(mlir::tile::ScatterOp op);
  mlir::LogicalResult lowerCheckIndex(mlir::tile::CheckIndexOp op);
  llvm::SmallVector<mlir::Value> loadPieces(const Access &access, llvm::ArrayRef<Piece> parts, mlir::Value other,
                                            bool firstIsInside, bool isMixed);
  /// `mayLeave`: for each piece of the tile whether what is before its first thread's and after its last one's may be
  /// outside.
  llvm::SmallVector<mlir::Value> loadAcross(const Access &access, llvm::ArrayRef<std::pair<int64_t, Piece>> parts,
                                            llvm::ArrayRef<bool> mayLeave);
  bool canLoadAcross(const Access &access);
  Rows loadAcrossOrSingle(mlir::tile::LoadOp op, const Access &access, llvm::ArrayRef<Piece> parts, mlir::Value other);
  mlir::Value both(mlir::Value left, mlir::Value right);
  /// Whether all lanes of a row of a mask are set.
  mlir::Value allLanes(mlir::Value mask, mlir::Value row);
  mlir::Value isFirstThread();

  //===-- messages (LowerThreadsMessages.cpp) -------------------------------------------------------------------===//

  mlir::Value textConstant(llvm::StringRef text);
  mlir::LLVM::LLVMFuncOp deviceFunction(llvm::StringRef name, mlir::Type result, llvm::ArrayRef<mlir::Type> parameters);
  void failAssertion(llvm::StringRef message);
  mlir::LogicalResult lowerAssert(mlir::tile::AssertOp op);
  mlir::LogicalResult lowerPrint(mlir::tile::PrintOp op);
  void printElement(mlir::tile::PrintOp op, mlir::Value value, llvm::ArrayRef<int64_t> shape,
                    llvm::ArrayRef<mlir::Value> position, int64_t operand, bool isUnsigned);

  //===-- tiles of pointers (LowerThreadsPointers.cpp) ----------------------------------------------------------===//

  /// The argument of the kernel that all pointers of a tile come from; null if it cannot be told.
  static mlir::Value rootOfPointers(mlir::Value pointers);
  struct PointerPiece {
    llvm::SmallVector<mlir::Value> lanes; // pointers
    mlir::Value mask;                     // lanes to access; null for all
    mlir::Value isWhole;                  // whether they are neighbours, aligned as a whole, and all to be accessed
    bool isRow = false;                   // they are known to be neighbours, and aligned as a whole
    bool isWholeOrEmpty = false;          // so, and all or none are to be accessed
  };
  llvm::SmallVector<PointerPiece> makePointerPieces(mlir::Type type, mlir::Value base, mlir::Value offsets,
                                                    mlir::Value mask);
  bool hasSameRows(mlir::Type left, mlir::Type right) const;
  mlir::LogicalResult gatherPointers(mlir::tile::GatherOp op);
  mlir::LogicalResult scatterPointers(mlir::tile::ScatterOp op);

  //===-- atomics (LowerThreadsAtomics.cpp) ---------------------------------------------------------------------===//

  bool addNeighbours(mlir::tile::AtomicRmwOp op);
  mlir::LogicalResult lowerAtomicRmw(mlir::tile::AtomicRmwOp op);
  mlir::LogicalResult lowerAtomicCas(mlir::tile::AtomicCasOp op);
  mlir::LogicalResult lowerAtomic(mlir::Operation *op, mlir::Value base, mlir::Value offsets, mlir::Value mask,
                                  llvm::function_ref<mlir::Value(mlir::Value, int64_t, int64_t)> update);

  //===-- products (LowerThreadsDot.cpp) ------------------------------------------------------------------------===//

  mlir::LogicalResult lowerDot(mlir::tile::DotOp op);

  //===-- matrix instructions (LowerThreadsMatrix.cpp) ----------------------------------------------------------===//

  /// An operand in shared memory, as ldmatrix reads it: in panels of columns, each at most 128 bytes wide, whose
  /// 16-byte words are permuted so that eight rows of one column lie in different banks.
  struct SharedMatrix {
    mlir::Value base;
    int64_t rows, columns;
    mlir::Type element;
    bool isTransposed; // of the operand that the product asks for
    int64_t elementBytes() const { return element.getIntOrFloatBitWidth() / 8; }
    int64_t panelBytes() const { return std::min<int64_t>(128, columns * elementBytes()); }
    int64_t bytes() const { return rows * columns * elementBytes(); }
  };
  /// Both operands of a product: of the left one the words of fragments, or where it lies.
  struct DotOperands {
    bool isLeftInRegisters;
    SharedMatrix left, right;
  };
  mlir::LogicalResult lowerMatrixDot(mlir::tile::DotOp op);
  static SharedMatrix matrixOf(mlir::RankedTensorType type, mlir::Value base);
  DotOperands placeOperands(mlir::tile::DotOp op);
  /// Bytes from the base on of the 16-byte word with this column (in bytes) in this row.
  mlir::Value wordOffset(const SharedMatrix &matrix, mlir::Value row, mlir::Value columnByte);
  /// Bytes from the base on of a lane of a piece of a tile that the matrix holds.
  mlir::Value laneOffset(const SharedMatrix &matrix, mlir::RankedTensorType type, int64_t piece, int64_t lane);
  void storeMatrix(const SharedMatrix &matrix, mlir::Value source);
  Rows loadMatrix(const SharedMatrix &matrix, mlir::RankedTensorType type);
  llvm::SmallVector<mlir::Value> leftFragment(const Rows &pieces, int64_t first);
  struct FragmentReader;

  //===-- matrix instructions of four warps (LowerThreadsWarpGroup.cpp) -----------------------------------------===//

  mlir::Value firstThreadOfWarp();
  mlir::LogicalResult lowerWarpGroupDot(mlir::tile::DotOp op, const DotOperands &operands);
  struct OperandDescriptor;
  mlir::LogicalResult lowerDotWait(mlir::tile::DotWaitOp op);
  /// What is written to shared memory by stores is seen by instructions of four warps.
  void fenceStores();

  //===-- staged operands (LowerThreadsStage.cpp) ---------------------------------------------------------------===//

  mlir::LogicalResult lowerStaging(mlir::Operation *op);
  mlir::LogicalResult lowerStage(mlir::tile::StageOp op);
  mlir::Value stagedPtr(int64_t offset, mlir::Value slot, int64_t slotBytes);

  //===-- scans (LowerThreadsScan.cpp) --------------------------------------------------------------------------===//

  mlir::LogicalResult lowerScan(mlir::tile::ScanOp op);
  mlir::LogicalResult scanThroughShared(mlir::tile::ScanOp op);
  struct ScanRows;
  std::optional<ScanRows> scanRowsOf(mlir::tile::ScanOp op);
  class RowScan;
  /// What the last element of a scan is, which all threads have.
  llvm::DenseMap<mlir::Value, mlir::Value> scanTotals;

  //===-- other orders of elements (LowerThreadsRearrange.cpp) --------------------------------------------------===//

  mlir::LogicalResult lowerCat(mlir::tile::CatOp op);
  mlir::LogicalResult lowerJoin(mlir::tile::JoinOp op);
  mlir::LogicalResult lowerSplit(mlir::tile::SplitOp op);
  mlir::LogicalResult lowerTake(mlir::tile::TakeOp op);
  mlir::LogicalResult lowerShuffleXor(mlir::tile::ShuffleXorOp op);
  mlir::LogicalResult lowerHistogram(mlir::tile::HistogramOp op);
  mlir::LogicalResult lowerMap(mlir::tile::MapOp op);
  mlir::LogicalResult lowerExtract(mlir::tile::ExtractOp op);

  //===-- where shared memory lies (LowerThreadsShared.cpp) -----------------------------------------------------===//

  void declareShared();
  /// So many bytes from the start on are used now, by what ends with the next call.
  void useShared(int64_t bytes);
  /// A barrier if threads may still read what is to be overwritten.
  void awaitReaders();
  /// Decides, when all uses are known, who provides the memory that `start` is the address of.
  mlir::LogicalResult placeShared(mlir::Value start);

  //===-- shapes (LowerThreadsShape.cpp) ------------------------------------------------------------------------===//

  mlir::LogicalResult lowerIota(mlir::tile::IotaOp op);
  mlir::LogicalResult lowerReshape(mlir::Operation *op);
  mlir::LogicalResult lowerTrans(mlir::tile::TransOp op);
  mlir::LogicalResult lowerBroadcast(mlir::tile::BroadcastOp op);
  mlir::LogicalResult lowerConvertLayout(mlir::tile::ConvertLayoutOp op);
  /// Element i of the result is element sourceIndex(i) of the source; all indices are row-major i32.
  mlir::FailureOr<Rows> exchange(mlir::Operation *op, mlir::Value source, mlir::Type type,
                                 llvm::function_ref<mlir::Value(mlir::Value)> sourceIndex, bool isPadded = false) {
    return exchangeRows(op, rows(source), mlir::cast<mlir::RankedTensorType>(source.getType()), type, sourceIndex,
                        isPadded);
  }
  /// The same of rows that lie as a tile of type `from` does.
  mlir::FailureOr<Rows> exchangeRows(mlir::Operation *op, Rows source, mlir::RankedTensorType from, mlir::Type type,
                                     llvm::function_ref<mlir::Value(mlir::Value)> sourceIndex, bool isPadded = false);
  /// Integers and pointers that are made of positions and scalars alone cost less to compute where they are needed than
  /// to move: whether `value` is such a tile, and one element of it.
  bool isComputable(mlir::Value value, int &budget) const;
  mlir::FailureOr<mlir::Value> computeElement(mlir::Value value, mlir::Value index);
  mlir::FailureOr<Rows> computeRows(mlir::Value source, mlir::RankedTensorType type,
                                    llvm::function_ref<mlir::Value(mlir::Value)> sourceIndex);

  /// Most bytes that move at once.
  int64_t exchangeBytes() const;
  /// Shared memory for one use, which ends with the next call. Padded: one element more after each 32, so that columns
  /// fall into different banks.
  struct Shared {
    mlir::Type storage;
    int64_t byteOffset;
    bool isPadded;
  };
  mlir::LogicalResult reserveShared(mlir::Operation *op, llvm::ArrayRef<mlir::Type> storages, int64_t numElements,
                                    bool isPadded, llvm::SmallVectorImpl<Shared> &parts);
  mlir::Value sharedPtr(const Shared &part, mlir::Value index);
  /// Where a thread keeps a piece of its own (tile.hold), in memory that the launch provides.
  mlir::FailureOr<mlir::Value> heldPtr(mlir::Operation *op, mlir::Type type, int64_t piece, mlir::Value index,
                                       int64_t offset);
  mlir::LogicalResult lowerHold(mlir::tile::HoldOp op);
  mlir::LogicalResult lowerHeld(mlir::tile::HeldOp op);
  void storeShared(const Shared &part, const Rows &pieces, mlir::RankedTensorType type);
  mlir::Value loadShared(const Shared &part, mlir::Value index, mlir::Type element);

  //===-- reductions (LowerThreadsReduce.cpp) -------------------------------------------------------------------===//

  mlir::LogicalResult lowerReduce(mlir::tile::ReduceOp op);
  mlir::FailureOr<Tuple> reduceAll(mlir::tile::ReduceOp op, mlir::RankedTensorType type);
  int64_t partsOf(int64_t numResults, int64_t size) const;
  mlir::LogicalResult combineParts(mlir::tile::ReduceOp op, int64_t numResults, int64_t size, int64_t inner,
                                   int64_t numParts, llvm::SmallVectorImpl<Shared> &parts);
  mlir::LogicalResult reduceThroughShared(mlir::tile::ReduceOp op, mlir::RankedTensorType type,
                                          llvm::ArrayRef<Rows> sources);
  bool areSegments(mlir::RankedTensorType type, int64_t axis) const;
  mlir::LogicalResult reduceSegments(mlir::tile::ReduceOp op, mlir::RankedTensorType type);
  mlir::LogicalResult reduceFragments(mlir::tile::ReduceOp op, mlir::RankedTensorType type);
  mlir::FailureOr<mlir::RankedTensorType> foldPieces(mlir::tile::ReduceOp op, mlir::RankedTensorType type,
                                                     llvm::SmallVectorImpl<Rows> &sources);
  mlir::FailureOr<Tuple> combineWarp(mlir::tile::ReduceOp op, Tuple tuple, int64_t lanes);
  enum class Shuffle { Xor, Index, Up, Down };
  /// Another lane's value, of the same warp.
  mlir::Value shuffleLanes(mlir::Value value, Shuffle kind, mlir::Value operand);
  mlir::Value shuffleLanes(mlir::Value value, Shuffle kind, int64_t operand) {
    return shuffleLanes(value, kind, i32(operand));
  }

  const GpuOptions &options;
  std::string symbol;
  int64_t numThreads;
  /// Programs of a block, each of one warp if there are several.
  int64_t programsPerBlock = 1;
  mlir::Value programId;
  mlir::LLVM::ConstantOp sharedStride; // bytes of one program, known in the end
  mlir::LLVM::LLVMFuncOp function;
  mlir::LLVM::GlobalOp shared, held;
  mlir::LLVM::LLVMPointerType sharedPtrType;
  mlir::Value threadId, warpFirst, sharedBase, scratch;
  mlir::Value argumentsAligned, alignmentAnchor;
  Alignment alignment;
  /// What the threads of a segment hold together, one for each piece of the tile it was reduced from.
  llvm::DenseMap<mlir::Value, Rows> segmentRows;
  llvm::DenseMap<mlir::Attribute, mlir::Value> threadStarts;
  /// What the ops of one program take of shared memory, and what the launch provides to a block.
  int64_t sharedBytes = 0, launchBytes = 0;
  /// Staged operands lie after what the loops that read them take beside them; all else may lie over both.
  int64_t stagedBytes = 0, pipelinedBytes = 0;
  int64_t pipelinedDepth = 0; // of loops around what is lowered
  mlir::LLVM::ConstantOp stagedStart;
  mlir::Value stagedBase;
  bool hasWarpGroupReaders = false;
  llvm::SmallSetVector<Pending, 16> pending;
  bool hasSharedReaders = false, hasStagedReaders = false;
};

} // namespace torch_tile::codegen
