// A program is a sequence of accesses; threads of a block see each other's only across barriers.
#include "compiler/codegen/gpu/ThreadLowering.h"

using namespace mlir;
using namespace torch_tile::codegen;

static constexpr int64_t warpSize = 32;

void ThreadLowering::barrier() {
  if (numThreads == warpSize)
    LLVM::CallIntrinsicOp::create(b, b.getStringAttr("llvm.nvvm.bar.warp.sync"), ValueRange{i32(-1)});
  else
    LLVM::CallIntrinsicOp::create(b, b.getStringAttr("llvm.nvvm.barrier.cta.sync.aligned.all"), ValueRange{i32(0)});
  pending.clear();
  hasSharedReaders = false;
}

static bool isAccess(Operation *op) { return isWrite(op) || isa<tile::LoadOp, tile::GatherOp>(op); }

bool torch_tile::codegen::isWrite(Operation *op) {
  return isa<tile::StoreOp, tile::ScatterOp, tile::AtomicRmwOp, tile::AtomicCasOp>(op);
}

Value torch_tile::codegen::baseOf(Operation *op) {
  return op->getOperand(isa<tile::AtomicCasOp>(op) ? 2 : isWrite(op) ? 1 : 0);
}

/// One step towards where pointers come from; null at the end of the way.
static Value previousPointer(Value pointer) {
  if (Operation *op = pointer.getDefiningOp())
    return isa<tile::PtrAddOp, tile::PtrCastOp, tile::SplatOp, tile::BroadcastOp, tile::ExpandDimsOp, tile::ReshapeOp,
               tile::TransOp>(op)
               ? op->getOperand(0)
               : Value();
  return {};
}

Value ThreadLowering::rootOfPointers(Value pointers) {
  for (Value next = pointers; next; next = previousPointer(pointers))
    pointers = next;
  auto argument = dyn_cast<BlockArgument>(pointers);
  if (!argument)
    return pointers.getDefiningOp<tile::ScratchOp>() ? pointers : Value();
  Operation *parent = argument.getOwner()->getParentOp();
  if (isa<tile::KernelOp>(parent))
    return pointers;
  // A loop that carries pointers moves them within what they point to.
  auto loop = dyn_cast<scf::ForOp>(parent);
  if (!loop || argument == loop.getInductionVar())
    return {};
  Value carried = loop.getTiedLoopYieldedValue(argument)->get();
  for (Value next = carried; next; next = previousPointer(carried))
    carried = next;
  return carried == pointers ? rootOfPointers(loop.getTiedLoopInit(argument)->get()) : Value();
}

/// Accesses of the same elements by the same threads; masks only leave some out.
static bool isSameElements(Operation *left, Operation *right) {
  auto describe = [](Operation *op) {
    SmallVector<Value> operands;
    Type type;
    DenseI64ArrayAttr strides;
    if (auto load = dyn_cast<tile::LoadOp>(op)) {
      operands = {load.getBase(), load.getOffset()};
      llvm::append_range(operands, load.getStrides());
      type = load.getType();
      strides = load.getStaticStridesAttr();
    } else if (auto store = dyn_cast<tile::StoreOp>(op)) {
      operands = {store.getBase(), store.getOffset()};
      llvm::append_range(operands, store.getStrides());
      type = store.getValue().getType();
      strides = store.getStaticStridesAttr();
    } else if (auto gather = dyn_cast<tile::GatherOp>(op)) {
      operands = {gather.getBase(), gather.getOffsets()};
      type = gather.getType();
    } else if (auto scatter = dyn_cast<tile::ScatterOp>(op)) {
      operands = {scatter.getBase(), scatter.getOffsets()};
      type = scatter.getValue().getType();
    }
    return std::make_tuple(operands, type, strides);
  };
  auto [operands, type, strides] = describe(left);
  // Scalars are read by all threads and written by one.
  return type && isa<RankedTensorType>(type) && std::make_tuple(operands, type, strides) == describe(right);
}

bool ThreadLowering::mayConflict(Pending earlier, Operation *later) const {
  if (!isWrite(earlier.getPointer()) && !isWrite(later))
    return false;
  Value left = rootOfPointers(baseOf(earlier.getPointer())), right = rootOfPointers(baseOf(later));
  if (left && right) {
    bool isLeftScratch = !isa<BlockArgument>(left), isRightScratch = !isa<BlockArgument>(right);
    if (isLeftScratch != isRightScratch)
      return false;
    if (!isLeftScratch && left != right && kernel->hasAttr("tile.noalias_args"))
      return false;
  }
  if (earlier.getInt() || !isSameElements(earlier.getPointer(), later))
    return true;
  // Threads with copies read what others write.
  Type type = isWrite(later) ? later->getOperand(0).getType() : later->getResult(0).getType();
  return cast<RankedTensorType>(type).getNumElements() % (numThreads * lanesOf(type)) != 0;
}

void ThreadLowering::orderAccess(Operation *op) {
  if (llvm::any_of(pending, [&](Pending earlier) { return mayConflict(earlier, op); }))
    barrier();
  pending.insert({op, /*isRepeated=*/false});
}

/// One barrier before a loop is better than one in each of its iterations.
void ThreadLowering::orderLoop(Operation *loop) {
  bool needsBarrier = false;
  loop->walk([&](Operation *op) {
    needsBarrier |= isAccess(op) && llvm::any_of(pending, [&](Pending earlier) { return mayConflict(earlier, op); });
  });
  if (needsBarrier)
    barrier();
}

/// What was pending before a block still is after it: a branch may not have been taken, a loop not entered. In a loop,
/// what its other iterations do is pending from the start.
LogicalResult ThreadLowering::lowerBlock(Block &block) {
  const SmallVector<Pending> before(pending.begin(), pending.end());
  bool hadSharedReaders = hasSharedReaders;
  Operation *parent = block.getParentOp();
  if (isa<scf::ForOp, scf::WhileOp>(parent)) {
    hasSharedReaders = true;
    parent->walk([&](Operation *op) {
      if (isAccess(op))
        pending.insert({op, /*isRepeated=*/true});
    });
  }
  if (failed(RowLowering::lowerBlock(block)))
    return failure();
  pending.insert_range(before);
  hasSharedReaders |= hadSharedReaders;
  return success();
}
