#include "compiler/fusion/IndexBounds.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

#include <algorithm>
#include <limits>

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {

/// Operations of a conjunction that are followed.
static constexpr int mostDepth = 8;

std::optional<IndexBound> indexBoundOf(Value mask) {
  if (auto flipped = mask ? mask.getDefiningOp<arith::XOrIOp>() : arith::XOrIOp();
      flipped && matchPattern(flipped.getRhs(), m_One())) {
    std::optional<IndexBound> inner = indexBoundOf(flipped.getLhs());
    return inner ? std::optional(inner->opposite()) : std::nullopt;
  }
  auto compare = mask ? mask.getDefiningOp<arith::CmpIOp>() : arith::CmpIOp();
  auto index = compare ? compare.getLhs().getDefiningOp<IndexOp>() : IndexOp();
  APInt bound;
  if (!index || !index.getScalars().empty() || !matchPattern(compare.getRhs(), m_ConstantInt(&bound)))
    return std::nullopt;
  bool isBelow = compare.getPredicate() == arith::CmpIPredicate::slt;
  if (!isBelow && compare.getPredicate() != arith::CmpIPredicate::sge)
    return std::nullopt;
  return IndexBound{index.getExpr().getValue(), bound.getSExtValue(), isBelow};
}

static std::optional<double> shareUnder(Value mask, const SizeFacts &facts, int depth) {
  if (auto both = mask.getDefiningOp<arith::AndIOp>(); both && depth > 0) {
    std::optional<double> left = shareUnder(both.getLhs(), facts, depth - 1);
    std::optional<double> right = left ? shareUnder(both.getRhs(), facts, depth - 1) : std::nullopt;
    return right ? std::optional(*left * *right) : std::nullopt;
  }
  std::optional<IndexBound> bound = indexBoundOf(mask);
  if (!bound)
    return std::nullopt;
  SizeRange range = facts.range(bound->index);
  if (range.max >= std::numeric_limits<int32_t>::max() || range.min <= std::numeric_limits<int32_t>::min())
    return std::nullopt;
  double below = (double)(bound->bound - range.min) / (double)(range.max - range.min + 1);
  below = std::clamp(below, 0.0, 1.0);
  return bound->isBelow ? below : 1 - below;
}

std::optional<double> shareUnder(Value mask, const SizeFacts &facts) { return shareUnder(mask, facts, mostDepth); }

} // namespace torch_tile::fusion
