#include "compiler/fusion/PlaceParts.h"

#include "compiler/fusion/Axes.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/graph/ir/Marks.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

#include <numeric>

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

/// Operands that a kernel chooses among for each element.
constexpr unsigned mostChoices = 8;
/// Neighbours in memory that a part has at least, in bytes: a line of a GPU's cache, two of a processor's.
constexpr int64_t shortestRun = 128;
/// Alignment of the widest access, in bytes.
constexpr int64_t wordBytes = 16;
/// Values that are looked through on the way to a stack.
constexpr size_t mostBetween = 64;

/// A concatenation as it was lowered: a load under a mask for each operand.
struct Concatenation {
  LoopsOp op;
  unsigned dim = 0;
  SmallVector<LoadOp> loads;
  SmallVector<SizeExpr> starts; // and the end

  SizeExpr lengthOf(unsigned number, SizeContext &sizes) const { return sizes.sub(starts[number + 1], starts[number]); }
};

/// Nothing where passes have changed the body since.
std::optional<Concatenation> concatenationOf(LoopsOp op) {
  auto starts = op->getAttrOfType<ArrayAttr>(kPartStarts);
  auto dim = op->getAttrOfType<IntegerAttr>(kConcatenatedDim);
  if (!starts || !dim || op.getNumResults() != 1 || !op.getDests().empty() || op.getWriteAt() || op.isReduction())
    return std::nullopt;
  auto type = cast<GraphTensorType>(op.getResult(0).getType());
  Concatenation found{op, (unsigned)dim.getInt(), llvm::to_vector(op.bodyBlock()->getOps<LoadOp>()), exprsOf(starts)};
  bool isPlain = llvm::all_of(found.loads, [](LoadOp load) { return load.getMask() && load.getScalars().empty(); });
  if (!isPlain || found.loads.size() != found.starts.size() || op.parallelAxes().size() != type.getRank())
    return std::nullopt;
  found.starts.push_back(type.getSizes()[found.dim]);
  SizeContext &sizes = GraphDialect::sizes(op.getContext());
  SizeExpr whole = sizes.constant(0);
  for (unsigned k = 0; k < found.loads.size(); ++k)
    whole = sizes.add(whole, found.lengthOf(k, sizes));
  return whole == found.starts.back() ? std::optional(found) : std::nullopt;
}

/// Whether each part has more than a short run side by side in memory.
bool hasLongRuns(const Concatenation &found, const SizeFacts &facts) {
  auto type = cast<GraphTensorType>(LoopsOp(found.op).getResult(0).getType());
  int64_t bytes = facts.estimate(type.getStrides()[found.dim]) * elementBytes(type.getElementType());
  return llvm::all_of(llvm::seq<unsigned>(found.loads.size()), [&](unsigned k) {
    return facts.estimate(found.lengthOf(k, facts.sizes())) * bytes >= shortestRun;
  });
}

/// Whether operands of one element each, which begin at `starts`, lie side by side in memory, few enough that a kernel
/// interleaves vectors of them.
bool isInterleaved(LoopsOp op, int64_t dim, ArrayRef<SizeExpr> starts, const Machine &machine) {
  auto type = cast<GraphTensorType>(op.getResult(0).getType());
  return (int64_t)starts.size() <= machine.mostInterleaved && dim + 1 == type.getRank() &&
         type.getStrides()[dim].isConstant(1) && type.getSizes()[dim].isConstant((int64_t)starts.size()) &&
         llvm::all_of(llvm::enumerate(starts),
                      [](auto each) { return each.value().isConstant((int64_t)each.index()); });
}

class PartPlacer {
public:
  PartPlacer(FuncOp func, const Machine &machine, llvm::function_ref<bool(LoopsOp)> isInlined,
             llvm::function_ref<bool(Value)> isWritten, std::vector<FusionDecision> &decisions)
      : func(func), machine(machine), isInlined(isInlined), isWritten(isWritten), decisions(decisions),
        sizes(GraphDialect::sizes(func.getContext())), facts(func.facts()) {}

