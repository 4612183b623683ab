#include "compiler/tile/ir/LinearLayout.h"
#include "compiler/tile/transforms/Passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::tile {
#define GEN_PASS_DEF_ASSIGNLAYOUTS
#include "compiler/tile/transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

static constexpr int64_t warpSize = 32, maxThreads = 1024;
/// Threads that share a small tile: enough to hide latency, and reductions stay cheap.
static constexpr int64_t usualThreads = 256;
/// Elements per thread from which on more threads are better. Kernels that say how many threads they want may fill half
/// of a thread's registers with one tile.
static constexpr int64_t usualElements = 16, maxWantedElements = 128;
static constexpr int64_t accessBytes = 16;

namespace {
class LayoutAssigner {
public:
  LayoutAssigner(KernelOp kernel, const MatrixFeatures &features)
      : kernel(kernel), context(kernel.getContext()), features(features) {}
  LogicalResult run();

private:
  void collectTypes();
  LogicalResult chooseThreads();
  LayoutAttr layoutOf(RankedTensorType tile) const;
  Type withLayout(Type type) const;

  KernelOp kernel;
  MLIRContext *context;
  MatrixFeatures features;
  int64_t largestTile = 1, widestBytes = 1;
  /// Of elements that lie along the lanes of the largest tile in memory.
  int64_t widestAlongLanes = 1;
  /// By number of elements, those of the widest accesses to tiles of so many.
  llvm::SmallDenseMap<int64_t, int64_t> widestOf;
  int64_t threads = 0, maxVector = 1;
  bool isScheduled = false;
};
} // namespace

void LayoutAssigner::collectTypes() {
  auto visit = [&](Type type) {
    if (auto tile = dyn_cast<RankedTensorType>(type))
      largestTile = std::max(largestTile, tile.getNumElements());
  };
  RankedTensorType largestAccessed;
  SmallVector<RankedTensorType> allAccessed;
  kernel.getBody().walk([&](Operation *op) {
    llvm::for_each(op->getResultTypes(), visit);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        llvm::for_each(block.getArgumentTypes(), visit);
    // Arithmetic happens in registers; only what travels to and from memory decides how wide accesses are. What a row's
    // lanes have in common is one element.
    auto load = dyn_cast<LoadOp>(op);
    auto store = dyn_cast<StoreOp>(op);
    ArrayRef<int64_t> strides = load ? load.getStaticStrides() : store ? store.getStaticStrides() : ArrayRef<int64_t>();
    if (!strides.empty() && strides.back() == 0)
      return;
    Type accessed = isa<LoadOp, GatherOp>(op)     ? op->getResult(0).getType()
                    : isa<StoreOp, ScatterOp>(op) ? op->getOperand(0).getType()
                                                  : Type();
    if (auto tile = dyn_cast_if_present<RankedTensorType>(accessed); tile && tile.getElementType().isIntOrFloat()) {
      int64_t bytes = (tile.getElementTypeBitWidth() + 7) / 8, &widest = widestOf[tile.getNumElements()];
      widest = std::max(widest, bytes);
      widestBytes = std::max(widestBytes, bytes);
      allAccessed.push_back(tile);
      if (!largestAccessed || tile.getNumElements() > largestAccessed.getNumElements())
        largestAccessed = tile;
    }
  });
  for (RankedTensorType tile : allAccessed)
    if (tile.getRank() > 0 && tile.getShape().back() == largestAccessed.getShape().back())
      widestAlongLanes = std::max<int64_t>(widestAlongLanes, (tile.getElementTypeBitWidth() + 7) / 8);
}

LogicalResult LayoutAssigner::chooseThreads() {
  int64_t mostElements = mostElementsOfThread;
  // Schedules of graphs do not count what is left of a reduction along the lanes.
  bool isGiven = kernel->hasAttr("tile.threads");
  maxVector = std::max<int64_t>(1, accessBytes / (isGiven ? widestAlongLanes : widestBytes));
  if (auto most = kernel->getAttrOfType<IntegerAttr>("tile.most_neighbours")) {
    if (most.getInt() < 1 || !llvm::isPowerOf2_64(most.getInt()))
      return kernel.emitOpError("expected tile.most_neighbours to be a power of two, got ") << most.getInt();
    maxVector = std::min(maxVector, most.getInt());
    isScheduled = true;
  }
  if (auto given = kernel->getAttrOfType<IntegerAttr>("tile.threads")) {
    isScheduled = true;
    threads = given.getInt();
    if (threads < warpSize || threads > maxThreads || !llvm::isPowerOf2_64(threads))
      return kernel.emitOpError("expected tile.threads to be a power of two from ")
             << warpSize << " to " << maxThreads << ", got " << threads;
  } else {
    int64_t wanted = std::max(std::min(usualThreads, largestTile / maxVector), largestTile / usualElements);
    // What the kernel asks for, if a thread can hold its share.
    if (auto asked = kernel->getAttrOfType<IntegerAttr>("tile.wanted_threads")) {
      mostElements = maxWantedElements;
      wanted = std::max(asked.getInt(), largestTile / mostElements);
    }
    threads = std::clamp<int64_t>(llvm::bit_floor<uint64_t>(std::max<int64_t>(wanted, 1)), warpSize, maxThreads);
  }
  if (largestTile > threads * mostElements)
    return kernel.emitOpError("unsupported on gpu: a tile of ")
           << largestTile << " elements over " << threads << " threads, at most " << mostElements
           << " elements a thread";
  return success();
}

