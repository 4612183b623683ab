// The schedule of a nest for GPU: that of the rules, or one that is predicted to be much faster.
#include "compiler/tile/build/GpuModel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir;
using torch_tile::fusion::Axis;

namespace torch_tile::tile_build {

/// What is predicted must be so much shorter than under the rules before it takes their place: they know more of rows.
static constexpr double worthwhile = 0.85;
/// Likewise where sizes may turn out to be others than those that were seen.
static constexpr double worthwhileUnknown = 0.5;
/// Times the least that memory takes, within which nothing else is tried.
static constexpr double nearFloor = 1.2;
/// Schedules, from the best on, for which other orders of the grid are tried.
static constexpr size_t mostOrdered = 32;

bool isNearFloor(const Schedule &schedule) { return schedule.predictedNs < nearFloor * schedule.floorNs; }

bool isWorthFlattening(const Schedule &asAccessed, const Schedule &flat) {
  return flat.predictedNs < worthwhile * asAccessed.predictedNs;
}

Schedule chooseGpuSchedule(FusedLoops &loops, int64_t sharedBytes) {
  Schedule usual = chooseGpuScheduleByRules(loops, sharedBytes);
  if (loops.axes.empty())
    return usual;
  GpuModel model(loops);
  usual.predictedNs = model.predictNs(usual);
  usual.floorNs = model.floorNs();
  if (isNearFloor(usual))
    return usual;
  std::vector<Schedule> candidates = gpuCandidates(loops, model);
  candidates.push_back(usual);
  // The rows of the rules with other pieces: neighbours that a thread puts together from whole words, or one at a time.
  for (int64_t lanes : {0, 4, 2, 1})
    if (lanes != usual.pieceLanes && !usual.alignedLanes && usual.heldBytes == 0) {
      candidates.push_back(usual);
      candidates.back().pieceLanes = lanes;
    }
  for (Schedule &candidate : candidates)
    candidate.predictedNs = model.predictNs(candidate);
  llvm::stable_sort(candidates, [](const Schedule &a, const Schedule &b) { return a.predictedNs < b.predictedNs; });
  Schedule best = candidates.front();
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
    }
  best.floorNs = usual.floorNs;
  bool isKnown = llvm::all_of(loops.axes, [](const Axis &axis) { return axis.extent.isConstant(); });
  return best.predictedNs < (isKnown ? worthwhile : worthwhileUnknown) * usual.predictedNs ? best : usual;
}

} // namespace torch_tile::tile_build
