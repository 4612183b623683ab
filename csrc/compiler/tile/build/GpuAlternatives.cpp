#include "compiler/tile/build/GpuAlternatives.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

#include <map>
#include <tuple>

using namespace mlir;

namespace torch_tile::tile_build {

/// How many there are at most. Each takes a compile.
static constexpr size_t mostAlternatives = 24;
/// Times the best prediction, up to which a schedule is one of them. Predictions were off by up to a factor of two.
static constexpr double mostTimesLonger = 2;
/// Schedules of one tile that differ in the order of the grid, or in neighbours that a thread accesses together.
static constexpr int mostOfOneTile = 2;
/// Tiles over the same axes.
static constexpr int mostOfSameAxes = 8;

static int64_t perThread(const Schedule &schedule) {
  int64_t points = schedule.lanes * (schedule.rowAxis >= 0 ? schedule.rows : 1);
  return (int64_t)llvm::divideCeil(points, std::max<int64_t>(schedule.numThreads, 1)) * schedule.unroll;
}

static auto axesOf(const Alternative &other) {
  return std::tuple((int)other.walk, other.schedule.vectorAxis, other.schedule.rowAxis);
}

/// What has the same tiles: it differs in a detail.
static auto tileOf(const Alternative &other) {
  const Schedule &schedule = other.schedule;
  return std::tuple((int)other.walk, schedule.vectorAxis, schedule.rowAxis, schedule.numThreads, perThread(schedule),
                    schedule.heldBytes > 0, schedule.alignedLanes > 0, schedule.blocksPerProcessor);
}

int64_t Schedule::blocksOfLaunchBound() const {
  constexpr int64_t manyThreads = 1024;
  int64_t threads = numThreads * programsPerBlock;
  return threads == 0 || threads > manyThreads / 2 || heldBytes > 0 || blocksPerProcessor > 0 ? 0
                                                                                              : manyThreads / threads;
}

std::vector<Alternative> gpuAlternatives(graph::FusionOp fusion, const SizeFacts &facts, int64_t sharedBytes) {
  std::vector<Alternative> all;
  std::vector<std::string> texts;
  bool canFlatten = false;
  for (Walk walk : {Walk::Accesses, Walk::Result, Walk::Tiles}) {
    if (walk != Walk::Accesses && !canFlatten)
      break;
    FusedLoops loops(fusion, facts, walk);
    if (walk == Walk::Accesses)
      canFlatten = loops.canFlatten();
    else if (loops.flatAxis < 0)
      continue;
    for (Schedule &schedule : gpuSchedules(loops, sharedBytes)) {
      all.push_back({walk, std::move(schedule)});
      texts.push_back(all.back().schedule.str(loops));
    }
  }
  if (all.empty())
    return {};
  std::vector<size_t> order(all.size());
  for (size_t k = 0; k < order.size(); ++k)
    order[k] = k;
  llvm::stable_sort(order,
                    [&](size_t a, size_t b) { return all[a].schedule.predictedNs < all[b].schedule.predictedNs; });
  double most = mostTimesLonger * all[order.front()].schedule.predictedNs;
  std::map<decltype(axesOf(all[0])), int> ofAxes;
  std::map<decltype(tileOf(all[0])), int> ofTile;
  std::vector<Alternative> result;
  llvm::StringSet<> seen;
  // Of the best over each pair of axes, also with registers for many threads.
  auto addBounded = [&](const Alternative &of) {
    if (int64_t blocks = of.schedule.blocksOfLaunchBound()) {
      result.push_back(of);
      result.back().schedule.blocksPerProcessor = blocks;
    }
  };
  for (size_t k : order) {
    const Alternative &other = all[k];
    if (other.schedule.predictedNs > most || result.size() >= mostAlternatives)
      break;
    if (!seen.insert(std::to_string((int)other.walk) + texts[k]).second)
      continue;
    int &numOfAxes = ofAxes[axesOf(other)], &numOfTile = ofTile[tileOf(other)];
    if (numOfAxes >= mostOfSameAxes || numOfTile >= mostOfOneTile)
      continue;
    ++numOfTile;
    ++numOfAxes;
    result.push_back(other);
    if (numOfAxes == 1)
      addBounded(other);
  }
  if (result.size() > mostAlternatives)
    result.pop_back();
  return result;
}

} // namespace torch_tile::tile_build
