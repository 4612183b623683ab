// Accesses through tiles of pointers whose consecutive elements lie along the first axis: columns of a matrix in
// row-major order, operands of products that are stored transposed.
#include "compiler/tile/transforms/Passes.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <optional>

namespace mlir::tile {
#define GEN_PASS_DEF_ORIENTACCESSES
#include "compiler/tile/transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

static RankedTensorType tileOf(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

static RankedTensorType transposedType(RankedTensorType type) {
  return RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType());
}

static std::optional<int64_t> constantOf(Value value) {
  if (auto splat = value.getDefiningOp<SplatOp>())
    value = splat.getSource();
  APInt number;
  if (matchPattern(value, m_ConstantInt(&number)))
    return number.getSExtValue();
  return std::nullopt;
}

/// The loop that carries a value, by a block argument or by a result, and its place; null if none does.
static std::pair<scf::ForOp, unsigned> carriedBy(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast_if_present<scf::ForOp>(argument.getOwner()->getParentOp());
    if (loop && argument.getArgNumber() > 0)
      return {loop, argument.getArgNumber() - 1};
    return {};
  }
  auto loop = value.getDefiningOp<scf::ForOp>();
  return {loop, loop ? cast<OpResult>(value).getResultNumber() : 0};
}

namespace {
/// How far an element of a tile lies from its neighbour along an axis, at most places: what it is asked for decides how
/// fast kernels are, not what they compute.
class Steps {
public:
  /// In elements for pointers; nothing where that is not known.
  std::optional<int64_t> along(Value value, int64_t axis) {
    auto key = std::make_pair(value, axis);
    if (auto it = known.find(key); it != known.end())
      return it->second;
    std::optional<int64_t> step = find(value, axis);
    known[key] = step;
    return step;
  }

private:
  std::optional<int64_t> find(Value value, int64_t axis) {
    RankedTensorType type = tileOf(value);
    if (!type || type.getDimSize(axis) == 1)
      return 0;
    if (auto [loop, place] = carriedBy(value); loop)
      return ofCarried(loop, place, axis);
    Operation *op = value.getDefiningOp();
    if (!op)
      return std::nullopt;
    if (isa<IotaOp>(op))
      return 1;
    if (isa<SplatOp>(op) || matchPattern(value, m_Constant()))
      return isa<SplatOp>(op) || isSplatConstant(op) ? std::optional<int64_t>(0) : std::nullopt;
    if (auto expand = dyn_cast<ExpandDimsOp>(op))
      return along(expand.getSource(), axis > expand.getAxis() ? axis - 1 : axis);
    if (auto broadcast = dyn_cast<BroadcastOp>(op))
      return along(broadcast.getSource(), axis);
    if (auto trans = dyn_cast<TransOp>(op))
      return along(trans.getSource(), trans.getPerm()[axis]);
    if (isa<arith::AddIOp, PtrAddOp>(op))
      return sum(along(op->getOperand(0), axis), along(op->getOperand(1), axis), 1);
    if (isa<arith::SubIOp>(op))
      return sum(along(op->getOperand(0), axis), along(op->getOperand(1), axis), -1);
    if (isa<arith::ExtSIOp, arith::ExtUIOp>(op))
      return along(op->getOperand(0), axis);
    // Rows are often taken modulo their number, so that none lies beyond: few places wrap around.
    if (isa<arith::RemSIOp, arith::RemUIOp>(op) && along(op->getOperand(1), axis) == 0)
      return along(op->getOperand(0), axis);
    if (isa<arith::MulIOp>(op))
      for (int k : {0, 1})
        if (std::optional<int64_t> factor = constantOf(op->getOperand(k)))
          if (std::optional<int64_t> step = along(op->getOperand(1 - k), axis))
            return *factor * *step;
    return isSameAlong(op, axis) ? std::optional<int64_t>(0) : std::nullopt;
  }

  static bool isSplatConstant(Operation *op) {
    auto elements = dyn_cast<DenseElementsAttr>(cast<arith::ConstantOp>(op).getValue());
    return elements && elements.isSplat();
  }

  static std::optional<int64_t> sum(std::optional<int64_t> a, std::optional<int64_t> b, int64_t sign) {
    return a && b ? std::optional<int64_t>(*a + sign * *b) : std::nullopt;
  }

  /// Whether an element depends on nothing that changes along the axis.
  bool isSameAlong(Operation *op, int64_t axis) {
    return isPure(op) && op->getNumRegions() == 0 && OpTrait::hasElementwiseMappableTraits(op) &&
           llvm::all_of(op->getOperands(), [&](Value operand) { return along(operand, axis) == 0; });
  }

