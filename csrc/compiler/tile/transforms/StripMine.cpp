#include "compiler/tile/transforms/Passes.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"

namespace mlir::tile {
#define GEN_PASS_DEF_STRIPMINE
#include "compiler/tile/transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

/// What code generation takes as one vector.
static constexpr int64_t maxLanes = 256;

static bool isLong(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile && tile.getRank() == 1 && tile.getDimSize(0) > maxLanes;
}
static bool hasLong(TypeRange types) { return llvm::any_of(types, isLong); }
static bool touchesLong(Operation *op) { return hasLong(op->getOperandTypes()) || hasLong(op->getResultTypes()); }

/// Ops that need a loop of their own at their place.
static bool isAnchor(Operation *op) { return isa<StoreOp, ScatterOp, ReduceOp, CheckIndexOp>(op); }
static bool isWrite(Operation *op) { return isa<StoreOp, ScatterOp>(op); }

/// Computing these again costs less than a round trip through memory.
static bool isCheap(Operation *op) {
  return isa<IotaOp, SplatOp, BroadcastOp, LoadOp>(op) ||
         (isa<arith::ArithDialect>(op->getDialect()) && !isa<arith::DivFOp>(op));
}
/// The same on every chunk up to a shift: not even a load.
static bool isFree(Operation *op) { return isa<IotaOp, SplatOp, BroadcastOp, arith::ConstantOp>(op); }

namespace {
class StripMiner {
public:
  StripMiner(KernelOp kernel, int64_t lanes)
      : kernel(kernel), maxChunk(lanes), b(kernel.getLoc(), kernel.getContext()) {}
  LogicalResult run();

private:
  /// Chunks made in the loop being built.
  struct Loop {
    Value start; // i64: first lane
    int64_t lanes;
    llvm::DenseMap<Value, Value> chunks;
    SmallVector<std::pair<Value, Value>> kept; // value and its scratch, usable after the loop
  };

  LogicalResult runBlock(Block &block);
  LogicalResult lowerAnchor(Operation *op);
  LogicalResult lowerReduce(ReduceOp op);
  LogicalResult keepNow(Operation *op);

  FailureOr<Value> chunk(Value value, Loop &loop);
  FailureOr<Value> createChunk(Operation *op, Loop &loop);
  SmallVector<Value> combine(ReduceOp op, ValueRange lhs, ValueRange rhs);

  Type chunkType(Type type, int64_t lanes) { return RankedTensorType::get({lanes}, getElementTypeOrSelf(type)); }
  int64_t chunkLanes(int64_t lanes) const;
  Value i64(int64_t value) { return arith::ConstantOp::create(b, b.getI64IntegerAttr(value)); }
  Value splat(Value scalar, int64_t lanes) { return SplatOp::create(b, chunkType(scalar.getType(), lanes), scalar); }
  /// offset + start * stride.
  Value moveOffset(Value offset, Loop &loop, ArrayRef<int64_t> staticStrides, ValueRange strides);
  Value scratchFor(Value value);

  void findAnchors(Block &block);
  bool mustKeep(Operation *op);
  bool mayAlias(Value base, Value other);

