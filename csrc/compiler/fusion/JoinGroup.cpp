#include "compiler/fusion/Group.h"

#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/fusion/Storage.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {

SmallVector<SizeExpr> resultIndices(const Member &member, SizeContext &sizes) {
  LoopsOp op = member.op;
  if (WriteAtOp write = op.getWriteAt(); write && op.isScan()) {
    AxisSubstitution axes;
    for (auto [axis, expr] : llvm::zip(op.axisList(), member.axisMap))
      axes.set(axis.getName().getValue(), expr);
    return llvm::map_to_vector(write.indexExprs(), [&](SizeExpr e) { return axes.apply(sizes, e); });
  }
  SmallVector<SizeExpr> indices;
  for (auto [axis, expr] : llvm::zip(op.axisList(), member.axisMap))
    if (!axis.getReduced())
      indices.push_back(expr);
  return indices;
}

SmallVector<SizeExpr> loadIndices(const Member &member, LoadOp load, SizeContext &sizes, const SizeFacts &groupFacts) {
  AxisSubstitution axes;
  LoopsOp op = member.op;
  for (auto [axis, expr] : llvm::zip(op.axisList(), member.axisMap))
    axes.set(axis.getName().getValue(), expr);
  return llvm::map_to_vector(load.indexExprs(), [&](SizeExpr e) { return groupFacts.simplify(axes.apply(sizes, e)); });
}

static void noteLoads(Group &group, LoopsOp op) {
  for (Operation &inner : *op.bodyBlock())
    if (auto load = dyn_cast<LoadOp>(inner))
      group.loads[load.getSource()].push_back(load);
}

Group groupOf(LoopsOp op, SizeContext &sizes, const SizeFacts &facts) {
  Group group;
  Member member{op, {}, true};
  group.axes = splitAxesOf(op, "g", group.nextAxis, facts, member.axisMap);
  for (Value result : op.getOutputs())
    group.producers[result] = 0;
  group.work = bodyCost(op).total();
  noteLoads(group, op);
  group.members.push_back(std::move(member));
  return group;
}

namespace {

/// One attempt to bring an op and a group together; works on copies until it has succeeded.
class Join {
public:
  Join(const Group &group, LoopsOp op, SizeContext &sizes, const SizeFacts &facts)
      : group(group), op(op), sizes(sizes), symbolFacts(facts), axes(group.axes), nextAxis(group.nextAxis) {
    opAxes = splitAxesOf(op, "l", nextLocal, facts, opMap);
  }

  bool run(std::string &why) {
    reason = &why;
    return matchAxes() && checkCover() && checkValues();
  }

  /// The joined group.
  Group result() {
    Group joined = group;
    joined.axes = axes;
    joined.nextAxis = nextAxis;
    for (Member &member : joined.members)
      for (SizeExpr &e : member.axisMap)
        e = toGroup(e);
    unsigned index = joined.members.size();
    Member member{op, {}, isFull};
    for (SizeExpr e : opMap)
      member.axisMap.push_back(toGroup(unified.apply(sizes, e)));
    for (Value value : op.getOutputs())
      joined.producers[value] = index;
    noteLoads(joined, op);
    joined.work += bodyCost(op).total();
    joined.members.push_back(std::move(member));
    return joined;
  }

  bool isFull = true;

private:
  bool no(const char *why) {
    *reason = why;
    return false;
  }

  SizeExpr toGroup(SizeExpr e) { return split.apply(sizes, e); }

  const Axis *opAxis(StringRef name) const {
    auto it = llvm::find_if(opAxes, [&](const Axis &a) { return a.name == name; });
    return it == opAxes.end() ? nullptr : it;
  }
  Axis *groupAxis(StringRef name) {
    auto it = llvm::find_if(axes, [&](const Axis &a) { return a.name == name; });
    return it == axes.end() ? nullptr : it;
  }

  /// Replaces an axis in `list` by two.
  std::pair<std::string, std::string> splitAxis(SmallVectorImpl<Axis> &list, StringRef name, SizeExpr outer,
                                                SizeExpr inner, StringRef prefix, unsigned &next) {
    auto it = llvm::find_if(list, [&](const Axis &a) { return a.name == name; });
    std::string outerName = (prefix + Twine(next++)).str(), innerName = (prefix + Twine(next++)).str();
    bool reduced = it->reduced;
    *it = {outerName, outer, reduced};
    list.insert(std::next(it), Axis{innerName, inner, reduced});
    return {outerName, innerName};
  }

