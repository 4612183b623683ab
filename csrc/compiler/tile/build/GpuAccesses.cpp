// What the accesses of a nest ask of a GPU's memory and caches.
#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/fusion/IndexBounds.h"
#include "compiler/graph/ir/Marks.h"
#include "compiler/tile/build/GpuModel.h"
#include "compiler/tile/build/IndexSteps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;
using torch_tile::fusion::strideAlong;

namespace torch_tile::tile_build {

static constexpr int64_t lineBytes = 128;
/// Reads before one that it is compared with: the taps next to it come shortly before.
static constexpr size_t mostCompared = 16;
/// Points of an axis from which on those at its edge are few.
static constexpr int64_t leastInterior = 16;
/// Of the sectors that a request touches, the share of bytes from which on they count as whole.
static constexpr double mostlyWhole = 0.7;
/// Accesses of a nest that is plain: those of a softmax, and one more.
static constexpr size_t mostPlainAccesses = 5;
/// Of rows of fewer tiles than this, a mask's edges lie in most.
static constexpr int64_t mostlyEdges = 4;
/// Where so many points meet at an element on average, neighbours mostly update the same one, which takes each of them
/// after the first so many times what its own element would take.
static constexpr double crowd = 32, updateWait = 0.5;
/// Of a division that rounds as IEEE's does: a reciprocal, its correction, and the test for what that does not serve.
static constexpr double divisionWork = 24;
/// Likewise for a weight, which an approximate reciprocal gives.
static constexpr double weightWork = 8;
/// The address of an element, or of a piece, in a tile of rows.
static constexpr double placeWork = 2;

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
    numValues = std::max<int64_t>(numValues, op.getNumResults());
    if (member.isFull)
      for (Operation &inner : op.getCombine().front()) {
        bool divides = isa<arith::DivFOp>(inner);
        combineWork +=
            divides ? (inner.hasAttr(graph::kWeight) ? weightWork : divisionWork) : torch_tile::fusion::costOf(&inner);
        joinWork += divides ? 0 : torch_tile::fusion::costOf(&inner);
      }
  }
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
  for (const FusedMember &member : loops.members)
    if (!member.isFull && llvm::any_of(loops.axes, [](const Axis &axis) { return axis.reduced; }))
      for (Operation &inner : *LoopsOp(member.op).bodyBlock())
        resultWork += isa<arith::DivFOp>(inner) ? divisionWork : torch_tile::fusion::costOf(&inner);
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

/// Where the element at a position along the flat axis lies.
int64_t GpuModel::addressOf(const Stream &stream, int64_t position) const {
  int64_t address = 0;
  for (size_t k = flatExtents.size(); k-- > 0;) {
    int64_t index = position % flatExtents[k];
    address += (stream.digits[k] < 0 ? flatExtents[k] - 1 - index : index) * std::abs(stream.digits[k]);
    position /= flatExtents[k];
  }
  return address;
}

