// The schedule of a nest for GPU: that of the rules, or one that is predicted to be much faster.
#include "compiler/tile/build/GpuModel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir;
using torch_tile::fusion::Axis;

namespace torch_tile::tile_build {

/// What is predicted must be so much shorter than under the rules before it takes their place: they know more of rows.
/// Of plain nests without rows the model knows enough, and of other pieces of the same tile, which differ in little.
static constexpr double worthwhile = 0.85, worthwhileKnown = 0.95;
/// Likewise for one axis that follows the results of a plain nest.
static constexpr double worthwhileFlat = 0.95;
/// Likewise for a tile of other sizes over the axes that the rules chose in a plain nest.
static constexpr double worthwhileResized = 0.96;
/// Likewise where sizes may turn out to be others than those that were seen.
static constexpr double worthwhileUnknown = 0.5;
/// Where sizes are not known, those that were seen say little if the kernel takes fewer nanoseconds for them, about as
/// long as a launch.
static constexpr double launchNs = 5000;
/// Times the least that memory takes, within which nothing else is tried.
static constexpr double nearFloor = 1.2;
/// Schedules, from the best on, for which other numbers of neighbours are tried.
static constexpr size_t mostWithOtherPieces = 48;
/// Schedules, from the best on, for which other orders of the grid are tried.
static constexpr size_t mostOrdered = 32;

bool isNearFloor(const Schedule &schedule) { return schedule.predictedNs < nearFloor * schedule.floorNs; }

bool isWorthFlattening(const Schedule &asAccessed, const Schedule &flat, Walk walk) {
  double needed = flat.isPlain ? worthwhileFlat : worthwhile;
  // What tiles over several axes take is less than predicted, more often than not.
  if (walk == Walk::Tiles && flat.rowAxis >= 0)
    needed = 1;
  return flat.predictedNs < needed * asAccessed.predictedNs;
}

static bool hasSameAxes(const Schedule &left, const Schedule &right) {
  return left.rowAxis >= 0 &&
         std::minmax(left.vectorAxis, left.rowAxis) == std::minmax(right.vectorAxis, right.rowAxis);
}

static bool hasSameTile(const Schedule &left, const Schedule &right) {
  return left.vectorAxis == right.vectorAxis && left.rowAxis == right.rowAxis && left.lanes == right.lanes &&
         left.rows == right.rows && left.numThreads == right.numThreads && left.unroll == right.unroll;
}

/// Of tiles over the same axes, one that keeps fewer elements in a thread.
static Schedule leastBusy(GpuModel &model, Schedule chosen, ArrayRef<Schedule> candidates) {
  for (Schedule candidate : candidates) {
    if (candidate.vectorAxis != chosen.vectorAxis || candidate.rowAxis != chosen.rowAxis ||
        candidate.alignedLanes != chosen.alignedLanes)
      continue;
    candidate.gridOrder = chosen.gridOrder;
    candidate.predictedNs = model.predictNs(candidate);
    if (candidate.predictedNs * model.busyness(candidate) < chosen.predictedNs * model.busyness(chosen))
      chosen = std::move(candidate);
  }
  return chosen;
}

/// The schedule of the nest, and in `considered`, if it is asked for, all others, whether or not any can be better.
static Schedule rankGpuSchedules(FusedLoops &loops, int64_t sharedBytes, std::vector<Schedule> *considered) {
  Schedule usual = chooseGpuScheduleByRules(loops, sharedBytes);
  if (loops.axes.empty())
    return usual;
  GpuModel model(loops);
  usual.predictedNs = model.predictNs(usual);
  usual.floorNs = model.floorNs();
  usual.isPlain = model.isPlain();
  auto fits = [&](const Schedule &candidate) { return model.hasRoom(candidate, sharedBytes); };
  if (isNearFloor(usual) && fits(usual) && !considered)
    return usual;
  std::vector<Schedule> candidates = gpuCandidates(loops, model);
  candidates.push_back(usual);
  auto rank = [&] {
    llvm::erase_if(candidates, [&](const Schedule &candidate) { return !fits(candidate); });
    for (Schedule &candidate : candidates)
      candidate.predictedNs = model.predictNs(candidate);
    llvm::stable_sort(candidates, [](const Schedule &a, const Schedule &b) { return a.predictedNs < b.predictedNs; });
  };
  rank();
  std::vector<Schedule> all(candidates);
  // Other pieces: neighbours that a thread puts together from whole words, or one at a time.
  candidates.resize(std::min(candidates.size(), mostWithOtherPieces));
  for (Schedule candidate : std::vector<Schedule>(candidates))
    if (!candidate.alignedLanes && candidate.heldBytes == 0)
      for (int64_t lanes : {4, 2}) {
        candidate.pieceLanes = lanes;
        candidates.push_back(candidate);
      }
  for (int64_t lanes : {0, 4, 2, 1})
    if (lanes != usual.pieceLanes && !usual.alignedLanes && usual.heldBytes == 0) {
      candidates.push_back(usual);
      candidates.back().pieceLanes = lanes;
    }
  rank();
  if (candidates.empty())
    return usual;
  Schedule best = candidates.front();
  all.insert(all.end(), candidates.begin(), candidates.end());
  // Which programs run at the same time: those that share what memory moves at once should.
  candidates.resize(std::min(candidates.size(), mostOrdered));
  candidates.push_back(usual);
  SmallVector<SmallVector<int>> orders = model.gridOrders();
  for (Schedule &candidate : candidates)
    for (const SmallVector<int> &order : orders) {
      candidate.gridOrder = order;
      candidate.predictedNs = model.predictNs(candidate);
      if (candidate.predictedNs < best.predictedNs)
        best = candidate;
      if (considered)
        all.push_back(candidate);
    }
  best.floorNs = usual.floorNs;
  best.isPlain = usual.isPlain;
  bool isKnown = llvm::all_of(loops.axes, [](const Axis &axis) { return axis.extent.isConstant(); });
  double needed = worthwhile;
  if (!isKnown)
    needed = worthwhileUnknown;
  else if (hasSameTile(best, usual))
    needed = worthwhileKnown;
  else if (usual.isPlain && !model.readsRows(usual))
    needed = hasSameAxes(best, usual) ? worthwhileResized : worthwhileKnown;
  bool isWorthwhile = best.predictedNs < needed * usual.predictedNs && (isKnown || usual.predictedNs >= launchNs);
  Schedule chosen = isWorthwhile || !fits(usual) ? best : usual;
  if (!usual.isPlain && isKnown && chosen.heldBytes == 0)
    chosen = leastBusy(model, chosen, all);
  chosen.floorNs = usual.floorNs;
  chosen.isPlain = usual.isPlain;
  if (considered)
    *considered = std::move(all);
  return chosen;
}

Schedule chooseGpuSchedule(FusedLoops &loops, int64_t sharedBytes) {
  return rankGpuSchedules(loops, sharedBytes, nullptr);
}

std::vector<Schedule> gpuSchedules(FusedLoops &loops, int64_t sharedBytes) {
  std::vector<Schedule> considered;
  rankGpuSchedules(loops, sharedBytes, &considered);
  return considered;
}

} // namespace torch_tile::tile_build
