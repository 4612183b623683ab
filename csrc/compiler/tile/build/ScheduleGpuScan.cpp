// Schedules of scans for programs that are blocks of threads.
#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/tile/build/Schedule.h"

#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;
using torch_tile::fusion::strideAlong;

namespace torch_tile::tile_build {
namespace {

constexpr int64_t warpSize = 32, maxThreads = 1024, accessBytes = 16, warpsOfBlock = 4;
/// Threads of a row, and of a block of columns: several blocks share a multiprocessor.
constexpr int64_t usualThreads = 256, columnThreads = 128;
/// Elements of a row that a thread has: loads that are under way together. Beyond the most, rows go tile by tile.
constexpr int64_t usualElements = 16, mostElements = 32;
/// Threads that keep a device busy.
constexpr int64_t wantedThreads = 1 << 18;
/// Bytes that a thread of a column has under way.
constexpr int64_t bytesAhead = 128, mostAhead = 16;
/// Relative cost of an element by its stride along the lanes: the same for all, contiguous, or each on its own.
constexpr double uniformCost = 0.1, gatherCost = 8;

class ScanChooser {
public:
  explicit ScanChooser(FusedLoops &loops) : loops(loops), accesses(loops.accesses()) {}

  Schedule run() {
    schedule.programCostNs = 1;
    schedule.numThreads = warpSize;
    schedule.numGridAxes = llvm::count_if(loops.axes, [](const Axis &axis) { return !axis.reduced; });
    if (loops.axes.empty())
      return schedule;
    chooseVectorAxis();
    for (const FusedLoops::Access &access : accesses)
      if (variesAlongLanes(access))
        widestBytes = std::max(widestBytes, torch_tile::fusion::elementBytes(access.elementType));
    vector = std::max<int64_t>(1, accessBytes / widestBytes);
    chooseWidth();
    if (vectorAxis().reduced)
      chooseRows();
    else
      chooseColumns();
    return schedule;
  }

private:
  const Axis &vectorAxis() const { return loops.axes[schedule.vectorAxis]; }
  int64_t extent(const Axis &axis) const { return std::max<int64_t>(1, loops.facts().estimate(axis.extent)); }
  static int64_t floorPower(int64_t value) { return (int64_t)llvm::bit_floor((uint64_t)std::max<int64_t>(value, 1)); }
  static int64_t ceilPower(int64_t value) { return (int64_t)llvm::bit_ceil((uint64_t)std::max<int64_t>(value, 1)); }

  /// Nothing where it is no stride; x<k> make each lane's address its own.
  std::optional<SizeExpr> strideOf(const FusedLoops::Access &access, const Axis &axis) {
    for (Value scalar : access.scalars)
      if (loops.variesAlong(scalar, axis.name))
        return std::nullopt;
    return strideAlong(loops.sizes(), access.offset, axis.name);
  }
  bool variesAlongLanes(const FusedLoops::Access &access) {
    std::optional<SizeExpr> stride = strideOf(access, vectorAxis());
    return !stride || !stride->isConstant(0);
  }

  /// The axis along which most of the bytes are contiguous: the innermost of those that keep their order, or any other.
  void chooseVectorAxis() {
    double least = 0;
    for (int k = (int)loops.axes.size(); k-- > 0;) {
      const Axis &axis = loops.axes[k];
      if (axis.reduced && k + 1 < (int)loops.axes.size())
        continue;
      double cost = 0;
      for (const FusedLoops::Access &access : accesses) {
        std::optional<SizeExpr> stride = strideOf(access, axis);
        double each = stride && stride->isConstant(0) ? uniformCost : stride && stride->isConstant(1) ? 1 : gatherCost;
        cost += each * (double)torch_tile::fusion::elementBytes(access.elementType);
      }
      // Lanes of a warp that a short axis leaves idle.
      cost *= std::max(1.0, (double)warpSize / (double)extent(axis));
      if (schedule.vectorAxis < 0 || cost < least) {
        schedule.vectorAxis = k;
        least = cost;
      }
    }
  }