  DigitMatcher matcher() {
    DigitMatcher m;
    m.splitLeft = [&](const Digit &d, SizeExpr outer, SizeExpr inner) {
      auto names = splitAxis(axes, d.axis, outer, inner, "g", nextAxis);
      SizeExpr whole = sizes.add(sizes.mul(sizes.symbol(names.first), inner), sizes.symbol(names.second));
      compose(split, d.axis, whole);
      return names;
    };
    m.splitRight = [&](const Digit &d, SizeExpr outer, SizeExpr inner) {
      auto names = splitAxis(opAxes, d.axis, outer, inner, "l", nextLocal);
      SizeExpr whole = sizes.add(sizes.mul(sizes.symbol(names.first), inner), sizes.symbol(names.second));
      AxisSubstitution one;
      one.set(d.axis, whole);
      for (SizeExpr &e : opMap)
        e = one.apply(sizes, e);
      return names;
    };
    m.unify = [&](const Digit &left, const Digit &right) { return unify(left.axis, right.axis); };
    return m;
  }

  void compose(AxisSubstitution &substitution, StringRef axis, SizeExpr value) {
    AxisSubstitution one;
    one.set(axis, value);
    splits.push_back({axis.str(), value});
    AxisSubstitution all;
    // Later splits apply to the results of earlier ones.
    for (auto &[name, expr] : splits)
      expr = one.apply(sizes, expr);
    for (auto &[name, expr] : splits)
      all.set(name, expr);
    substitution = all;
  }

  bool unify(const std::string &groupName, const std::string &opName) {
    auto [it, isNew] = opToGroup.try_emplace(opName, groupName);
    if (!isNew)
      return it->second == groupName;
    for (auto &entry : opToGroup)
      if (entry.second == groupName && entry.first() != opName) {
        opToGroup.erase(opName);
        return false;
      }
    unified.set(opName, sizes.symbol(groupName));
    return true;
  }

  /// Digits that are matched already must not be split again: leave such pairs out of the digit lists when they agree.
  bool matchIndex(SizeExpr groupIndex, SizeExpr opIndex, SizeExpr extent) {
    SizeFacts groupFacts = withAxes(symbolFacts, axes), opFacts = withAxes(symbolFacts, opAxes);
    auto left = digitsOf(groupFacts.simplify(groupIndex), extent, axes, groupFacts);
    auto right = digitsOf(opFacts.simplify(opIndex), extent, opAxes, opFacts);
    if (!left || !right)
      return false;
    auto isTaken = [&](const Digit &l) { return llvm::any_of(opToGroup, [&](auto &e) { return e.second == l.axis; }); };
    bool leftTaken = llvm::any_of(*left, isTaken);
    bool rightTaken = llvm::any_of(*right, [&](const Digit &r) { return opToGroup.contains(r.axis); });
    if (leftTaken || rightTaken) {
      // All of it must be the same already.
      if (left->size() != right->size())
        return false;
      for (auto [l, r] : llvm::zip(*left, *right)) {
        auto it = opToGroup.find(r.axis);
        if (it == opToGroup.end() || it->second != l.axis)
          return false;
      }
      return true;
    }
    return matchDigits(*left, *right, symbolFacts, matcher());
  }

  /// Matches axes through a value that both sides know at given indices.
  bool matchThrough(Value value, ArrayRef<SizeExpr> groupIndices, LoadOp load) {
    auto extents = cast<GraphTensorType>(value.getType()).getSizes();
    AxisSubstitution local;
    bool any = false;
    for (unsigned k = 0; k < extents.size(); ++k) {
      // Splits made for earlier dimensions apply to later ones.
      AxisSubstitution now;
      for (auto [axis, e] : llvm::zip(op.axisList(), opMap))
        now.set(axis.getName().getValue(), e);
      SizeExpr opIndex = now.apply(sizes, load.indexExprs()[k]);
      if (opIndex.isConstant() && toGroup(groupIndices[k]).isConstant())
        continue;
      any |= matchIndex(toGroup(groupIndices[k]), opIndex, extents[k]);
    }
    return any;
  }

  bool matchAxes() {
    for (Operation &inner : *op.bodyBlock())
      if (auto load = dyn_cast<LoadOp>(inner))
        if (auto it = group.producers.find(load.getSource()); it != group.producers.end())
          matchThrough(load.getSource(), resultIndices(group.members[it->second], sizes), load);
    if (opToGroup.empty())
      for (Operation &inner : *op.bodyBlock())
        if (auto load = dyn_cast<LoadOp>(inner))
          if (auto it = group.loads.find(load.getSource()); it != group.loads.end() && load.getScalars().empty())
            for (LoadOp other : it->second) {
              if (!other.getScalars().empty())
                continue;
              const Member *member = memberOf(other);
              SizeFacts groupFacts = withAxes(symbolFacts, group.axes);
              matchThrough(load.getSource(), loadIndices(*member, other, sizes, groupFacts), load);
              break;
            }
    return matchRest();
  }

