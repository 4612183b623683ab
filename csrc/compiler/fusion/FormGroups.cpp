#include "compiler/fusion/FusionCost.h"
#include "compiler/fusion/Group.h"
#include "compiler/fusion/GroupDependences.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

/// A value that very many kernels read (a mask, a scalar) relates all of them; only the latest are tried, which keeps
/// the time per op flat.
constexpr size_t maxCandidates = 4;
/// Members of two groups that become one: all of them join anew, each at the cost of the members before it.
constexpr size_t mostMerged = 32;

class GroupFormer {
public:
  GroupFormer(FuncOp func, const FusionOptions &options, std::vector<FusionDecision> &decisions)
      : func(func), options(options), decisions(decisions), sizes(GraphDialect::sizes(func.getContext())),
        facts(func.facts()), dependences(func) {}

  void run() {
    for (Operation &op : func.getBody().front())
      if (auto loops = dyn_cast<LoopsOp>(op))
        place(loops);
    materialize();
  }

private:
  void place(LoopsOp op) {
    // Scans, and scatters that go in order, begin a kernel.
    bool mayJoin = !op.getWriteAt() || (options.machine.joinsScatters && op.isFreeScatter());
    if (options.enabled && mayJoin) {
      for (unsigned unit : candidates(op)) {
        std::string reason;
        bool taken;
        if (dependences.mergeMakesCycle(unit, op)) {
          taken = false;
          reason = "something between them needs the one and is needed by the other";
        } else {
          Group before = groups.find(unit)->second;
          taken = joinGroup(groups.find(unit)->second, op, sizes, facts, options, reason);
          if (taken && !before.hasReducedAxes())
            unit = mergeOtherProducers(unit, before, op);
        }
        record(unit, op, taken, reason);
        if (!taken)
          continue;
        dependences.merge(unit, op);
        note(op, unit);
        return;
      }
    }
    unsigned unit = dependences.unitOf(op);
    groups.try_emplace(unit, groupOf(op, sizes, facts));
    note(op, unit);
  }

  /// `op` has joined the group `unit`, which was `before`, and reads what other groups make: those that fit run in the
  /// same loops, where the values need not pass through memory. Returns the unit of the group with `op`.
  unsigned mergeOtherProducers(unsigned unit, Group before, LoopsOp op) {
    for (Operation &inner : *op.bodyBlock()) {
      auto load = dyn_cast<LoadOp>(inner);
      auto producer = load ? load.getSource().getDefiningOp<LoopsOp>() : LoopsOp();
      unsigned other = producer ? dependences.unitOf(producer) : unit;
      auto it = groups.find(other);
      if (other == unit || it == groups.end() || it->second.hasReducedAxes() ||
          before.members.size() + it->second.members.size() > mostMerged ||
          llvm::any_of(it->second.members, [](const Member &member) { return bool(LoopsOp(member.op).getWriteAt()); }))
        continue;
      bool isFirst = dependences.isBefore(unit, other);
      unsigned first = isFirst ? unit : other, second = isFirst ? other : unit;
      Operation *ofSecond = dependences.members(second).front();
      if (dependences.mergeMakesCycle(first, ofSecond) || dependences.mergeMakesCycle(other, op))
        continue;
      SmallVector<LoopsOp> members;
      for (const Group *group : {&before, &it->second})
        for (const Member &member : group->members)
          members.push_back(member.op);
      llvm::sort(members, [](LoopsOp a, LoopsOp b) { return a->isBeforeInBlock(b); });
      Group merged = groupOf(members.front(), sizes, facts);
      std::string reason;
      auto joins = [&](LoopsOp member) { return joinGroup(merged, member, sizes, facts, options, reason); };
      if (!llvm::all_of(ArrayRef(members).drop_front(), joins))
        continue;
      Group withOp = merged;
      if (!joinGroup(withOp, op, sizes, facts, options, reason))
        continue;
      record(other, op, /*taken=*/true, "");
      dependences.merge(first, ofSecond);
      groups.erase(second);
      groups.find(first)->second = std::move(withOp);
      before = std::move(merged);
      unit = first;
    }
    return unit;
  }

  void record(unsigned unit, LoopsOp op, bool taken, StringRef reason) {
    int line = lineOf(groups.find(unit)->second.members.front().op.getLoc());
    decisions.push_back(
        {FusionDecision::Kind::Join, taken, line, lineOf(op.getLoc()), taken ? "shares data" : reason.str()});
  }