  /// Neighbours that all accesses along the lanes have in whole words. What depends on sizes may turn out to be as wide
  /// as any, which is asked at run time.
  void chooseWidth() {
    int64_t width = vector;
    for (const FusedLoops::Access &access : accesses) {
      std::optional<SizeExpr> stride = strideOf(access, vectorAxis());
      if (!stride || !stride->isConstant(1))
        continue;
      SizeExpr offset = torch_tile::fusion::withoutAxis(loops.sizes(), access.offset, vectorAxis().name);
      if (llvm::any_of(offset.symbols(), [&](std::string_view name) { return !loops.axis(StringRef(name)); }))
        continue;
      while (width > 1 && loops.facts().divides(loops.sizes().constant(width), offset) != Proof::Yes)
        width /= 2;
    }
    if (width < vector)
      schedule.pieceLanes = vector = width;
  }

  int64_t numRows() {
    int64_t rows = 1;
    for (const Axis &axis : loops.axes)
      if (!axis.reduced)
        rows *= extent(axis);
    return rows;
  }

  /// A row along the threads of a program, whole or tile by tile.
  void chooseRows() {
    std::optional<int64_t> known = vectorAxis().extent.constant();
    int64_t length = extent(vectorAxis());
    bool hasOneAxis = llvm::count_if(loops.axes, [](const Axis &axis) { return axis.reduced; }) == 1;
    if (known && hasOneAxis && length <= warpSize * vector && chooseShortRows(length))
      return;
    int64_t pieces = llvm::divideCeil(length, vector);
    int64_t threads = std::clamp(floorPower(llvm::divideCeil(length, usualElements)), warpSize, usualThreads);
    while (threads * numRows() < wantedThreads && threads * 2 <= std::min(pieces, maxThreads))
      threads *= 2;
    int64_t perThread = llvm::divideCeil(pieces, threads), most = std::max<int64_t>(mostElements / vector, 1);
    if (!known || !hasOneAxis || perThread > most) {
      // As many tiles as it takes, of about equal size.
      most = std::max<int64_t>(usualElements / vector, 1);
      perThread = known ? llvm::divideCeil(perThread, llvm::divideCeil(perThread, most)) : std::min(perThread, most);
    }
    schedule.lanes = threads * vector * perThread;
    schedule.numThreads = threads;
    schedule.programsPerBlock = threads == warpSize ? warpsOfBlock : 1;
  }

  /// Rows that a few threads of a warp hold, side by side.
  bool chooseShortRows(int64_t length) {
    int row = -1;
    for (int k = 0; k < (int)loops.axes.size(); ++k)
      if (!loops.axes[k].reduced && extent(loops.axes[k]) > 1 && isLinearAlong(k))
        row = k;
    if (row < 0)
      return false;
    int64_t lanes = ceilPower(length), rows = warpSize * usualElements / lanes;
    while (rows * lanes > warpSize * vector && numRows() / rows * warpSize < wantedThreads)
      rows /= 2;
    schedule.rowAxis = row;
    schedule.rows = schedule.rowBlock = rows;
    schedule.lanes = lanes;
    schedule.numThreads = warpSize;
    schedule.programsPerBlock = warpsOfBlock;
    return true;
  }

  bool isLinearAlong(int k) {
    return llvm::all_of(accesses,
                        [&](const FusedLoops::Access &access) { return strideOf(access, loops.axes[k]).has_value(); });
  }

  /// Threads side by side along the columns, each of which goes down its own.
  void chooseColumns() {
    int64_t width = vector;
    while (width > 1 && numRows() / width < wantedThreads / 4)
      width /= 2;
    if (width < vector)
      schedule.pieceLanes = vector = width;
    int64_t pieces = llvm::divideCeil(extent(vectorAxis()), vector);
    schedule.numThreads = std::clamp(ceilPower(pieces), warpSize, columnThreads);
    schedule.lanes = schedule.block = schedule.numThreads * vector;
    schedule.unroll = std::clamp(bytesAhead / (vector * widestBytes), int64_t(1), mostAhead);
  }

  FusedLoops &loops;
  SmallVector<FusedLoops::Access> accesses;
  Schedule schedule;
  int64_t widestBytes = 1, vector = 1;
};

} // namespace

Schedule chooseGpuScanSchedule(FusedLoops &loops) { return ScanChooser(loops).run(); }

} // namespace torch_tile::tile_build