  SmallVector<Part> run() {
    for (auto op : llvm::make_early_inc_range(func.getBody().front().getOps<LoopsOp>())) {
      std::optional<Concatenation> found = concatenationOf(op);
      op->removeAttr(kPartStarts);
      op->removeAttr(kConcatenatedDim);
      if (found && !isInlined(op) && pays(*found))
        place(*found);
    }
    return std::move(parts);
  }

private:
  static LoopsOp producerOf(LoadOp load) { return load.getSource().getDefiningOp<LoopsOp>(); }

  /// Whether the operand is in memory for the concatenation alone to copy it.
  bool isStored(LoadOp load) {
    LoopsOp producer = producerOf(load);
    return producer && !isInlined(producer) && producer.getDests().empty();
  }

  bool pays(const Concatenation &found) {
    Value whole = LoopsOp(found.op).getResult(0);
    if (isWritten(whole))
      return false;
    if (found.loads.size() > mostChoices)
      return !isInterleaved(found.op, found.dim, ArrayRef(found.starts).drop_back(), machine);
    if (!hasLongRuns(found, facts))
      return false;
    auto type = cast<GraphTensorType>(whole.getType());
    int64_t stored = 0, others = 0;
    for (auto [k, load] : llvm::enumerate(found.loads)) {
      int64_t length = facts.estimate(found.lengthOf(k, sizes));
      // A slice of a value that others read as a whole is copied anyway.
      int64_t elements = facts.estimate(type.numElements()) / std::max<int64_t>(1, facts.estimate(found.starts.back()));
      bool isWhole = facts.estimate(LoadOp(load).getSource().getType().numElements()) == elements * length;
      if (isStored(load) && isWhole)
        stored += estimateBytes(type, facts) / std::max<int64_t>(1, facts.estimate(found.starts.back())) * length;
      else
        ++others;
    }
    // A kernel for each of the other operands instead of one for all: each is a launch more, but for the first.
    return stored > 0 && (others <= 1 || 2 * stored >= (others - 1) * machine.bytesPerLaunch);
  }

  void place(const Concatenation &found) {
    LoopsOp op = found.op;
    auto type = cast<GraphTensorType>(op.getResult(0).getType());
    OpBuilder builder(op);
    SmallVector<Value> values;
    for (auto [k, load] : llvm::enumerate(found.loads)) {
      LoopsOp part = makePart(builder, found, k);
      values.push_back(part.getResult(0));
      LoopsOp producer = producerOf(load);
      parts.push_back({part, producer});
      if (isStored(load))
        decisions.push_back({FusionDecision::Kind::Place, true, lineOf(producer.getLoc()), lineOf(op.getLoc()),
                             "computed in its part of the result"});
    }
    auto whole = AssembleOp::create(builder, op.getLoc(), type, values, builder.getI64IntegerAttr(found.dim));
    for (auto [k, value] : llvm::enumerate(values)) {
      SizeExpr elements = sizes.constant(wordBytes / std::gcd(wordBytes, elementBytes(type.getElementType())));
      if (facts.divides(elements, facts.simplify(whole.offsetOf(k))) != Proof::Yes)
        value.getDefiningOp()->setAttr(kUnalignedPart, builder.getUnitAttr());
    }
    op.getResult(0).replaceAllUsesWith(whole.getResult());
    op->erase();
  }

