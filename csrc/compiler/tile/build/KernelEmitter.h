// Emits one tile.kernel for a fused loop nest under a schedule.
#pragma once

#include "compiler/tile/build/BuildKernels.h"
#include "compiler/tile/build/ExprEmitter.h"
#include "compiler/tile/build/FusedLoops.h"
#include "compiler/tile/build/Schedule.h"
#include "compiler/tile/ir/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SmallPtrSet.h"

template <> struct llvm::DenseMapInfo<torch_tile::SizeExpr> {
  static torch_tile::SizeExpr getEmptyKey() {
    return torch_tile::SizeExpr::fromOpaque(llvm::DenseMapInfo<const void *>::getEmptyKey());
  }
  static torch_tile::SizeExpr getTombstoneKey() {
    return torch_tile::SizeExpr::fromOpaque(llvm::DenseMapInfo<const void *>::getTombstoneKey());
  }
  static unsigned getHashValue(torch_tile::SizeExpr e) {
    return llvm::DenseMapInfo<const void *>::getHashValue(e.opaque());
  }
  static bool isEqual(torch_tile::SizeExpr a, torch_tile::SizeExpr b) { return a == b; }
};

namespace torch_tile::tile_build {

class KernelEmitter {
public:
  KernelEmitter(FusedLoops &loops, const Schedule &schedule, const BuildOptions &options, mlir::ModuleOp module,
                mlir::Location location);

  mlir::FailureOr<mlir::tile::KernelOp> run(llvm::StringRef name);

  /// Existing buffers that the kernel reads or writes in place, in the order of its first pointer arguments; new
  /// buffers for `newOutputs` follow.
  llvm::SmallVector<mlir::Value> inputs;
  llvm::SmallVector<mlir::Value> newOutputs;
  /// The kernel's integer arguments.
  llvm::SmallVector<SizeExpr> integers;
  SizeExpr numPrograms;
  /// Scratch memory of one program.
  SizeExpr scratchBytes;

private:
  using ValueList = llvm::SmallVector<mlir::Value>;
  using BodyFn = llvm::function_ref<ValueList(mlir::ValueRange)>;

  // KernelEmitter.cpp: programs, loops, stages
  void collectBuffers();
  void emitProgram();
  void emitInnerAxes(int axis);
  void emitTiles();
  bool hasRowTiles() const;
  bool hasTwoVersions() const;
  bool isNeverFull(int axis, int64_t size) const;
  void emitRows(int innerAxis);
  void emitTransposedTiles();
  void emitRowTile();
  void emitInterleaved();
  void storeInterleaved(mlir::Value result, mlir::ArrayRef<mlir::Value> values);
  void emitStages();
  void emitEachStage();
  bool hasReducedAxes() const {
    return llvm::any_of(loops.axes, [](const fusion::Axis &axis) { return axis.reduced; });
  }
  void emitParallelMembers(bool isStored);
  void emitReducedStage(int stage);
  void addIdentities(mlir::graph::LoopsOp op, ValueList &values);
  ValueList emitReducedAxes(unsigned axis, mlir::ValueRange carried, BodyFn body);
  ValueList emitRowLoop(mlir::ValueRange carried, BodyFn body);
  ValueList emitUnrolled(const fusion::Axis &axis, mlir::ValueRange carried, BodyFn body);
  ValueList fold(mlir::graph::LoopsOp op, ValueList values, int64_t axis);
  // AlignedRows.cpp: rows that begin anywhere in memory
  /// A tile of such a row. Lanes before `skipped` and from `valid` on lie outside of the row (null: none do); `place`
  /// is the tile's from the start of the first one on.
  struct AlignedTile {
    mlir::Value index, place, skipped, valid;
    /// Of the last one of a row, which may be shorter; 0: as many as others.
    int64_t lanes = 0;
    /// As many elements before and after it as a piece has are the row's, too.
    bool isSurrounded = false;
    /// The row has no other: what the tile makes is there for later stages.
    bool isOnly = false;
  };
  using TilesFn = llvm::function_ref<ValueList(llvm::ArrayRef<AlignedTile>, mlir::ValueRange)>;
  bool isAligned() const { return schedule.alignedLanes > 0; }
  /// Whether pieces of the access at `offset` are aligned where those that decide are.
  bool isAlignedToo(SizeExpr offset);
  mlir::Value lanesBeforeRow();
  void setMultiple(mlir::Operation *access);
  void enterTile(const AlignedTile &tile);
  void leaveTile() { enterTile({}); }
  ValueList emitAlignedTiles(mlir::ValueRange carried, TilesFn body);
  ValueList emitAlignedRow(mlir::ValueRange carried, BodyFn body);
  void emitAlignedBlock();
  bool isOneTile() const;

