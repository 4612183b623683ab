// Tiles over pairs of axes, for nests whose memory order no single axis follows.
#include "compiler/fusion/Access.h"
#include "compiler/tile/build/GpuModel.h"

#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;

namespace torch_tile::tile_build {
namespace {

constexpr int64_t warpSize = 32, maxThreads = 1024, usualThreads = 256;
/// Elements of a tile: a few pieces of 16 bytes for each thread.
constexpr int64_t leastPoints = 256, mostPoints = 8192, mostPlainPoints = 16384;
/// Elements that a thread may hold of each value, and of all that a row keeps from stage to stage.
constexpr int64_t mostPerThread = 32;
/// Elements that a thread accesses in straight code: the time of the assembler grows with the square of that.
constexpr int64_t mostAccesses = 512;
/// Rows of fewer elements, and fewer rows than this, may have tiles of just so many: above, those that a power of two
/// adds are a small share, and every candidate takes time to predict.
constexpr int64_t longestWhole = 128, mostWholeRows = 16;

class Candidates {
public:
  Candidates(FusedLoops &loops, const GpuModel &model) : loops(loops), model(model) {}

  std::vector<Schedule> run() {
    int numAxes = (int)loops.axes.size();
    if (model.isPlain())
      numbersPerThread = {1, 2, 4, 8, 16, 32};
    hasReduction = llvm::any_of(loops.axes, [](const Axis &axis) { return axis.reduced; });
    for (int v = 0; v < numAxes; ++v) {
      if (model.extent(v) < 2 || !(canTile(v) || v == loops.flatAxis))
        continue;
      addSingle(v);
      for (int r = 0; r < numAxes; ++r)
        if (r != v && model.extent(r) > 1 && canTile(r) && (canTile(v) || model.isReadAcross(v, r)))
          addPair(v, r);
    }
    return std::move(list);
  }

private:
  bool isReduced(int axis) const { return loops.axes[axis].reduced; }
  static int64_t ceilPower(int64_t value) { return (int64_t)llvm::bit_ceil((uint64_t)std::max<int64_t>(value, 1)); }
  bool canTile(int axis) const {
    if (axis != loops.flatAxis)
      return model.canTile(axis);
    for (unsigned k = 0; k < model.numAccesses(); ++k)
      if (!model.strideBytes(k, axis))
        return false;
    return true;
  }

  Schedule empty() const {
    Schedule schedule;
    schedule.numGridAxes = (int)llvm::count_if(loops.axes, [](const Axis &axis) { return !axis.reduced; });
    schedule.programCostNs = 1;
    return schedule;
  }

  /// Iterations of the innermost loop over a reduced axis.
  int64_t innermostTrips(const Schedule &schedule) const {
    if (schedule.rowAxis >= 0 && isReduced(schedule.rowAxis))
      return model.extent(schedule.rowAxis) / schedule.rows;
    for (int k = (int)loops.axes.size(); k-- > 0;)
      if (isReduced(k) && k != schedule.vectorAxis)
        return model.extent(k);
    return 1;
  }

  void add(Schedule schedule) {
    int64_t trips = innermostTrips(schedule);
    if (schedule.unroll != trips)
      schedule.unroll = std::min(schedule.unroll, (int64_t)llvm::bit_floor((uint64_t)trips));
    schedule.unroll = std::max<int64_t>(schedule.unroll, 1);
    int64_t points = schedule.lanes * (schedule.rowAxis >= 0 ? schedule.rows : 1);
    schedule.numThreads = std::clamp(schedule.numThreads, warpSize, maxThreads);
    if (points > schedule.numThreads * mostPerThread * 2 || points < warpSize ||
        points * model.numAccesses() > schedule.numThreads * mostAccesses)
      return;
    if (schedule.numThreads == warpSize)
      schedule.programsPerBlock = 4;
    if (!model.hasRegisters(schedule))
      return;
    list.push_back(schedule);
    // One neighbour a thread, so that neighbouring threads have neighbours; numbers between are tried later.
    schedule.pieceLanes = 1;
    list.push_back(schedule);
  }

  /// All points of a short reduced axis one after the other: a thread holds what it has read of them for later stages.
  void addWithoutLoop(Schedule schedule, int64_t perThread) {
    schedule.unroll = innermostTrips(schedule);
    if (model.heldAxis(schedule) >= 0 && schedule.unroll * perThread <= mostPerThread)
      add(schedule);
  }

