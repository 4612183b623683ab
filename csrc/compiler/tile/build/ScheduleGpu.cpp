// Schedules for programs that are blocks of threads.
#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/tile/build/ScheduleCost.h"

#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;
using torch_tile::fusion::strideAlong;

namespace torch_tile::tile_build {
namespace {

constexpr int64_t warpSize = 32, maxThreads = 1024, accessBytes = 16;
/// Threads of a program without reductions: several programs share a multiprocessor.
constexpr int64_t pointwiseThreads = 256;
/// Elements of one value that a thread may hold through all stages, for all values together: half of its registers
/// where two of the largest blocks share a multiprocessor.
constexpr int64_t persistentElements = 16;
/// Rows that one warp reduces share a block: more of them are under way at once.
constexpr int64_t warpsOfBlock = 4;
/// Pieces of 16 bytes that a thread of a looped reduction has under way.
constexpr int64_t piecesInLoop = 4;
/// Edge of a tile that is transposed: 64 elements of a row are 128 bytes or more.
constexpr int64_t transposedEdge = 64;
/// Columns and rows of a tile of a column reduction.
constexpr int64_t columnsOfTile = 128;

class GpuChooser {
public:
  explicit GpuChooser(FusedLoops &loops) : loops(loops), cost(loops), accesses(loops.accesses()) {}

  Schedule run() {
    if (loops.axes.empty()) {
      schedule.numThreads = warpSize;
      schedule.programCostNs = 1;
      return schedule;
    }
    schedule.vectorAxis = cost.chooseVectorAxis();
    schedule.programCostNs = 1;
    for (const FusedLoops::Access &access : accesses)
      if (access.isFull || !vectorAxis().reduced)
        widestBytes = std::max(widestBytes, torch_tile::fusion::elementBytes(access.elementType));
    vector = std::max<int64_t>(1, accessBytes / widestBytes);
    bool hasReduction = llvm::any_of(loops.axes, [](const Axis &axis) { return axis.reduced; });
    schedule.numGridAxes = llvm::count_if(loops.axes, [](const Axis &axis) { return !axis.reduced; });
    if (vectorAxis().reduced)
      chooseRows();
    else if (hasReduction)
      chooseColumns();
    else
      choosePointwise();
    return schedule;
  }

private:
  const Axis &vectorAxis() const { return loops.axes[schedule.vectorAxis]; }
  int64_t extent(const Axis &axis) const { return std::max<int64_t>(1, loops.facts().estimate(axis.extent)); }
  /// Of the vector axis; 1 where nothing is.
  std::optional<int64_t> knownExtent() const {
    std::optional<int64_t> known = vectorAxis().extent.constant();
    return known ? std::max<int64_t>(1, *known) : known;
  }
  static int64_t floorPower(int64_t value) { return (int64_t)llvm::bit_floor((uint64_t)std::max<int64_t>(value, 1)); }
  static int64_t ceilPower(int64_t value) { return (int64_t)llvm::bit_ceil((uint64_t)std::max<int64_t>(value, 1)); }
  static int64_t threadsFor(int64_t wanted, int64_t most) { return std::clamp(floorPower(wanted), warpSize, most); }

  /// Values of full points that are read from memory: what a thread holds of a row that stays in registers.
  int64_t numRowLoads() const {
    llvm::SmallDenseSet<Value> buffers;
    for (const FusedLoops::Access &access : accesses)
      if (access.load && access.isFull)
        buffers.insert(access.buffer);
    return std::max<int64_t>(1, buffers.size());
  }

