#include "compiler/analysis/Memory.h"
#include "compiler/fusion/Access.h"
#include "compiler/fusion/Axes.h"
#include "compiler/fusion/ComputeAgain.h"
#include "compiler/fusion/Fusion.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/fusion/PlaceParts.h"
#include "compiler/fusion/SubstituteBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

/// A value used in several places is computed again in each if that takes no more than this, and twice as much where
/// what it reads is half as many bytes.
constexpr int cheapWork = 4;
/// Integers that nothing is read for are mostly indices, of which loads then know more than of what a table holds.
constexpr int cheapIndexWork = 8;
/// Likewise for what chooses one of several places to read, if each use is one of several places as well.
constexpr int cheapChoice = 12;
/// Places to choose from, of which kernels can still be cut so that each part computes its own alone.
constexpr unsigned mostPlaces = 8;
/// Taps of a window over what is padded.
constexpr size_t mostPaddedTaps = 9, mostCopiedTaps = 16;
/// An index that is divided takes a processor about as long as so many elements that are written and read again.
constexpr double mostPointsOfDivision = 4;
/// Computing a value anew for every element of a larger consumer pays only for less work than this.
constexpr int cheapBroadcastWork = 2;

/// Operations of what operands of a stack share.
constexpr int stackedWork = 48;

class Inliner {
public:
  Inliner(FuncOp func, const FusionOptions &options, std::vector<FusionDecision> &decisions)
      : func(func), machine(options.machine), budget(options.budget), sizes(GraphDialect::sizes(func.getContext())),
        facts(func.facts()), again(machine, sizes, facts, inlined), decisions(decisions) {}

  /// Only integers that nothing is read for, so that what is known of them shapes the rest.
  bool hasOnlyIndices = false;

  /// Whether anything was inlined.
  bool run() {
    SmallVector<LoopsOp> order;
    for (auto [position, op] : llvm::enumerate(func.getBody().front())) {
      positions[&op] = position;
      for (Value place : analysis::writtenPlaces(&op))
        writes[place].push_back(position);
      if (auto loops = dyn_cast<LoopsOp>(op))
        order.push_back(loops);
    }
    for (LoopsOp op : order) {
      BodyCost cost = bodyCost(op);
      room[op] = budget.bodyWork - sizeOf(cost);
      hasManyPlaces[op] = cost.branches > (int)mostPlaces && choosesAmongLoads(op);
    }
    for (LoopsOp op : order)
      decide(op);
    if (!hasOnlyIndices && machine.operationsPerByte > 0)
      inlineCones(order);
    if (!hasOnlyIndices && computeInPlace())
      order = llvm::to_vector(func.getBody().front().getOps<LoopsOp>());
    if (inlined.empty())
      return false;
    // Consumers first: a producer's own producers arrive as loads of the consumer and are inlined in their turn, so
    // that every op is cloned once per use.
    for (LoopsOp op : llvm::reverse(order)) {
      if (inlined.contains(op) && op->use_empty()) {
        op->erase();
        continue;
      }
      inlineInto(op);
    }
    return !inlined.empty();
  }

private:
  /// Concatenations become loops over their parts, into which what makes the parts is inlined if nobody else reads it.
  bool computeInPlace() {
    auto isInlined = [&](LoopsOp op) { return inlined.contains(op); };
    auto isWritten = [&](Value value) { return writes.contains(value); };
    SmallVector<Part> parts = placeParts(func, machine, isInlined, isWritten, decisions);
    for (auto [loops, producer] : parts)
      if (producer && producer->hasOneUse() && !producer.isReduction() && !producer.getWriteAt() &&
          producer.getDests().empty() && readableUntil[producer] == never)
        inlined.insert(producer);
    return !parts.empty();
  }

  /// The first op after `position` that writes into the memory of `value`.
  unsigned nextWrite(Value value, unsigned position) {
    unsigned first = never;
    if (writes.empty())
      return first;
    for (Value place : analysis::placesOf(value)) {
      auto list = writes.find(place);
      if (list == writes.end())
        continue;
      auto next = llvm::upper_bound(list->second, position);
      if (next != list->second.end())
        first = std::min(first, *next);
    }
    return first;
  }

