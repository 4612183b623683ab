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

static bool isAccess(Operation *op) { return isa<tile::LoadOp, tile::StoreOp, tile::GatherOp, tile::ScatterOp>(op); }
static bool isWrite(Operation *op) { return isa<tile::StoreOp, tile::ScatterOp>(op); }

/// The argument or tile.scratch that an access is to; null if it cannot be told.
static Value rootOf(Operation *op) {
  Value base = op->getOperand(isWrite(op) ? 1 : 0);
  while (auto add = base.getDefiningOp<tile::PtrAddOp>())
    base = add.getBase();
  if (auto argument = dyn_cast<BlockArgument>(base))
    return isa<tile::KernelOp>(argument.getOwner()->getParentOp()) ? base : Value();
  return base.getDefiningOp<tile::ScratchOp>() ? base : Value();
}

/// Structured accesses of the same elements by the same threads; masks only leave some out.
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
    }
    return std::make_tuple(operands, type, strides);
  };
  auto [operands, type, strides] = describe(left);
  // Scalars are read by all threads and written by one.
  return type && isa<RankedTensorType>(type) && std::make_tuple(operands, type, strides) == describe(right);
}

bool ThreadLowering::mayConflict(const Pending &earlier, Operation *later) const {
  if (!isWrite(earlier.op) && !isWrite(later))
    return false;
  Value left = rootOf(earlier.op), right = rootOf(later);
  if (left && right) {
    bool isLeftScratch = !isa<BlockArgument>(left), isRightScratch = !isa<BlockArgument>(right);
    if (isLeftScratch != isRightScratch)
      return false;
    if (!isLeftScratch && left != right && kernel->hasAttr("tile.noalias_args"))
      return false;
  }
  if (earlier.isRepeated || !isSameElements(earlier.op, later))
    return true;
  // Threads with copies read what others write.
  Type type = isWrite(later) ? later->getOperand(0).getType() : later->getResult(0).getType();
  return cast<RankedTensorType>(type).getNumElements() % (numThreads * lanesOf(type)) != 0;
}

void ThreadLowering::orderAccess(Operation *op) {
  if (llvm::any_of(pending, [&](const Pending &earlier) { return mayConflict(earlier, op); }))
    barrier();
  pending.push_back({op, /*isRepeated=*/false});
}

/// One barrier before a loop is better than one in each of its iterations.
void ThreadLowering::orderLoop(Operation *loop) {
  bool needsBarrier = false;
  loop->walk([&](Operation *op) {
    needsBarrier |=
        isAccess(op) && llvm::any_of(pending, [&](const Pending &earlier) { return mayConflict(earlier, op); });
  });
  if (needsBarrier)
    barrier();
}

/// What was pending before a block still is after it: a branch may not have been taken, a loop not entered. In a loop,
/// what its other iterations do is pending from the start.
LogicalResult ThreadLowering::lowerBlock(Block &block) {
  SmallVector<Pending> before = pending;
  bool hadSharedReaders = hasSharedReaders;
  Operation *parent = block.getParentOp();
  if (isa<scf::ForOp, scf::WhileOp>(parent)) {
    hasSharedReaders = true;
    parent->walk([&](Operation *op) {
      if (isAccess(op))
        pending.push_back({op, /*isRepeated=*/true});
    });
  }
  if (failed(RowLowering::lowerBlock(block)))
    return failure();
  pending.append(before);
  hasSharedReaders |= hadSharedReaders;
  return success();
}
