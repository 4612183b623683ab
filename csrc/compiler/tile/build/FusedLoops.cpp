#include "compiler/tile/build/FusedLoops.h"

#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/graph/ir/Marks.h"

#include "mlir/IR/Matchers.h"

#include <numeric>

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;
using torch_tile::fusion::AxisSubstitution;
using torch_tile::fusion::linearOffset;
using torch_tile::fusion::strideAlong;

namespace torch_tile::tile_build {

bool isUnaligned(Value buffer, const SizeFacts &facts) {
  constexpr int64_t wordBytes = 16;
  while (auto alias = buffer.getDefiningOp<AliasOp>()) {
    SizeExpr offset = alias.getOffset().getValue();
    int64_t bytes = torch_tile::fusion::elementBytes(alias.getType().getElementType());
    SizeExpr elements = GraphDialect::sizes(buffer.getContext()).constant(wordBytes / std::gcd(wordBytes, bytes));
    if (facts.divides(elements, facts.simplify(offset)) != Proof::Yes)
      return true;
    buffer = alias.getSource();
  }
  if (auto loops = buffer.getDefiningOp<LoopsOp>())
    return loops->hasAttr(kUnalignedPart);
  auto argument = dyn_cast<BlockArgument>(buffer);
  auto func = argument ? dyn_cast<FuncOp>(argument.getOwner()->getParentOp()) : FuncOp();
  return func && func.getArgAttr(argument.getArgNumber(), GraphDialect::unalignedAttrName);
}

FusedLoops::FusedLoops(FusionOp fusion, const SizeFacts &symbols, Walk walk, const FixedSizes &fixed)
    : context(GraphDialect::sizes(fusion.getContext())), symbolFacts(symbols), groupFacts(symbols) {
  auto known = [&](SizeExpr e) {
    return fixed.empty() ? e : context.substitute(e, [&](std::string_view name) {
      auto it = fixed.find(std::string(name));
      return it == fixed.end() ? SizeExpr() : context.constant(it->second);
    });
  };
  for (const auto &[name, value] : fixed)
    groupFacts.setRange(name, value, value);
  for (AxisAttr axis : fusion.getAxes().getAsRange<AxisAttr>())
    axes.push_back({axis.getName().str(), known(axis.getExtent()), axis.getReduced()});
  for (const Axis &axis : axes)
    groupFacts.setExtent(axis.name, axis.extent);

  Block &body = fusion.getBody().front();
  for (Operation &op : body.without_terminator()) {
    auto loops = cast<LoopsOp>(op);
    FusedMember member{loops};
    AxisSubstitution map;
    SmallVector<SizeExpr> resultIndices;
    SmallVector<bool> covered(axes.size(), false);
    for (auto [axis, expr] : llvm::zip(loops.axisList(), exprsOf(*loops.getAxisMap()))) {
      map.set(axis.getName().getValue(), expr);
      if (!axis.getReduced())
        resultIndices.push_back(expr);
      for (auto [k, a] : llvm::enumerate(axes))
        covered[k] = covered[k] || expr.contains(a.name);
    }
    for (auto [k, a] : llvm::enumerate(axes))
      member.isFull = member.isFull && (covered[k] || !a.reduced);
    for (Operation &inner : *loops.bodyBlock()) {
      if (auto load = dyn_cast<LoadOp>(inner)) {
        SmallVector<SizeExpr> indices = llvm::map_to_vector(
            load.indexExprs(), [&](SizeExpr e) { return groupFacts.simplify(known(map.apply(context, e))); });
        // Together, indices of an axis that was split and joined again are one run.
        exprs[load] =
            groupFacts.simplify(known(linearOffset(context, indices, load.getSource().getType().getStrides())));
      } else if (auto index = dyn_cast<IndexOp>(inner)) {
        exprs[index] = groupFacts.simplify(known(map.apply(context, index.getExpr().getValue())));
      } else if (auto write = dyn_cast<WriteAtOp>(inner)) {
        resultIndices = llvm::map_to_vector(
            write.indexExprs(), [&](SizeExpr e) { return groupFacts.simplify(known(map.apply(context, e))); });
      }
    }
    for (Value result : loops.getOutputs())
      offsets[result] =
          known(linearOffset(context, resultIndices, cast<GraphTensorType>(result.getType()).getStrides()));
    memberOf[loops] = members.size();
    members.push_back(member);
  }
  outputs = llvm::to_vector(cast<YieldOp>(body.getTerminator()).getValues());
  orderAxes();
  mergeAxes();
  if (walk != Walk::Accesses && canFlatten())
    flattenAxes(walk);
  assignStages();
}

const FusedMember *FusedLoops::producer(Value value) const {
  auto it = memberOf.find(value.getDefiningOp());
  return it == memberOf.end() ? nullptr : &members[it->second];
}

Value FusedLoops::destOf(Value result) const {
  Value dest = result;
  while (dest && producer(dest)) // scatters that update one buffer write into each other's results
    dest = cast<LoopsOp>(dest.getDefiningOp()).destOf(cast<OpResult>(dest).getResultNumber());
  return dest;
}

const Axis *FusedLoops::axis(StringRef name) const {
  auto it = llvm::find_if(axes, [&](const Axis &a) { return a.name == name; });
  return it == axes.end() ? nullptr : it;
}

SmallVector<FusedLoops::Access> FusedLoops::accesses() const {
  SmallVector<Access> list;
  for (const FusedMember &member : members) {
    LoopsOp op = member.op;
    for (Operation &inner : *op.bodyBlock())
      if (auto load = dyn_cast<LoadOp>(inner); load && !producer(load.getSource()))
        list.push_back({load, load.getSource(), exprOf(load), load.getType(), member.isFull, load.getScalars()});
    for (Value result : op.getOutputs())
      if (llvm::is_contained(outputs, result))
        list.push_back({nullptr, result, offsetOf(result), cast<GraphTensorType>(result.getType()).getElementType(),
                        member.isFull && !op.isReduction(),
                        op.getWriteAt() ? ValueRange(op.getWriteAt().getScalars()) : ValueRange()});
  }
  return list;
}

int FusedLoops::work() const {
  int sum = 0;
  for (const FusedMember &member : members)
    if (member.isFull)
      sum += torch_tile::fusion::bodyCost(member.op).work;
  return sum;
}

/// Of loads at several places of one walk through a buffer, the first: it brings the data of all of them.
static SmallVector<FusedLoops::Access> distinctWalks(const SmallVector<FusedLoops::Access> &accesses,
                                                     ArrayRef<Axis> axes, SizeContext &context) {
  SmallVector<FusedLoops::Access> distinct;
  auto isSameWalk = [&](const FusedLoops::Access &a, const FusedLoops::Access &b) {
    return a.load && b.load && a.buffer == b.buffer && a.isFull == b.isFull && a.scalars.empty() && b.scalars.empty() &&
           llvm::all_of(axes, [&](const Axis &axis) {
             std::optional<SizeExpr> stride = strideAlong(context, a.offset, axis.name);
             return stride && stride == strideAlong(context, b.offset, axis.name);
           });
  };
  for (const FusedLoops::Access &access : accesses)
    if (llvm::none_of(distinct, [&](const FusedLoops::Access &other) { return isSameWalk(access, other); }))
      distinct.push_back(access);
  return distinct;
}

/// Inner loops should walk memory in small steps: orders axes by the strides of what weighs most.
void FusedLoops::orderAxes() {
  SmallVector<Access> list = distinctWalks(accesses(), axes, context);
  double points = 1;
  for (const Axis &axis : axes)
    points *= (double)std::max<int64_t>(1, groupFacts.estimate(axis.extent));
  auto rank = [&](const Axis &axis) {
    // The typical stride along the axis, weighted by how much data moves: large strides go outside.
    double weight = 0, sum = 0;
    for (const Access &access : list) {
      if (!access.isFull && axis.reduced)
        continue;
      std::optional<SizeExpr> stride = strideAlong(context, access.offset, axis.name);
      // A place that is looked up anew along the axis is as far as its rows are apart, at least.
      for (auto [k, scalar] : llvm::enumerate(access.scalars))
        if (stride && stride->isConstant(0) && variesAlong(scalar, axis.name))
          stride = strideAlong(context, access.offset, "x" + std::to_string(k));
      if (stride && stride->isConstant(0))
        continue;
      // Of a part of a buffer, what is read of it.
      double bytes = std::min((double)torch_tile::fusion::estimateBytes(cast<GraphTensorType>(access.buffer.getType()),
                                                                        groupFacts),
                              points * (double)torch_tile::fusion::elementBytes(access.elementType)) *
                     (access.load ? 1 : 2);
      double step = stride ? std::abs((double)groupFacts.estimate(*stride)) : 1;
      weight += bytes;
      sum += bytes * std::log2(std::max(1.0, step));
    }
    return weight > 0 ? sum / weight : 64;
  };
  SmallVector<std::pair<double, Axis>> ranked;
  for (const Axis &axis : axes)
    ranked.push_back({rank(axis), axis});
  llvm::stable_sort(ranked, [keepsOrder = isOrdered()](auto &a, auto &b) {
    if (a.second.reduced != b.second.reduced)
      return !a.second.reduced;
    if (a.second.reduced && keepsOrder)
      return false;
    return a.first > b.first + 1e-9;
  });
  axes.clear();
  for (auto &[_, axis] : ranked)
    axes.push_back(axis);
  varies.clear(); // it is kept by places of axes
}

template <typename Fn> void FusedLoops::forEachExpr(Fn fn) {
  for (auto &entry : exprs)
    fn(entry.second);
  for (auto &entry : offsets)
    fn(entry.second);
}

bool FusedLoops::walksAsOne(SizeExpr e, const Axis &outer, const Axis &inner) const {
  std::optional<SizeExpr> outerStride = strideAlong(context, e, outer.name),
                          innerStride = strideAlong(context, e, inner.name);
  // A factor that holds the other axis is not a stride.
  return outerStride && innerStride && !outerStride->contains(inner.name) && !innerStride->contains(outer.name) &&
         groupFacts.equal(*outerStride, context.mul(*innerStride, inner.extent)) == Proof::Yes;
}

int boundOperand(arith::CmpIOp compare) {
  using Predicate = arith::CmpIPredicate;
  Predicate predicate = compare.getPredicate();
  int bound = predicate == Predicate::slt || predicate == Predicate::sge   ? 1
              : predicate == Predicate::sgt || predicate == Predicate::sle ? 0
                                                                           : -1;
  return bound >= 0 && isa_and_nonnull<IndexOp>(compare->getOperand(1 - bound).getDefiningOp()) ? bound : -1;
}

/// For an index along `outer` that serves comparisons with bounds alone, the place on `outer` at which one of them
/// changes: of k*i + r < b, i < (b - r + k - 1) // k. Both sides of that may be multiplied by the length of `inner`,
/// and what lies below added to the left, so that borders of concatenations and paddings between whole rows do not keep
/// axes apart. Long rows fill tiles by themselves, with one answer for all lanes. Invalid: it is none.
SizeExpr FusedLoops::boundAlong(Operation *op, SizeExpr e, OpOperand &use, const Axis &outer, const Axis &inner) const {
  constexpr int64_t most = int64_t{1} << 31; // a product of two stays within 64 bits
  constexpr int64_t longRow = 1024;          // elements: a tile on a GPU, 16 registers and more on a CPU
  auto index = dyn_cast<IndexOp>(op);
  auto compare = dyn_cast<arith::CmpIOp>(use.getOwner());
  int number = compare ? boundOperand(compare) : -1;
  std::optional<SizeExpr> stride = strideAlong(context, e, outer.name);
  std::optional<int64_t> step = stride ? stride->constant() : std::nullopt;
  if (!index || !index.getScalars().empty() || number < 0 || (int)use.getOperandNumber() != 1 - number || !step ||
      *step <= 0 || groupFacts.estimate(inner.extent) >= longRow)
    return {};
  SizeExpr bound = boundOf(compare);
  Value operand = compare->getOperand(number);
  if (APInt constant; !bound && matchPattern(operand, m_ConstantInt(&constant)) && constant.abs().ule(most))
    bound = context.constant(constant.getSExtValue());
  if (auto size = operand.getDefiningOp<IndexOp>(); !bound && size && size.getScalars().empty())
    bound = exprOf(size);
  if (!bound)
    return {};
  SizeExpr rest = torch_tile::fusion::withoutAxis(context, e, outer.name);
  SizeExpr at =
      groupFacts.floorDiv(context.add(context.sub(bound, rest), context.constant(*step - 1)), context.constant(*step));
  at = groupFacts.simplify(at);
  if (!at.isValid() || llvm::any_of(axes, [&](const Axis &axis) { return at.contains(axis.name); }))
    return {};
  SizeRange range = groupFacts.range(at);
  // What lies within the axis stays within the number of points, which 64 bits hold.
  bool isKnown = (range.min >= -most && range.max <= most && groupFacts.range(inner.extent).max <= most) ||
                 torch_tile::fusion::staysInRange(groupFacts, context.mul(at, inner.extent)) ||
                 (groupFacts.lessEqual(at, outer.extent) == Proof::Yes &&
                  groupFacts.lessEqual(context.neg(outer.extent), at) == Proof::Yes);
  return isKnown ? at : SizeExpr();
}

bool FusedLoops::isOnlyBounded(Operation *op, SizeExpr e, const Axis &outer, const Axis &inner) const {
  return !op->use_empty() && !e.contains(inner.name) &&
         llvm::all_of(op->getUses(), [&](OpOperand &use) { return bool(boundAlong(op, e, use, outer, inner)); });
}

bool FusedLoops::tryMerge(const Axis &outer, const Axis &inner) {
  return llvm::all_of(offsets, [&](auto &entry) { return walksAsOne(entry.second, outer, inner); }) &&
         llvm::all_of(exprs, [&](auto &entry) {
           return walksAsOne(entry.second, outer, inner) || isOnlyBounded(entry.first, entry.second, outer, inner);
         });
}

/// Axes that every access walks as one become one. Reduced ones that keep their order are neighbours.
void FusedLoops::mergeAxes() {
  auto mayMerge = [&](size_t outer, size_t inner) {
    bool isReduced = axes[outer].reduced;
    return outer != inner && isReduced == axes[inner].reduced && (outer + 1 == inner || !isReduced || !isOrdered()) &&
           tryMerge(axes[outer], axes[inner]);
  };
  bool areNeighbours = true;
  for (size_t outer = 0; outer < axes.size();) {
    auto numbers = llvm::seq<size_t>(0, axes.size());
    auto found = llvm::find_if(numbers, [&](size_t inner) { return mayMerge(outer, inner); });
    if (found == numbers.end()) {
      ++outer;
      continue;
    }
    areNeighbours = areNeighbours && *found == outer + 1;
    mergeInto(outer, *found);
    outer = 0;
  }
  if (!areNeighbours)
    orderAxes();
}

/// One axis in the place of `axes[inner]`.
void FusedLoops::mergeInto(size_t outerNumber, size_t innerNumber) {
  Axis outer = axes[outerNumber], inner = axes[innerNumber];
  Axis merged{(inner.reduced ? "mr" : "mi") + std::to_string(nextMerged++), context.mul(outer.extent, inner.extent),
              inner.reduced};
  SizeExpr name = context.symbol(merged.name);
  for (auto &[op, e] : exprs) {
    if (walksAsOne(e, outer, inner))
      continue;
    for (OpOperand &use : op->getUses())
      bounds[use.getOwner()] = context.mul(boundAlong(op, e, use, outer, inner), inner.extent);
    e = context.symbol(inner.name); // which becomes the merged axis
  }
  forEachExpr([&](SizeExpr &e) {
    e = context.substitute(e, [&](std::string_view s) {
      return s == outer.name ? context.constant(0) : s == inner.name ? name : SizeExpr();
    });
  });
  axes[innerNumber] = merged;
  axes.erase(axes.begin() + outerNumber);
  groupFacts.setExtent(merged.name, merged.extent);
}

bool FusedLoops::canFlatten() const {
  return axes.size() > 1 && !isOrdered() && llvm::none_of(axes, [](const Axis &axis) { return axis.reduced; });
}

/// Whether some load has its neighbours along an axis.
bool FusedLoops::isReadAlong(const Axis &axis) const {
  return llvm::any_of(accesses(), [&](const Access &access) {
    std::optional<SizeExpr> stride = strideAlong(context, access.offset, axis.name);
    return access.load && stride && stride->isConstant(1) && access.scalars.empty();
  });
}

void FusedLoops::flattenAxes(Walk walk) {
  Value largest;
  int64_t mostBytes = 0;
  for (Value result : outputs)
    if (int64_t bytes = torch_tile::fusion::estimateBytes(cast<GraphTensorType>(result.getType()), groupFacts);
        bytes > mostBytes) {
      largest = result;
      mostBytes = bytes;
    }
  if (!largest)
    return;
  auto strideOf = [&](const Axis &axis) { return strideAlong(context, offsetOf(largest), axis.name); };
  if (!llvm::all_of(axes, [&](const Axis &axis) { return strideOf(axis).has_value(); }))
    return;
  llvm::stable_sort(axes, [&](const Axis &a, const Axis &b) {
    return std::abs(groupFacts.estimate(*strideOf(a))) > std::abs(groupFacts.estimate(*strideOf(b)));
  });
  // Stores move along the lanes in steps of one size, so that all results walk the axes as one.
  auto isOneStep = [&](const Axis &outer, const Axis &inner) {
    return llvm::all_of(outputs, [&](Value result) {
      std::optional<SizeExpr> far = strideAlong(context, offsetOf(result), outer.name);
      std::optional<SizeExpr> near = strideAlong(context, offsetOf(result), inner.name);
      return far && near && groupFacts.equal(*far, context.mul(*near, inner.extent)) == Proof::Yes;
    });
  };
  // From the innermost axis on; those of unknown sizes would be divided by.
  size_t first = axes.size() - 1;
  bool isReadBefore = false;
  while (first > 0 && axes[first].extent.isConstant() && isOneStep(axes[first - 1], axes[first])) {
    isReadBefore = walk == Walk::Tiles && isReadAlong(axes[first - 1]);
    if (isReadBefore)
      break;
    --first;
  }
  if (walk == Walk::Tiles && !isReadBefore) // as by Walk::Result
    return;
  if (first + 1 >= axes.size())
    return;
  flattened.assign(axes.begin() + first, axes.end());
  plainExprs = exprs;
  plainOffsets = offsets;
  Axis flat{"flat", context.constant(1)};
  for (const Axis &axis : flattened)
    flat.extent = context.mul(flat.extent, axis.extent);
  groupFacts.setExtent(flat.name, flat.extent);
  forEachExpr([&](SizeExpr &e) { e = flatten(e, flat); });
  axes.truncate(first);
  flatAxis = (int)first;
  axes.push_back(flat);
}

/// `e` over the flat axis: runs of axes that it walks as one are one digit of the position.
SizeExpr FusedLoops::flatten(SizeExpr e, const Axis &flat) {
  SizeExpr position = context.symbol(flat.name), below = context.constant(1);
  AxisSubstitution map;
  for (size_t k = flattened.size(); k-- > 0;) {
    const Axis &inner = flattened[k];
    SizeExpr extent = inner.extent;
    std::optional<SizeExpr> stride = strideAlong(context, e, inner.name);
    while (stride && k > 0) {
      std::optional<SizeExpr> outer = strideAlong(context, e, flattened[k - 1].name);
      if (!outer || groupFacts.equal(*outer, context.mul(*stride, extent)) != Proof::Yes)
        break;
      --k;
      map.set(flattened[k].name, context.constant(0));
      extent = context.mul(extent, flattened[k].extent);
    }
    SizeExpr digit = below.isConstant(1) ? position : context.floorDiv(position, below);
    map.set(inner.name, k == 0 ? digit : context.mod(digit, extent));
    below = context.mul(below, extent);
  }
  return groupFacts.simplify(map.apply(context, e));
}

void FusedLoops::assignStages() {
  numStages = 1;
  for (FusedMember &member : members) {
    for (Operation &inner : *member.op.bodyBlock())
      if (auto load = dyn_cast<LoadOp>(inner))
        if (const FusedMember *from = producer(load.getSource())) {
          LoopsOp op = from->op;
          // What a reduction makes, and what is made of it, exists once its stage is complete. A member on the parallel
          // axes alone has the stage after which it is computed plus one.
          member.stage = std::max(member.stage, from->stage + (op.isReduction() ? 1 : 0));
        }
    // What overwrites a buffer comes after what reads it.
    for (const FusedMember &other : members) {
      if (member.op.getDests().empty() || &other == &member)
        break;
      LoopsOp op = other.op;
      bool reads = llvm::any_of(*op.bodyBlock(), [&](Operation &inner) {
        auto load = dyn_cast<LoadOp>(inner);
        return load && llvm::is_contained(member.op.getDests(), load.getSource());
      });
      if (reads)
        member.stage = std::max(member.stage, other.stage);
    }
    numStages = std::max(numStages, member.stage + 1);
  }
}

bool FusedLoops::variesAlong(Value value, StringRef axis) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  auto key = std::make_pair(value, (const void *)this->axis(axis));
  if (auto it = varies.find(key); it != varies.end())
    return it->second;
  bool result = false;
  if (auto load = dyn_cast<LoadOp>(op)) {
    if (const FusedMember *from = producer(load.getSource()))
      result = offsetOf(load.getSource()).contains(axis) || (from->isFull && !LoopsOp(from->op).isReduction());
    else
      result = exprOf(load).contains(axis);
  } else if (auto index = dyn_cast<IndexOp>(op)) {
    result = exprOf(index).contains(axis);
  }
  for (Value operand : op->getOperands())
    if (!result && !isa<GraphTensorType>(operand.getType()))
      result = variesAlong(operand, axis);
  varies[key] = result;
  return result;
}

} // namespace torch_tile::tile_build
