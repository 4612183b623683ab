#include "compiler/fusion/Axes.h"
#include "compiler/fusion/Fusion.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/fusion/Storage.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

/// Bodies beyond this spill registers and compile slowly; the rest of the chain goes to memory.
constexpr int maxBodyCost = 600;
/// A value used in several places is computed again in each if that takes no more than this, and twice as much where
/// what it reads is half as many bytes.
constexpr int cheapWork = 4;
/// Likewise for what chooses one of several places to read, if each use is one of several places as well.
constexpr int cheapChoice = 12;
/// Taps of a window over what is padded.
constexpr size_t mostPaddedTaps = 9;
/// Computing a value anew for every element of a larger consumer pays only for less work than this.
constexpr int cheapBroadcastWork = 2;

SmallVector<Axis> axesOf(LoopsOp op) {
  SmallVector<Axis> axes;
  for (AxisAttr axis : op.axisList())
    axes.push_back({axis.getName().str(), axis.getExtent(), axis.getReduced()});
  return axes;
}

int64_t estimatePoints(LoopsOp op, const SizeFacts &facts) {
  double points = 1;
  for (AxisAttr axis : op.axisList())
    points *= (double)facts.estimate(axis.getExtent());
  return (int64_t)std::min(points, 9e18);
}

class Inliner {
public:
  Inliner(FuncOp func, const Machine &machine, std::vector<FusionDecision> &decisions)
      : func(func), machine(machine), sizes(GraphDialect::sizes(func.getContext())), facts(func.facts()),
        decisions(decisions) {}

  void run() {
    SmallVector<LoopsOp> order;
    for (auto [position, op] : llvm::enumerate(func.getBody().front())) {
      positions[&op] = position;
      for (Value storage : writtenStorages(&op))
        writes[storage].push_back(position);
      if (auto loops = dyn_cast<LoopsOp>(op))
        order.push_back(loops);
    }
    for (LoopsOp op : order)
      decide(op);
    // Consumers first: a producer's own producers arrive as loads of the consumer and are inlined in their turn, so
    // that every op is cloned once per use.
    for (LoopsOp op : llvm::reverse(order)) {
      if (inlined.contains(op) && op->use_empty()) {
        op->erase();
        continue;
      }
      inlineInto(op);
    }
  }

private:
  /// The first op after `position` that writes into what `value` lies in.
  unsigned nextWrite(Value value, unsigned position) {
    auto it = writes.find(storageOf(value));
    if (it == writes.end())
      return never;
    auto next = llvm::upper_bound(it->second, position);
    return next == it->second.end() ? never : *next;
  }

