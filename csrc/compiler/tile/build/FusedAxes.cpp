// Axes of fused loops: their order, which of them are walked as one, and one axis in the place of all.
#include "compiler/tile/build/FusedLoops.h"

#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;
using torch_tile::fusion::AxisSubstitution;
using torch_tile::fusion::strideAlong;

namespace torch_tile::tile_build {

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

} // namespace torch_tile::tile_build
