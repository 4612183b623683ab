// Which tiles are long, where their pieces are computed, and the walk over the kernel.
#include "compiler/tile/transforms/Passes.h"
#include "compiler/tile/transforms/StripMiner.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::tile {
#define GEN_PASS_DEF_STRIPMINE
#include "compiler/tile/transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

/// What code generation takes as one vector, and what it should take in kernels that loop over tiles anyway.
static constexpr int64_t maxLanes = 256;
static constexpr int64_t maxGeneralLanes = 128;
/// Elements of a tile of several axes that code generation holds in registers.
static constexpr int64_t maxElements = 256;
/// Recomputing more than this costs more than a round trip through scratch.
static constexpr int64_t maxRecomputeCost = 24;

StripMiner::StripMiner(KernelOp kernel, int64_t lanes, int64_t vectorBits)
    : kernel(kernel), maxPiece(lanes), vectorBits(vectorBits), b(kernel.getLoc(), kernel.getContext()) {}

//===-- kinds of ops ----------------------------------------------------------------------------------------------===//

static bool isTile(Value value) { return isa<RankedTensorType>(value.getType()); }

bool StripMiner::isLong(Type type) const {
  auto tile = dyn_cast<RankedTensorType>(type);
  if (!tile || tile.getRank() == 0)
    return false;
  if (tile.getRank() == 1)
    return tile.getNumElements() > (isGeneral ? maxGeneralLanes : maxLanes);
  return isGeneral;
}

/// Ops that code generation knows for scalars only.
static bool isStructural(Operation *op) {
  // Code generation scans what registers hold, if the combiner goes for vectors.
  if (auto scan = dyn_cast<ScanOp>(op))
    return llvm::any_of(scan.getCombine().front().without_terminator(), [](Operation &inner) {
      return !OpTrait::hasElementwiseMappableTraits(&inner) && !isa<arith::ConstantOp>(inner);
    });
  if (isa<DotOp, HistogramOp, MapOp, CatOp, JoinOp, SplitOp, TakeOp>(op))
    return true;
  return isa<AtomicRmwOp, AtomicCasOp, PrintOp, AssertOp>(op) && llvm::any_of(op->getOperands(), isTile);
}

bool StripMiner::isAnchor(Operation *op) {
  return isa<StoreOp, ScatterOp, ReduceOp, CheckIndexOp, ScanOp, DotOp, HistogramOp, MapOp, CatOp, AtomicRmwOp,
             AtomicCasOp, PrintOp, AssertOp, scf::ForOp, scf::WhileOp, scf::IfOp>(op) ||
         op->hasTrait<OpTrait::IsTerminator>();
}

bool StripMiner::isPiecewise(Operation *op) {
  return isa<arith::ConstantOp, IotaOp, SplatOp, BroadcastOp, ExpandDimsOp, ReshapeOp, TransOp, JoinOp, SplitOp, TakeOp,
             ShuffleXorOp, LoadOp, GatherOp, UniformOp, ExtractOp, PtrAddOp, PtrToIntOp, IntToPtrOp, PtrCastOp>(op) ||
         OpTrait::hasElementwiseMappableTraits(op);
}

static bool isWrite(Operation *op) { return isa<StoreOp, ScatterOp, AtomicRmwOp, AtomicCasOp>(op); }

static Value baseOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case<LoadOp, StoreOp, GatherOp, ScatterOp, AtomicRmwOp, AtomicCasOp>(
          [](auto access) { return access.getBase(); })
      .Default(Value());
}

/// The same on every piece up to a shift: not even a load.
bool StripMiner::isFree(Operation *op) { return isa<IotaOp, SplatOp, arith::ConstantOp>(op); }