  void decide(LoopsOp op) {
    BodyCost cost = bodyCost(op);
    unsigned until = never;
    int64_t points = estimatePoints(op, facts);
    // What loads as large as the result read; a row's mean or a bias stays in cache and costs nothing to read again.
    int64_t largeBytes = 0;
    unsigned numLarge = 0;
    for (Operation &inner : *op.bodyBlock())
      if (auto load = dyn_cast<LoadOp>(inner)) {
        bool isLarge = facts.estimate(load.getSource().getType().numElements()) > points / 4;
        until = std::min(until, nextWrite(load.getSource(), positions[op]));
        if (auto producer = load.getSource().getDefiningOp<LoopsOp>(); producer && inlined.contains(producer)) {
          cost.work += costs[producer].work;
          cost.loads += costs[producer].loads - 1;
          cost.branches += costs[producer].branches;
          if (isLarge) {
            largeBytes += largeLoads[producer].bytes;
            numLarge += largeLoads[producer].count;
          }
          until = std::min(until, readableUntil[producer]);
        } else if (isLarge) {
          largeBytes += elementBytes(load.getType());
          ++numLarge;
        }
      }
    costs[op] = cost;
    largeLoads[op] = {numLarge, largeBytes};
    readableUntil[op] = until;
    if (op.isReduction() || op.getWriteAt() || !op.getDests().empty())
      return;
    SmallVector<LoopsOp> consumers;
    for (Operation *user : op->getUsers()) {
      auto load = dyn_cast<LoadOp>(user);
      if (!load)
        return; // must be in memory anyway: groups may still share its kernel
      consumers.push_back(load->getParentOfType<LoopsOp>());
    }
    if (consumers.empty())
      return;
    auto record = [&](bool taken, std::string reason) {
      decisions.push_back({FusionDecision::Kind::Inline, taken, lineOf(op.getLoc()), lineOf(consumers.front().getLoc()),
                           std::move(reason)});
      if (taken)
        inlined.insert(op);
    };
    // Not even at the write itself: other elements may be overwritten already.
    if (llvm::any_of(consumers, [&](LoopsOp c) { return positions[c] >= until; }))
      return record(false, "what it reads is overwritten before its use");
    if (cost.total() + cost.branches * machine.branchCost > maxBodyCost)
      return record(false, "the body would grow beyond " + std::to_string(maxBodyCost) + " operations");
    if (cost.loads == 0 && cost.work <= cheapWork)
      return record(true, "reads nothing");
    bool isRepeated =
        llvm::any_of(consumers, [&](LoopsOp c) { return estimatePoints(c, facts) > 2 * std::max<int64_t>(points, 1); });
    if (isRepeated && (cost.work > cheapBroadcastWork || cost.loads > 1))
      return record(false, "a larger consumer would compute it many times over");
    if (consumers.size() == 1)
      return record(true, "one use");
    if (machine.branchCost == 0 && cost.work <= cheapChoice && choosesAmongLoads(op) && isChosenOnce(op, consumers))
      return record(true, "one of several places, of which each point reads one");
    // Padding that windows read: few of them reach into it, and masks that nothing depends on go.
    if (machine.branchCost == 0 && cost.loads == 1 && cost.work <= cheapChoice && consumers.size() <= mostPaddedTaps &&
        choosesAmongLoads(op))
      return record(true, "padding, read by few taps");
    int64_t bytes = 0;
    for (Type type : op.getResultTypes())
      bytes += elementBytes(cast<GraphTensorType>(type).getElementType());
    bool isHalf = 2 * largeBytes <= bytes;
    if ((numLarge <= 1 || largeBytes <= bytes) && cost.work <= (isHalf ? 2 : 1) * cheapWork)
      return record(true, "cheaper to compute again than to store and load");
    record(false, std::to_string(consumers.size()) + " uses and too much to compute again");
  }

  /// cat and pad: under masks of their own, so that a point reads one of them.
  static bool choosesAmongLoads(LoopsOp op) {
    return llvm::all_of(*op.bodyBlock(), [](Operation &inner) {
      auto load = dyn_cast<LoadOp>(inner);
      return !load || load.getMask();
    });
  }

  /// Whether one op alone reads the value, and chooses among what it reads.
  static bool isChosenOnce(LoopsOp op, ArrayRef<LoopsOp> consumers) {
    return llvm::all_equal(consumers) && choosesAmongLoads(consumers.front()) &&
           bodyCost(op).total() * (int)consumers.size() <= 4 * cheapChoice;
  }

  void inlineInto(LoopsOp consumer) {
    SizeFacts inner = withAxes(facts, axesOf(consumer));
    SmallVector<LoadOp> work;
    for (Operation &op : *consumer.bodyBlock())
      if (auto load = dyn_cast<LoadOp>(op))
        work.push_back(load);
    SmallVector<Location> locations{consumer.getLoc()};
    while (!work.empty()) {
      LoadOp load = work.pop_back_val();
      auto producer = load.getSource().getDefiningOp<LoopsOp>();
      if (!producer || !inlined.contains(producer))
        continue;
      substitute(load, producer, inner, work);
      locations.push_back(producer.getLoc());
    }
    if (locations.size() > 1)
      consumer->setLoc(FusedLoc::get(func.getContext(), locations));
  }