  const Member *memberOf(LoadOp load) {
    auto parent = load->getParentOfType<LoopsOp>();
    return llvm::find_if(group.members, [&](const Member &m) { return m.op == parent; });
  }

  SmallVector<Digit> freeGroupDigits(std::optional<bool> reduced) {
    SmallVector<Digit> digits;
    for (const Axis &axis : axes)
      if ((!reduced || axis.reduced == *reduced) &&
          llvm::none_of(opToGroup, [&](auto &e) { return e.second == axis.name; }))
        digits.push_back({axis.name, axis.extent});
    return digits;
  }
  SmallVector<Digit> freeOpDigits(std::optional<bool> reduced) {
    SmallVector<Digit> digits;
    for (const Axis &axis : opAxes)
      if ((!reduced || axis.reduced == *reduced) && !opToGroup.contains(axis.name))
        digits.push_back({axis.name, axis.extent});
    return digits;
  }

  /// What no shared value decided is matched in order of position.
  bool matchRest() {
    bool groupReduces = group.hasReducedAxes();
    if (op.isReduction() && groupReduces) {
      if (!matchDigits(freeGroupDigits(false), freeOpDigits(false), symbolFacts, matcher()))
        return no("results of different extents");
      if (!matchDigits(freeGroupDigits(true), freeOpDigits(true), symbolFacts, matcher()))
        return no("reduced axes of different extents");
      return true;
    }
    if (groupReduces && !op.isReduction() && freeOpDigits(std::nullopt).empty()) {
      // Everything has its place: either the results' axes alone, or all.
      return true;
    }
    if (groupReduces && !op.isReduction()) {
      // Results' axes alone, if their product fits; otherwise everything.
      SmallVector<Digit> parallel = freeGroupDigits(false), own = freeOpDigits(std::nullopt);
      if (product(parallel) == product(own)) {
        if (matchDigits(parallel, own, symbolFacts, matcher()))
          return true;
        return no("axes that do not line up");
      }
    }
    if (!matchDigits(freeGroupDigits(std::nullopt), freeOpDigits(std::nullopt), symbolFacts, matcher()))
      return no("different extents");
    return true;
  }

  SizeExpr product(ArrayRef<Digit> digits) {
    SizeExpr p = sizes.constant(1);
    for (const Digit &d : digits)
      p = sizes.mul(p, d.extent);
    return p;
  }

  /// Every axis of the op has its place, and the op covers either all axes of the group or the parallel ones.
  bool checkCover() {
    for (const Axis &axis : opAxes)
      if (!opToGroup.contains(axis.name))
        return no("axes that do not line up");
    auto isCovered = [&](const Axis &axis) {
      return llvm::any_of(opToGroup, [&](auto &e) { return e.second == axis.name; });
    };
    if (op.isReduction()) {
      bool groupReduces = group.hasReducedAxes();
      for (const Axis &axis : opAxes) {
        Axis *there = groupAxis(opToGroup.lookup(axis.name));
        if (groupReduces && there->reduced != axis.reduced)
          return no("reduces other axes");
        if (!groupReduces)
          there->reduced = axis.reduced;
      }
      return llvm::all_of(axes, isCovered) || no("covers a part of the axes only");
    }
    bool all = llvm::all_of(axes, isCovered);
    bool parallelOnly = llvm::all_of(axes, [&](const Axis &axis) { return isCovered(axis) != axis.reduced; });
    isFull = all;
    return all || (group.hasReducedAxes() && parallelOnly) || no("covers a part of the axes only");
  }

  SmallVector<SizeExpr> opLoadIndices(LoadOp load, const SizeFacts &groupFacts) {
    AxisSubstitution now;
    for (auto [axis, e] : llvm::zip(op.axisList(), opMap))
      now.set(axis.getName().getValue(), unified.apply(sizes, e));
    return llvm::map_to_vector(load.indexExprs(), [&](SizeExpr e) { return groupFacts.simplify(now.apply(sizes, e)); });
  }