int64_t StripMiner::recomputeCost(Value value) {
  RankedTensorType type = tileOf(value);
  if (!type)
    return 0;
  if (scratchOf.contains(value))
    return 1;
  auto known = costs.find(value);
  if (known != costs.end())
    return known->second;
  Operation *op = value.getDefiningOp();
  bool isPointer = isa<PtrType>(type.getElementType());
  int64_t cost = -1;
  auto sum = [&](int64_t own) {
    int64_t total = own;
    for (Value operand : op->getOperands()) {
      int64_t part = recomputeCost(operand);
      if (part < 0)
        return int64_t(-1);
      total += part;
    }
    return total > maxRecomputeCost ? -1 : total;
  };
  if (!op || (isAnchor(op) && !isPiecewise(op))) {
    cost = 1; // in scratch memory or in registers
  } else if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    cost = isa<SplatElementsAttr>(constant.getValue()) ? 0 : -1;
  } else if (isa<IotaOp, SplatOp>(op)) {
    cost = 0;
  } else if (isa<TransOp, SplitOp, ShuffleXorOp>(op)) {
    cost = 1;
  } else if (isa<BroadcastOp>(op)) {
    cost = std::max<int64_t>(1, sum(1));
  } else if (auto take = dyn_cast<TakeOp>(op)) {
    cost = recomputeCost(take.getIndices()) < 0 ? -1 : 2 + recomputeCost(take.getIndices());
  } else if (isa<ExpandDimsOp, ReshapeOp, JoinOp>(op)) {
    cost = sum(0);
  } else if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp>(op)) {
    cost = sum(8);
  } else if (isPointer || type.getElementType().isIntOrIndex()) {
    bool isInteger =
        llvm::none_of(op->getOperandTypes(), [](Type t) { return isa<FloatType>(getElementTypeOrSelf(t)); });
    if (isInteger && (isa<PtrAddOp, PtrToIntOp, IntToPtrOp, PtrCastOp>(op) ||
                      (isa<arith::ArithDialect>(op->getDialect()) && OpTrait::hasElementwiseMappableTraits(op))))
      cost = sum(1);
  }
  if (cost < 0 && !isLong(type))
    cost = 1; // in registers, from where it can be spilled
  return costs[value] = cost;
}

bool StripMiner::isRecomputable(Value value) { return recomputeCost(value) >= 0; }

//===-- where pieces are computed
//-----------------------------------------------------------------------------------===//

bool StripMiner::needsScratch(Operation *user, Value operand) {
  if (auto take = dyn_cast<TakeOp>(user))
    return take.getSource() == operand;
  if (auto dot = dyn_cast<DotOp>(user))
    return dot.getLhs() == operand || dot.getRhs() == operand;
  return isa<BroadcastOp, TransOp, SplitOp, ShuffleXorOp, ScanOp>(user);
}

/// Users come after their operands, so one walk backwards finds for each value all anchors that need it. What a nested
/// block uses, or an op reads out of order, is computed at its own place, which makes it an anchor too.
void StripMiner::findAnchors(Block &block) {
  for (Operation &op : llvm::reverse(block)) {
    if (!touchesLong(&op) && !isStructural(&op))
      continue;
    llvm::SmallSetVector<Operation *, 4> anchors;
    if (isAnchor(&op)) {
      anchors.insert(&op);
    } else {
      bool isKept = false;
      for (Value result : op.getResults()) {
        if (!isLong(result.getType()))
          isKept = true; // made at its own place, for registers
        if (isRecomputable(result))
          continue;
        for (Operation *user : result.getUsers())
          if (user->getBlock() != op.getBlock() || needsScratch(user, result)) {
            toKeep.insert(result);
            isKept = true;
          }
      }
      if (isKept)
        anchors.insert(&op);
      else
        for (Value result : op.getResults())
          for (Operation *anchor : anchorsOf[result])
            anchors.insert(anchor);
    }
    for (Value operand : op.getOperands())
      if (isLong(operand.getType()))
        anchorsOf[operand].insert(anchors.begin(), anchors.end());
  }
}

static Value rootOf(Value base) {
  while (Operation *op = base.getDefiningOp()) {
    if (!isa<PtrAddOp, PtrCastOp, SplatOp, BroadcastOp, ExpandDimsOp, ReshapeOp, TransOp>(op))
      break;
    base = op->getOperand(0);
  }
  return base;
}

bool StripMiner::mayAlias(Value base, Value other) {
  Value left = rootOf(base), right = rootOf(other);
  bool isLeftScratch = left.getDefiningOp<ScratchOp>() != nullptr,
       isRightScratch = right.getDefiningOp<ScratchOp>() != nullptr;
  if (isLeftScratch != isRightScratch)
    return false;
  if (left == right || isLeftScratch)
    return true;
  Block *entry = &kernel.getBody().front();
  auto isArgument = [&](Value root) { return isa<BlockArgument>(root) && root.getParentBlock() == entry; };
  return !(kernel->hasAttr("tile.noalias_args") && isArgument(left) && isArgument(right));
}