  /// A row, or what is left of it after outer reduced axes, lies along the threads of a program.
  void chooseRows() {
    std::optional<int64_t> known = knownExtent();
    int64_t e = extent(vectorAxis());
    bool isReadAgain = loops.numStages > 1;
    if (known) {
      // Whole rows, so that nothing is masked; short ones fill a warp's power of two.
      int64_t lanes = *known, width = vector;
      while (lanes % width != 0)
        width /= 2;
      if (lanes / width < warpSize) {
        lanes = ceilPower(lanes);
        width = std::min(vector, lanes);
      }
      int64_t pieces = lanes / width;
      int64_t threads = threadsFor(pieces / 2, maxThreads);
      int64_t perThread = llvm::divideCeil(lanes, threads);
      int64_t limit = isReadAgain ? persistentElements / numRowLoads() : piecesInLoop * vector;
      if (perThread <= std::max<int64_t>(limit, 2 * vector)) {
        schedule.lanes = lanes;
        schedule.numThreads = threads;
        schedule.programsPerBlock = threads == warpSize ? warpsOfBlock : 1;
        return;
      }
    }
    // What is read again comes from the first-level cache if the rows of all programs of a multiprocessor fit there:
    // two of the largest block.
    schedule.numThreads =
        threadsFor(llvm::divideCeil(e, vector * (isReadAgain ? 1 : piecesInLoop)), isReadAgain ? maxThreads : 256);
    schedule.lanes = schedule.numThreads * vector * (isReadAgain ? 1 : piecesInLoop);
    if (schedule.numThreads == maxThreads)
      schedule.blocksPerProcessor = 2;
  }

  /// Neighbouring results along the threads; rows of a tile are reduced side by side where that needs no more than
  /// folding them at the end.
  void chooseColumns() {
    int64_t e = extent(vectorAxis());
    int64_t lanes = std::min(columnsOfTile, ceilPower(e));
    bool isSimple = llvm::all_of(
        loops.members, [&](const FusedMember &member) { return member.isFull ? member.stage == 0 : member.stage > 0; });
    int row = -1;
    for (auto [k, axis] : llvm::enumerate(loops.axes))
      if (axis.reduced && (row < 0 || extent(axis) >= extent(loops.axes[row])))
        row = k;
    if (isSimple && extent(loops.axes[row]) >= 8 && isLinearAlong(row)) {
      int64_t wanted = pointwiseThreads * vector * 2;
      schedule.rowAxis = row;
      schedule.rows = std::min(floorPower(wanted / lanes), ceilPower(extent(loops.axes[row])));
      schedule.numThreads = threadsFor(schedule.rows * lanes / vector, pointwiseThreads);
      schedule.unroll = 2;
    } else {
      lanes = std::min<int64_t>(pointwiseThreads * vector, ceilPower(e));
      schedule.numThreads = threadsFor(lanes / vector, pointwiseThreads);
      schedule.unroll = 4;
    }
    schedule.lanes = schedule.block = lanes;
  }

  bool isLinearAlong(int k) {
    return llvm::all_of(accesses, [&](const FusedLoops::Access &access) {
      return strideAlong(loops.sizes(), access.offset, loops.axes[k].name).has_value();
    });
  }

  void choosePointwise() {
    int64_t tile = pointwiseThreads * vector;
    schedule.numThreads = pointwiseThreads;
    if (int row = cost.transposedAxis(schedule.vectorAxis, widestBytes <= 4 ? transposedEdge : transposedEdge / 2);
        row >= 0) {
      schedule.rowAxis = row;
      schedule.rows = schedule.rowBlock = schedule.lanes = schedule.block =
          widestBytes <= 4 ? transposedEdge : transposedEdge / 2;
      return;
    }
    std::optional<int64_t> known = knownExtent();
    if (known && *known <= tile / 2)
      if (int row = nextAxis(); row >= 0) {
        // A short axis whole, and as many rows as make a tile.
        schedule.lanes = schedule.block = *known;
        schedule.rowAxis = row;
        schedule.rows = schedule.rowBlock = std::min(floorPower(tile / *known), ceilPower(extent(loops.axes[row])));
        schedule.numThreads = threadsFor(schedule.rows * schedule.lanes / vector, pointwiseThreads);
        return;
      }
    schedule.lanes = schedule.block = known && *known < tile ? ceilPower(*known) : tile;
    schedule.numThreads = threadsFor(llvm::divideCeil(schedule.lanes, vector), pointwiseThreads);
  }

  /// The innermost other axis: its points are near in memory.
  int nextAxis() const {
    for (int k = (int)loops.axes.size(); k-- > 0;)
      if (k != schedule.vectorAxis && extent(loops.axes[k]) > 1)
        return k;
    return -1;
  }

  FusedLoops &loops;
  ScheduleCost cost;
  SmallVector<FusedLoops::Access> accesses;
  Schedule schedule;
  int64_t widestBytes = 1, vector = 1;
};

} // namespace

Schedule chooseGpuSchedule(FusedLoops &loops) { return GpuChooser(loops).run(); }

} // namespace torch_tile::tile_build
