// Distances between points in space, colours of a pixel, components of a vector: sums of three that a sum over all
// points follows. Two reductions of different lengths are no one kernel; a pointwise loop and a reduction are.
#include "compiler/fusion/Axes.h"
#include "compiler/fusion/Fusion.h"
#include "compiler/fusion/FusionCost.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

/// Points of a reduction, and operations of all of them with those that combine them.
constexpr int64_t mostPoints = 8;
constexpr int64_t mostWork = 64;
/// Pointwise loops between the two reductions.
constexpr int longestChain = 16;
/// Points of a reduction that is pointwise whoever reads it, as of a vector in space, and the operations that make one.
constexpr int64_t mostAlways = 4;
constexpr int cheapPoint = 12;

/// The one op that reads the results of `op`; null if there are several, or one that is no loops.
LoopsOp onlyReader(LoopsOp op) {
  LoopsOp reader;
  for (Operation *user : op->getUsers()) {
    auto load = dyn_cast<LoadOp>(user);
    auto loops = load ? load->getParentOfType<LoopsOp>() : LoopsOp();
    if (!loops || (reader && reader != loops))
      return {};
    reader = loops;
  }
  return reader;
}

class ShortReductions {
public:
  explicit ShortReductions(FuncOp func) : func(func), sizes(GraphDialect::sizes(func.getContext())) {}

  void run(bool always) {
    SmallVector<LoopsOp> found;
    SizeFacts facts = func.facts();
    for (auto op : func.getBody().front().getOps<LoopsOp>())
      if (std::optional<SmallVector<int64_t>> extents = shortExtents(op);
          extents && (feedsReduction(op) || (always && isVector(op, *extents, facts))))
        found.push_back(op);
    for (LoopsOp op : found)
      unroll(op, *shortExtents(op));
  }

private:
  /// Of the reduced axes, if there are few points and little work at each.
  static std::optional<SmallVector<int64_t>> shortExtents(LoopsOp op) {
    if (!op.isReduction() || !op.getDests().empty() || op.getNumResults() != 1)
      return std::nullopt;
    SmallVector<int64_t> extents;
    int64_t points = 1;
    for (AxisAttr axis : op.reducedAxes()) {
      std::optional<int64_t> extent = axis.getExtent().constant();
      if (!extent || *extent < 1 || *extent > mostPoints || (points *= *extent) > mostPoints)
        return std::nullopt;
      extents.push_back(*extent);
    }
    int64_t combined = llvm::range_size(op.getCombine().front().without_terminator());
    return points * (bodyCost(op).total() + combined) <= mostWork ? std::optional(extents) : std::nullopt;
  }

  static double pointsOf(ArrayRef<AxisAttr> axes, const SizeFacts &facts) {
    double points = 1;
    for (AxisAttr axis : axes)
      points *= (double)facts.estimate(axis.getExtent());
    return points;
  }

  /// Whether the fold is of few points, computed in no time, and nobody reads it along with them: a reduction and what
  /// follows at all its points share a kernel better.
  static bool isVector(LoopsOp op, ArrayRef<int64_t> extents, const SizeFacts &facts) {
    int64_t points = 1;
    for (int64_t extent : extents)
      points *= extent;
    // What else is made of the same points comes with them.
    int work = 0;
    SmallVector<LoopsOp> chain{op};
    for (size_t k = 0; k < chain.size(); ++k) {
      work += bodyCost(chain[k]).work;
      for (LoadOp load : chain[k].bodyBlock()->getOps<LoadOp>())
        if (auto producer = load.getSource().getDefiningOp<LoopsOp>();
            producer && !llvm::is_contained(chain, producer)) {
          if (producer.isReduction() || onlyReader(producer) != chain[k] || chain.size() > longestChain)
            return false;
          chain.push_back(producer);
        }
    }
    if (points > mostAlways || work > cheapPoint)
      return false;
    double made = pointsOf(op.parallelAxes(), facts);
    llvm::SmallPtrSet<Operation *, 16> seen;
    SmallVector<LoopsOp> open{op};
    while (!open.empty()) {
      LoopsOp each = open.pop_back_val();
      for (Operation *user : each->getUsers()) {
        auto reader = isa<LoadOp>(user) ? user->getParentOfType<LoopsOp>() : LoopsOp();
        if (!reader)
          continue;
        if (pointsOf(reader.axisList(), facts) > 1.5 * made || seen.size() > longestChain)
          return false;
        if (!reader.isReduction() && !reader.getWriteAt() && seen.insert(reader).second)
          open.push_back(reader);
      }
    }
    return true;
  }