/// A store of exactly the lanes that a load read: each piece is read before it is written.
static bool isSameAccess(Operation *read, Operation *write) {
  if (auto gather = dyn_cast<GatherOp>(read)) {
    auto scatter = dyn_cast<ScatterOp>(write);
    return scatter && gather.getBase() == scatter.getBase() && gather.getOffsets() == scatter.getOffsets();
  }
  auto load = dyn_cast<LoadOp>(read);
  auto store = dyn_cast<StoreOp>(write);
  return load && store && load.getBase() == store.getBase() && load.getOffset() == store.getOffset() &&
         load.getStrides() == store.getStrides() && load.getStaticStrides() == store.getStaticStrides() &&
         load.getType() == store.getValue().getType() && !llvm::is_contained(store.getStaticStrides(), 0);
}

/// Whether a value has to be in scratch from its own place on.
bool StripMiner::mustKeep(Operation *op) {
  if (isFree(op))
    return false;
  if (llvm::any_of(op->getResults(), [&](Value result) { return toKeep.contains(result); }))
    return true;
  Value base = isa<LoadOp, GatherOp>(op) ? baseOf(op) : Value();
  if (!base)
    return false;
  for (Operation *anchor : anchorsOf[op->getResult(0)])
    for (Operation *next = op->getNextNode(); next; next = next->getNextNode()) {
      bool isConflict = next->walk([&](Operation *inner) {
                              if (!isWrite(inner) || (inner == anchor && isSameAccess(op, inner)))
                                return WalkResult::advance();
                              return mayAlias(base, baseOf(inner)) ? WalkResult::interrupt() : WalkResult::advance();
                            })
                            .wasInterrupted();
      if (isConflict)
        return true;
      if (next == anchor)
        break;
    }
  return false;
}

LogicalResult StripMiner::loop(int64_t size, int64_t step, function_ref<LogicalResult(Value)> body) {
  if (size <= step)
    return body(i64(0));
  auto loop = scf::ForOp::create(b, i64(0), i64(size), i64(step));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  ScopeGuard scope(*this);
  return body(loop.getInductionVar());
}

LogicalResult StripMiner::overPieces(RankedTensorType type, function_ref<LogicalResult(Value, int64_t)> body) {
  int64_t lanes = pieceLanes(type), size = type.getNumElements();
  ScopeGuard guard(*this);
  Scope *scope = &guard.scope;
  LogicalResult result = loop(size, lanes, [&](Value start) {
    // The loop made a scope of its own; what is kept has to be known to this one.
    Scope &inner = *scopes.back();
    inner.numElements = size;
    inner.lanes = lanes;
    inner.start = start;
    if (failed(body(start, lanes)))
      return failure();
    if (&inner != scope)
      llvm::append_range(scope->kept, inner.kept);
    return success();
  });
  finishScope(*scope);
  return result;
}

void StripMiner::finishScope(Scope &scope) {
  for (auto [value, scratch] : scope.kept)
    scratchOf[value] = scratch;
  scope.kept.clear();
}

//===-- the walk
//----------------------------------------------------------------------------------------------------===//

LogicalResult StripMiner::lowerAnchor(Operation *op) {
  b.setInsertionPoint(op);
  b.setLoc(op->getLoc());
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](StoreOp store) { return lowerStore(store); })
      .Case([&](ScatterOp scatter) { return lowerScatter(scatter); })
      .Case([&](CheckIndexOp check) { return lowerCheckIndex(check); })
      .Case<AtomicRmwOp, AtomicCasOp>([&](Operation *atomic) { return lowerAtomic(atomic); })
      .Case([&](PrintOp print) { return lowerPrint(print); })
      .Case([&](AssertOp assertion) { return lowerAssert(assertion); })
      .Case([&](HistogramOp histogram) { return lowerHistogram(histogram); })
      .Case([&](MapOp map) { return lowerMap(map); })
      .Case([&](CatOp cat) { return lowerCat(cat); })
      .Case([&](ReduceOp reduce) { return lowerReduce(reduce); })
      .Case([&](ScanOp scan) { return lowerScan(scan); })
      .Case([&](DotOp dot) { return lowerDot(dot); })
      .Case([&](scf::ForOp loop) { return lowerFor(loop); })
      .Case([&](scf::WhileOp loop) { return lowerWhile(loop); })
      .Case([&](scf::IfOp branch) { return lowerIf(branch); })
      .Default([](Operation *other) { return other->emitOpError("unsupported: on a long tile"); });
}

