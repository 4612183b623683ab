#include "compiler/tile/build/AxisEdges.h"

#include "compiler/fusion/Access.h"
#include "compiler/fusion/Axes.h"

#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::strideAlong;
using torch_tile::fusion::withoutAxis;

namespace torch_tile::tile_build {

/// Sums of sums that are looked into: each may stand in both operands of the next.
static constexpr int maxDepth = 6;

SizeExpr indexOf(const FusedLoops &loops, Value value, int depth) {
  SizeContext &sizes = loops.sizes();
  SizeExpr expr;
  Operation *op = value.getDefiningOp();
  if (APInt constant; matchPattern(value, m_ConstantInt(&constant))) {
    expr = sizes.constant(constant.getSExtValue());
  } else if (auto index = dyn_cast_or_null<IndexOp>(op)) {
    expr = index.getScalars().empty() ? loops.exprOf(index) : SizeExpr();
  } else if (isa_and_nonnull<arith::AddIOp, arith::SubIOp>(op) && value.getType().isInteger(64) && depth < maxDepth) {
    SizeExpr left = indexOf(loops, op->getOperand(0), depth + 1), right = indexOf(loops, op->getOperand(1), depth + 1);
    if (left && right)
      expr = isa<arith::AddIOp>(op) ? sizes.add(left, right) : sizes.sub(left, right);
  }
  if (!expr || !expr.isValid() || !torch_tile::fusion::staysInRange(loops.facts(), expr))
    return {};
  return expr;
}

std::pair<SizeExpr, SizeExpr> comparedIndices(const FusedLoops &loops, arith::CmpIOp compare) {
  SizeExpr sides[] = {indexOf(loops, compare.getLhs()), indexOf(loops, compare.getRhs())};
  if (SizeExpr bound = loops.boundOf(compare))
    sides[boundOperand(compare)] = bound;
  return {sides[0], sides[1]};
}

/// Whether a place lies on an axis, whose length 64 bits hold, or at its end.
static bool isWithin(const FusedLoops &loops, StringRef axis, SizeExpr at) {
  const torch_tile::fusion::Axis *along = loops.axis(axis);
  return along && loops.facts().lessEqual(loops.sizes().constant(0), at) == Proof::Yes &&
         loops.facts().lessEqual(at, along->extent) == Proof::Yes;
}

/// The first index along `axis` at which difference >= bound where `step`, its stride, is positive, and difference <=
/// bound where it is negative. Nothing where that depends on another axis.
static SizeExpr firstAbove(const FusedLoops &loops, StringRef axis, SizeExpr difference, int64_t step, int64_t bound) {
  SizeContext &sizes = loops.sizes();
  SizeExpr rest = withoutAxis(sizes, difference, axis);
  if (llvm::any_of(loops.axes, [&](const torch_tile::fusion::Axis &other) { return rest.contains(other.name); }))
    return {};
  SizeExpr distance = sizes.sub(sizes.constant(bound), rest);
  if (step < 0)
    distance = sizes.neg(distance);
  int64_t size = std::abs(step);
  SizeExpr at = loops.facts().floorDiv(sizes.add(distance, sizes.constant(size - 1)), sizes.constant(size));
  if (!at.isValid())
    return {};
  at = loops.facts().simplify(at);
  return torch_tile::fusion::staysInRange(loops.facts(), at) || isWithin(loops, axis, at) ? at : SizeExpr();
}

std::optional<AxisEdge> edgeAlong(const FusedLoops &loops, StringRef axis, arith::CmpIOp op) {
  using Predicate = arith::CmpIPredicate;
  Predicate predicate = op.getPredicate();
  if (!llvm::is_contained({Predicate::slt, Predicate::sle, Predicate::sgt, Predicate::sge}, predicate))
    return std::nullopt;
  SizeContext &sizes = loops.sizes();
  auto [left, right] = comparedIndices(loops, op);
  if (!left || !right)
    return std::nullopt;
  // left - right < bound, or not.
  bool isBelow = predicate == Predicate::slt || predicate == Predicate::sle;
  int64_t bound = predicate == Predicate::sle || predicate == Predicate::sgt ? 1 : 0;
  SizeExpr difference = loops.facts().simplify(sizes.sub(left, right));
  std::optional<SizeExpr> stride = strideAlong(sizes, difference, axis);
  std::optional<int64_t> step = stride ? stride->constant() : std::nullopt;
  if (!step || *step == 0)
    return std::nullopt;
  SizeExpr at = firstAbove(loops, axis, difference, *step, *step > 0 ? bound : bound - 1);
  if (!at)
    return std::nullopt;
  return AxisEdge{at, (*step > 0) == isBelow};
}

namespace {

/// A minimum or maximum of two that depends on `axis` and has none of its kind within.
std::optional<SizeCall> innermostChoice(SizeExpr e, StringRef axis) {
  for (const SizeTerm &term : SizeContext::terms(e))
    for (auto &factor : term.factors) {
      std::optional<SizeCall> call = SizeContext::asCall(factor.first);
      if (!call || !factor.first.contains(axis))
        continue;
      for (SizeExpr argument : call->args)
        if (std::optional<SizeCall> inner = innermostChoice(argument, axis))
          return inner;
      if ((call->fn == SizeFn::Min || call->fn == SizeFn::Max) && call->args.size() == 2)
        return call;
    }
  return std::nullopt;
}

bool addTurns(const FusedLoops &loops, StringRef axis, SizeExpr index, SizeExpr begin, SizeExpr end, size_t most,
              SmallVectorImpl<SizeExpr> &turns) {
  SizeContext &sizes = loops.sizes();
  const SizeFacts &facts = loops.facts();
  std::optional<SizeCall> choice = innermostChoice(inPart(loops, axis, index, begin, end), axis);
  if (!choice)
    return true;
  SizeExpr difference = facts.simplify(sizes.sub(choice->args[0], choice->args[1]));
  std::optional<SizeExpr> stride = strideAlong(sizes, difference, axis);
  std::optional<int64_t> step = stride ? stride->constant() : std::nullopt;
  SizeExpr at = step && *step != 0 ? firstAbove(loops, axis, difference, *step, *step > 0 ? 0 : -1) : SizeExpr();
  // What else it depends on decides, or the sizes do.
  if (!at || at == begin || at == end || facts.lessEqual(begin, at) != Proof::Yes ||
      facts.lessEqual(at, end) != Proof::Yes)
    return true;
  turns.push_back(at);
  return turns.size() <= most && addTurns(loops, axis, index, begin, at, most, turns) &&
         addTurns(loops, axis, index, at, end, most, turns);
}

} // namespace

SizeExpr inPart(const FusedLoops &loops, StringRef axis, SizeExpr index, SizeExpr begin, SizeExpr end) {
  SizeContext &sizes = loops.sizes();
  SizeFacts facts = loops.facts();
  if (begin.isConstant() && end.isConstant()) {
    facts.setRange(axis, *begin.constant(), *end.constant() - 1);
    return facts.simplify(index);
  }
  // The name stands for the place in the part meanwhile.
  SizeExpr place = sizes.symbol(axis);
  auto moved = [&](SizeExpr e, SizeExpr to) {
    return sizes.substitute(e, [&](std::string_view name) { return StringRef(name) == axis ? to : SizeExpr(); });
  };
  facts.setExtent(axis, sizes.sub(end, begin));
  SizeExpr simple = moved(facts.simplify(moved(index, sizes.add(begin, place))), sizes.sub(place, begin));
  return simple.isValid() ? simple : index;
}

std::optional<SmallVector<SizeExpr>> turnsAlong(const FusedLoops &loops, StringRef axis, SizeExpr index, size_t most) {
  SmallVector<SizeExpr> turns;
  const torch_tile::fusion::Axis *along =
      llvm::find_if(loops.axes, [&](const torch_tile::fusion::Axis &each) { return StringRef(each.name) == axis; });
  bool isFew = addTurns(loops, axis, index, loops.sizes().constant(0), along->extent, most, turns);
  return isFew ? std::optional(turns) : std::nullopt;
}

} // namespace torch_tile::tile_build