  KernelOp kernel;
  int64_t maxChunk;
  ImplicitLocOpBuilder b;
  int64_t scratchBytes = 0;
  llvm::DenseMap<Value, Value> scratchOf;                                // values that lie in scratch
  llvm::DenseMap<Value, llvm::SmallSetVector<Operation *, 4>> anchorsOf; // who needs a value, through pointwise ops
};
} // namespace

int64_t StripMiner::chunkLanes(int64_t lanes) const {
  int64_t result = maxChunk;
  while (lanes % result != 0)
    --result;
  return result;
}

//===-- analysis ------------------------------------------------------------------------------------------------===//

static bool hasOuterUser(Operation *op) {
  return llvm::any_of(op->getUsers(), [&](Operation *user) { return user->getBlock() != op->getBlock(); });
}

/// Users come after their operands, so one walk backwards finds for each value all anchors that need it. What a nested
/// block uses is computed at its own place, which makes it an anchor too.
void StripMiner::findAnchors(Block &block) {
  for (Operation &op : llvm::reverse(block)) {
    if (!touchesLong(&op))
      continue;
    llvm::SmallSetVector<Operation *, 4> anchors;
    if (isAnchor(&op) || (!isFree(&op) && hasOuterUser(&op)))
      anchors.insert(&op);
    else
      for (Value result : op.getResults())
        for (Operation *anchor : anchorsOf[result])
          anchors.insert(anchor);
    for (Value operand : op.getOperands())
      if (isLong(operand.getType()))
        anchorsOf[operand].insert(anchors.begin(), anchors.end());
  }
}

static Value rootOf(Value base) {
  while (auto add = base.getDefiningOp<PtrAddOp>())
    base = add.getBase();
  return base;
}

bool StripMiner::mayAlias(Value base, Value other) {
  Value left = rootOf(base), right = rootOf(other);
  bool isLeftScratch = left.getDefiningOp<ScratchOp>() != nullptr,
       isRightScratch = right.getDefiningOp<ScratchOp>() != nullptr;
  if (isLeftScratch != isRightScratch)
    return false;
  return left == right || isLeftScratch || !kernel->hasAttr("tile.noalias_args");
}

/// A store of exactly the lanes that a load read: each chunk is read before it is written.
static bool isSameAccess(Operation *read, Operation *write) {
  auto load = dyn_cast<LoadOp>(read);
  auto store = dyn_cast<StoreOp>(write);
  return load && store && load.getBase() == store.getBase() && load.getOffset() == store.getOffset() &&
         load.getStrides() == store.getStrides() && load.getStaticStrides() == store.getStaticStrides() &&
         store.getStaticStrides()[0] != 0;
}

/// Whether a value has to be in scratch from its own place on.
bool StripMiner::mustKeep(Operation *op) {
  if (isFree(op))
    return false;
  auto &anchors = anchorsOf[op->getResult(0)];
  if (hasOuterUser(op))
    return true;
  Value base = isa<LoadOp>(op)     ? cast<LoadOp>(op).getBase()
               : isa<GatherOp>(op) ? cast<GatherOp>(op).getBase()
                                   : Value();
  if (!base)
    return false;
  for (Operation *anchor : anchors)
    for (Operation *next = op->getNextNode(); next; next = next->getNextNode()) {
      bool isConflict =
          next->walk([&](Operation *inner) {
                if (!isWrite(inner) || (inner == anchor && isSameAccess(op, inner)))
                  return WalkResult::advance();
                Value written = isa<StoreOp>(inner) ? cast<StoreOp>(inner).getBase() : cast<ScatterOp>(inner).getBase();
                return mayAlias(base, written) ? WalkResult::interrupt() : WalkResult::advance();
              })
              .wasInterrupted();
      if (isConflict)
        return true;
      if (next == anchor)
        break;
    }
  return false;
}

//===-- chunks --------------------------------------------------------------------------------------------------===//

Value StripMiner::moveOffset(Value offset, Loop &loop, ArrayRef<int64_t> staticStrides, ValueRange strides) {
  if (staticStrides[0] == 1)
    return arith::AddIOp::create(b, offset, loop.start);
  Value stride = ShapedType::isDynamic(staticStrides[0]) ? strides[0] : i64(staticStrides[0]);
  return arith::AddIOp::create(b, offset, arith::MulIOp::create(b, loop.start, stride));
}

Value StripMiner::scratchFor(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  Type element = type.getElementType();
  int64_t bytes = element.isIndex() ? 8 : std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
  int64_t offset = scratchBytes;
  scratchBytes += llvm::alignTo(bytes * type.getNumElements(), 64);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&kernel.getBody().front());
  return ScratchOp::create(b, PtrType::get(b.getContext(), element), i64(offset));
}

