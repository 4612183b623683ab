// Values between kernels lie in memory in the order of what they are computed of and read with, so that a kernel over a
// permuted input does not have one access across all others.
#include "compiler/fusion/Access.h"
#include "compiler/fusion/Fusion.h"
#include "compiler/fusion/FusionCost.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <map>

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

/// Dimensions from the outermost in memory to the innermost.
using Order = SmallVector<unsigned>;

class StrideChooser {
public:
  explicit StrideChooser(FuncOp func)
      : func(func), sizes(GraphDialect::sizes(func.getContext())), facts(func.facts()) {}

  void run() {
    SmallVector<OpResult> results;
    for (auto op : func.getBody().front().getOps<LoopsOp>())
      for (OpResult result : op->getOpResults())
        if (isFree(op, result)) {
          results.push_back(result);
          undecided.insert(result);
        }
    for (OpResult result : results) {
      if (std::optional<Order> order = bestOrder(result))
        layOut(result, *order);
      undecided.erase(result);
    }
  }

private:
  /// Whether only loads see how `result` lies.
  bool isFree(LoopsOp op, OpResult result) {
    if (op.destOf(result.getResultNumber()) || op.getWriteAt() || result.use_empty())
      return false;
    auto type = cast<GraphTensorType>(result.getType());
    return type.isContiguous() && wideDims(type).size() > 1 &&
           llvm::all_of(result.getUsers(), [](Operation *user) { return isa<LoadOp>(user); });
  }

  /// Dimensions of more than one point. The others lie anywhere.
  SmallVector<unsigned> wideDims(GraphTensorType type) {
    SmallVector<unsigned> dims;
    for (auto [dim, size] : llvm::enumerate(type.getSizes()))
      if (!size.isConstant(1))
        dims.push_back((unsigned)dim);
    return dims;
  }

  /// The order in which an access at `offset` takes the axes that run along `dims`; nothing where it does not move
  /// along each of them in steps.
  std::optional<Order> orderOf(SizeExpr offset, ArrayRef<unsigned> dims, ArrayRef<StringRef> axes) {
    SmallVector<int64_t> steps;
    for (StringRef axis : axes) {
      std::optional<SizeExpr> stride = strideAlong(sizes, offset, axis);
      steps.push_back(stride ? std::abs(facts.estimate(*stride)) : 0);
      if (steps.back() == 0)
        return std::nullopt;
    }
    auto places = llvm::to_vector(llvm::seq<unsigned>(0, dims.size()));
    llvm::stable_sort(places, [&](unsigned a, unsigned b) { return steps[a] > steps[b]; });
    return llvm::map_to_vector(places, [&](unsigned place) { return dims[place]; });
  }

  /// What `op` moves the most of in one order of `dims`, which its `axes` run along, beside `value`.
  void addVote(LoopsOp op, Value value, ArrayRef<unsigned> dims, ArrayRef<StringRef> axes) {
    std::optional<Order> best;
    int64_t most = 0;
    auto consider = [&](Value tensor, SizeExpr offset) {
      if (tensor == value || undecided.contains(tensor))
        return;
      int64_t bytes = estimateBytes(cast<GraphTensorType>(tensor.getType()), facts);
      if (bytes <= most)
        return;
      if (std::optional<Order> order = orderOf(offset, dims, axes)) {
        best = std::move(order);
        most = bytes;
      }
    };
    for (LoadOp load : op.bodyBlock()->getOps<LoadOp>())
      consider(load.getSource(), linearOffset(sizes, load.indexExprs(), load.getSource().getType().getStrides()));
    SmallVector<SizeExpr> place =
        llvm::map_to_vector(op.parallelAxes(), [&](AxisAttr axis) { return sizes.symbol(axis.getName().getValue()); });
    if (WriteAtOp write = op.getWriteAt())
      place = write.indexExprs();
    for (Value result : op->getResults())
      consider(result, linearOffset(sizes, place, cast<GraphTensorType>(result.getType()).getStrides()));
    if (best)
      votes[*best] += most;
  }

  std::optional<Order> bestOrder(OpResult result) {
    votes.clear();
    auto op = cast<LoopsOp>(result.getOwner());
    SmallVector<unsigned> dims = wideDims(cast<GraphTensorType>(result.getType()));
    SmallVector<AxisAttr> parallel = op.parallelAxes();
    addVote(op, result, dims,
            llvm::map_to_vector(dims, [&](unsigned dim) { return parallel[dim].getName().getValue(); }));
    llvm::SmallPtrSet<Operation *, 4> readers;
    for (Operation *user : result.getUsers()) {
      auto reader = cast<LoopsOp>(user->getParentOp());
      if (!readers.insert(reader).second)
        continue;
      SmallVector<SizeExpr> indices = cast<LoadOp>(user).indexExprs();
      SmallVector<StringRef> axes;
      for (unsigned dim : dims)
        if (std::optional<std::string_view> name = indices[dim].symbol())
          axes.push_back(*name);
      if (axes.size() == dims.size())
        addVote(reader, result, dims, axes);
    }
    auto best = llvm::max_element(votes, [](auto &a, auto &b) { return a.second < b.second; });
    return best == votes.end() ? std::nullopt : std::optional(best->first);
  }

  /// Whether readers that find elements in the result as it lies would divide to find them at other strides.
  bool bringsDivisions(OpResult result, ArrayRef<SizeExpr> strides) {
    ArrayRef<SizeExpr> now = cast<GraphTensorType>(result.getType()).getStrides();
    return llvm::any_of(result.getUsers(), [&](Operation *user) {
      auto load = cast<LoadOp>(user);
      SmallVector<Axis> axes = axesOf(cast<LoopsOp>(load->getParentOp()));
      SizeFacts inner = withAxes(facts, axes);
      auto isDivided = [&](ArrayRef<SizeExpr> at) {
        return staysDivided(inner.simplify(linearOffset(sizes, load.indexExprs(), at)), axes, facts);
      };
      return isDivided(strides) && !isDivided(now);
    });
  }

  void layOut(OpResult result, const Order &order) {
    if (llvm::is_sorted(order))
      return;
    auto type = cast<GraphTensorType>(result.getType());
    SmallVector<SizeExpr> strides(type.getSizes().size(), sizes.constant(1));
    SizeExpr step = sizes.constant(1);
    for (unsigned dim : llvm::reverse(order)) {
      strides[dim] = step;
      step = sizes.mul(step, type.getSizes()[dim]);
    }
    if (bringsDivisions(result, strides))
      return;
    result.setType(GraphTensorType::get(type.getContext(), type.getSizes(), type.getElementType(), strides));
  }

  FuncOp func;
  SizeContext &sizes;
  SizeFacts facts;
  llvm::SmallPtrSet<Value, 8> undecided;
  /// Bytes that are moved in each order, the producer's first.
  llvm::MapVector<Order, int64_t, std::map<Order, unsigned>> votes;
};

} // namespace

void chooseStrides(FuncOp func) { StrideChooser(func).run(); }

} // namespace torch_tile::fusion
