// What the accesses of a nest ask of a GPU's memory and caches.
#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/fusion/IndexBounds.h"
#include "compiler/graph/ir/Marks.h"
#include "compiler/tile/build/GpuModel.h"
#include "compiler/tile/build/IndexSteps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;
using torch_tile::fusion::strideAlong;

namespace torch_tile::tile_build {

/// Reads before one that it is compared with: the taps next to it come shortly before.
static constexpr size_t mostCompared = 16;
/// Points of an axis from which on those at its edge are few.
static constexpr int64_t leastInterior = 16;
/// Accesses of a nest that is plain: those of a softmax, and one more.
static constexpr size_t mostPlainAccesses = 5;
/// Of a division that rounds as IEEE's does: a reciprocal, its correction, and the test for what that does not serve.
static constexpr double divisionWork = 24;
/// Likewise for a weight, which an approximate reciprocal gives.
static constexpr double weightWork = 8;

/// The argument of a minimum or a maximum that most points take: a bound that is a number is met at the border alone.
static SizeExpr usualArgument(const SizeFacts &facts, const SizeCall &call) {
  SizeExpr usual;
  for (SizeExpr argument : call.args) {
    if (argument.isConstant())
      continue;
    bool isLarger = usual.isValid() && facts.estimate(argument) > facts.estimate(usual);
    if (!usual.isValid() || isLarger == (call.fn == SizeFn::Max))
      usual = argument;
  }
  return usual;
}

/// `expr` where no index wraps around or is held at a border: between two places at most, most points lie as they do
/// there.
static SizeExpr withoutWraps(const SizeFacts &facts, SizeExpr expr) {
  SizeContext &sizes = facts.sizes();
  SizeExpr sum = sizes.constant(0);
  for (const SizeTerm &term : SizeContext::terms(expr)) {
    SizeExpr product = sizes.constant(term.coefficient);
    for (const auto &[atom, power] : term.factors) {
      std::optional<SizeCall> call = SizeContext::asCall(atom);
      bool isMod = call && (call->fn == SizeFn::Mod || call->fn == SizeFn::PythonMod);
      std::optional<int64_t> length = isMod ? call->args[1].constant() : std::nullopt;
      bool wrapsOnce = length && facts.range(call->args[0]).max / 2 < *length;
      bool isBounded = call && (call->fn == SizeFn::Min || call->fn == SizeFn::Max);
      SizeExpr usual = wrapsOnce ? call->args[0] : isBounded ? usualArgument(facts, *call) : SizeExpr();
      for (int k = 0; k < power; ++k)
        product = sizes.mul(product, usual.isValid() ? withoutWraps(facts, usual) : atom);
    }
    sum = sizes.add(sum, product);
  }
  return sum;
}

/// The stages that compute each member's values, in order: its own, and those whose members read them, which compute
/// them again.
static std::vector<SmallVector<int>> stagesOfMembers(const FusedLoops &loops) {
  std::vector<SmallVector<int>> stages(loops.members.size());
  for (size_t k = loops.members.size(); k-- > 0;) {
    const FusedMember &member = loops.members[k];
    stages[k].push_back(member.stage);
    llvm::sort(stages[k]);
    stages[k].erase(llvm::unique(stages[k]), stages[k].end());
    if (!member.isFull)
      continue;
    for (Operation &inner : *LoopsOp(member.op).bodyBlock())
      if (auto load = dyn_cast<LoadOp>(inner))
        if (const FusedMember *from = loops.producer(load.getSource());
            from && from->isFull && !LoopsOp(from->op).isReduction())
          stages[from - loops.members.data()].append(stages[k]);
  }
  return stages;
}

/// What is computed once for each result of the reductions: what several members compute of the same, once.
static double workOfResults(FusedLoops &loops) {
  double work = 0;
  llvm::DenseSet<llvm::hash_code> seen;
  for (const FusedMember &member : loops.members) {
    if (member.isFull)
      continue;
    llvm::DenseMap<Value, llvm::hash_code> known;
    for (Operation &inner : *LoopsOp(member.op).bodyBlock()) {
      llvm::hash_code key =
          llvm::hash_combine(inner.getName(), inner.getDiscardableAttrDictionary(), inner.getPropertiesAsAttribute());
      for (Value operand : inner.getOperands()) {
        auto it = known.find(operand);
        key = llvm::hash_combine(key, it != known.end() ? it->second : llvm::hash_value(operand.getAsOpaquePointer()));
      }
      if (auto load = dyn_cast<LoadOp>(inner))
        key = llvm::hash_combine(key, loops.exprOf(load).opaque());
      for (Value result : inner.getResults())
        known.try_emplace(result, key);
      if (seen.insert(key).second)
        work += isa<arith::DivFOp>(inner) ? divisionWork : torch_tile::fusion::costOf(&inner);
    }
  }
  return work;
}

GpuModel::GpuModel(FusedLoops &loops, const target::GpuMachine &machine) : loops(loops), machine(machine) {
  for (const Axis &axis : loops.axes)
    extents.push_back(std::max<int64_t>(1, loops.facts().estimate(axis.extent)));
  for (const Axis &axis : loops.flattened)
    flatExtents.push_back(std::max<int64_t>(1, loops.facts().estimate(axis.extent)));
  SizeContext &sizes = loops.sizes();
  for (int64_t extent : extents)
    numPoints *= (double)extent;
  std::vector<IndexSteps> steps;
  for (const Axis &axis : loops.axes)
    steps.emplace_back(loops, axis.name, numPoints);
  auto add = [&](Operation *load, Value buffer, SizeExpr offset, Type type, bool isFull, ValueRange scalars,
                 ArrayRef<int> stages, bool isUpdate = false) {
    Stream stream;
    stream.elementBytes = torch_tile::fusion::elementBytes(type);
    stream.isLoad = load != nullptr;
    stream.isFull = isFull;
    stream.isScattered = !load && !scalars.empty();
    stream.isUpdated = isUpdate;
    stream.stages.assign(stages.begin(), stages.end());
    stream.buffer = buffer;
    stream.isUnaligned = isUnaligned(buffer, loops.facts());
    stream.offset = offset;
    stream.scalars.assign(scalars.begin(), scalars.end());
    auto loaded = dyn_cast_or_null<LoadOp>(load);
    if (loaded && loaded.getMask())
      stream.share = torch_tile::fusion::shareUnder(loaded.getMask(), loops.facts()).value_or(1);
    for (const Axis &axis : loops.axes)
      stream.maskVaries.push_back(loaded && loaded.getMask() && loops.variesAlong(loaded.getMask(), axis.name));
    SizeExpr plain = stream.usual = withoutWraps(loops.facts(), offset);
    SizeExpr first = plain;
    for (const Axis &axis : loops.axes)
      first = torch_tile::fusion::withoutAxis(sizes, first, axis.name);
    stream.firstByte = first.constant().value_or(0) * stream.elementBytes;
    for (auto [number, axis] : llvm::enumerate(loops.axes)) {
      std::optional<SizeExpr> stride = strideAlong(sizes, plain, axis.name);
      stream.wraps.push_back(plain != offset && !strideAlong(sizes, offset, axis.name));
      bool isIndirect = llvm::any_of(scalars, [&](Value v) { return loops.variesAlong(v, axis.name); });
      stream.isPart.push_back(stride && !stride->isConstant(0));
      std::optional<double> computed;
      // Where updates meet matters, not where most of their points lie.
      if (stride && isIndirect && !isUpdate) {
        computed = steps[number].ofOffset(plain, *stride, scalars);
        stream.isComputed = stream.isComputed && computed;
      }
      stream.isIndirect.push_back(isIndirect);
      if (computed)
        stream.strides.push_back((int64_t)std::llround(std::abs(*computed) * (double)stream.elementBytes));
      else if (!stride || isIndirect)
        stream.strides.push_back(std::nullopt);
      else
        stream.strides.push_back(std::abs(loops.facts().estimate(*stride)) * stream.elementBytes);
    }
    stream.chosen = (double)loops.facts().estimate(cast<GraphTensorType>(buffer.getType()).numElements());
    stream.bufferBytes = stream.chosen * (double)stream.elementBytes;
    for (auto [extent, isPart] : llvm::zip_equal(extents, stream.isPart))
      if (isPart)
        stream.chosen = std::max(1.0, stream.chosen / (double)extent);
    if (loops.flatAxis >= 0 && !stream.strides[loops.flatAxis] && scalars.empty()) {
      SizeExpr apart = withoutWraps(loops.facts(), load ? loops.unflattened(load) : loops.unflattened(buffer));
      for (const Axis &axis : loops.flattened)
        if (std::optional<SizeExpr> stride = strideAlong(sizes, apart, axis.name))
          stream.digits.push_back(loops.facts().estimate(*stride) * stream.elementBytes);
      if (stream.digits.size() < loops.flattened.size())
        stream.digits.clear();
    }
    streams.push_back(std::move(stream));
  };
  stageWork.assign(loops.numStages, 0);
  firstWork.assign(loops.numStages, 0);
  std::vector<int64_t> valuesOfStage(loops.numStages, 0);
  std::vector<SmallVector<int>> allStages = stagesOfMembers(loops);
  for (auto [member, stages] : llvm::zip_equal(loops.members, allStages)) {
    LoopsOp op = member.op;
    if (member.isFull) {
      double work = torch_tile::fusion::bodyCost(op).work;
      for (int stage : stages)
        stageWork[stage] += work;
      firstWork[member.stage] += work;
    }
    for (Operation &inner : *op.bodyBlock())
      if (auto load = dyn_cast<LoadOp>(inner); load && !loops.producer(load.getSource()))
        add(load, load.getSource(), loops.exprOf(load), load.getType(), member.isFull, load.getScalars(), stages);
    WriteAtOp write = op.getWriteAt();
    ValueRange places = write ? ValueRange(write.getScalars()) : ValueRange();
    for (Value result : op.getOutputs())
      if (llvm::is_contained(loops.outputs, result))
        add(nullptr, result, loops.offsetOf(result), cast<GraphTensorType>(result.getType()).getElementType(),
            member.isFull && !op.isReduction(), places, {member.stage}, write && !op.getCombine().empty());
    if (!op.isReduction())
      continue;
    if (member.isFull)
      valuesOfStage[member.stage] += op.getNumResults();
    int64_t bytes = 0;
    for (BlockArgument carried : op.getCombine().front().getArguments().take_front(op.getNumResults()))
      bytes += torch_tile::fusion::elementBytes(carried.getType());
    valueBytes = std::max(valueBytes, bytes);
    if (member.isFull)
      for (Operation &inner : op.getCombine().front()) {
        bool divides = isa<arith::DivFOp>(inner);
        combineWork +=
            divides ? (inner.hasAttr(graph::kWeight) ? weightWork : divisionWork) : torch_tile::fusion::costOf(&inner);
        joinWork += divides ? 0 : torch_tile::fusion::costOf(&inner);
      }
  }
  for (int64_t values : valuesOfStage)
    numValues = std::max(numValues, values);
  for (auto [number, stream] : llvm::enumerate(streams)) {
    if (!stream.isLoad)
      continue;
    stream.family = (int)number;
    for (const Stream &first : ArrayRef(streams).take_front(number)) {
      if (first.family != (int)(&first - streams.data()) || first.buffer != stream.buffer ||
          first.strides != stream.strides || first.digits != stream.digits)
        continue;
      // Places that are computed of one position lie near each other.
      bool areNear = !stream.scalars.empty() && !first.scalars.empty() && stream.isComputed && first.isComputed;
      if (areNear && first.scalars != stream.scalars) {
        stream.family = first.family;
        break;
      }
      if (first.scalars != stream.scalars)
        continue;
      if (std::optional<int64_t> elements = sizes.sub(stream.usual, first.usual).constant()) {
        stream.family = first.family;
        stream.distance = *elements * stream.elementBytes;
        break;
      }
    }
  }
  for (Stream &stream : streams)
    stream.isBorder = llvm::any_of(llvm::seq<size_t>(loops.axes.size()), [&](size_t k) {
      return stream.isLoad && extents[k] >= leastInterior && stream.maskVaries[k] && stream.strides[k] == 0 &&
             llvm::any_of(streams, [&](const Stream &other) {
               return other.isLoad && other.buffer == stream.buffer && other.strides[k] != 0;
             });
    });
  plain = streams.size() <= mostPlainAccesses && llvm::none_of(streams, [](const Stream &stream) {
            return !stream.scalars.empty() || llvm::is_contained(stream.isIndirect, true);
          });
  if (llvm::any_of(loops.axes, [](const Axis &axis) { return axis.reduced; }))
    resultWork = workOfResults(loops);
}

bool GpuModel::canTile(int axis) const {
  return llvm::all_of(
      streams, [&](const Stream &stream) { return stream.strides[axis] || stream.isLoad || stream.isScattered; });
}

bool GpuModel::isAcross(const Stream &stream, int v, int r) const {
  return v >= 0 && v == loops.flatAxis && r >= 0 && stream.isLoad && !stream.digits.empty() &&
         stream.strides[r] == stream.elementBytes;
}

bool GpuModel::isReadAcross(int v, int r) const {
  return llvm::any_of(streams, [&](const Stream &stream) { return isAcross(stream, v, r); });
}

/// Of the elements that an axis tells apart, in bytes.
int64_t GpuModel::widestAlong(int axis) const {
  int64_t widest = 1;
  for (const Stream &stream : streams)
    if (stream.isFull && (axis < 0 || stream.strides[axis] != 0))
      widest = std::max(widest, stream.elementBytes);
  return widest;
}

/// The share of a box's elements that none of the `others` reads there: those of the same buffer that walk through it
/// alike, a constant distance away, as the taps of a stencil do.
double GpuModel::newShare(const Stream &stream, ArrayRef<const Stream *> others, const Box &box) const {
  double share = 1;
  for (const Stream *other : others.take_back(std::min(others.size(), mostCompared))) {
    if (stream.family < 0 || other->family != stream.family)
      continue;
    // The distance as steps along the axes, from that of the largest stride on.
    int64_t distance = std::abs(stream.distance - other->distance);
    SmallVector<std::pair<int64_t, int64_t>> dims;
    for (auto [k, stride] : llvm::enumerate(stream.strides))
      if (stride && *stride > 0)
        dims.push_back({*stride, box[k]});
    llvm::sort(dims, std::greater<>());
    double common = 1;
    for (auto [stride, count] : dims) {
      int64_t steps = (distance + stride / 2) / stride;
      distance = std::abs(distance - steps * stride);
      common *= std::max(0.0, 1 - (double)steps / (double)count);
    }
    // Where the other is masked it reads less.
    if (distance < sectorBytes)
      share = std::min(share, 1 - common * std::min(1.0, other->share / stream.share));
  }
  return share;
}

SmallVector<SmallVector<int>> GpuModel::gridOrders() const {
  SmallVector<SmallVector<int>> orders;
  for (const Stream &stream : streams) {
    SmallVector<int> order;
    for (int k = 0; k < (int)extents.size(); ++k)
      if (!loops.axes[k].reduced)
        order.push_back(k);
    llvm::stable_sort(order,
                      [&](int a, int b) { return stream.strides[a].value_or(0) > stream.strides[b].value_or(0); });
    if (!llvm::is_contained(orders, order))
      orders.push_back(std::move(order));
  }
  return orders;
}

} // namespace torch_tile::tile_build
