// A program is a sequence of accesses; threads of a block see each other's only across barriers.
#include "compiler/codegen/gpu/ThreadLowering.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace torch_tile::codegen;

static constexpr int64_t warpSize = 32;

void ThreadLowering::barrier() {
  if (numThreads == warpSize)
    LLVM::CallIntrinsicOp::create(b, b.getStringAttr("llvm.nvvm.bar.warp.sync"), ValueRange{i32(-1)});
  else
    LLVM::CallIntrinsicOp::create(b, b.getStringAttr("llvm.nvvm.barrier.cta.sync.aligned.all"), ValueRange{i32(0)});
  pending.clear();
  hasSharedReaders = hasStagedReaders = false;
}

static bool isAccess(Operation *op) { return isWrite(op) || isa<tile::LoadOp, tile::GatherOp, tile::StageOp>(op); }

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

namespace {
/// An offset as a sum of values with factors.
struct Sum {
  llvm::SmallDenseMap<Value, int64_t> terms;
  int64_t constant = 0;
  /// Values may be used twice at each step: beyond these a sum is a term of its own.
  int steps = 200;

  void add(Value value, int64_t factor) {
    APInt known;
    Operation *op = --steps >= 0 ? value.getDefiningOp() : nullptr;
    if (matchPattern(value, m_ConstantInt(&known))) {
      constant += factor * known.getSExtValue();
    } else if (isa_and_present<arith::AddIOp, arith::SubIOp>(op)) {
      add(op->getOperand(0), factor);
      add(op->getOperand(1), isa<arith::AddIOp>(op) ? factor : -factor);
    } else if (isa_and_present<arith::MulIOp>(op) && matchPattern(op->getOperand(1), m_ConstantInt(&known))) {
      add(op->getOperand(0), factor * known.getSExtValue());
    } else if (int64_t &sum = terms[value]; (sum += factor) == 0) {
      terms.erase(value);
    }
  }
};
} // namespace

std::optional<int64_t> torch_tile::codegen::distanceBetween(Value from, Value to) {
  Sum difference;
  difference.add(to, 1);
  difference.add(from, -1);
  return difference.terms.empty() ? std::optional(difference.constant) : std::nullopt;
}

/// Elements of a store from the first to the last, if that is known.
static std::optional<int64_t> spanOf(tile::StoreOp op) {
  auto type = dyn_cast<RankedTensorType>(op.getValue().getType());
  if (!type)
    return std::nullopt;
  int64_t span = 1;
  for (auto [size, stride] : llvm::zip_equal(type.getShape(), op.getStaticStrides())) {
    if (ShapedType::isDynamic(stride) || stride < 0)
      return std::nullopt;
    span += (size - 1) * stride;
  }
  return span;
}

/// Whether two elements of tiles of this shape can lie `distance` apart: dimensions are of (stride, size), the largest
/// stride first.
static bool canMeet(ArrayRef<std::pair<int64_t, int64_t>> dims, int64_t distance) {
  if (dims.empty())
    return distance == 0;
  auto [stride, size] = dims.front();
  if (stride == 0)
    return canMeet(dims.drop_front(), distance);
  int64_t rest = 0;
  for (auto [inner, count] : dims.drop_front())
    rest += inner * (count - 1);
  int64_t first = std::max(llvm::divideFloorSigned(distance - rest + stride - 1, stride), 1 - size);
  int64_t last = std::min(llvm::divideFloorSigned(distance + rest, stride), size - 1);
  for (int64_t steps = first; steps <= last; ++steps)
    if (canMeet(dims.drop_front(), distance - steps * stride))
      return true;
  return false;
}

/// Whether two stores touch different elements; of a repeated one, in all other iterations of the only loop around
/// both.
static bool areApart(tile::StoreOp earlier, tile::StoreOp later, bool isRepeated) {
  std::optional<int64_t> left = spanOf(earlier), right = spanOf(later);
  if (!left || !right || earlier.getBase() != later.getBase())
    return false;
  std::optional<int64_t> known = distanceBetween(earlier.getOffset(), later.getOffset());
  if (!known)
    return false;
  int64_t span = std::max(*left, *right), distance = std::abs(*known);
  if (!isRepeated) {
    if (distance >= span)
      return true;
    auto type = cast<RankedTensorType>(later.getValue().getType());
    if (type != earlier.getValue().getType() || earlier.getStaticStrides() != later.getStaticStrides())
      return false;
    SmallVector<std::pair<int64_t, int64_t>> dims;
    for (auto [stride, size] : llvm::zip_equal(later.getStaticStrides(), type.getShape()))
      dims.push_back({stride, size});
    llvm::sort(dims, std::greater<>());
    return !canMeet(dims, distance);
  }
  auto loop = dyn_cast<scf::ForOp>(later->getParentOp());
  APInt step;
  if (!loop || earlier->getParentOp() != loop || !isa<tile::KernelOp>(loop->getParentOp()) ||
      !matchPattern(loop.getStep(), m_ConstantInt(&step)))
    return false;
  Sum offset;
  offset.add(later.getOffset(), 1);
  int64_t perIteration = offset.terms.lookup(loop.getInductionVar()) * step.getSExtValue();
  bool isElsewhereFixed = llvm::all_of(offset.terms, [&](auto &term) {
    return term.first == loop.getInductionVar() || !loop->isAncestor(term.first.getParentBlock()->getParentOp());
  });
  return isElsewhereFixed && std::abs(perIteration) >= span + distance;
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
  if (auto first = dyn_cast<tile::StoreOp>(earlier.getPointer()), second = dyn_cast<tile::StoreOp>(later);
      first && second && areApart(first, second, earlier.getInt()))
    return false;
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
  bool hadSharedReaders = hasSharedReaders, hadStagedReaders = hasStagedReaders;
  Operation *parent = block.getParentOp();
  bool isPipelined = parent->hasAttr(pipelinedAttrName);
  pipelinedDepth += isPipelined;
  if (isa<scf::ForOp, scf::WhileOp>(parent)) {
    hasSharedReaders = true;
    hasStagedReaders = stagedBytes > 0;
    parent->walk([&](Operation *op) {
      if (isAccess(op))
        pending.insert({op, /*isRepeated=*/true});
    });
  }
  if (failed(RowLowering::lowerBlock(block)))
    return failure();
  pipelinedDepth -= isPipelined;
  pending.insert_range(before);
  hasSharedReaders |= hadSharedReaders;
  hasStagedReaders |= hadStagedReaders;
  return success();
}
