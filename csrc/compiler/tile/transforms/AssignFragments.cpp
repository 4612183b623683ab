// Products of matrices get the layout of matrix instructions' results, and so does what is computed from them.
#include "compiler/tile/ir/LinearLayout.h"
#include "compiler/tile/ir/MatrixInstructions.h"
#include "compiler/tile/ir/MatrixOperands.h"
#include "compiler/tile/transforms/Passes.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tile;

static constexpr int64_t warpSize = 32;
/// Of an instruction of four warps: the warps, and the bytes of a row of the right operand that lie together.
static constexpr int64_t groupWarps = 4, panelBytes = 128;
/// Most columns of such an instruction, and the registers that a thread needs beside its sums: ptxas cannot spill the
/// sums, and refuses kernels with less (measured with ptxas 13.0: 16, 32 and 64 sums take 48, 72 and 96 registers).
static constexpr int64_t groupColumns = 256, otherRegisters = 40;
/// How far back a tile is computed again in another layout rather than moved.
static constexpr int maxCloned = 32;

static RankedTensorType tileOf(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

static bool isPointwise(Operation *op) {
  return op->getNumResults() == 1 && op->getNumRegions() == 0 && OpTrait::hasElementwiseMappableTraits(op) &&
         isa<RankedTensorType>(op->getResult(0).getType());
}

namespace {
class FragmentAssigner {
public:
  FragmentAssigner(KernelOp kernel, int64_t numThreads, bool hasWarpGroups,
                   function_ref<LayoutAttr(RankedTensorType)> usualLayout)
      : kernel(kernel), numThreads(numThreads), hasWarpGroups(hasWarpGroups), usualLayout(usualLayout) {}
  void run();

private:
  bool isChained(DotOp dot) const;
  std::optional<FragmentShape> warpGroupShape(DotOp dot) const;
  LinearAttr layoutOf(DotOp dot);
  bool choose(Value value, LinearAttr layout);
  bool spread(Operation *op);
  bool spreadReduction(ReduceOp op);
  bool spreadBroadcast(BroadcastOp op);
  bool spreadCarried(Operation *op);
  void fixOperands(Operation *op);
  bool canClone(Value value, int &budget) const;
  Value inLayout(Value value, Attribute layout);
  void require(OpOperand &operand, Attribute layout);
  Attribute usual(Value value) const { return usualLayout(tileOf(value)); }

  KernelOp kernel;
  int64_t numThreads;
  bool hasWarpGroups;
  function_ref<LayoutAttr(RankedTensorType)> usualLayout;
  bool hasChains = false;
  llvm::MapVector<DotOp, LinearAttr> dots;
  DenseMap<Value, LinearAttr> chosen;
  DenseMap<std::pair<Value, Attribute>, Value> made;
};
} // namespace

//===-- dots ----------------------------------------------------------------------------------------------------===//

/// Whether a product is reduced, or is an operand of the next one: rows then stay in one warp.
bool FragmentAssigner::isChained(DotOp dot) const {
  llvm::SmallSetVector<Value, 16> reached;
  reached.insert(dot.getResult());
  for (size_t k = 0; k < reached.size(); ++k)
    for (OpOperand &use : reached[k].getUses()) {
      Operation *user = use.getOwner();
      auto next = dyn_cast<DotOp>(user);
      if (isa<ReduceOp>(user) || (next && use.getOperandNumber() < 2))
        return true;
      if (isPointwise(user))
        reached.insert(user->getResult(0));
    }
  return false;
}

/// How groups of four warps share a product; nothing if they cannot, or have too few registers.
std::optional<FragmentShape> FragmentAssigner::warpGroupShape(DotOp dot) const {
  int64_t numWarps = numThreads / warpSize;
  if (!hasWarpGroups || numWarps % groupWarps != 0 || !hasWarpGroupInstruction(dot))
    return std::nullopt;
  ArrayRef<int64_t> shape = tileOf(dot).getShape();
  FragmentShape fragments{shape[0], shape[1], groupWarps, 1, /*isWarpGroup=*/true};
  for (int64_t warps = groupWarps; warps < numWarps; warps *= 2) {
    int64_t rows = shape[0] / (fragments.warpRows / groupWarps), columns = shape[1] / fragments.warpColumns;
    // An instruction reads whole panels of the right operand.
    int64_t bytes = tileOf(dot.getRhs()).getElementTypeBitWidth() / 8;
    bool canSplitRows = rows > warpGroupRows, canSplitColumns = columns * bytes > panelBytes;
    if (canSplitRows)
      fragments.warpRows *= 2;
    else if (canSplitColumns)
      fragments.warpColumns *= 2;
  }
  // A thread has half as many sums as an instruction has columns.
  int64_t numSums = std::min(shape[1] / fragments.warpColumns, groupColumns) / 2;
  auto most = kernel->getAttrOfType<IntegerAttr>("tile.max_registers");
  if (most && most.getInt() < numSums + otherRegisters)
    return std::nullopt;
  return fragments;
}

LinearAttr FragmentAssigner::layoutOf(DotOp dot) {
  if (std::optional<FragmentShape> fragments = warpGroupShape(dot)) {
    dot->setAttr(warpGroupAttrName, UnitAttr::get(dot.getContext()));
    return fragmentLayout(dot.getContext(), *fragments, numThreads);
  }
  ArrayRef<int64_t> shape = tileOf(dot).getShape();
  // Rows of several matrices lie one after the other.
  FragmentShape fragments{tileOf(dot).getNumElements() / shape.back(), shape.back(), 1, 1};
  int64_t numWarps = numThreads / warpSize;
  for (int64_t warps = 1; warps < numWarps; warps *= 2) {
    int64_t rows = fragments.rows / fragments.warpRows, columns = fragments.columns / fragments.warpColumns;
    bool canSplitRows = rows > leastFragmentSize, canSplitColumns = columns > leastFragmentSize;
    if (canSplitRows && (hasChains || rows >= columns || !canSplitColumns))
      fragments.warpRows *= 2;
    else if (canSplitColumns)
      fragments.warpColumns *= 2;
  }
  return fragmentLayout(dot.getContext(), fragments, numThreads);
}

//===-- from products to what uses them -------------------------------------------------------------------------===//

bool FragmentAssigner::choose(Value value, LinearAttr layout) { return chosen.insert({value, layout}).second; }

bool FragmentAssigner::spreadReduction(ReduceOp op) {
  LinearAttr layout;
  for (Value source : op.getSources()) {
    LinearAttr own = chosen.lookup(source);
    if (!own || (layout && own != layout))
      return false;
    layout = own;
  }
  ArrayRef<int64_t> shape = tileOf(op.getSources()[0]).getShape();
  // Other warps' parts would have to go through shared memory.
  for (int64_t move : layout.getThreads().drop_front(llvm::Log2_64(warpSize)))
    if (axisMove(move, shape).axis == (int64_t)op.getAxis())
      return false;
  bool isChanged = false;
  for (Value result : op.getResults())
    if (tileOf(result))
      isChanged |= choose(result, sliceLayout(layout, shape, op.getAxis()));
  return isChanged;
}

/// The layout of a tile from which `layout`, with size 1 on some axes, is a slice.
static LinearAttr repeatedSlice(LinearAttr layout, ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  for (auto [axis, size] : llvm::enumerate(from))
    if (size == 1 && to[axis] != 1)
      layout = sliceLayout(layout, to, axis);
  return layout;
}

bool FragmentAssigner::spreadBroadcast(BroadcastOp op) {
  LinearAttr layout = chosen.lookup(op.getSource());
  if (!layout)
    return false;
  ArrayRef<int64_t> from = tileOf(op.getSource()).getShape(), to = tileOf(op).getShape();
  for (auto [dot, parent] : dots)
    if (tileOf(dot).getShape() == to && repeatedSlice(parent, from, to) == layout)
      return choose(op.getResult(), parent);
  return false;
}

/// Values that loops and branches carry.
bool FragmentAssigner::spreadCarried(Operation *op) {
  bool isChanged = false;
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    for (auto [init, argument, result] :
         llvm::zip_equal(loop.getInitArgs(), loop.getRegionIterArgs(), loop.getResults())) {
      Value yielded = loop.getTiedLoopYieldedValue(argument)->get();
      for (Value source : {yielded, Value(init)})
        if (LinearAttr layout = chosen.lookup(source)) {
          isChanged |= choose(argument, layout);
          isChanged |= choose(result, chosen.lookup(argument));
        }
    }
  } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
    for (Region *region : branch.getRegions())
      if (!region->empty())
        for (auto [yielded, result] : llvm::zip_equal(region->front().getTerminator()->getOperands(), op->getResults()))
          if (LinearAttr layout = chosen.lookup(yielded))
            isChanged |= choose(result, layout);
  }
  return isChanged;
}