  void decide(LoopsOp op) {
    BodyCost cost = bodyCost(op);
    unsigned until = never;
    auto points = (int64_t)std::min(estimatePoints(op, facts), 9e18);
    // What loads as large as the result read; a row's mean or a bias stays in cache and costs nothing to read again.
    int64_t largeBytes = 0;
    unsigned numLarge = 0;
    for (Operation &inner : *op.bodyBlock())
      if (auto load = dyn_cast<LoadOp>(inner)) {
        bool isLarge = facts.estimate(load.getSource().getType().numElements()) > points / 4;
        until = std::min(until, nextWrite(load.getSource(), positions[op]));
        if (auto producer = load.getSource().getDefiningOp<LoopsOp>(); producer && inlined.contains(producer)) {
          cost.work += costs[producer].work;
          cost.index += costs[producer].index;
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
      if (taken && !takeRoom(op, consumers)) {
        recordBudget(op, consumers.front(),
                     "the body would grow beyond " + std::to_string(budget.bodyWork) + " operations");
        return;
      }
      decisions.push_back({FusionDecision::Kind::Inline, taken, lineOf(op.getLoc()), lineOf(consumers.front().getLoc()),
                           std::move(reason)});
      if (taken)
        inlined.insert(op);
    };
    // Not even at the write itself: other elements may be overwritten already.
    if (llvm::any_of(consumers, [&](LoopsOp c) { return positions[c] >= until; }))
      return record(false, "what it reads is overwritten before its use");
    int work = cost.work + cost.index;
    bool isIndex = cost.loads == 0 && work <= cheapIndexWork && isInteger(op);
    if (isIndex || hasOnlyIndices)
      return isIndex ? record(true, "reads nothing") : void();
    if (hasManyParts(op))
      return record(false, "its parts are computed in their places");
    if (cost.loads == 0 && work <= cheapWork)
      return record(true, "reads nothing");
    if (machine.operationsPerByte > 0 && again.pays(op))
      return record(true, "computing it again takes less than moving it");
    bool isRepeated = llvm::any_of(
        consumers, [&](LoopsOp c) { return estimatePoints(c, facts) > 2 * std::max<double>((double)points, 1); });
    if (isRepeated && (work > cheapBroadcastWork || cost.loads > 1))
      return record(false, "a larger consumer would compute it many times over");
    if (work > cheapWork && llvm::any_of(consumers, [&](LoopsOp c) { return hasManyPlaces.lookup(c); }))
      return record(false, "each point would compute what all the places hold that it chooses from");
    if (consumers.size() == 1)
      return record(true, "one use");
    if (work <= cheapChoice && choosesAmongLoads(op) && isChosenOnce(op, consumers))
      return record(true, "one of several places, of which each point reads one");
    // Padding that windows read: few of them reach into it, and masks that nothing depends on go.
    if (cost.loads == 1 && work <= (machine.computesIndices ? 2 : 1) * cheapChoice &&
        consumers.size() <= mostPaddedTaps && choosesAmongLoads(op))
      return record(true, "padding, read by few taps");
    // Padding that repeats what is at the border: no masks, but an index of its own.
    if (machine.computesIndices && cost.loads == 1 && cost.work == 0 && cost.index <= cheapChoice &&
        consumers.size() <= mostCopiedTaps &&
        llvm::none_of(consumers, [](LoopsOp consumer) { return consumer.isReduction(); }))
      return record(true, "a copy with other indices, read by few taps");
    int64_t bytes = 0;
    for (Type type : op.getResultTypes())
      bytes += elementBytes(cast<GraphTensorType>(type).getElementType());
    bool isHalf = 2 * largeBytes <= bytes;
    if ((numLarge <= 1 || largeBytes <= bytes) && work <= (isHalf ? 2 : 1) * cheapWork)
      return record(true, "cheaper to compute again than to store and load");
    if (work <= stackedWork && isForOneStack(op, machine))
      return record(true, "parts of one stack, which compute it once");
    record(false, std::to_string(consumers.size()) + " uses and too much to compute again");
  }

  /// What several readers share at fewer points, or at several places each, goes into them together.
  void inlineCones(ArrayRef<LoopsOp> order) {
    llvm::MapVector<Operation *, SmallVector<LoopsOp>> readers;
    for (LoopsOp op : order)
      readers[again.lastReader(op)].push_back(op);
    for (auto &[last, list] : readers) {
      auto mayInline = [&](LoopsOp op) { return !hasManyParts(op); };
      if (std::optional<ComputeAgain::Cone> cone = again.coneOf(list, mayInline))
        inlineCone(*cone);
    }
  }

  void inlineCone(const ComputeAgain::Cone &cone) {
    // Wherever a reader is computed, what the cone reads must not have been overwritten.
    unsigned until = never;
    for (LoopsOp op : cone.ops)
      until = std::min(until, readableUntil[op]);
    LoopsOp last = *llvm::max_element(cone.readers, [&](LoopsOp a, LoopsOp b) { return positions[a] < positions[b]; });
    if (positions[last] >= until)
      return;
    for (LoopsOp reader : cone.readers)
      if (room[reader] < cone.operations)
        return recordBudget(cone.ops.front(), reader,
                            "the body would grow beyond " + std::to_string(budget.bodyWork) + " operations");
    for (LoopsOp reader : cone.readers) {
      room[reader] -= cone.operations;
      readableUntil[reader] = std::min(readableUntil[reader], until);
    }
    for (LoopsOp op : cone.ops) {
      decisions.push_back({FusionDecision::Kind::Inline, true, lineOf(op->getLoc()), lineOf(last.getLoc()),
                           "computing it again, with what it belongs to, takes less than moving it"});
      inlined.insert(op);
    }
  }

  static bool isInteger(LoopsOp op) {
    return cast<GraphTensorType>(op.getResultTypes().front()).getElementType().isInteger(64);
  }

  int sizeOf(const BodyCost &cost) const { return cost.total() + cost.branches * machine.branchCost; }

  /// Gives `op` its place in each of its uses, one in `consumers` each; false where one of them has none left.
  bool takeRoom(LoopsOp op, ArrayRef<LoopsOp> consumers) {
    int size = sizeOf(costs[op]) - 1; // it takes the place of a load
    llvm::SmallMapVector<Operation *, int, 4> wanted;
    for (LoopsOp consumer : consumers)
      wanted[consumer] = std::min(wanted[consumer] + size, budget.bodyWork + 1);
    if (llvm::any_of(wanted, [&](auto &entry) { return room[entry.first] < entry.second; }))
      return false;
    for (auto &[consumer, taken] : wanted)
      room[consumer] -= taken;
    return true;
  }

  void recordBudget(LoopsOp producer, LoopsOp consumer, std::string reason) {
    decisions.push_back({FusionDecision::Kind::Inline, false, lineOf(producer.getLoc()), lineOf(consumer.getLoc()),
                         std::move(reason), /*isForBudget=*/true});
  }

  /// Whether one op alone reads the value, and chooses among what it reads.
  static bool isChosenOnce(LoopsOp op, ArrayRef<LoopsOp> consumers) {
    return llvm::all_equal(consumers) && choosesAmongLoads(consumers.front()) &&
           bodyCost(op).total() * (int)consumers.size() <= 4 * cheapChoice;
  }

  void inlineInto(LoopsOp consumer) {
    SizeFacts inner = withAxes(facts, axesOf(consumer));
    auto producerOf = [&](LoadOp load) {
      auto producer = load.getSource().getDefiningOp<LoopsOp>();
      return producer && inlined.contains(producer) ? producer : LoopsOp();
    };
    SmallVector<LoadOp> work = llvm::to_vector(consumer.bodyBlock()->getOps<LoadOp>());
    SmallVector<Location> locations{consumer.getLoc()};
    while (true) {
      llvm::erase_if(work, [&](LoadOp load) { return !producerOf(load); });
      if (work.empty())
        break;
      // The last producer first: all that reads it in this body is there then.
      auto *next = llvm::max_element(
          work, [&](LoadOp a, LoadOp b) { return positions[producerOf(a)] < positions[producerOf(b)]; });
      LoadOp load = *next;
      work.erase(next);
      LoopsOp producer = producerOf(load);
      load = mergeEqual(load, work);
      PlacedExprs placed;
      if (!placeExprs(load, producer, inner, budget.indexNodes, placed)) {
        recordBudget(producer, consumer,
                     "an index would grow beyond " + std::to_string(budget.indexNodes) + " operations");
        continue;
      }
      if (bringsDivisions(load, producer, consumer, placed, inner)) {
        decisions.push_back({FusionDecision::Kind::Inline, false, lineOf(producer.getLoc()), lineOf(consumer.getLoc()),
                             "each element would divide its index"});
        continue;
      }
      substitute(load, producer, placed, work);
      locations.push_back(producer.getLoc());
    }
    if (locations.size() > 1)
      consumer->setLoc(FusedLoc::get(func.getContext(), locations));
  }

  /// Whether points would divide to find what a producer reads, as those of a reshaped transpose do, where they find it
  /// without once the producer is in memory.
  bool bringsDivisions(LoadOp load, LoopsOp producer, LoopsOp consumer, const PlacedExprs &placed,
                       const SizeFacts &inner) {
    if (machine.computesIndices || hasOnlyIndices)
      return false;
    if (estimatePoints(producer, facts) > mostPointsOfDivision * std::max(estimatePoints(consumer, facts), 1.0))
      return false;
    SmallVector<Axis> axes = axesOf(consumer);
    auto isDivided = [&](LoadOp of, ArrayRef<SizeExpr> indices) {
      return staysDivided(inner.simplify(linearOffset(sizes, indices, of.getSource().getType().getStrides())), axes,
                          facts);
    };
    bool brings = llvm::any_of(placed, [&](const auto &entry) {
      auto inside = dyn_cast<LoadOp>(entry.first);
      return inside && isDivided(inside, entry.second);
    });
    return brings && !isDivided(load, load.indexExprs());
  }

  FuncOp func;
  const Machine &machine;
  const FusionBudget &budget;
  SizeContext &sizes;
  SizeFacts facts;
  ComputeAgain again;
  std::vector<FusionDecision> &decisions;
  DenseMap<Operation *, BodyCost> costs;
  /// What a body may still take in, of operations.
  DenseMap<Operation *, int> room;
  /// cat of many: a point reads one place, but computes all that is inlined.
  DenseMap<Operation *, bool> hasManyPlaces;
  /// What the body reads for a point of loads as large as the result.
  struct LargeLoads {
    unsigned count = 0;
    int64_t bytes = 0;
  };
  DenseMap<Operation *, LargeLoads> largeLoads;
  DenseSet<Operation *> inlined;

  /// Ops by position in the function, before any is moved.
  DenseMap<Operation *, unsigned> positions;
  /// Positions of the ops that write into a place, ascending.
  DenseMap<Value, SmallVector<unsigned, 1>> writes;
  /// The position of the first op that overwrites what a loops op reads, itself or through what is inlined into it.
  DenseMap<Operation *, unsigned> readableUntil;
  static constexpr unsigned never = std::numeric_limits<unsigned>::max();
};

} // namespace

void inlineProducers(FuncOp func, const FusionOptions &options, std::vector<FusionDecision> &decisions) {
  dropUnitReductions(func);
  if (options.enabled)
    unrollShortReductions(func, options.machine.unrollsReductions);
  foldIndices(func, options.budget.indexNodes);
  if (options.enabled) {
    Inliner indices(func, options, decisions);
    indices.hasOnlyIndices = true;
    if (indices.run())
      foldIndices(func, options.budget.indexNodes);
    Inliner(func, options, decisions).run();
    foldIndices(func, options.budget.indexNodes); // of what has only now come together
  }
  collapseOneHotReductions(func); // their conditions have only now come together
}

} // namespace torch_tile::fusion
