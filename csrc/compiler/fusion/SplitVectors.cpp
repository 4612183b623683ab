// Sums of vectors in space, each times a weight: forces on particles, colours along a ray. The weights are of fewer
// points than the sums. As one reduction for each component all are of the same points, and the weights stay in
// registers.
#include "compiler/analysis/Memory.h"
#include "compiler/fusion/Access.h"
#include "compiler/fusion/Fusion.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/fusion/PlaceParts.h"
#include "compiler/fusion/SplitAxis.h"
#include "compiler/graph/ir/Marks.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

/// Components of a vector in space, or of a colour with its transparency.
constexpr int64_t mostComponents = 4;
/// Points of a reader for each sum from which on it reads sums again and again, and readers that are looked at.
constexpr double moreThanOnce = 1.5;
constexpr size_t mostReaders = 16;

class VectorSplitter {
public:
  VectorSplitter(FuncOp func, const Machine &machine, std::vector<FusionDecision> &decisions)
      : func(func), machine(machine), decisions(decisions), sizes(GraphDialect::sizes(func.getContext())),
        facts(func.facts()) {}

  void run() {
    for (Operation &op : func.getBody().front())
      for (Value place : analysis::writtenPlaces(&op))
        writtenPlaces.insert(place);
    for (auto op : func.getBody().front().getOps<LoopsOp>())
      if (std::optional<unsigned> number = componentsOf(op); number && !isReadAcross(op))
        candidates[op] = *number;
    SmallVector<LoopsOp> chosen;
    for (auto [op, number] : candidates)
      if (pays(LoopsOp(op)))
        chosen.push_back(LoopsOp(op));
    for (LoopsOp op : chosen)
      split(op, candidates[op]);
  }

private:
  /// The number of the parallel axis along which results are components of a vector, if there is one such axis.
  std::optional<unsigned> componentsOf(LoopsOp op) {
    if (!op.isReduction() || op.getWriteAt() || !op.getDests().empty())
      return std::nullopt;
    for (Value result : op.getResults())
      if (analysis::mayLieIn(result, writtenPlaces.getArrayRef()))
        return std::nullopt;
    std::optional<unsigned> found;
    for (auto [number, axis] : llvm::enumerate(op.parallelAxes())) {
      std::optional<int64_t> extent = axis.getExtent().constant();
      if (!extent || *extent < 2 || *extent > mostComponents)
        continue;
      if (found)
        return std::nullopt;
      found = number;
    }
    return found;
  }

  /// What makes the weights that a load reads, if it reads one for each point of the other axes of a vector sum.
  LoopsOp weightsOf(LoadOp load) {
    auto reader = load->getParentOfType<LoopsOp>();
    auto producer = load.getSource().getDefiningOp<LoopsOp>();
    auto number = candidates.find(reader);
    if (!producer || number == candidates.end() || producer.isReduction() || producer.getWriteAt() ||
        !producer.getDests().empty() || !load.getScalars().empty())
      return {};
    SmallVector<SizeExpr> own;
    SmallVector<AxisAttr> axes = reader.axisList();
    AxisAttr components = reader.parallelAxes()[number->second];
    for (AxisAttr axis : axes)
      if (axis != components && !axis.getExtent().isConstant(1))
        own.push_back(sizes.symbol(axis.getName().getValue()));
    SmallVector<SizeExpr> read = load.indexExprs();
    llvm::erase_if(read, [](SizeExpr index) { return index.isConstant(0); });
    bool isAtOwnPoint = read.size() == own.size() && std::is_permutation(read.begin(), read.end(), own.begin());
    return isAtOwnPoint ? producer : LoopsOp();
  }

  /// Whether a reduction makes what the weights are computed of at each point: they share its kernel.
  bool followsReduction(LoopsOp weights) {
    return llvm::any_of(weights.bodyBlock()->getOps<LoadOp>(), [&](LoadOp load) {
      auto producer = load.getSource().getDefiningOp<LoopsOp>();
      return producer && producer.isReduction() && readsOwnPoint(load, sizes);
    });
  }

  /// Whether somebody reads the sums at the points that were summed, as a variance does its mean: one kernel has both.
  bool isReadAcross(LoopsOp op) {
    double made = 0;
    for (Value result : op.getResults())
      made = std::max(made, (double)facts.estimate(cast<GraphTensorType>(result.getType()).numElements()));
    SmallVector<LoopsOp> open{op};
    llvm::SmallPtrSet<Operation *, 16> seen;
    while (!open.empty()) {
      LoopsOp each = open.pop_back_val();
      for (Operation *user : each->getUsers()) {
        auto reader = isa<LoadOp>(user) ? user->getParentOfType<LoopsOp>() : LoopsOp();
        if (!reader || !seen.insert(reader).second)
          continue;
        if (estimatePoints(reader, facts) > moreThanOnce * made || seen.size() > mostReaders)
          return true;
        if (!reader.isReduction())
          open.push_back(reader);
      }
    }
    return false;
  }