  /// What a loop carries steps as what it begins with, if each iteration leaves that as it is.
  std::optional<int64_t> ofCarried(scf::ForOp loop, unsigned place, int64_t axis) {
    Value argument = loop.getRegionIterArg(place);
    std::optional<int64_t> step = along(loop.getInitArgs()[place], axis);
    known[{argument, axis}] = step;
    if (step && along(loop.getYieldedValues()[place], axis) != step)
      known[{argument, axis}] = step = std::nullopt;
    return step;
  }

  llvm::DenseMap<std::pair<Value, int64_t>, std::optional<int64_t>> known;
};

/// Transposed values, computed as they were from transposed operands, so that no data moves between threads.
class Transposer {
public:
  explicit Transposer(MLIRContext *context) : rewriter(context) {}

  Value of(Value value) {
    if (Value found = made.lookup(value))
      return found;
    if (auto [loop, place] = carriedBy(value); loop)
      return makeCarried(loop, place, isa<BlockArgument>(value));
    Value result = make(value);
    made[value] = result;
    return result;
  }

  /// Data, which move.
  Value before(Operation *op, Value value) {
    rewriter.setInsertionPoint(op);
    return transpose(op->getLoc(), value);
  }

private:
  Value make(Value value) {
    RankedTensorType type = transposedType(tileOf(value));
    Location loc = value.getLoc();
    Operation *op = value.getDefiningOp();
    if (!op) {
      rewriter.setInsertionPointToStart(cast<BlockArgument>(value).getOwner());
      return transpose(loc, value);
    }
    if (auto trans = dyn_cast<TransOp>(op); trans && trans.getPerm() == ArrayRef<int64_t>{1, 0})
      return trans.getSource();
    if (auto splat = dyn_cast<SplatOp>(op)) {
      rewriter.setInsertionPointAfter(op);
      return SplatOp::create(rewriter, loc, type, splat.getSource());
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      rewriter.setInsertionPointAfter(op);
      auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (elements && elements.isSplat())
        return arith::ConstantOp::create(rewriter, loc, elements.resizeSplat(type));
      return transpose(loc, value);
    }
    if (auto expand = dyn_cast<ExpandDimsOp>(op)) {
      rewriter.setInsertionPointAfter(op);
      return ExpandDimsOp::create(rewriter, loc, type, expand.getSource(),
                                  rewriter.getI64IntegerAttr(1 - (int64_t)expand.getAxis()));
    }
    if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      Value source = of(broadcast.getSource());
      rewriter.setInsertionPointAfter(op);
      return BroadcastOp::create(rewriter, loc, type, source);
    }
    bool isPointwise = isa<PtrAddOp>(op) || OpTrait::hasElementwiseMappableTraits(op);
    if (!isPointwise || !isPure(op) || op->getNumResults() != 1 || op->getNumRegions() > 0) {
      rewriter.setInsertionPointAfter(op);
      return transpose(loc, value);
    }
    IRMapping mapping;
    // Twice: a loop that is made anew for one operand gives the others new values.
    for (unsigned k = 0; k < op->getNumOperands(); ++k)
      if (tileOf(op->getOperand(k)))
        of(op->getOperand(k));
    for (Value operand : op->getOperands())
      if (tileOf(operand))
        mapping.map(operand, of(operand));
    rewriter.setInsertionPointAfter(op);
    Operation *copy = rewriter.clone(*op, mapping);
    copy->getResult(0).setType(type);
    return copy->getResult(0);
  }

  Value transpose(Location loc, Value value) {
    return TransOp::create(rewriter, loc, transposedType(tileOf(value)), value, ArrayRef<int64_t>{1, 0});
  }

  /// The loop carries the transposed value beside the value.
  Value makeCarried(scf::ForOp loop, unsigned place, bool isInside) {
    Operation *yield = loop.getBody()->getTerminator(); // stays, whatever loops are made anew
    auto current = [&] { return cast<scf::ForOp>(yield->getParentOp()); };
    Value init = of(loop.getInitArgs()[place]);
    // An outer loop that carries the value on has asked for it already.
    if (Value found = made.lookup(current().getRegionIterArg(place)))
      return isInside ? found : made.lookup(current().getResult(place));
    unsigned added = current().getNumRegionIterArgs();
    addCarried(current(), init);
    made[current().getRegionIterArg(place)] = current().getRegionIterArg(added);
    made[current().getResult(place)] = current().getResult(added);
    Value next = of(yield->getOperand(place));
    yield->setOperand(added, next);
    return isInside ? Value(current().getRegionIterArg(added)) : current().getResult(added);
  }