/// Sectors of so many bytes that the points of a box touch, each counted once.
double GpuModel::sectorsOf(const Stream &stream, const Box &box, int64_t sectorBytes) const {
  SmallVector<std::pair<int64_t, int64_t>> dims; // stride, count
  double count = 1, chosen = 1, parts = 1;
  for (auto [k, stride] : llvm::enumerate(stream.strides)) {
    if (box[k] <= 1 || (stride && *stride == 0))
      continue;
    if (stride) {
      dims.push_back({*stride, box[k]});
    } else if (stream.digits.empty()) {
      chosen *= (double)box[k];
      parts *= stream.isPart[k] ? (double)box[k] : 1;
    } else {
      int64_t points = box[k];
      for (size_t digit = flatExtents.size(); digit-- > 0 && points > 1;) {
        if (stream.digits[digit] != 0)
          dims.push_back({std::abs(stream.digits[digit]), std::min(points, flatExtents[digit])});
        points = (int64_t)llvm::divideCeil(points, flatExtents[digit]);
      }
    }
  }
  llvm::sort(dims);
  double run = (double)stream.elementBytes;
  for (auto [stride, points] : dims) {
    // Between runs that are less than a sector apart no sector is left out.
    if ((double)stride < run + (double)sectorBytes)
      run = std::max(run, (double)stride * (double)(points - 1) + run);
    else
      count *= (double)points;
  }
  // A run begins at a sector if all steps from run to run are whole sectors, also those between boxes.
  bool isAligned = true;
  auto addSteps = [&](int64_t stride, int64_t points, int64_t extent) {
    bool isInRun = points > 1 && (double)stride < run;
    if (extent > 1 && !(isInRun && points >= extent))
      isAligned = isAligned && stride * (isInRun ? points : 1) % sectorBytes == 0;
  };
  for (auto [k, stride] : llvm::enumerate(stream.strides))
    if (stride)
      addSteps(*stride, box[k], extents[k]);
  for (auto [stride, extent] : llvm::zip(stream.digits, flatExtents))
    addSteps(std::abs(stride), std::abs(stride) < run ? extent : 1, extent);
  // Neighbours that are chosen one by one may share a sector.
  double share = std::min(1.0, run / (double)sectorBytes);
  count *= std::min(chosen, parts * std::max(1.0, stream.chosen * share));
  // A run that begins anywhere crosses one boundary more than one that begins at a sector.
  double sectors = std::ceil(run / (double)sectorBytes);
  if (!isAligned)
    sectors = run / (double)sectorBytes + 1;
  // Indices may choose an element again.
  bool isChosen = llvm::is_contained(stream.isIndirect, true);
  return isChosen ? std::min(count * sectors, std::ceil(stream.bufferBytes / (double)sectorBytes)) : count * sectors;
}

