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

std::optional<AxisEdge> edgeAlong(const FusedLoops &loops, StringRef axis, arith::CmpIOp op) {
  using Predicate = arith::CmpIPredicate;
  Predicate predicate = op.getPredicate();
  if (!llvm::is_contained({Predicate::slt, Predicate::sle, Predicate::sgt, Predicate::sge}, predicate))
    return std::nullopt;
  SizeContext &sizes = loops.sizes();
  SizeExpr left = indexOf(loops, op.getLhs()), right = indexOf(loops, op.getRhs());
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
  std::optional<int64_t> rest = withoutAxis(sizes, difference, axis).constant();
  if (!rest)
    return std::nullopt;
  if (*step > 0) // index * step < bound - rest
    return AxisEdge{llvm::divideCeilSigned(bound - *rest, *step), isBelow};
  return AxisEdge{llvm::divideFloorSigned(*rest - bound, -*step) + 1, !isBelow};
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

bool addTurns(const FusedLoops &loops, StringRef axis, SizeExpr index, int64_t begin, int64_t end, size_t most,
              SmallVectorImpl<int64_t> &turns) {
  SizeContext &sizes = loops.sizes();
  SizeFacts facts = loops.facts();
  facts.setRange(axis, begin, end - 1);
  std::optional<SizeCall> choice = innermostChoice(facts.simplify(index), axis);
  if (!choice)
    return true;
  SizeExpr difference = facts.simplify(sizes.sub(choice->args[0], choice->args[1]));
  std::optional<SizeExpr> stride = strideAlong(sizes, difference, axis);
  std::optional<int64_t> step = stride ? stride->constant() : std::nullopt;
  std::optional<int64_t> rest = step ? withoutAxis(sizes, difference, axis).constant() : std::nullopt;
  if (!rest || *step == 0)
    return true; // what else it depends on decides
  int64_t at = *step > 0 ? llvm::divideCeilSigned(-*rest, *step) : llvm::divideFloorSigned(*rest, -*step) + 1;
  if (at <= begin || at >= end)
    return true;
  turns.push_back(at);
  return turns.size() <= most && addTurns(loops, axis, index, begin, at, most, turns) &&
         addTurns(loops, axis, index, at, end, most, turns);
}

} // namespace

std::optional<SmallVector<int64_t>> turnsAlong(const FusedLoops &loops, StringRef axis, SizeExpr index, int64_t extent,
                                               size_t most) {
  SmallVector<int64_t> turns;
  return addTurns(loops, axis, index, 0, extent, most, turns) ? std::optional(turns) : std::nullopt;
}

} // namespace torch_tile::tile_build
