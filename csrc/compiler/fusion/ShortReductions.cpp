// Distances between points in space, colours of a pixel, components of a vector: sums of three that a sum over all
// points follows. Two reductions of different lengths are no one kernel; a pointwise loop and a reduction are.
#include "compiler/fusion/Axes.h"
#include "compiler/fusion/Fusion.h"
#include "compiler/fusion/FusionCost.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

/// Points of a reduction, and operations of all of them with those that combine them.
constexpr int64_t mostPoints = 8;
constexpr int64_t mostWork = 64;
/// Pointwise loops between the two reductions.
constexpr int longestChain = 16;

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

  void run() {
    SmallVector<LoopsOp> found;
    for (auto op : func.getBody().front().getOps<LoopsOp>())
      if (std::optional<SmallVector<int64_t>> extents = shortExtents(op); extents && feedsReduction(op))
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

void unrollShortReductions(FuncOp func) { ShortReductions(func).run(); }

} // namespace torch_tile::fusion
