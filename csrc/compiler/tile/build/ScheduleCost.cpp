#include "compiler/tile/build/ScheduleCost.h"

#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/tile/build/AxisEdges.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;
using torch_tile::fusion::strideAlong;

namespace torch_tile::tile_build {

/// Relative cost of one element of an access by its stride along the lanes: contiguous, the same for all lanes, or each
/// on its own.
static constexpr double contiguousCost = 1, uniformCost = 0.2, gatherCost = 10;
/// Elements along an axis that fill lanes.
static constexpr int64_t wholeRow = 16;
/// Of loads that code for registers shuffles.
static constexpr int64_t largestShuffledStride = 16;
/// Points of either axis of tiles that are turned in registers, if a row of either side lies within a line of a cache
/// (in bytes) with others, and if each has lines of its own. Measured with copies of 1 to 8 MB in all orders of their
/// axes.
static constexpr int64_t fewestDenseTurned = 4, fewestTurned = 2, lineBytes = 64;
/// Points of a short axis that are computed one after the other and interleaved.
static constexpr int64_t longestInterleaved = 16;
/// Of lanes along an axis whose order matters: the steps of a scan, or lanes one by one.
static constexpr double orderedLanesCost = 3;
/// Each step of a scan along lanes costs as much as the combiner; so does each point of one across them.
static constexpr double combinerCost = 0.5, scanSteps = 5;

bool ScheduleCost::hasScalarsAlong(const FusedLoops::Access &access, StringRef axis) {
  return llvm::any_of(access.scalars, [&](Value v) { return loops.variesAlong(v, axis); });
}

double ScheduleCost::accessCost(const FusedLoops::Access &access, const Axis &axis) {
  if (!access.isFull && axis.reduced)
    return 0;
  if (hasScalarsAlong(access, axis.name))
    return gatherCost;
  std::optional<SizeExpr> stride = strideAlong(loops.sizes(), access.offset, axis.name);
  if (!stride)
    return gatherCost;
  if (stride->isConstant(0)) {
    // On the CPU, under masks of short rows, which lie side by side in a tile, each row's element is gathered for all
    // its lanes.
    auto load = dyn_cast_or_null<LoadOp>(access.load);
    bool isMasked = shufflesLoads && load && load.getMask() && loops.variesAlong(load.getMask(), axis.name);
    return isMasked && axis.reduced && extent(axis) < wholeRow ? gatherCost : uniformCost;
  }
  std::optional<int64_t> known = stride->constant();
  // Read as that many vectors and shuffles.
  if (shufflesLoads && access.load && known && *known >= 2 && *known <= largestShuffledStride)
    return std::min(contiguousCost * (double)*known, gatherCost);
  return known == 1 ? contiguousCost : gatherCost;
}

/// What a scan's combiner takes.
int ScheduleCost::combinerWork() {
  int work = 0;
  for (const FusedMember &member : loops.members)
    if (LoopsOp op = member.op; op.isScan())
      for (Operation &inner : op.getCombine().front())
        work += torch_tile::fusion::costOf(&inner);
  return work;
}

/// Tiles that a short axis is cut into on the CPU, where the parts of a concatenation end: each computes whole vectors.
int64_t ScheduleCost::piecesAlong(const Axis &axis) {
  std::optional<int64_t> length = axis.extent.constant();
  if (!shufflesLoads || !length || *length >= wholeRow || isOrdered)
    return 1;
  llvm::SmallSet<int64_t, 8> ends;
  for (const FusedMember &member : loops.members)
    for (auto compare : LoopsOp(member.op).bodyBlock()->getOps<arith::CmpIOp>())
      if (std::optional<AxisEdge> edge = edgeAlong(loops, axis.name, compare))
        if (std::optional<int64_t> at = edge->at.constant(); at && *at > 0 && *at < *length)
          ends.insert(*at);
  return (int64_t)ends.size() + 1;
}

double ScheduleCost::vectorCost(const Axis &axis) {
  double cost = 0.05 * loops.work() * (double)piecesAlong(axis);
  if (isOrdered)
    cost += combinerWork() * combinerCost * (axis.reduced ? scanSteps : 1) + (axis.reduced ? orderedLanesCost : 0);
  // What is outside of the reduced axes is accessed once for all their points.
  double reducedPoints = 1;
  for (const Axis &other : loops.axes)
    if (other.reduced)
      reducedPoints *= (double)extent(other);
  for (const FusedLoops::Access &access : accesses)
    cost += accessCost(access, axis) / (access.isFull ? 1 : reducedPoints);
  // A short axis leaves lanes idle.
  int64_t e = extent(axis);
  return cost * (e >= wholeRow ? 1.0 : (double)wholeRow / (double)e);
}

int ScheduleCost::chooseVectorAxis() {
  int best = (int)loops.axes.size() - 1;
  while (isOrdered && !foldsLanes && best >= 0 && loops.axes[best].reduced)
    --best;
  // Of a scan whose lanes cannot be folded, rows side by side would be gathered: each is folded point by point instead.
  while (loops.isScan() && !foldsLanes && best >= 0 && !isContiguousSomewhere(loops.axes[best]))
    --best;
  if (best < 0)
    return best;
  double bestCost = vectorCost(loops.axes[best]);
  for (int k = best; k-- > 0;) {
    // Only the innermost of the axes that keep their order may lie along the lanes.
    if (isOrdered && loops.axes[k].reduced)
      continue;
    // A scatter's lanes along an axis that nothing is contiguous along have a line of the cache each, and take from the
    // programs what they could share.
    if (isOrdered && loops.axes[best].reduced && !loops.isScan() && !isContiguousSomewhere(loops.axes[k]))
      continue;
    double cost = vectorCost(loops.axes[k]);
    if (cost < 0.8 * bestCost) {
      best = k;
      bestCost = cost;
    }
  }
  return best;
}

bool ScheduleCost::isContiguousSomewhere(const Axis &axis) {
  return llvm::any_of(accesses, [&](const FusedLoops::Access &access) {
    std::optional<SizeExpr> stride = strideAlong(loops.sizes(), access.offset, axis.name);
    return stride && stride->isConstant(1);
  });
}

int ScheduleCost::transposedAxis(int vectorAxis, std::optional<int64_t> minExtent) {
  if (llvm::any_of(loops.axes, [](const Axis &axis) { return axis.reduced; }))
    return -1;
  const Axis &lane = loops.axes[vectorAxis];
  SmallVector<double> costs(loops.axes.size(), 0);
  bool anyGather = false;
  for (const FusedLoops::Access &access : accesses) {
    std::optional<SizeExpr> stride = strideAlong(loops.sizes(), access.offset, lane.name);
    if (!stride || hasScalarsAlong(access, lane.name))
      return -1;
    if (stride->isConstant(0) || stride->isConstant(1))
      continue;
    anyGather = true;
    for (auto [k, axis] : llvm::enumerate(loops.axes)) {
      std::optional<SizeExpr> other = strideAlong(loops.sizes(), access.offset, axis.name);
      if ((int)k != vectorAxis && other && other->isConstant(1))
        costs[k] += 1;
    }
  }
  if (!anyGather)
    return -1;
  int row = (int)(std::max_element(costs.begin(), costs.end()) - costs.begin());
  int64_t shorter = std::min(extent(loops.axes[row]), extent(lane));
  if (costs[row] == 0 || shorter < minExtent.value_or(fewestTurned))
    return -1;
  // Tiles of fewer elements a row or column pay where the other way round each element has a line of its own.
  bool isShort = !minExtent && shorter < fewestDenseTurned;
  auto isDense = [&](const FusedLoops::Access &access, SizeExpr stride) {
    std::optional<int64_t> known = stride.constant();
    return known && *known * torch_tile::fusion::elementBytes(access.elementType) < lineBytes;
  };
  for (const FusedLoops::Access &access : accesses) {
    std::optional<SizeExpr> along = strideAlong(loops.sizes(), access.offset, lane.name),
                            across = strideAlong(loops.sizes(), access.offset, loops.axes[row].name);
    if (!across || hasScalarsAlong(access, loops.axes[row].name))
      return -1;
    if (isShort && (across->isConstant(1) ? isDense(access, *along) : along->isConstant(1) && isDense(access, *across)))
      return -1;
  }
  return row;
}

std::pair<int, int> ScheduleCost::crossedAxes(int vectorAxis, int64_t minExtent) {
  // Reductions that read or write along a parallel axis here, along a reduced one there.
  auto strideOf = [&](const FusedLoops::Access &access, const Axis &axis) {
    std::optional<SizeExpr> stride = strideAlong(loops.sizes(), access.offset, axis.name);
    return hasScalarsAlong(access, axis.name) ? std::nullopt : stride;
  };
  auto isGathered = [&](const FusedLoops::Access &access) {
    return access.isFull && accessCost(access, loops.axes[vectorAxis]) >= gatherCost;
  };
  if (isOrdered || llvm::none_of(accesses, isGathered))
    return {-1, -1};
  auto fits = [&](const Axis &lane, const Axis &row) {
    bool alongLanes = false, alongRows = false;
    for (const FusedLoops::Access &access : accesses) {
      if (!access.isFull)
        continue;
      std::optional<SizeExpr> across = strideOf(access, lane), down = strideOf(access, row);
      if (!across || !down)
        return false;
      if (across->isConstant(1))
        alongLanes = true;
      else if (down->isConstant(1))
        alongRows |= !across->isConstant(0);
      else if (!across->isConstant(0))
        return false;
    }
    return alongLanes && alongRows;
  };
  for (int lane = (int)loops.axes.size(); lane-- > 0;)
    for (int row = (int)loops.axes.size(); row-- > 0;)
      if (!loops.axes[lane].reduced && loops.axes[row].reduced && extent(loops.axes[lane]) >= minExtent &&
          extent(loops.axes[row]) >= minExtent && fits(loops.axes[lane], loops.axes[row]))
        return {lane, row};
  return {-1, -1};
}

int64_t ScheduleCost::narrowestElement() {
  int64_t bytes = 8;
  for (const FusedLoops::Access &access : accesses)
    bytes = std::min(bytes, torch_tile::fusion::elementBytes(access.elementType));
  return bytes;
}

int64_t ScheduleCost::bytesPerPoint(const Axis &axis) {
  int64_t bytes = 0;
  for (const FusedLoops::Access &access : accesses)
    if (access.load && access.isFull && !hasScalarsAlong(access, axis.name))
      if (std::optional<SizeExpr> stride = strideAlong(loops.sizes(), access.offset, axis.name);
          stride && stride->isConstant(1))
        bytes += torch_tile::fusion::elementBytes(access.elementType);
  return bytes;
}

bool ScheduleCost::isLinearAlong(const Axis &axis) {
  return llvm::all_of(accesses, [&](const FusedLoops::Access &access) {
    return !hasScalarsAlong(access, axis.name) && strideAlong(loops.sizes(), access.offset, axis.name);
  });
}

bool ScheduleCost::areRowsRead(int axis) {
  bool anyRows = false;
  for (const FusedLoops::Access &access : accesses) {
    if (!access.load)
      continue;
    std::optional<SizeExpr> across = strideAlong(loops.sizes(), access.offset, loops.axes[axis].name);
    if (!across || hasScalarsAlong(access, loops.axes[axis].name) || !(across->isConstant(1) || across->isConstant(0)))
      return false;
    std::optional<SizeExpr> along = strideAlong(loops.sizes(), access.offset, loops.axes[axis - 1].name);
    anyRows |= across->isConstant(1) && along && !along->isConstant(0);
  }
  return anyRows;
}

int ScheduleCost::interleavedAxis() {
  int inner = (int)loops.axes.size() - 1;
  if (inner < 1 || llvm::any_of(loops.axes, [](const Axis &axis) { return axis.reduced; }))
    return -1;
  const Axis &shortAxis = loops.axes[inner], &lane = loops.axes[inner - 1];
  std::optional<int64_t> length = shortAxis.extent.constant();
  if (!length || *length < 2 || *length > longestInterleaved || extent(lane) < 16)
    return -1;
  // Loads of one lane each, which lanes share, against loads of a whole tile: rows of a `stack` are of the first kind.
  int shared = 0, tiles = 0;
  for (const FusedLoops::Access &access : accesses) {
    std::optional<SizeExpr> across = strideAlong(loops.sizes(), access.offset, shortAxis.name);
    std::optional<SizeExpr> along = strideAlong(loops.sizes(), access.offset, lane.name);
    if (!across || !along || hasScalarsAlong(access, lane.name) || hasScalarsAlong(access, shortAxis.name))
      return -1;
    // Larger strides are gathers, as they are along the short axis.
    std::optional<int64_t> stride = along->constant();
    if (!stride || *stride < 0 || (access.load && *stride > largestShuffledStride))
      return -1;
    if (!access.load && (!across->isConstant(1) || *stride != *length))
      return -1;
    if (access.load)
      ++(*stride == 0 && !across->isConstant(0) ? shared : tiles);
  }
  return shared > tiles ? -1 : inner;
}

} // namespace torch_tile::tile_build