  bool mayOverlap(int axis, int64_t size) const;
  mlir::Value movedInside(mlir::Value index, mlir::Value high, int64_t size);
  ValueList emitVectorLoop(mlir::Value low, mlir::Value high, bool alwaysFull, mlir::ValueRange carried, BodyFn body);
  // Segments.cpp: the vector loop in parts, in each of which masks are constants
  struct Edge {
    mlir::Operation *op;
    SizeExpr at;
    bool isTrueBelow;
  };
  std::optional<Edge> edgeOf(mlir::arith::CmpIOp op);
  void findSegments();
  bool addEnd(SizeExpr at, llvm::SmallVectorImpl<SizeExpr> &ends) const;
  bool paysSegments(llvm::ArrayRef<SizeExpr> ends, int64_t work) const;
  void addTurns(llvm::SmallVectorImpl<SizeExpr> &ends);
  void emitBetweenEdges(size_t number);
  mlir::Value masksHold(llvm::SmallVectorImpl<mlir::Operation *> &masks);
  ValueList emitSegments(mlir::Value low, mlir::Value high, bool alwaysFull, mlir::ValueRange carried, BodyFn body);
  using LoopFn = llvm::function_ref<ValueList(mlir::Value, mlir::ValueRange)>;
  ValueList emitFor(mlir::Value low, mlir::Value high, int64_t step, mlir::ValueRange carried, LoopFn body);
  ValueList emitIf(mlir::Value condition, mlir::TypeRange types, llvm::function_ref<ValueList()> then,
                   llvm::function_ref<ValueList()> otherwise);
  /// How a result of a reduction is carried from tile to tile: a tile of its type, a scalar where all lanes have the
  /// same (the count of a mean), or i32 for an index that fits.
  enum class Carried { Tile, Uniform, Narrow };
  /// Tiles, or scalars if `shape` is empty.
  ValueList combine(mlir::Region &region, mlir::ValueRange left, mlir::ValueRange right, llvm::ArrayRef<int64_t> shape,
                    llvm::ArrayRef<Carried> kinds = {});
  ValueList spreadRows(ValueList values);

  // CarriedValues.cpp: what reductions carry
  llvm::SmallVector<Carried> kindsOf(mlir::graph::LoopsOp op);
  void dropLanes(mlir::graph::LoopsOp op, llvm::ArrayRef<Carried> kinds, ValueList &values);
  /// `usual` is the identity as a tile or as a scalar.
  mlir::Value initialOf(Carried kind, mlir::TypedAttr init, mlir::Value usual);
  /// Whether one tile holds all that is reduced, so that nothing is carried.
  bool isOnlyTile() const;
  bool mayBePartial() const;
  bool dropsLanesAtEnd() const;
  int64_t foldedAxis() const { return isVectorReduced() && schedule.rowAxis >= 0 && !isRowReduced() ? 1 : 0; }

  // SumBlocks.cpp: sums in blocks
  /// A reduction of the current stage, or what is stored in its loop.
  struct Reduction {
    const FusedMember *member;
    llvm::SmallVector<Carried> kinds;
  };
  /// While it lives, loops over reduced axes carry `items`, from `initial` on, block by block if rounding matters.
  struct SumBlocks {
    SumBlocks(KernelEmitter &emitter, llvm::ArrayRef<Reduction> items, mlir::ValueRange initial);
    ~SumBlocks() { emitter.sumBlocks = nullptr; }
    ValueList join(mlir::ValueRange before, mlir::ValueRange block) const;
    /// Whether `values` are the identities from number `first` on.
    bool isInitial(mlir::ValueRange values, size_t first) const;