FailureOr<Value> StripMiner::chunk(Value value, Loop &loop) {
  if (!isLong(value.getType()))
    return value;
  if (Value known = loop.chunks.lookup(value))
    return known;
  if (Value scratch = scratchOf.lookup(value)) {
    Type type = chunkType(value.getType(), loop.lanes);
    Value loaded = LoadOp::create(b, type, scratch, loop.start, ValueRange{}, ArrayRef<int64_t>{1}, ValueRange{},
                                  /*mask=*/Value(), /*other=*/Value());
    return loop.chunks[value] = loaded;
  }
  Operation *op = value.getDefiningOp();
  if (!op)
    return emitError(value.getLoc(), "unsupported: a tile of ") << value.getType() << " carried by a loop or branch";
  auto made = createChunk(op, loop);
  if (failed(made))
    return failure();
  loop.chunks[value] = *made;
  if (!isCheap(op) && anchorsOf[value].size() > 1) {
    Value scratch = scratchFor(value);
    StoreOp::create(b, *made, scratch, loop.start, ValueRange{}, ArrayRef<int64_t>{1}, ValueRange{});
    loop.kept.emplace_back(value, scratch);
  }
  return *made;
}

FailureOr<Value> StripMiner::createChunk(Operation *op, Loop &loop) {
  b.setLoc(op->getLoc());
  Type type = chunkType(op->getResult(0).getType(), loop.lanes);
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto elements = dyn_cast<SplatElementsAttr>(constant.getValue());
    if (!elements)
      return op->emitOpError("unsupported: a long constant of different elements");
    return arith::ConstantOp::create(
               b, DenseElementsAttr::get(cast<ShapedType>(type), elements.getSplatValue<Attribute>()))
        .getResult();
  }
  if (isa<IotaOp>(op)) {
    Type element = getElementTypeOrSelf(type);
    Value start = loop.start;
    if (element.isIndex())
      start = arith::IndexCastOp::create(b, element, start);
    else if (element.getIntOrFloatBitWidth() < 64)
      start = arith::TruncIOp::create(b, element, start);
    return arith::AddIOp::create(b, IotaOp::create(b, type), splat(start, loop.lanes)).getResult();
  }
  if (auto source = dyn_cast<SplatOp>(op))
    return SplatOp::create(b, type, source.getSource()).getResult();
  if (auto repeat = dyn_cast<BroadcastOp>(op))
    return BroadcastOp::create(b, type, repeat.getSource()).getResult();
  if (auto load = dyn_cast<LoadOp>(op)) {
    Value offset = moveOffset(load.getOffset(), loop, load.getStaticStrides(), load.getStrides());
    SmallVector<Value> valid;
    if (!load.getValid().empty())
      valid.push_back(arith::SubIOp::create(b, load.getValid()[0], loop.start));
    Value mask;
    if (load.getMask()) {
      auto piece = chunk(load.getMask(), loop);
      if (failed(piece))
        return failure();
      mask = *piece;
    }
    b.setLoc(op->getLoc());
    return LoadOp::create(b, type, load.getBase(), offset, load.getStrides(), load.getStaticStrides(), valid, mask,
                          load.getOther())
        .getResult();
  }
  if (!isa<GatherOp, UniformOp>(op) && !OpTrait::hasElementwiseMappableTraits(op))
    return op->emitOpError("unsupported: on a tile of ") << op->getResult(0).getType();
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    auto piece = chunk(operand, loop);
    if (failed(piece))
      return failure();
    mapping.map(operand, *piece);
  }
  b.setLoc(op->getLoc());
  Operation *clone = b.clone(*op, mapping);
  clone->getResult(0).setType(type);
  return clone->getResult(0);
}

/// The combiner on tiles: its scalar region, op by op.
SmallVector<Value> StripMiner::combine(ReduceOp op, ValueRange lhs, ValueRange rhs) {
  Block &block = op.getCombine().front();
  IRMapping mapping;
  for (auto [argument, value] : llvm::zip_equal(
           block.getArguments(), llvm::concat<const Value>(SmallVector<Value>(lhs), SmallVector<Value>(rhs))))
    mapping.map(argument, value);
  int64_t lanes = cast<RankedTensorType>(lhs[0].getType()).getDimSize(0);
  auto widen = [&](Value value) {
    Value mapped = mapping.lookupOrDefault(value);
    return isa<RankedTensorType>(mapped.getType()) ? mapped : splat(mapped, lanes);
  };
  for (Operation &inner : block.without_terminator()) {
    if (isa<arith::ConstantOp>(inner)) {
      b.clone(inner, mapping);
      continue;
    }
    SmallVector<Value> operands = llvm::map_to_vector(inner.getOperands(), widen);
    SmallVector<Type> types =
        llvm::map_to_vector(inner.getResultTypes(), [&](Type type) { return chunkType(type, lanes); });
    OperationState state(inner.getLoc(), inner.getName(), operands, types, inner.getAttrs());
    mapping.map(inner.getResults(), b.create(state)->getResults());
  }
  return llvm::map_to_vector(block.getTerminator()->getOperands(), widen);
}