  /// Groups that make or read what `op` reads, the most bytes first; where it reads nothing, the last one that does
  /// not.
  SmallVector<unsigned> candidates(LoopsOp op) {
    llvm::MapVector<unsigned, int64_t> shared;
    llvm::SmallPtrSet<Value, 8> seen;
    for (Operation &inner : *op.bodyBlock()) {
      auto load = dyn_cast<LoadOp>(inner);
      if (!load || !seen.insert(load.getSource()).second)
        continue;
      Value source = load.getSource();
      int64_t bytes = estimateBytes(load.getSource().getType(), facts);
      if (Operation *producer = source.getDefiningOp<LoopsOp>())
        shared[dependences.unitOf(producer)] += 2 * bytes + 1;
      ArrayRef<unsigned> list = readers[source];
      for (unsigned unit : list.take_back(maxCandidates))
        shared[dependences.leader(unit)] += bytes;
    }
    if (seen.empty() && !op.getWriteAt() && options.machine.joinsScatters && lastFill)
      return {dependences.leader(*lastFill)};
    SmallVector<std::pair<unsigned, int64_t>> sorted(shared.begin(), shared.end());
    llvm::stable_sort(sorted, [](auto &a, auto &b) { return a.second > b.second; });
    SmallVector<unsigned> result;
    for (auto &[unit, bytes] : sorted)
      if (groups.contains(unit) && bytes > 0 && result.size() < maxCandidates)
        result.push_back(unit);
    return result;
  }

  void note(LoopsOp op, unsigned unit) {
    bool isFill = !op.getWriteAt();
    llvm::scope_exit noteFill([&] {
      if (isFill)
        lastFill = unit;
    });
    for (Operation &inner : *op.bodyBlock())
      if (auto load = dyn_cast<LoadOp>(inner)) {
        isFill = false;
        SmallVector<unsigned> &list = readers[load.getSource()];
        if (list.empty() || list.back() != unit)
          list.push_back(unit);
      }
  }

  /// Rebuilds the function's body: groups become graph.fusion ops, units come in dependence order.
  void materialize() {
    Block &block = func.getBody().front();
    Operation *terminator = block.getTerminator();
    OpBuilder builder(terminator);
    for (unsigned unit : dependences.order()) {
      auto it = groups.find(unit);
      if (it == groups.end()) {
        for (Operation *op : dependences.members(unit))
          op->moveBefore(terminator);
        continue;
      }
      emit(it->second, builder);
    }
  }

  void emit(Group &group, OpBuilder &builder) {
    // Final names: parallel axes i0, i1, ..., reduced ones r0, r1, ...
    AxisSubstitution names;
    SmallVector<Attribute> axes;
    for (bool reduced : {false, true}) {
      unsigned next = 0;
      for (Axis &axis : group.axes)
        if (axis.reduced == reduced) {
          std::string name = (reduced ? "r" : "i") + std::to_string(next++);
          names.set(axis.name, sizes.symbol(name));
          axes.push_back(AxisAttr::get(func.getContext(), builder.getStringAttr(name), axis.extent, reduced));
        }
    }
    SmallVector<Value> outputs;
    SmallVector<Location> locations;
    llvm::SmallPtrSet<Operation *, 8> inside;
    for (Member &member : group.members) {
      inside.insert(member.op);
      locations.push_back(member.op.getLoc());
    }
    auto isInside = [&](Operation *user) {
      auto loops = dyn_cast<LoopsOp>(user);
      return inside.contains(loops ? loops : user->getParentOfType<LoopsOp>());
    };
    for (Member &member : group.members)
      for (Value result : member.op.getOutputs()) {
        bool escapes =
            member.op.destOf(cast<OpResult>(result).getResultNumber()) || !llvm::all_of(result.getUsers(), isInside);
        if (escapes)
          outputs.push_back(result);
      }
    auto fusion = FusionOp::create(builder, FusedLoc::get(func.getContext(), locations), ValueRange(outputs).getTypes(),
                                   builder.getArrayAttr(axes));
    Block *body = new Block();
    fusion.getBody().push_back(body);
    for (Member &member : group.members) {
      member.op->moveBefore(body, body->end());
      SmallVector<SizeExpr> map =
          llvm::map_to_vector(member.axisMap, [&](SizeExpr e) { return names.apply(sizes, e); });
      member.op.setAxisMapAttr(exprArray(func.getContext(), map));
    }
    for (auto [inner, outer] : llvm::zip(outputs, fusion.getOutputs()))
      inner.replaceUsesWithIf(outer, [&](OpOperand &use) { return !isInside(use.getOwner()); });
    OpBuilder end = OpBuilder::atBlockEnd(body);
    YieldOp::create(end, fusion.getLoc(), outputs);
  }

  FuncOp func;
  const FusionOptions &options;
  std::vector<FusionDecision> &decisions;
  SizeContext &sizes;
  SizeFacts facts;
  Dependences dependences;
  DenseMap<unsigned, Group> groups;
  DenseMap<Value, SmallVector<unsigned>> readers;
  /// Of the last loops that read nothing: what sums begin with is filled together.
  std::optional<unsigned> lastFill;
};

} // namespace

void formGroups(FuncOp func, const FusionOptions &options, std::vector<FusionDecision> &decisions) {
  dropUnitReductions(func);
  GroupFormer(func, options, decisions).run();
}

} // namespace torch_tile::fusion