/// What one tile of an access asks of the first-level cache: requests of a warp, and sectors and lines of each.
GpuModel::Request GpuModel::requestsOf(const Stream &stream, const Schedule &schedule, int64_t vector) const {
  auto strideOf = [&](int axis) -> std::optional<int64_t> { return axis < 0 ? 0 : stream.strides[axis]; };
  std::optional<int64_t> lane = strideOf(schedule.vectorAxis), row = strideOf(schedule.rowAxis);
  int64_t lanes = schedule.lanes, rows = schedule.rowAxis >= 0 ? schedule.rows : 1;
  int64_t validLanes = schedule.vectorAxis < 0 ? 1 : extents[schedule.vectorAxis],
          validRows = schedule.rowAxis < 0 ? 1 : extents[schedule.rowAxis];
  if (lane == 0 && (row == 0 || rows == 1))
    return {1, 1, 1, false, true};
  int64_t element = stream.elementBytes;
  auto wrapsAlong = [&](int axis) { return axis >= 0 && stream.wraps[axis]; };
  auto isIndirectAlong = [&](int axis) { return axis >= 0 && stream.isIndirect[axis]; };
  bool isTakenApart = !stream.digits.empty() && schedule.vectorAxis == loops.flatAxis;
  bool isGathered = isTakenApart || isIndirectAlong(schedule.vectorAxis) || wrapsAlong(schedule.vectorAxis) ||
                    wrapsAlong(schedule.rowAxis);
  // What indices choose is read where each thread wants it, whatever lies side by side.
  bool isAlongRows = rows > 1 && isAcross(stream, schedule.vectorAxis, schedule.rowAxis);
  bool isTransposed = isAlongRows || (rows > 1 && row == element && lane && *lane != 0 && *lane != element &&
                                      !isGathered && !isIndirectAlong(schedule.rowAxis));
  if (isTransposed) {
    std::swap(lane, row);
    std::swap(lanes, rows);
    std::swap(validLanes, validRows);
  }
  // Somewhere in the middle, where a tile begins.
  int64_t apart = isAlongRows ? validRows : validLanes, tileApart = isAlongRows ? rows : lanes;
  int64_t middle = isTakenApart ? apart / 2 / tileApart * tileApart : 0;
  int64_t width = lane == element && !isGathered ? vector : 1;
  while (lanes % width != 0)
    width /= 2;
  // Pieces that begin anywhere, or reach past the end, go element by element.
  if (!schedule.alignedLanes || rows > 1) {
    for (const std::optional<int64_t> &stride : stream.strides)
      if (stride && *stride > element && *stride % (width * element) != 0)
        width = 1;
    if (validLanes % width != 0 || (stream.isUnaligned && rows > 1))
      width = 1;
    // A row that begins elsewhere is put together from whole words only by itself, and where nothing is masked.
    bool isMasked = schedule.vectorAxis >= 0 && stream.maskVaries[schedule.vectorAxis];
    if ((rows > 1 || isMasked) && stream.firstByte % (width * element) != 0)
      width = 1;
  } else if (schedule.vectorAxis >= 0 && stream.maskVaries[schedule.vectorAxis] && validLanes < mostlyEdges * lanes) {
    width = 1; // only tiles between the edges of a mask do without it
  }
  // Points of a reduced axis that one thread has, and that follow one another, are one access of up to 16 bytes where
  // all of them begin at multiples of its size.
  int64_t joined = 1;
  if (int held = heldAxis(schedule);
      held >= 0 && stream.isFull && !stream.isUnaligned && stream.strides[held] == width * element) {
    auto isAligned = [&](int64_t bytes) {
      return llvm::all_of(llvm::enumerate(stream.strides), [&](auto stride) {
        return (int)stride.index() == held || !stride.value() || *stride.value() <= width * element ||
               *stride.value() % bytes == 0;
      });
    };
    while (joined * 2 <= extents[held] && joined * 2 * width * element <= accessBytes &&
           isAligned(joined * 2 * width * element))
      joined *= 2;
  }
  // What indices choose often lies near what the neighbours' choose: two share a sector. Updates of one sector follow
  // one another, so that it saves them no time.
  int64_t chosenApart = stream.isUpdated ? sectorBytes : sectorBytes / 2;
  llvm::SmallSet<int64_t, 32> sectors, lines;
  for (int64_t t = 0; t < warpSize; ++t) { // the first of vector / width requests
    int64_t position = t * vector, r = position / lanes, l = position % lanes;
    if (r >= rows || l >= validLanes || r >= validRows)
      continue;
    int64_t address = isAlongRows    ? addressOf(stream, middle + r) + l * element
                      : isTakenApart ? addressOf(stream, middle + l) + r * row.value_or(64 * lineBytes)
                                     : l * lane.value_or(chosenApart) + r * row.value_or(64 * lineBytes);
    for (int64_t byte : {address, address + joined * width * element - 1}) {
      sectors.insert(byte / sectorBytes);
      lines.insert(byte / lineBytes);
    }
  }
  // Points that choose the same element wait for one another; those of which an axis tells the elements apart do not.
  double waits = 1;
  if (stream.isUpdated && numPoints > crowd * stream.bufferBytes / (double)stream.elementBytes) {
    auto tellsApart = [&](int axis) { return axis < 0 || stream.strides[axis] || stream.isPart[axis]; };
    int64_t inWarp = std::min(lanes, warpSize), choosing = tellsApart(schedule.vectorAxis) ? 1 : inWarp;
    choosing *= tellsApart(schedule.rowAxis) ? 1 : std::min(rows, warpSize / inWarp);
    waits += updateWait * (double)(choosing - 1);
  }
  // A piece of what a row has in common is one element.
  int64_t repeated = lane == 0 && lanes % vector == 0 ? vector : width;
  double count = std::max(1.0, (double)(lanes * rows) / (double)(warpSize * repeated)) / (double)joined;
  // Through shared memory, an element at a time on one side.
  double turned = isTransposed ? (double)(lanes * rows) / warpSize * 2 / count : 0;
  bool hasParts = (double)(warpSize * width * joined * element) < mostlyWhole * (double)(sectors.size() * sectorBytes);
  bool areApart = rows > 1 && lanes % vector != 0; // neighbours of a piece may be of two rows
  double places = rows == 1 ? 0 : placeWork / (areApart ? 1 : (double)vector);
  bool isDivided = areApart || (rows > 1 && !llvm::isPowerOf2_64(lanes));
  return {count,    (double)sectors.size() * waits, (double)lines.size() + turned, isGathered, hasParts, places,
          isDivided};
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