  /// Lanes along one parallel axis; every thread walks the reduced ones by itself.
  void addSingle(int v) {
    if (isReduced(v))
      return;
    int64_t most = ceilPower(model.extent(v));
    for (int64_t lanes : {64, 128, 256, 512, 1024, 2048}) {
      if (lanes > most && lanes > 64)
        continue;
      Schedule schedule = empty();
      schedule.vectorAxis = v;
      schedule.lanes = schedule.block = std::min(lanes, most);
      for (int64_t perThread : {1, 4, 8}) {
        schedule.numThreads = schedule.lanes / perThread;
        if (schedule.numThreads < warpSize || schedule.numThreads > usualThreads)
          continue;
        for (int64_t unroll : {4, 16}) {
          schedule.unroll = hasReduction ? unroll : 1;
          if (unroll == 4 || (hasReduction && unroll * perThread <= mostPerThread))
            add(schedule);
        }
        addWithoutLoop(schedule, perThread);
      }
    }
  }

  void addPair(int v, int r) {
    // Of two reduced axes a tile holds the whole of that along the lanes: its length must be known, not estimated.
    if (isReduced(v) && isReduced(r) && !loops.axes[v].extent.isConstant())
      return;
    addPair(v, r, ceilPower(model.extent(v)), ceilPower(model.extent(r)));
    // Short rows without masks, whose neighbours are whole words where they follow one another. What is read after a
    // reduction of them would go through shared memory once more.
    bool isReadAgain = llvm::any_of(loops.members, [](const FusedMember &m) { return m.isFull && m.stage > 0; });
    bool mayBeWhole = isReduced(v) ? !isReadAgain && !isReduced(r) : !isReduced(r) && (model.isPlain() || hasReduction);
    if (mayBeWhole && model.extent(v) < longestWhole && !llvm::isPowerOf2_64(model.extent(v)))
      addPair(v, r, model.extent(v), ceilPower(model.extent(r)));
    // Likewise a few rows.
    if (!isReduced(r) && model.extent(r) < mostWholeRows && !llvm::isPowerOf2_64(model.extent(r)))
      addPair(v, r, ceilPower(model.extent(v)), model.extent(r));
  }

  void addPair(int v, int r, int64_t mostLanes, int64_t mostRows) {
    bool isWhole = isReduced(v) || !llvm::isPowerOf2_64(mostLanes);
    int64_t first = isWhole ? mostLanes : std::min<int64_t>(mostLanes, 2);
    for (int64_t lanes = first; lanes <= std::min<int64_t>(mostLanes, 1024); lanes *= 2) {
      // A reduced axis along the lanes is covered as a whole.
      if ((isReduced(v) || lanes < 16) && lanes < mostLanes)
        continue;
      int64_t fewest = llvm::isPowerOf2_64(mostRows) ? std::min<int64_t>(mostRows, 2) : mostRows;
      for (int64_t rows = fewest; rows <= std::min<int64_t>(mostRows, 1024); rows *= 2) {
        int64_t points = lanes * rows;
        if (points < leastPoints && lanes * rows < mostLanes * mostRows)
          continue;
        if (points > (model.isPlain() ? mostPlainPoints : mostPoints))
          break;
        if (rows < 8 && rows < mostRows && lanes < mostLanes)
          continue;
        for (int64_t perThread : numbersPerThread) {
          auto threads = (int64_t)llvm::bit_floor((uint64_t)(points / perThread));
          if (threads < warpSize || threads > 512)
            continue;
          Schedule schedule = empty();
          schedule.vectorAxis = v;
          schedule.rowAxis = r;
          schedule.lanes = lanes;
          schedule.rows = rows;
          schedule.numThreads = threads;
          if (!isReduced(v))
            schedule.block = lanes;
          if (!isReduced(r))
            schedule.rowBlock = rows;
          else if (rows < model.extent(r))
            schedule.unroll = loops.numStages > 1 ? 1 : 2;
          add(schedule);
          // Points of the innermost loop whose loads are under way together.
          bool hasLoop = hasReduction && !isReduced(v) && !isReduced(r);
          if (hasLoop)
            addWithoutLoop(schedule, perThread);
          if (int64_t more = mostPerThread / perThread; (hasLoop || schedule.unroll > 1) && more > schedule.unroll) {
            schedule.unroll = more;
            add(schedule);
          }
        }
      }
    }
  }

  FusedLoops &loops;
  const GpuModel &model;
  bool hasReduction = false;
  SmallVector<int64_t> numbersPerThread = {2, 8, 16};
  std::vector<Schedule> list;
};

} // namespace

std::vector<Schedule> gpuCandidates(FusedLoops &loops, const GpuModel &model) { return Candidates(loops, model).run(); }

} // namespace torch_tile::tile_build