    KernelEmitter &emitter;
    llvm::ArrayRef<Reduction> items;
    mlir::ValueRange initial;
  };
  /// A loop over [low, high) of an axis of `extent`, of which each iteration gives `terms` to an accumulator.
  ValueList emitReducedFor(mlir::Value low, mlir::Value high, int64_t step, SizeExpr extent, int64_t terms,
                           mlir::ValueRange carried, LoopFn body);
  ValueList emitSteps(int64_t count, mlir::ValueRange carried,
                      llvm::function_ref<ValueList(int64_t, mlir::ValueRange)> step);
  llvm::SmallVector<int64_t> blockSteps(SizeExpr extent, int64_t step, int64_t terms) const;
  int64_t termsFrom(unsigned axis) const;
  int64_t mostTerms() const;

  llvm::SmallVector<Reduction> reductionsOf(int stage, ValueList &initial);
  const FusedMember *onlyReductionOf(llvm::ArrayRef<Reduction> items);
  void storeResults(mlir::graph::LoopsOp op);
  ValueList emitPoint(llvm::ArrayRef<Reduction> items, const SumBlocks &blocks, mlir::ValueRange carried,
                      bool &hasIdentity);

  // StreamedColumns.cpp: columns that are reduced in the order of memory
  bool isStreamed() const { return schedule.streamedRows > 0 && segmentEnds.empty(); }
  void emitStreamed();
  ValueList loadStreamed(size_t level, mlir::ValueRange like);
  void storeStreamed(size_t level, mlir::ValueRange values);
  mlir::Value streamedSlot();
  mlir::Value streamedPointer(size_t level, size_t number, mlir::Type type);

  // OnlineSum.cpp: a maximum and the sum of exponentials relative to it, in one pass
  void emitOnline(const FusedMember &maximum, const FusedMember &sum, llvm::ArrayRef<Reduction> items);
  void finishOnline(const FusedMember &maximum, const FusedMember &sum, mlir::ValueRange values);

  // OrderedEmitter.cpp: scatters and scans
  ValueList initialOf(mlir::graph::LoopsOp op);
  ValueList emitOrdered(const FusedMember &member, mlir::ValueRange carried);
  ValueList emitScan(mlir::graph::LoopsOp op, mlir::ValueRange values, mlir::ValueRange carried, mlir::Value mask);
  void loadAhead(llvm::StringRef axis, mlir::Value index);
  void storeScanned(mlir::graph::LoopsOp op, mlir::ValueRange folded, mlir::Value mask);
  void emitScatter(mlir::graph::LoopsOp op, mlir::ValueRange values, mlir::ValueRange scalars, mlir::Value mask);