LayoutAttr LayoutAssigner::layoutOf(RankedTensorType tile) const {
  int64_t numElements = tile.getNumElements(), vector = maxVector;
  // Schedules of graphs have chosen with one width for all tiles.
  if (auto widest = widestOf.find(numElements); widest != widestOf.end() && !isScheduled)
    vector = std::max<int64_t>(1, accessBytes / widest->second);
  return LayoutAttr::get(context, threads, lanesOfPiece(numElements, threads, vector));
}

Type LayoutAssigner::withLayout(Type type) const {
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile ? RankedTensorType::get(tile.getShape(), tile.getElementType(), layoutOf(tile)) : type;
}

/// A product reads its operands through one transpose of their two axes: others are made one, or none.
static void foldTransposes(KernelOp kernel) {
  SmallVector<TransOp> all;
  kernel.walk([&](TransOp op) { all.push_back(op); });
  for (TransOp op : all) {
    if (auto inner = op.getSource().getDefiningOp<TransOp>()) {
      SmallVector<int64_t> perm;
      for (int64_t axis : op.getPerm())
        perm.push_back(inner.getPerm()[axis]);
      op.setPerm(perm);
      op.getSourceMutable().assign(inner.getSource());
    }
    if (llvm::equal(op.getPerm(), llvm::seq<int64_t>(op.getPerm().size())))
      op.replaceAllUsesWith(op.getSource());
  }
  for (TransOp op : llvm::reverse(all))
    if (isOpTriviallyDead(op))
      op.erase();
}

/// The operand in f16, made before it is transposed.
static Value widened(Value operand) {
  if (auto trans = operand.getDefiningOp<TransOp>()) {
    OpBuilder b(trans);
    auto type = cast<RankedTensorType>(trans.getType());
    return TransOp::create(b, trans.getLoc(), type.clone(b.getF16Type()), widened(trans.getSource()), trans.getPerm());
  }
  OpBuilder b(operand.getContext());
  b.setInsertionPointAfterValue(operand);
  auto type = cast<RankedTensorType>(operand.getType());
  return arith::ExtFOp::create(b, operand.getLoc(), type.clone(b.getF16Type()), operand, arith::FastMathFlagsAttr());
}

/// Products of 8-bit floats that no instruction makes are those of f16, which has all their values.
static void widenOperands(KernelOp kernel, const MatrixFeatures &features) {
  kernel.walk([&](DotOp dot) {
    auto isNarrow = [](Value operand) { return isFloat8(cast<RankedTensorType>(operand.getType()).getElementType()); };
    if (!isNarrow(dot.getLhs()) || !isNarrow(dot.getRhs()) || (features.hasFloat8 && hasMatrixInstruction(dot)))
      return;
    for (OpOperand *operand : {&dot.getLhsMutable(), &dot.getRhsMutable()}) {
      Operation *before = operand->get().getDefiningOp<TransOp>();
      operand->set(widened(operand->get()));
      if (before && isOpTriviallyDead(before))
        before->erase();
    }
  });
}

LogicalResult LayoutAssigner::run() {
  foldTransposes(kernel);
  widenOperands(kernel, features);
  collectTypes();
  if (failed(chooseThreads()))
    return failure();
  kernel->setAttr("tile.threads", IntegerAttr::get(IntegerType::get(context, 64), threads));
  kernel.getBody().walk([&](Operation *op) {
    for (Value result : op->getResults())
      result.setType(withLayout(result.getType()));
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Value argument : block.getArguments())
          argument.setType(withLayout(argument.getType()));
    auto constant = dyn_cast<arith::ConstantOp>(op);
    auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
    if (elements && isa<RankedTensorType>(elements.getType())) {
      auto type = cast<ShapedType>(constant.getType());
      constant.setValueAttr(elements.isSplat() ? elements.resizeSplat(type) : elements.reshape(type));
    }
  });
  assignFragments(kernel, threads, features.hasWarpGroups, [&](RankedTensorType tile) { return layoutOf(tile); });
  return success();
}

LogicalResult tile::assignLayouts(KernelOp kernel, const MatrixFeatures &features) {
  return LayoutAssigner(kernel, features).run();
}

namespace {
struct AssignLayoutsPass : mlir::tile::impl::AssignLayoutsBase<AssignLayoutsPass> {
  using AssignLayoutsBase::AssignLayoutsBase;
  void runOnOperation() override {
    if (failed(assignLayouts(getOperation(), {warpGroups, float8})))
      signalPassFailure();
  }
};
} // namespace