  bool sameIndices(ArrayRef<SizeExpr> made, ArrayRef<SizeExpr> used, const SizeFacts &groupFacts) {
    return llvm::all_of(llvm::zip(made, used), [&](auto pair) {
      return groupFacts.equal(groupFacts.simplify(toGroup(std::get<0>(pair))), std::get<1>(pair)) == Proof::Yes;
    });
  }

  /// Values made in the group are used at the point at which they are made.
  bool checkValues() {
    SizeFacts groupFacts = withAxes(symbolFacts, axes);
    for (Operation &inner : *op.bodyBlock()) {
      auto load = dyn_cast<LoadOp>(inner);
      if (!load)
        continue;
      auto it = group.producers.find(load.getSource());
      if (it == group.producers.end())
        continue;
      const Member &producer = group.members[it->second];
      if (!load.getScalars().empty() ||
          !sameIndices(resultIndices(producer, sizes), opLoadIndices(load, groupFacts), groupFacts))
        return no("uses a value at other points than those at which it is made");
      // The result of a reduction exists once the reduced axes are done; a pointwise value along them exists only
      // inside.
      if (!isFull && producer.isFull && !LoopsOp(producer.op).isReduction())
        return no("uses a value at other points than those at which it is made");
    }
    return true;
  }

  const Group &group;
  LoopsOp op;
  SizeContext &sizes;
  const SizeFacts &symbolFacts;
  std::string *reason = nullptr;

  SmallVector<Axis> axes; // the group's, as split so far
  unsigned nextAxis;
  SmallVector<Axis> opAxes; // the op's, as split so far
  unsigned nextLocal = 0;
  SmallVector<SizeExpr> opMap; // the op's axes over opAxes
  std::vector<std::pair<std::string, SizeExpr>> splits;
  AxisSubstitution split;   // the group's old axes over `axes`
  AxisSubstitution unified; // opAxes over `axes`
  llvm::StringMap<std::string> opToGroup;
};

/// Whether `op` is pointwise in what a scan makes, so that it is done point by point as the scan goes on.
bool followsScan(const Group &group, LoopsOp op) {
  auto readsGroup = [&](Operation &inner) {
    auto load = dyn_cast<LoadOp>(inner);
    return load && group.producers.contains(load.getSource());
  };
  return LoopsOp(group.members.front().op).isScan() && !op.isReduction() && op.getDests().empty() &&
         llvm::any_of(*op.bodyBlock(), readsGroup);
}

/// Why `op` may not share a kernel with the group where one of them scatters; null: it may. What all points of a
/// scatter make is there when the kernel ends.
const char *refuseScatter(const Group &group, LoopsOp op, const Machine &machine) {
  auto isInOrder = [](LoopsOp each) { return each.getWriteAt() && !each.isFreeScatter(); };
  if (!machine.joinsScatters || isInOrder(op) ||
      llvm::any_of(group.members, [&](const Member &member) { return isInOrder(member.op); }))
    return "its loops run in an order of their own";
  if (group.hasReducedAxes() || op.isReduction())
    return "a scatter is at no point of a reduction";
  for (LoadOp load : op.bodyBlock()->getOps<LoadOp>())
    if (auto it = group.producers.find(load.getSource());
        it != group.producers.end() && LoopsOp(group.members[it->second].op).isFreeScatter())
      return "reads what all points of a scatter make";
  return nullptr;
}

} // namespace

bool joinGroup(Group &group, LoopsOp op, SizeContext &sizes, const SizeFacts &facts, const FusionOptions &options,
               std::string &reason) {
  // First of all: the questions that follow look at every member.
  if (group.work + bodyCost(op).total() > options.budget.groupWork) {
    reason = "the kernel would grow beyond " + std::to_string(options.budget.groupWork) + " operations";
    return false;
  }
  bool isOrdered = llvm::any_of(group.members, [](Member &member) { return bool(member.op.getWriteAt()); });
  if ((isOrdered || op.getWriteAt()) && !followsScan(group, op)) {
    if (const char *refusal = refuseScatter(group, op, options.machine)) {
      reason = refusal;
      return false;
    }
  }
  Join join(group, op, sizes, facts);
  if (!join.run(reason))
    return false;
  if (isOrdered && !join.isFull) {
    reason = "covers a part of the axes only";
    return false;
  }
  Group joined = join.result();
  if (const char *hazard = findStorageHazard(joined, sizes, facts)) {
    reason = hazard;
    return false;
  }
  if (!joiningPays(group, joined, facts, options.machine, reason))
    return false;
  group = std::move(joined);
  return true;
}

} // namespace torch_tile::fusion