  // MemberEmitter.cpp: bodies
  /// The yielded values; for `writeAt` its scalars and its mask (null if it has none).
  ValueList emitBody(const FusedMember &member, ValueList *scalars = nullptr, mlir::Value *writeMask = nullptr);
  mlir::Value emitLoad(mlir::graph::LoadOp load, llvm::function_ref<mlir::Value(mlir::Value)> lookup);
  mlir::Value emitMemory(mlir::graph::LoadOp load, SizeExpr offset, const ExprEmitter::Bindings &scalars,
                         bool scalarsVary, mlir::Value mask, mlir::Value other);
  void passMarks(mlir::Operation *op);
  mlir::Value emitGeneric(mlir::Operation &op, llvm::function_ref<mlir::Value(mlir::Value)> lookup);
  mlir::Value valueOf(mlir::Value result);
  mlir::Value loadBack(mlir::Value result);
  // Values kept in scratch memory from one stage to the next, where computing them again costs more.
  bool isWorthKeeping(const FusedMember &member);
  void findRepeats();
  void keep(mlir::Value result, mlir::Value value);
  mlir::Value loadKept(mlir::Value result);
  mlir::Value scratchPointer(mlir::Value result);
  SizeExpr scratchIndex() const;
  // Rows held in shared memory from the first stage that reads them on.
  bool isHeld(SizeExpr offset) const;
  mlir::Value heldLoad(mlir::graph::LoadOp load, SizeExpr offset);
  void dropUnusedHolds();
  void forgetLoads();
  /// `where`: a tile of the elements to be written; null for all.
  void store(mlir::Value value, mlir::Value result, mlir::Value where = {});
  /// A structured load of a buffer of the group at `offset` (free of x<k>).
  mlir::Value structuredLoad(mlir::Value pointer, SizeExpr offset, mlir::Type elementType, mlir::Value mask = {},
                             bool isOneOfSeveral = false);
  mlir::Value gatherMask();
  /// Lanes that do not lie before the row; null where none does.
  mlir::Value skippedMask();
  int64_t tileLanes() const { return fewerLanes > 0 ? fewerLanes : schedule.lanes; }
  bool isPartialTile() const { return validLanes || skippedLanes; }
  std::pair<mlir::Value, mlir::Value> tilePositions();
  ValueList validOfTile();
  ExprEmitter::Bindings tileBindings();
  //===-- places of single elements (GatherOffsets.cpp)
  struct Places {
    mlir::Value pointer, offsets;
  };
  Places placesOf(mlir::Value buffer, SizeExpr offset);
  ExprEmitter::Bindings narrowBindings(SizeExpr expr);
  mlir::Value gatherElements(mlir::graph::LoadOp load, SizeExpr offset, bool scalarsVary, mlir::Value mask,
                             mlir::Value other);
  static bool isOneOfSeveral(mlir::graph::LoadOp load);
  bool isAcross(SizeExpr offset) const;
  mlir::Value turned(mlir::Value value);
  /// `op` itself, or an equal one made earlier in this scope.
  mlir::Value reuse(mlir::Operation *op);

  mlir::Value integerArgument(SizeExpr expr);
  mlir::Value pointerOf(mlir::Value buffer);
  mlir::Type tileOf(mlir::Type element) const;
  llvm::SmallVector<int64_t> tileShape() const;
  /// Whether all lanes (and rows) agree on the value of `expr`, which is free of x<k>.
  bool isUniform(SizeExpr expr) const { return !isAlongTile(expr); }
  bool isAlwaysFull() const;
  /// Of what a reduction carries from one tile to the next.
  llvm::SmallVector<int64_t> accumulatorShape() const;
  bool isVectorReduced() const { return schedule.vectorAxis >= 0 && loops.axes[schedule.vectorAxis].reduced; }
  llvm::StringRef vectorName() const { return loops.axes[schedule.vectorAxis].name; }
  llvm::StringRef rowName() const { return loops.axes[schedule.rowAxis].name; }
  llvm::StringRef interleavedName() const { return loops.axes[schedule.interleavedAxis].name; }
  /// Rows of a tile are folded when it is made, so that their accumulators share registers. Threads do so at the end,
  /// and so do rows whose lanes are folded, too.
  bool foldsRowsAtOnce() const { return isRowReduced() && !options.isGpu && !isVectorReduced(); }
  bool isRowReduced() const { return schedule.rowAxis >= 0 && loops.axes[schedule.rowAxis].reduced; }
  /// Whether tiles have a row axis where the builder stands.
  bool hasRows() const { return schedule.rowAxis >= 0 && (!isRowReduced() || isInRowLoop); }
  bool isAlongTile(SizeExpr expr) const {
    return (schedule.vectorAxis >= 0 && expr.contains(vectorName())) || (hasRows() && expr.contains(rowName()));
  }
  /// Whether `offset` has a stride along each axis of tiles.
  bool isLinear(SizeExpr offset) const;
  bool escapes(mlir::Value result) const { return llvm::is_contained(loops.outputs, result); }

  /// What has been computed where the builder stands; loops and branches open a new one.
  struct Scope {
    llvm::DenseMap<mlir::Value, mlir::Value> values;
    llvm::DenseMap<unsigned, llvm::SmallVector<mlir::Operation *, 1>> ops;
  };
  struct ScopeGuard {
    explicit ScopeGuard(KernelEmitter &emitter) : emitter(emitter) { emitter.scopes.emplace_back(); }
    ~ScopeGuard() { emitter.scopes.pop_back(); }
    KernelEmitter &emitter;
  };