bool FragmentAssigner::spread(Operation *op) {
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return spreadReduction(reduce);
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return spreadBroadcast(broadcast);
  if (isa<scf::ForOp, scf::IfOp>(op))
    return spreadCarried(op);
  if (!isa<ExpandDimsOp>(op) && !isPointwise(op))
    return false;
  for (Value operand : op->getOperands())
    if (LinearAttr layout = chosen.lookup(operand))
      return choose(op->getResult(0), layout);
  return false;
}

//===-- operands in other layouts -------------------------------------------------------------------------------===//

bool FragmentAssigner::canClone(Value value, int &budget) const {
  Operation *op = value.getDefiningOp();
  if (!tileOf(value))
    return true;
  if (!op || --budget < 0)
    return false;
  if (isa<SplatOp, IotaOp, BroadcastOp, ExpandDimsOp>(op))
    return true;
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue());
  return isPointwise(op) && llvm::all_of(op->getOperands(), [&](Value operand) { return canClone(operand, budget); });
}

/// Made where `value` is, so that all uses share it.
Value FragmentAssigner::inLayout(Value value, Attribute layout) {
  RankedTensorType type = tileOf(value);
  if (!type || type.getEncoding() == layout)
    return value;
  Value &result = made[{value, layout}];
  if (result)
    return result;
  OpBuilder b(kernel.getContext());
  b.setInsertionPointAfterValue(value);
  Type wanted = RankedTensorType::get(type.getShape(), type.getElementType(), layout);
  Operation *op = value.getDefiningOp();
  int budget = maxCloned;
  bool isMoved = !isa<LinearAttr>(layout) || !canClone(value, budget);
  if (isMoved)
    return result = ConvertLayoutOp::create(b, value.getLoc(), wanted, value);
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    RankedTensorType from = tileOf(operand);
    if (!from)
      continue;
    Attribute needed = layout;
    if (isa<BroadcastOp>(op))
      needed = repeatedSlice(cast<LinearAttr>(layout), from.getShape(), type.getShape());
    mapping.map(operand, inLayout(operand, needed));
  }
  Operation *clone = b.clone(*op, mapping);
  clone->getResult(0).setType(wanted);
  if (auto constant = dyn_cast<arith::ConstantOp>(clone))
    constant.setValueAttr(cast<SplatElementsAttr>(constant.getValue()).resizeSplat(cast<ShapedType>(wanted)));
  return made[{value, layout}] = clone->getResult(0);
}