LogicalResult StripMiner::runBlock(Block &block, function_ref<LogicalResult()> finish) {
  findAnchors(block);
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      continue;
    bool isMined = touchesLong(&op) || isStructural(&op);
    if (!isMined) {
      if (isa<GatherOp, ScatterOp>(op)) {
        if (failed(lowerShortAccess(&op)))
          return failure();
      } else if (isa<scf::ForOp, scf::WhileOp, scf::IfOp>(op)) {
        for (Region &region : op.getRegions())
          for (Block &inner : region)
            if (failed(runBlock(inner)))
              return failure();
      }
      continue;
    }
    replaced.push_back(&op);
    if (isAnchor(&op)) {
      if (failed(lowerAnchor(&op)))
        return failure();
      continue;
    }
    if (!isPiecewise(&op))
      return op.emitOpError("unsupported: on a long tile");
    bool isKept = mustKeep(&op);
    for (Value result : op.getResults())
      if (!isLong(result.getType()) ? failed(makeShort(result)) : isKept && failed(keepNow(&op)))
        return failure();
  }
  return finish ? finish() : success();
}

LogicalResult StripMiner::run() {
  bool hasLongTiles = false, usesScratch = false, hasAccesses = false;
  kernel.walk([&](Operation *op) {
    usesScratch |= isa<ScratchOp>(op);
    hasLongTiles |= isStructural(op);
    isGeneral |= isStructural(op);
    for (Type type :
         llvm::concat<const Type>(SmallVector<Type>(op->getOperandTypes()), SmallVector<Type>(op->getResultTypes()))) {
      auto tile = dyn_cast<RankedTensorType>(type);
      if (!tile || tile.getRank() == 0)
        continue;
      bool isElementAccess = isa<GatherOp, ScatterOp>(op) || isa<PtrType>(tile.getElementType());
      hasAccesses |= isElementAccess;
      isGeneral |= tile.getRank() > 1 && (tile.getNumElements() > maxElements || isElementAccess);
    }
  });
  kernel.walk([&](Operation *op) { hasLongTiles |= touchesLong(op); });
  if (!hasLongTiles && !hasAccesses)
    return success();
  auto bytes = kernel->getAttrOfType<IntegerAttr>("tile.scratch_bytes");
  if (usesScratch && hasLongTiles && !bytes)
    return kernel.emitOpError("expected tile.scratch_bytes to say how much scratch the kernel uses itself");
  scratchBytes = bytes ? llvm::alignTo(bytes.getInt(), 64) : 0;
  splitCarriedTiles(kernel);
  ScopeGuard scope(*this);
  if (failed(runBlock(kernel.getBody().front())))
    return failure();
  for (Operation *op : replaced)
    op->dropAllReferences();
  for (Operation *op : replaced)
    if (!op->use_empty())
      return (*op->getUsers().begin())->emitOpError("unsupported: use of a long tile");
  for (Operation *op : replaced)
    op->erase();
  if (scratchBytes)
    kernel->setAttr("tile.scratch_bytes", b.getI64IntegerAttr(scratchBytes));
  return success();
}

LogicalResult mlir::tile::stripMine(KernelOp kernel, int64_t vectorBits, int64_t lanes) {
  return StripMiner(kernel, lanes, vectorBits).run();
}

namespace {
struct StripMinePass : mlir::tile::impl::StripMineBase<StripMinePass> {
  using mlir::tile::impl::StripMineBase<StripMinePass>::StripMineBase;
  void runOnOperation() override {
    if (lanes < 1 || lanes > maxLanes) {
      getOperation().emitError("expected lanes between 1 and ") << maxLanes << ", got " << lanes;
      return signalPassFailure();
    }
    if (failed(stripMine(getOperation(), vectorBits, lanes)))
      signalPassFailure();
  }
};
} // namespace