  /// Short rows side by side: what lives on the parallel axes alone is a tile of one lane per row. Where a row lies in
  /// one warp of a GPU, all threads of the row have it instead.
  bool hasColumns() const {
    return schedule.rowAxis >= 0 && isVectorReduced() && !isRowReduced() && !(options.isGpu && schedule.hasRowsInWarps);
  }
  /// Whether a program takes such tiles one after the other: on a processor.
  bool hasColumnLoop() const { return !options.isGpu && hasColumns(); }
  /// While it lives, the rows of such tiles are the lanes.
  class ColumnGuard {
  public:
    explicit ColumnGuard(KernelEmitter &emitter);
    ~ColumnGuard();

  private:
    KernelEmitter &emitter;
    Schedule schedule;
    mlir::Value validLanes, validRows;
  };
  mlir::Value spreadColumn(mlir::Value value);

  /// While it lives, the rows of tiles are the lanes, and the lanes the rows.
  class TurnGuard {
  public:
    explicit TurnGuard(KernelEmitter &emitter);
    ~TurnGuard();

  private:
    void turn();
    KernelEmitter &emitter;
  };

  FusedLoops &loops;
  Schedule schedule;
  const BuildOptions &options;
  mlir::ModuleOp module;
  mlir::ImplicitLocOpBuilder builder;
  ExprEmitter exprs;
  mlir::tile::KernelOp kernel;
  llvm::DenseMap<mlir::Value, mlir::Value> pointers;
  llvm::DenseMap<SizeExpr, mlir::Value> integerArguments;
  std::vector<Scope> scopes;
  /// Members of later stages that exist already.
  llvm::SmallPtrSet<const FusedMember *, 2> finished;
  /// Axes as scalars; the vector and row axes as the first index of the current tile.
  ExprEmitter::Bindings bindings;
  mlir::Value blockLow, blockHigh, rowLow, rowHigh, axisLow, axisHigh;
  bool isInRowLoop = false;
  /// Lanes and rows of the current tile that lie inside the domain; null when all do.
  mlir::Value validLanes, validRows;
  /// Lanes of the current tile that lie before the row, and where the tile lies among those of an aligned row; null
  /// when none do, or rows are not aligned.
  mlir::Value skippedLanes, tilePlace;
  int64_t fewerLanes = 0;
  bool isSurrounded = false;
  /// Comparisons that change along the vector axis, where its segments end (the last one's end is the axis's), and what
  /// is known in the current one.
  llvm::SmallVector<Edge> edges;
  llvm::SmallVector<SizeExpr> segmentEnds;
  /// Whether indices have other strides in other segments, and where the current one begins and ends.
  bool indicesTurn = false;
  std::optional<std::pair<SizeExpr, SizeExpr>> segment;
  /// Likewise on GPU, where they choose among versions of a tile.
  llvm::SmallVector<int64_t> tileEdges;
  llvm::DenseMap<mlir::Operation *, bool> decided;
  int currentStage = 0;
  const SumBlocks *sumBlocks = nullptr;
  /// By result: its byte offset in scratch memory, and the stage that wrote it.
  struct Kept {
    SizeExpr offset;
    int stage;
  };
  llvm::DenseMap<mlir::Value, Kept> kept;
  /// Byte offsets in scratch memory of what streamed reductions carry, level by level, and how many levels there are.
  llvm::SmallVector<SizeExpr> streamedOffsets;
  size_t streamedLevels = 0;
  /// By buffer and offset: where its row is held, and the stage that reads it first.
  struct HeldRow {
    int64_t offset;
    int stage;
  };
  llvm::DenseMap<std::pair<mlir::Value, SizeExpr>, HeldRow> heldRows;
  int64_t heldBytes = 0;
  int conditionDepth = 0;
  struct Repeat {
    int work = 0, lastUse = 0;
  };
  llvm::DenseMap<const FusedMember *, Repeat> repeats;
};

} // namespace torch_tile::tile_build