//===-- loops ---------------------------------------------------------------------------------------------------===//

LogicalResult StripMiner::lowerReduce(ReduceOp op) {
  for (Operation &inner : op.getCombine().front().without_terminator())
    if (!OpTrait::hasElementwiseMappableTraits(&inner) && !isa<arith::ConstantOp>(inner))
      return inner.emitOpError("unsupported: in the combiner of a long reduction");
  int64_t numLanes = cast<RankedTensorType>(op.getSources()[0].getType()).getDimSize(0);
  b.setInsertionPoint(op);
  b.setLoc(op.getLoc());
  Loop loop;
  loop.lanes = chunkLanes(numLanes);
  SmallVector<Value> inits;
  for (Value source : op.getSources())
    inits.push_back(
        arith::ConstantOp::create(b, cast<TypedAttr>(b.getZeroAttr(chunkType(source.getType(), loop.lanes)))));
  Value zero = i64(0);
  auto chunks = scf::ForOp::create(b, zero, i64(numLanes), i64(loop.lanes), inits);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(chunks.getBody());
    loop.start = chunks.getInductionVar();
    SmallVector<Value> pieces;
    for (Value source : op.getSources()) {
      auto piece = chunk(source, loop);
      if (failed(piece))
        return failure();
      pieces.push_back(*piece);
    }
    // The first chunk starts the accumulators, since a combiner need not have an identity.
    b.setLoc(op.getLoc());
    Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, loop.start, zero);
    SmallVector<Value> combined = combine(op, chunks.getRegionIterArgs(), pieces), next;
    for (auto [piece, value] : llvm::zip_equal(pieces, combined))
      next.push_back(arith::SelectOp::create(b, isFirst, piece, value));
    scf::YieldOp::create(b, next);
  }
  auto last = ReduceOp::create(b, op.getResultTypes(), chunks.getResults(), op.getAxis());
  IRMapping mapping;
  op.getCombine().cloneInto(&last.getCombine(), mapping);
  op->replaceAllUsesWith(last.getResults());
  for (auto [value, scratch] : loop.kept)
    scratchOf[value] = scratch;
  return success();
}

/// A loop that does `op` chunk by chunk, in lane order.
LogicalResult StripMiner::lowerAnchor(Operation *op) {
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return lowerReduce(reduce);
  Value tile = llvm::find_if(op->getOperands(), [](Value operand) { return isLong(operand.getType()); })[0];
  int64_t numLanes = cast<RankedTensorType>(tile.getType()).getDimSize(0);
  Value result = op->getNumResults() ? op->getResult(0) : Value();
  Value scratch = result && !result.use_empty() ? scratchFor(result) : Value();
  b.setInsertionPoint(op);
  b.setLoc(op->getLoc());
  Loop loop;
  loop.lanes = chunkLanes(numLanes);
  auto chunks = scf::ForOp::create(b, i64(0), i64(numLanes), i64(loop.lanes));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(chunks.getBody());
  loop.start = chunks.getInductionVar();
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    auto piece = chunk(operand, loop);
    if (failed(piece))
      return failure();
    mapping.map(operand, *piece);
  }
  b.setLoc(op->getLoc());
  if (auto store = dyn_cast<StoreOp>(op)) {
    SmallVector<Value> valid;
    if (!store.getValid().empty())
      valid.push_back(arith::SubIOp::create(b, store.getValid()[0], loop.start));
    Value offset = moveOffset(store.getOffset(), loop, store.getStaticStrides(), store.getStrides());
    StoreOp::create(b, mapping.lookup(store.getValue()), store.getBase(), offset, store.getStrides(),
                    store.getStaticStrides(), valid);
  } else {
    Operation *clone = b.clone(*op, mapping);
    if (auto check = dyn_cast<CheckIndexOp>(clone)) {
      if (check.getValid()) {
        b.setInsertionPoint(clone);
        check.getValidMutable().assign(arith::SubIOp::create(b, check.getValid(), loop.start).getResult());
        b.setInsertionPointAfter(clone);
      }
      clone->getResult(0).setType(chunkType(result.getType(), loop.lanes));
      if (scratch)
        StoreOp::create(b, clone->getResult(0), scratch, loop.start, ValueRange{}, ArrayRef<int64_t>{1}, ValueRange{});
    }
  }
  if (scratch)
    scratchOf[result] = scratch;
  for (auto [value, kept] : loop.kept)
    scratchOf[value] = kept;
  return success();
}