  /// One more value for a loop to carry, as yet unchanged. The loop is made anew around its body.
  void addCarried(scf::ForOp loop, Value init) {
    Operation *yield = loop.getBody()->getTerminator();
    SmallVector<Value> before = carriedValues(loop);
    auto unchanged = [](OpBuilder &, Location, ArrayRef<BlockArgument> added) {
      return SmallVector<Value>(added.begin(), added.end());
    };
    rewriter.setInsertionPoint(loop);
    (void)cast<LoopLikeOpInterface>(*loop).replaceWithAdditionalYields(rewriter, {init}, false, unchanged);
    llvm::DenseMap<Value, Value> renamed;
    auto after = cast<scf::ForOp>(yield->getParentOp());
    for (unsigned k = 0, count = before.size() / 2; k < count; ++k) {
      renamed[before[k]] = after.getRegionIterArg(k);
      renamed[before[count + k]] = after.getResult(k);
    }
    auto nameOf = [&](Value value) {
      auto it = renamed.find(value);
      return it == renamed.end() ? value : it->second;
    };
    llvm::DenseMap<Value, Value> names;
    for (auto [value, transposed] : made)
      names[nameOf(value)] = nameOf(transposed);
    made = std::move(names);
  }

  static SmallVector<Value> carriedValues(scf::ForOp loop) {
    SmallVector<Value> values(loop.getRegionIterArgs());
    llvm::append_range(values, loop.getResults());
    return values;
  }

  IRRewriter rewriter;
  llvm::DenseMap<Value, Value> made;
};
} // namespace

/// Whether memory is walked along the first of two axes.
static bool isWalkedAcross(Steps &steps, Value base, Value offsets) {
  RankedTensorType type = offsets ? tileOf(offsets) : tileOf(base);
  if (!type || type.getRank() != 2 || type.getDimSize(0) == 1 || type.getDimSize(1) == 1)
    return false;
  auto along = [&](int64_t axis) -> std::optional<int64_t> {
    std::optional<int64_t> own = tileOf(base) ? steps.along(base, axis) : 0;
    std::optional<int64_t> further = offsets ? steps.along(offsets, axis) : 0;
    return own && further ? std::optional<int64_t>(*own + *further) : std::nullopt;
  };
  // What is the same along the second axis is read once, whatever the order.
  return along(0) == 1 && along(1) != 1 && along(1) != 0;
}

/// A cast of what is transposed is what is transposed of a cast, so that products find the transposition.
static void sinkBelowCasts(TransOp trans) {
  while (trans->hasOneUse()) {
    Operation *user = *trans->user_begin();
    if (!isa<CastOpInterface>(user) || user->getNumOperands() != 1 || !isPure(user) || !tileOf(user->getResult(0)))
      return;
    OpBuilder builder(user);
    IRMapping mapping;
    mapping.map(trans.getResult(), trans.getSource());
    Operation *cast = builder.clone(*user, mapping);
    RankedTensorType type = tileOf(user->getResult(0));
    cast->getResult(0).setType(transposedType(type));
    auto below = TransOp::create(builder, trans.getLoc(), type, cast->getResult(0), trans.getPerm());
    user->getResult(0).replaceAllUsesWith(below);
    user->erase();
    trans.erase();
    trans = below;
  }
}

void tile::orientAccesses(KernelOp kernel) {
  SmallVector<Operation *> accesses;
  Steps steps;
  kernel.getBody().walk([&](Operation *op) {
    if (auto gather = dyn_cast<GatherOp>(op); gather && tileOf(gather.getResult()))
      if (isWalkedAcross(steps, gather.getBase(), gather.getOffsets()))
        accesses.push_back(op);
    if (auto scatter = dyn_cast<ScatterOp>(op); scatter && op->getRegion(0).empty() && tileOf(scatter.getValue()))
      if (isWalkedAcross(steps, scatter.getBase(), scatter.getOffsets()))
        accesses.push_back(op);
  });
  if (accesses.empty())
    return;
  Transposer transposed(kernel.getContext());
  for (Operation *op : accesses) {
    auto scatter = dyn_cast<ScatterOp>(op);
    // One after the other: a loop that is made anew gives further operands new values.
    for (unsigned k = 0; k < op->getNumOperands(); ++k)
      if (Value operand = op->getOperand(k); tileOf(operand))
        op->setOperand(k, scatter && operand == scatter.getValue() ? transposed.before(op, operand)
                                                                   : transposed.of(operand));
    if (scatter)
      continue;
    Value result = op->getResult(0);
    RankedTensorType type = tileOf(result);
    result.setType(transposedType(type));
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    auto back = TransOp::create(builder, op->getLoc(), type, result, ArrayRef<int64_t>{1, 0});
    result.replaceAllUsesExcept(back, back);
    sinkBelowCasts(back);
  }
}

namespace {
struct OrientAccessesPass : mlir::tile::impl::OrientAccessesBase<OrientAccessesPass> {
  void runOnOperation() override { orientAccesses(getOperation()); }
};
} // namespace