  /// Whether weights are in memory for sums of vectors alone, and take longer to move than kernels to begin.
  bool pays(LoopsOp op) {
    for (LoadOp load : op.bodyBlock()->getOps<LoadOp>()) {
      LoopsOp weights = weightsOf(load);
      bool isOnlyForVectors =
          weights && !followsReduction(weights) && llvm::all_of(weights->getUsers(), [&](Operation *user) {
            auto other = dyn_cast<LoadOp>(user);
            return other && weightsOf(other) == weights;
          });
      if (isOnlyForVectors && 2 * estimateBytes(load.getSource().getType(), facts) > machine.bytesPerLaunch)
        return true;
    }
    return false;
  }

  void split(LoopsOp op, unsigned number) {
    OpBuilder builder(op);
    AxisAttr components = op.parallelAxes()[number];
    int64_t count = *components.getExtent().constant();
    SmallVector<Attribute> axes;
    for (AxisAttr axis : op.axisList())
      if (axis != components)
        axes.push_back(axis);
    SmallVector<Type> types;
    for (Value result : op.getResults())
      types.push_back(withoutDim(cast<GraphTensorType>(result.getType()), number));
    SmallVector<SmallVector<Value>> parts(op.getNumResults());
    for (int64_t k = 0; k < count; ++k) {
      auto sum = LoopsOp::create(builder, op.getLoc(), types, builder.getArrayAttr(axes), ValueRange(),
                                 DenseI64ArrayAttr(), op.getInitsAttr(), ArrayAttr());
      IRMapping mapping, combineMapping;
      op.getBody().cloneInto(&sum.getBody(), mapping);
      op.getCombine().cloneInto(&sum.getCombine(), combineMapping);
      shiftAxis(sum, components, sizes.constant(k), /*isExact=*/true, sizes);
      for (auto [result, whole, list] : llvm::zip_equal(sum.getResults(), op.getResults(), parts))
        if (!whole.use_empty())
          list.push_back(component(builder, op, number, result, cast<GraphTensorType>(whole.getType())));
    }
    for (auto [whole, list] : llvm::zip_equal(op.getResults(), parts)) {
      if (whole.use_empty())
        continue;
      auto assembled =
          AssembleOp::create(builder, op.getLoc(), whole.getType(), list, builder.getI64IntegerAttr(number));
      whole.replaceAllUsesWith(assembled.getResult());
    }
    decisions.push_back({FusionDecision::Kind::Split, true, 0, lineOf(op.getLoc()),
                         "each component of its vectors is a reduction, which reads weights where they are made"});
    op.erase();
  }

  GraphTensorType withoutDim(GraphTensorType type, unsigned dim) {
    SmallVector<SizeExpr> shape(type.getSizes());
    shape.erase(shape.begin() + dim);
    return GraphTensorType::getContiguous(func.getContext(), shape, type.getElementType());
  }

  /// A copy of one component's sums to their places in the whole.
  Value component(OpBuilder &builder, LoopsOp op, unsigned number, Value sums, GraphTensorType whole) {
    SmallVector<SizeExpr> shape(whole.getSizes()), indices;
    shape[number] = sizes.constant(1);
    SmallVector<Attribute> axes;
    for (auto [k, axis] : llvm::enumerate(op.parallelAxes())) {
      axes.push_back(AxisAttr::get(func.getContext(), axis.getName(), shape[k], false));
      if (k != number)
        indices.push_back(sizes.symbol(axis.getName().getValue()));
    }
    auto type = GraphTensorType::get(func.getContext(), shape, whole.getElementType(), whole.getStrides());
    LoopsOp part = createCopy(builder, op.getLoc(), type, axes, sums, indices);
    part->setAttr(kUnalignedPart, builder.getUnitAttr());
    return part.getResult(0);
  }

  FuncOp func;
  const Machine &machine;
  std::vector<FusionDecision> &decisions;
  SizeContext &sizes;
  SizeFacts facts;
  llvm::SetVector<Value> writtenPlaces;
  llvm::MapVector<Operation *, unsigned> candidates;
};

} // namespace

void splitVectors(FuncOp func, const FusionOptions &options, std::vector<FusionDecision> &decisions) {
  VectorSplitter(func, options.machine, decisions).run();
}

} // namespace torch_tile::fusion