/// Computes a value into scratch at its own place.
LogicalResult StripMiner::keepNow(Operation *op) {
  Value value = op->getResult(0), scratch = scratchFor(value);
  int64_t numLanes = cast<RankedTensorType>(value.getType()).getDimSize(0);
  b.setInsertionPoint(op);
  b.setLoc(op->getLoc());
  Loop loop;
  loop.lanes = chunkLanes(numLanes);
  auto chunks = scf::ForOp::create(b, i64(0), i64(numLanes), i64(loop.lanes));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(chunks.getBody());
  loop.start = chunks.getInductionVar();
  auto piece = createChunk(op, loop);
  if (failed(piece))
    return failure();
  StoreOp::create(b, *piece, scratch, loop.start, ValueRange{}, ArrayRef<int64_t>{1}, ValueRange{});
  scratchOf[value] = scratch;
  for (auto [other, kept] : loop.kept)
    scratchOf[other] = kept;
  return success();
}

LogicalResult StripMiner::runBlock(Block &block) {
  findAnchors(block);
  SmallVector<Operation *> replaced;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (op.getNumRegions() && !isa<ReduceOp, ScanOp, ScatterOp>(op)) {
      if (touchesLong(&op))
        return op.emitOpError("unsupported: a long tile carried by a loop or branch");
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          if (failed(runBlock(inner)))
            return failure();
      continue;
    }
    if (!touchesLong(&op))
      continue;
    if (isAnchor(&op)) {
      if (failed(lowerAnchor(&op)))
        return failure();
    } else if (op.getNumResults() != 1 || op.hasTrait<OpTrait::IsTerminator>()) {
      return op.emitOpError("unsupported: on a long tile");
    } else if (mustKeep(&op) && failed(keepNow(&op))) {
      return failure();
    }
    replaced.push_back(&op);
  }
  for (Operation *op : llvm::reverse(replaced))
    op->erase();
  return success();
}

LogicalResult StripMiner::run() {
  bool hasLongTiles = false, usesScratch = false;
  kernel.walk([&](Operation *op) {
    hasLongTiles |= touchesLong(op);
    usesScratch |= isa<ScratchOp>(op);
  });
  if (!hasLongTiles)
    return success();
  auto bytes = kernel->getAttrOfType<IntegerAttr>("tile.scratch_bytes");
  if (usesScratch && !bytes)
    return kernel.emitOpError("expected tile.scratch_bytes to say how much scratch the kernel uses itself");
  scratchBytes = bytes ? llvm::alignTo(bytes.getInt(), 64) : 0;
  if (failed(runBlock(kernel.getBody().front())))
    return failure();
  if (scratchBytes)
    kernel->setAttr("tile.scratch_bytes", b.getI64IntegerAttr(scratchBytes));
  return success();
}

LogicalResult mlir::tile::stripMine(KernelOp kernel, int64_t lanes) { return StripMiner(kernel, lanes).run(); }

namespace {
struct StripMinePass : mlir::tile::impl::StripMineBase<StripMinePass> {
  using mlir::tile::impl::StripMineBase<StripMinePass>::StripMineBase;
  void runOnOperation() override {
    if (lanes < 1 || lanes > maxLanes) {
      getOperation().emitError("expected lanes between 1 and ") << maxLanes << ", got " << lanes;
      return signalPassFailure();
    }
    if (failed(stripMine(getOperation(), lanes)))
      signalPassFailure();
  }
};
} // namespace