  /// A loop over the part of operand `number` that copies it.
  LoopsOp makePart(OpBuilder &builder, const Concatenation &found, unsigned number) {
    LoopsOp op = found.op;
    LoadOp load = LoadOp(found.loads[number]);
    SizeExpr start = found.starts[number];
    SizeExpr length = found.lengthOf(number, sizes);
    auto type = cast<GraphTensorType>(op.getResult(0).getType());
    SmallVector<SizeExpr> shape(type.getSizes());
    shape[found.dim] = length;
    SmallVector<Attribute> list;
    SmallVector<Axis> axes;
    AxisSubstitution moved;
    for (auto [dim, axis] : llvm::enumerate(op.parallelAxes())) {
      SizeExpr extent = dim == found.dim ? length : axis.getExtent();
      list.push_back(AxisAttr::get(op.getContext(), axis.getName(), extent, false));
      axes.push_back({axis.getName().str(), extent, false});
      if (dim == found.dim)
        moved.set(axis.getName().getValue(),
                  extent.isConstant(1) ? start : sizes.add(sizes.symbol(axis.getName().str()), start));
    }
    SizeFacts inner = withAxes(facts, axes);
    auto partType = GraphTensorType::get(op.getContext(), shape, type.getElementType(), type.getStrides());
    SmallVector<SizeExpr> indices =
        llvm::map_to_vector(load.indexExprs(), [&](SizeExpr e) { return inner.simplify(moved.apply(sizes, e)); });
    return createCopy(builder, op.getLoc(), partType, list, load.getSource(), indices);
  }

  FuncOp func;
  const Machine &machine;
  llvm::function_ref<bool(LoopsOp)> isInlined;
  llvm::function_ref<bool(Value)> isWritten;
  std::vector<FusionDecision> &decisions;
  SizeContext &sizes;
  SizeFacts facts;
  SmallVector<Part> parts;
};

} // namespace

LoopsOp createCopy(OpBuilder &builder, Location loc, GraphTensorType type, ArrayRef<Attribute> axes, Value source,
                   ArrayRef<SizeExpr> indices) {
  auto copy = LoopsOp::create(builder, loc, type, builder.getArrayAttr(axes), ValueRange{}, nullptr, nullptr, nullptr);
  Block *body = new Block();
  copy.getBody().push_back(body);
  OpBuilder inside = OpBuilder::atBlockEnd(body);
  Type element = scalarType(cast<GraphTensorType>(source.getType()).getElementType());
  Value value = LoadOp::create(inside, loc, element, source, exprArray(loc.getContext(), indices), ValueRange{},
                               Value(), Value());
  YieldOp::create(inside, loc, value);
  return copy;
}

bool hasManyParts(LoopsOp op) {
  auto starts = op->getAttrOfType<ArrayAttr>(kPartStarts);
  return starts && starts.size() > mostChoices && concatenationOf(op);
}

bool isInterleavedStack(LoopsOp op, const Machine &machine) {
  auto starts = op->getAttrOfType<ArrayAttr>(kPartStarts);
  auto dim = op->getAttrOfType<IntegerAttr>(kConcatenatedDim);
  return starts && dim && op.getNumResults() == 1 && isInterleaved(op, dim.getInt(), exprsOf(starts), machine);
}

bool isForOneStack(LoopsOp op, const Machine &machine) {
  LoopsOp stack;
  SmallVector<LoopsOp> left{op};
  llvm::SmallDenseSet<Operation *, 16> seen{op};
  while (!left.empty()) {
    for (Operation *user : left.pop_back_val()->getUsers()) {
      auto load = dyn_cast<LoadOp>(user);
      auto reader = load ? load->getParentOfType<LoopsOp>() : LoopsOp();
      if (!reader || reader.isReduction() || reader.getWriteAt() || !reader.getDests().empty())
        return false;
      if (isInterleavedStack(reader, machine)) {
        if (stack && stack != reader)
          return false;
        stack = reader;
      } else if (seen.size() > mostBetween) {
        return false;
      } else if (seen.insert(reader).second) {
        left.push_back(reader);
      }
    }
  }
  return bool(stack);
}

bool mayPlaceParts(LoopsOp op, const SizeFacts &facts) {
  std::optional<Concatenation> found = concatenationOf(op);
  return found && hasLongRuns(*found, facts);
}

SmallVector<Part> placeParts(FuncOp func, const Machine &machine, llvm::function_ref<bool(LoopsOp)> isInlined,
                             llvm::function_ref<bool(Value)> isWritten, std::vector<FusionDecision> &decisions) {
  return PartPlacer(func, machine, isInlined, isWritten, decisions).run();
}

} // namespace torch_tile::fusion