void FragmentAssigner::require(OpOperand &operand, Attribute layout) { operand.set(inLayout(operand.get(), layout)); }

static Attribute encodingOf(Value value) {
  RankedTensorType type = tileOf(value);
  return type ? type.getEncoding() : Attribute();
}

void FragmentAssigner::fixOperands(Operation *op) {
  auto requireAll = [&](MutableArrayRef<OpOperand> operands, function_ref<Attribute(OpOperand &)> layout) {
    for (OpOperand &operand : operands)
      if (tileOf(operand.get()))
        require(operand, layout(operand));
  };
  if (auto dot = dyn_cast<DotOp>(op); dot && dots.count(dot))
    return require(dot.getAccMutable(), encodingOf(dot)); // operands are read in any layout
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    for (BlockArgument argument : loop.getRegionIterArgs())
      if (tileOf(argument)) {
        require(*loop.getTiedLoopInit(argument), encodingOf(argument));
        require(*loop.getTiedLoopYieldedValue(argument), encodingOf(argument));
      }
    return;
  }
  if (auto yield = dyn_cast<scf::YieldOp>(op)) {
    if (isa<scf::IfOp>(op->getParentOp()))
      requireAll(op->getOpOperands(),
                 [&](OpOperand &o) { return encodingOf(op->getParentOp()->getResult(o.getOperandNumber())); });
    if (isa<scf::ForOp, scf::IfOp>(op->getParentOp()))
      return;
  }
  if (isa<ConvertLayoutOp>(op))
    return;
  bool isFragment = op->getNumResults() > 0 && isa_and_present<LinearAttr>(encodingOf(op->getResult(0)));
  if (auto broadcast = dyn_cast<BroadcastOp>(op); broadcast && isFragment)
    return require(op->getOpOperand(0),
                   repeatedSlice(cast<LinearAttr>(encodingOf(broadcast)), tileOf(broadcast.getSource()).getShape(),
                                 tileOf(broadcast).getShape()));
  if (isa<ReduceOp>(op)) {
    // A whole tile of fragments may be reduced to a scalar, which is what it is in any layout.
    if (isFragment)
      return;
  } else if (isFragment) {
    return requireAll(op->getOpOperands(), [&](OpOperand &) { return encodingOf(op->getResult(0)); });
  }
  requireAll(op->getOpOperands(), [&](OpOperand &operand) { return usual(operand.get()); });
}

void FragmentAssigner::run() {
  SmallVector<DotOp> all;
  kernel.walk([&](DotOp dot) {
    if (hasMatrixInstruction(dot))
      all.push_back(dot);
  });
  hasChains = llvm::any_of(all, [&](DotOp dot) { return isChained(dot); });
  for (DotOp dot : all) {
    dots[dot] = layoutOf(dot);
    chosen[dot.getResult()] = dots[dot];
  }
  if (dots.empty())
    return;
  bool isChanged = true;
  while (isChanged) {
    isChanged = false;
    kernel.walk([&](Operation *op) { isChanged |= spread(op); });
  }
  for (auto [value, layout] : chosen) {
    RankedTensorType type = tileOf(value);
    value.setType(RankedTensorType::get(type.getShape(), type.getElementType(), layout));
  }
  SmallVector<Operation *> ops;
  kernel.getBody().walk([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : ops)
    fixOperands(op);
}

void tile::assignFragments(KernelOp kernel, int64_t numThreads, bool hasWarpGroups,
                           function_ref<LayoutAttr(RankedTensorType)> usualLayout) {
  FragmentAssigner(kernel, numThreads, hasWarpGroups, usualLayout).run();
}
