// Where comparisons of the vector axis with constants and sizes change their answer, its loop is cut: within a segment
// the masks of cat, padding and slices are constants, so that each segment reads what it needs, without masks. Likewise
// where minima and maxima in indices do: within a segment what reflection reads has a stride. Segments are cut where
// their order is the same for all sizes.
#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/tile/build/AxisEdges.h"
#include "compiler/tile/build/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;
using torch_tile::fusion::strideAlong;

namespace torch_tile::tile_build {

/// Operations of all segments together, which bound the code, and how many segments there are at most.
static constexpr int64_t maxSegmentWork = 600, maxSegments = 9;

/// Where along the vector axis the comparison changes, and whether it is true below.
std::optional<KernelEmitter::Edge> KernelEmitter::edgeOf(arith::CmpIOp op) {
  std::optional<AxisEdge> edge = edgeAlong(loops, vectorName(), op);
  return edge ? std::optional(Edge{op, edge->at, edge->isTrueBelow}) : std::nullopt;
}

/// Adds a segment's end in order, unless one of them may lie on either side of it.
bool KernelEmitter::addEnd(SizeExpr at, SmallVectorImpl<SizeExpr> &ends) const {
  const SizeFacts &facts = loops.facts();
  auto place = llvm::find_if(ends, [&](SizeExpr end) { return facts.lessEqual(end, at) != Proof::Yes; });
  if (llvm::any_of(llvm::make_range(ends.begin(), place),
                   [&](SizeExpr end) { return facts.equal(end, at) == Proof::Yes; }))
    return true;
  if (place != ends.end() && facts.lessEqual(at, *place) != Proof::Yes)
    return false;
  ends.insert(place, at);
  return true;
}

/// Whether short segments cost less than masks do.
bool KernelEmitter::paysSegments(ArrayRef<SizeExpr> ends, int64_t work) const {
  const SizeFacts &facts = loops.facts();
  int64_t extent = facts.estimate(loops.axes[schedule.vectorAxis].extent);
  int64_t tiles = 0, begin = 0, whole = llvm::divideCeil(extent, schedule.lanes);
  for (size_t k = 0; k <= ends.size(); ++k) {
    int64_t end = k < ends.size() ? std::clamp(facts.estimate(ends[k]), begin, std::max(begin, extent)) : extent;
    tiles += llvm::divideCeil(end - begin, schedule.lanes);
    begin = end;
  }
  int64_t count = (int64_t)ends.size() + 1;
  return count <= maxSegments && count * work <= maxSegmentWork && tiles <= 2 * whole + 2;
}

void KernelEmitter::findSegments() {
  if (schedule.vectorAxis < 0 || schedule.rowAxis >= 0 || loops.isOrdered() || schedule.isVectorInnermost ||
      (options.isGpu && hasReducedAxes()))
    return;
  const SizeFacts &facts = loops.facts();
  SizeExpr extent = loops.axes[schedule.vectorAxis].extent;
  if (isVectorReduced() && facts.estimate(extent) <= schedule.lanes)
    return; // what the only tile holds is there for later stages
  int64_t work = 0;
  for (const FusedMember &member : loops.members) {
    LoopsOp op = member.op;
    work += torch_tile::fusion::bodyCost(op).total();
    for (Operation &inner : *op.bodyBlock())
      if (auto compare = dyn_cast<arith::CmpIOp>(inner))
        if (std::optional<Edge> edge = edgeOf(compare))
          edges.push_back(*edge);
  }
  SizeExpr first = loops.sizes().constant(0);
  auto isInside = [&](SizeExpr at) {
    return facts.lessEqual(at, first) != Proof::Yes && facts.lessEqual(extent, at) != Proof::Yes;
  };
  llvm::erase_if(edges, [&](const Edge &edge) {
    return (options.isGpu && !edge.at.isConstant()) || (isInside(edge.at) && !addEnd(edge.at, segmentEnds));
  });
  if (options.isGpu) {
    for (SizeExpr end : segmentEnds)
      tileEdges.push_back(*end.constant());
    segmentEnds.clear();
    if (((int64_t)tileEdges.size() + 2) * work > maxSegmentWork)
      tileEdges.clear();
    return;
  }
  SmallVector<SizeExpr> withTurns = segmentEnds;
  addTurns(withTurns);
  indicesTurn = withTurns.size() > segmentEnds.size() && paysSegments(withTurns, work);
  if (indicesTurn)
    segmentEnds = std::move(withTurns);
  else if (!paysSegments(segmentEnds, work))
    segmentEnds.clear();
}

/// Adds the points at which indices turn.
void KernelEmitter::addTurns(SmallVectorImpl<SizeExpr> &ends) {
  for (const FusedMember &member : loops.members) {
    LoopsOp op = member.op;
    for (auto load : op.bodyBlock()->getOps<LoadOp>()) {
      SizeExpr offset = loops.exprOf(load);
      if (!offset || loops.producer(load.getSource()) || !load.getScalars().empty() ||
          strideAlong(loops.sizes(), offset, vectorName()))
        continue;
      if (auto turns = turnsAlong(loops, vectorName(), offset, maxSegments))
        for (SizeExpr turn : *turns)
          addEnd(turn, ends);
    }
  }
}

/// On GPU, where a program has one tile: a version for tiles of each segment, without masks, and one for those that
/// reach across an edge, or so near to it that the words which their elements lie in do.
void KernelEmitter::emitBetweenEdges(size_t number) {
  if (number > tileEdges.size())
    return emitEachStage();
  constexpr int64_t wordElements = 16;
  int64_t extent = loops.facts().estimate(loops.axes[schedule.vectorAxis].extent);
  int64_t begin = number == 0 ? 0 : tileEdges[number - 1], end = number < tileEdges.size() ? tileEdges[number] : extent;
  if (end - begin < 2 * schedule.lanes)
    return emitBetweenEdges(number + 1);
  Value low = bindings[vectorName()], inside;
  auto also = [&](arith::CmpIPredicate predicate, int64_t bound) {
    Value holds = reuse(arith::CmpIOp::create(builder, predicate, low, exprs.constant(bound)));
    inside = inside ? reuse(arith::AndIOp::create(builder, inside, holds)) : holds;
  };
  if (number > 0)
    also(arith::CmpIPredicate::sge, begin + wordElements);
  if (number < tileEdges.size())
    also(arith::CmpIPredicate::sle, end - schedule.lanes - wordElements);
  emitIf(
      inside, {},
      [&] {
        for (const Edge &edge : edges)
          decided[edge.op] = (begin < *edge.at.constant()) == edge.isTrueBelow;
        emitEachStage();
        decided.clear();
        return ValueList();
      },
      [&] {
        emitBetweenEdges(number + 1);
        return ValueList();
      });
}

/// Masks of the last of the pieces that a reduction or a scan was cut into, which hold for all points of the others:
/// whether they do for this program, and which they are. On GPU a mask is a branch for each load, and counts of what is
/// masked differ from thread to thread.
Value KernelEmitter::masksHold(SmallVectorImpl<Operation *> &masks) {
  bool keepsOrder = loops.isOrdered() && !(options.isGpu && loops.isScan());
  if ((!options.isGpu && !isVectorReduced()) || loops.numStages > 1 || keepsOrder)
    return {};
  SizeContext &sizes = loops.sizes();
  Value all;
  for (const FusedMember &member : loops.members) {
    LoopsOp op = member.op;
    for (auto compare : op.bodyBlock()->getOps<arith::CmpIOp>()) {
      auto [left, right] = comparedIndices(loops, compare);
      if (compare.getPredicate() != arith::CmpIPredicate::slt || !left || !right)
        continue;
      SizeExpr most = loops.facts().simplify(sizes.sub(left, right));
      bool isPiece = false, isKnown = true;
      for (auto [k, axis] : llvm::enumerate(loops.axes)) {
        std::optional<SizeExpr> stride = strideAlong(sizes, most, axis.name);
        std::optional<int64_t> step = stride ? stride->constant() : std::nullopt;
        bool isTiled = !axis.reduced && ((int)k == schedule.vectorAxis || (int)k == schedule.rowAxis);
        if (!step || *step < 0 || (isTiled && *step > 0)) {
          isKnown = false;
          break;
        }
        if (*step == 0)
          continue;
        isPiece |= !axis.reduced;
        if (axis.reduced)
          most = sizes.substitute(most, [&](std::string_view s) {
            return s == axis.name ? sizes.sub(axis.extent, sizes.constant(1)) : SizeExpr();
          });
      }
      // Where it holds for no program, there are no pieces.
      SizeExpr first = most;
      for (const Axis &axis : loops.axes)
        first = sizes.substitute(first,
                                 [&](std::string_view s) { return s == axis.name ? sizes.constant(0) : SizeExpr(); });
      if (!isKnown || !isPiece || loops.facts().estimate(first) >= 0)
        continue;
      Value holds = reuse(
          arith::CmpIOp::create(builder, arith::CmpIPredicate::slt, exprs.emit(most, bindings), exprs.constant(0)));
      all = all ? reuse(arith::AndIOp::create(builder, all, holds)) : holds;
      masks.push_back(compare);
    }
  }
  return all;
}

/// The vector loop, segment by segment.
KernelEmitter::ValueList KernelEmitter::emitSegments(Value low, Value high, bool alwaysFull, ValueRange carried,
                                                     BodyFn body) {
  if (segmentEnds.empty())
    return emitVectorLoop(low, high, alwaysFull, carried, body);
  auto choose = [&](Value left, Value right, bool isLargest) -> Value {
    APInt a, b;
    if (matchPattern(left, m_ConstantInt(&a)) && matchPattern(right, m_ConstantInt(&b)))
      return (a.sgt(b) == isLargest) ? left : right;
    return isLargest ? reuse(arith::MaxSIOp::create(builder, left, right))
                     : reuse(arith::MinSIOp::create(builder, left, right));
  };
  const SizeFacts &facts = loops.facts();
  SizeExpr extent = loops.axes[schedule.vectorAxis].extent;
  // The first segment above each edge. An edge that ends none lies outside of the axis.
  SmallVector<size_t> firstAbove = llvm::map_to_vector(edges, [&](const Edge &edge) -> size_t {
    if (facts.lessEqual(edge.at, loops.sizes().constant(0)) == Proof::Yes)
      return 0;
    auto end = llvm::find_if(segmentEnds, [&](SizeExpr each) { return facts.equal(each, edge.at) == Proof::Yes; });
    return (size_t)(end - segmentEnds.begin()) + 1;
  });
  ValueList values(carried);
  for (size_t k = 0; k <= segmentEnds.size(); ++k) {
    SizeExpr begin = k == 0 ? loops.sizes().constant(0) : segmentEnds[k - 1];
    SizeExpr end = k < segmentEnds.size() ? segmentEnds[k] : extent;
    for (auto [edge, above] : llvm::zip_equal(edges, firstAbove))
      decided[edge.op] = (k < above) == edge.isTrueBelow;
    if (indicesTurn)
      segment.emplace(begin, end);
    ScopeGuard scope(*this);
    Value first = k == 0 ? low : choose(low, exprs.emit(begin, {}), true), last = high;
    if (k < segmentEnds.size())
      last = choose(high, exprs.emit(end, {}), false);
    // A block that ends before the segment begins has nothing of it.
    values = emitVectorLoop(first, choose(last, first, true), /*alwaysFull=*/false, values, body);
  }
  decided.clear();
  segment.reset();
  return values;
}

} // namespace torch_tile::tile_build