  /// Puts a copy of the producer's body in the place of `load`.
  void substitute(LoadOp load, LoopsOp producer, const SizeFacts &inner, SmallVectorImpl<LoadOp> &newLoads) {
    OpBuilder builder(load);
    SmallVector<SizeExpr> at = load.indexExprs();
    unsigned numScalars = load.getScalars().size();
    AxisSubstitution axes;
    for (auto [axis, index] : llvm::zip(producer.parallelAxes(), at))
      axes.set(axis.getName().getValue(), index);

    IRMapping mapping;
    auto place = [&](ValueRange own, SmallVectorImpl<Value> &scalars, auto &&rewrite) {
      // Scalars of the copied op come after those of the load; names shift accordingly, then unused ones go.
      AxisSubstitution all = axes;
      for (unsigned k = 0; k < own.size(); ++k)
        all.set("x" + std::to_string(k), sizes.symbol("x" + std::to_string(k + numScalars)));
      SmallVector<Value> available(load.getScalars().begin(), load.getScalars().end());
      for (Value value : own)
        available.push_back(mapping.lookupOrDefault(value));
      SmallVector<SizeExpr> exprs = rewrite([&](SizeExpr e) { return inner.simplify(all.apply(sizes, e)); });
      AxisSubstitution compact;
      for (auto [k, value] : llvm::enumerate(available)) {
        std::string name = "x" + std::to_string(k);
        if (llvm::any_of(exprs, [&](SizeExpr e) { return e.contains(name); })) {
          compact.set(name, sizes.symbol("x" + std::to_string(scalars.size())));
          scalars.push_back(value);
        }
      }
      for (SizeExpr &e : exprs)
        e = compact.apply(sizes, e);
      return exprs;
    };

    Value mask = load.getMask();
    auto conjoin = [&](Value other) -> Value {
      if (!mask || !other)
        return mask ? mask : other;
      return arith::AndIOp::create(builder, load.getLoc(), mask, other);
    };
    for (Operation &op : producer.bodyBlock()->without_terminator()) {
      if (auto inside = dyn_cast<LoadOp>(op)) {
        SmallVector<Value> scalars;
        SmallVector<SizeExpr> indices = place(
            inside.getScalars(), scalars, [&](auto &&fix) { return llvm::map_to_vector(inside.indexExprs(), fix); });
        Value insideMask = inside.getMask() ? mapping.lookupOrDefault(inside.getMask()) : Value();
        Value other = inside.getOther() ? mapping.lookupOrDefault(inside.getOther()) : Value();
        Value both = conjoin(insideMask);
        if (both && !other)
          other = arith::ConstantOp::create(builder, load.getLoc(), builder.getZeroAttr(inside.getType()));
        auto copy = LoadOp::create(builder, inside.getLoc(), inside.getType(), inside.getSource(),
                                   exprArray(builder.getContext(), indices), scalars, both, other);
        mapping.map(inside.getResult(), copy.getResult());
        newLoads.push_back(copy);
      } else if (auto index = dyn_cast<IndexOp>(op)) {
        SmallVector<Value> scalars;
        SizeExpr expr = place(index.getScalars(), scalars,
                              [&](auto &&fix) { return SmallVector<SizeExpr>{fix(index.getExpr().getValue())}; })[0];
        auto copy = IndexOp::create(builder, index.getLoc(), index.getType(), ExprAttr::get(builder.getContext(), expr),
                                    scalars);
        mapping.map(index.getResult(), copy.getResult());
      } else if (auto check = dyn_cast<CheckIndexOp>(op)) {
        auto copy = cast<CheckIndexOp>(builder.clone(op, mapping));
        if (mask)
          copy.getMaskMutable().assign(conjoin(copy.getMask()));
      } else {
        builder.clone(op, mapping);
      }
    }
    unsigned result = cast<OpResult>(load.getSource()).getResultNumber();
    Value value = mapping.lookupOrDefault(cast<YieldOp>(producer.bodyBlock()->getTerminator()).getValues()[result]);
    if (mask)
      value = arith::SelectOp::create(builder, load.getLoc(), mask, value, load.getOther());
    load.getResult().replaceAllUsesWith(value);
    load.erase();
  }

  FuncOp func;
  const Machine &machine;
  SizeContext &sizes;
  SizeFacts facts;
  std::vector<FusionDecision> &decisions;
  DenseMap<Operation *, BodyCost> costs;
  /// What the body reads for a point of loads as large as the result.
  struct LargeLoads {
    unsigned count = 0;
    int64_t bytes = 0;
  };
  DenseMap<Operation *, LargeLoads> largeLoads;
  DenseSet<Operation *> inlined;

  /// Ops by position in the function, before any is moved.
  DenseMap<Operation *, unsigned> positions;
  /// Positions of the ops that write into a storage, ascending.
  DenseMap<Value, SmallVector<unsigned, 1>> writes;
  /// The position of the first op that overwrites what a loops op reads, itself or through what is inlined into it.
  DenseMap<Operation *, unsigned> readableUntil;
  static constexpr unsigned never = std::numeric_limits<unsigned>::max();
};

} // namespace

void inlineProducers(FuncOp func, const FusionOptions &options, std::vector<FusionDecision> &decisions) {
  dropUnitReductions(func);
  foldIndices(func);
  if (options.enabled) {
    Inliner(func, options.machine, decisions).run();
    foldIndices(func); // of what has only now come together
  }
  collapseOneHotReductions(func); // their conditions have only now come together
}

} // namespace torch_tile::fusion