  /// Whether the values go into a longer reduction that runs over as many points, through pointwise loops alone.
  static bool feedsReduction(LoopsOp op) {
    SmallVector<AxisAttr> made = op.parallelAxes();
    LoopsOp reader = onlyReader(op);
    for (int k = 0; reader && k < longestChain; ++k) {
      if (reader.getWriteAt() || !reader.getDests().empty())
        return false;
      SmallVector<AxisAttr> axes = reader.axisList();
      SizeContext &sizes = GraphDialect::sizes(op.getContext());
      SizeExpr points = sizes.constant(1), read = sizes.constant(1);
      for (AxisAttr axis : made)
        points = sizes.mul(points, axis.getExtent());
      for (AxisAttr axis : axes)
        read = sizes.mul(read, axis.getExtent());
      if (points != read)
        return false;
      if (reader.isReduction())
        return !shortExtents(reader);
      reader = onlyReader(reader);
    }
    return false;
  }

  void unroll(LoopsOp op, ArrayRef<int64_t> extents) {
    OpBuilder builder(op);
    SmallVector<Attribute> axes;
    for (AxisAttr axis : op.parallelAxes())
      axes.push_back(axis);
    auto made = LoopsOp::create(builder, op.getLoc(), op.getResultTypes(), builder.getArrayAttr(axes), ValueRange{},
                                nullptr, nullptr, nullptr);
    Block *body = new Block();
    made.getBody().push_back(body);
    OpBuilder inside = OpBuilder::atBlockEnd(body);
    Value folded = arith::ConstantOp::create(inside, op.getLoc(), cast<TypedAttr>((*op.getInits())[0]));
    SmallVector<int64_t> point(extents.size(), 0);
    bool isDone = false;
    while (!isDone) {
      Value value = clonePoint(inside, op, point);
      folded = combine(inside, op, folded, value);
      isDone = true;
      for (unsigned k = extents.size(); k-- > 0 && isDone;) {
        isDone = ++point[k] == extents[k];
        if (isDone)
          point[k] = 0;
      }
    }
    YieldOp::create(inside, op.getLoc(), folded);
    op.replaceAllUsesWith(made);
    op.erase();
  }

  /// The body where the reduced axes are at `point`.
  Value clonePoint(OpBuilder &builder, LoopsOp op, ArrayRef<int64_t> point) {
    AxisSubstitution at;
    for (auto [axis, index] : llvm::zip_equal(op.reducedAxes(), point))
      at.set(axis.getName().getValue(), sizes.constant(index));
    IRMapping mapping;
    for (Operation &inner : op.bodyBlock()->without_terminator()) {
      Operation *copy = builder.clone(inner, mapping);
      if (auto load = dyn_cast<LoadOp>(copy))
        load.setIndicesAttr(exprArray(
            op.getContext(), llvm::map_to_vector(load.indexExprs(), [&](SizeExpr e) { return at.apply(sizes, e); })));
      else if (auto index = dyn_cast<IndexOp>(copy))
        index.setExprAttr(ExprAttr::get(op.getContext(), at.apply(sizes, index.getExpr().getValue())));
    }
    return mapping.lookupOrDefault(cast<YieldOp>(op.bodyBlock()->getTerminator()).getValues()[0]);
  }

  static Value combine(OpBuilder &builder, LoopsOp op, Value folded, Value value) {
    Block &region = op.getCombine().front();
    IRMapping mapping;
    mapping.map(region.getArgument(0), folded);
    mapping.map(region.getArgument(1), value);
    for (Operation &inner : region.without_terminator())
      builder.clone(inner, mapping);
    return mapping.lookupOrDefault(cast<YieldOp>(region.getTerminator()).getValues()[0]);
  }

  FuncOp func;
  SizeContext &sizes;
};

} // namespace

void unrollShortReductions(FuncOp func, bool always) { ShortReductions(func).run(always); }

} // namespace torch_tile::fusion
