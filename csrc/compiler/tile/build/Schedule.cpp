#include "compiler/tile/build/Schedule.h"

#include "compiler/fusion/FusionCost.h"
#include "compiler/tile/build/AxisEdges.h"
#include "compiler/tile/build/ScheduleCost.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;

namespace torch_tile::tile_build {
namespace {

/// Lanes of a row that one program of a scatter takes at least, and the programs that share longer rows.
constexpr int64_t scatterColumns = 256, scatterPrograms = 4;
/// Points of one program of a pointwise nest: enough to hide what a program costs by itself, few enough to balance
/// threads.
constexpr int64_t pointsPerProgram = 4096;
/// Registers that hold what is interleaved.
constexpr int64_t interleavedRegisters = 12;
/// Lanes that are interleaved at least.
constexpr int64_t fewestInterleaved = 8;
/// Bytes of a row at least that is loaded as a vector of its own.
constexpr int64_t fewestRowBytes = 16;
/// Rows of a tile with two axes, of which each fills a cache line where elements are wide, and how long both axes of a
/// reduction must be.
constexpr int64_t rowsOfTransposedTile = 16, shortestCrossed = 8;
/// Operations on a point at most where the tiles of a short axis leave parts of registers unused, of elements of four
/// bytes and of narrower ones, which are widened first. Beyond, shuffled or single accesses of whole registers take
/// less. Measured with polynomials over axes of 2 to 11 points: as fast at 4 to 16 operations, at 3 to 8.
constexpr int partialWork = 12, partialNarrowWork = 3;
/// Of a reduction whose tiles have two axes: rows of a tile at least; what a row takes in a tile of half the rows; and
/// what a tile in part takes, which is turned lane by lane, to a whole one. Measured with softmax and norms of 17 to
/// 200 columns.
constexpr int64_t fewestCrossedRows = 4;
constexpr double halfTileCost = 1.15, partialTileCost = 10;
/// What a program turns of them. Caches like few rows (two lines of what is read, in bytes), in which long runs are
/// written; memory likes whole pages on both sides: from so many bytes of the result on.
constexpr int64_t transposedRowBytes = 128, transposedRun = 256, transposedSquare = 128,
                  squareBytes = int64_t(16) << 20;

/// The longest rows of which several lie in registers side by side, how many at least, and how many operations on all
/// of them. Measured with sums, maxima, softmax, norms and places of extrema of 33 to 128 numbers: two rows take 0.6
/// to 1.0 of the time of one after the other.
constexpr int64_t longestSideBySide = 128, fewestRows = 2, rowsWork = 512;

/// Rows from which on columns are streamed, and bytes that are read in all: less stays in the caches.
constexpr int64_t fewestStreamedRows = 32, fewestStreamedBytes = 256 << 10;
/// Bytes that a streaming program reads of a row at least, bytes of what it carries at most, and how many programs
/// there should be.
constexpr int64_t fewestRunBytes = 512, carriedBytes = 8 << 10, streamedPrograms = 16;
/// Rows that are read side by side, which halves what goes to and from scratch memory several times: a prefetcher
/// follows some ten streams, if they lie at least so many bytes apart.
constexpr int64_t mostStreamedRows = 8, fewestBytesApart = 1024;

class Chooser {
public:
  Chooser(FusedLoops &loops, int64_t vectorBytes, bool foldsLanes)
      : loops(loops), cost(loops, foldsLanes, /*shufflesLoads=*/true), vectorBytes(vectorBytes),
        isOrdered(loops.isOrdered()) {}

  Schedule run() {
    Schedule schedule;
    if (loops.axes.empty()) {
      schedule.programCostNs = 10 + loops.work();
      return schedule;
    }
    schedule.interleavedAxis = isOrdered ? -1 : cost.interleavedAxis();
    if (schedule.interleavedAxis >= 0 && areVectors(schedule.interleavedAxis))
      schedule.interleavedAxis = -1;
    schedule.vectorAxis = schedule.interleavedAxis >= 0 ? schedule.interleavedAxis - 1 : cost.chooseVectorAxis();
    if (schedule.vectorAxis >= 0)
      schedule.lanes = chooseLanes(schedule.vectorAxis);
    if (schedule.interleavedAxis >= 0) {
      int64_t perRegister = vectorBytes / widestElement();
      while (schedule.lanes > perRegister && schedule.lanes * *loops.axes[schedule.interleavedAxis].extent.constant() >
                                                 interleavedRegisters * perRegister)
        schedule.lanes /= 2;
      schedule.lanes = lanesBetweenEdges(loops.axes[schedule.vectorAxis], schedule.lanes);
    }
    chooseTransposedTile(schedule);
    chooseCrossedTile(schedule);
    chooseReducedRows(schedule);
    chooseShortRows(schedule);
    chooseStreamed(schedule);
    chooseGrid(schedule);
    return schedule;
  }

private:
  int64_t extent(const Axis &axis) const { return cost.extent(axis); }

  /// Whether rows along the axis are loaded and stored as they are: with a quarter of a register in each, that takes
  /// less than to turn rows to columns and back.
  bool areVectors(int axis) {
    return cost.areRowsRead(axis) &&
           extent(loops.axes[axis]) * cost.narrowestElement() >= std::max(fewestRowBytes, vectorBytes / 4);
  }

  /// Lanes of tiles that no edge along `axis` goes through, at least a few: a part of a tile that is interleaved is
  /// written element by element.
  int64_t lanesBetweenEdges(const Axis &axis, int64_t lanes) {
    for (const FusedMember &member : loops.members) {
      LoopsOp op = member.op;
      for (Operation &inner : *op.bodyBlock()) {
        auto compare = dyn_cast<arith::CmpIOp>(inner);
        std::optional<AxisEdge> edge = compare ? edgeAlong(loops, axis.name, compare) : std::nullopt;
        std::optional<int64_t> at = edge ? edge->at.constant() : std::nullopt;
        while (at && *at > 0 && *at < extent(axis) && lanes > fewestInterleaved && *at % lanes != 0)
          lanes /= 2;
      }
    }
    return lanes;
  }

  int64_t widestElement() {
    int64_t bytes = 1;
    for (const FusedMember &member : loops.members) {
      LoopsOp op = member.op;
      // What is made of indices alone is few values, for masks; addresses of gathers are costed elsewhere.
      llvm::SmallDenseSet<Value> ofIndices;
      for (Operation &inner : *op.bodyBlock()) {
        if (isa<arith::ConstantOp>(inner))
          continue;
        bool isOfIndices = !isa<LoadOp>(inner) && llvm::all_of(inner.getOperands(), [&](Value operand) {
          return ofIndices.contains(operand) || operand.getDefiningOp<arith::ConstantOp>();
        });
        if (isOfIndices || isa<IndexOp, CheckIndexOp>(inner))
          ofIndices.insert(inner.result_begin(), inner.result_end());
        for (Type type : inner.getResultTypes())
          // What is loaded for all lanes is a scalar.
          if (type.isIntOrFloat() && !ofIndices.contains(inner.getResult(0)) &&
              !(isa<LoadOp>(inner) && isShared(inner.getResult(0))))
            bytes = std::max(bytes, torch_tile::fusion::elementBytes(type));
      }
    }
    return bytes;
  }

  bool isShared(Value value) { return vectorName.empty() ? false : !loops.variesAlong(value, vectorName); }

  int64_t chooseLanes(int axis) {
    int64_t lanes = wantedLanes(axis);
    int64_t most = (int64_t)llvm::PowerOf2Ceil((uint64_t)std::max<int64_t>(extent(loops.axes[axis]), 1));
    // An axis that was short when the graph was compiled may become longer, so it keeps whole registers.
    if (!loops.axes[axis].extent.isConstant())
      most = std::max(most, vectorBytes / std::max<int64_t>(4, widestElement()));
    return std::max<int64_t>(std::min(lanes, most), 1);
  }

  /// Of an axis that has as many.
  int64_t wantedLanes(int axis) {
    vectorName = loops.axes[axis].name;
    // In units of one register of 4-byte elements: several chains in flight for short bodies, one for long ones, whose
    // values would spill.
    int work = loops.work();
    int64_t registers = work <= 25 ? 4 : work <= 60 ? 2 : 1;
    // The longer a tile, the more steps a scan along it takes.
    if (isOrdered && loops.axes[axis].reduced)
      registers = std::min<int64_t>(registers, 2);
    return std::max<int64_t>(4, registers * vectorBytes / std::max<int64_t>(4, widestElement()));
  }

  /// A square of 4-byte elements is turned in the registers that hold it; others gain by more rows than that.
  int64_t transposedRows(int64_t elementBytes) const {
    if (elementBytes != 4)
      return elementBytes > 4 ? rowsOfTransposedTile / 2 : rowsOfTransposedTile;
    return std::clamp(vectorBytes / 4, rowsOfTransposedTile / 2, rowsOfTransposedTile);
  }

  /// Elements of a tile along an axis: of a short one no more than it has, or every tile would be a part of one, which
  /// is turned lane by lane.
  int64_t wholeTiles(int axis, int64_t wanted) const {
    return std::min<int64_t>(wanted, (int64_t)llvm::bit_floor((uint64_t)extent(loops.axes[axis])));
  }

  /// Rows of a tile along a reduced axis, whose last tile cannot be moved back: fewer rows leave less to a tile in
  /// part.
  int64_t crossedRows(int axis, int64_t most) const {
    int64_t best = wholeTiles(axis, most);
    std::optional<int64_t> length = loops.axes[axis].extent.constant();
    if (!length)
      return best;
    double bestCost = INFINITY, perRow = 1;
    for (int64_t rows = best; rows >= fewestCrossedRows; rows /= 2, perRow *= halfTileCost) {
      int64_t rest = *length % rows;
      double cost = (double)(*length - rest) * perRow + (rest > 0 ? partialTileCost * (double)rows : 0);
      if (cost < bestCost) {
        bestCost = cost;
        best = rows;
      }
    }
    return best;
  }

  /// Pointwise nests whose accesses are contiguous along different axes: tiles with two axes, transposed in registers.
  void chooseTransposedTile(Schedule &schedule) {
    if (isOrdered || schedule.vectorAxis < 0 || schedule.interleavedAxis >= 0 || loops.work() > 40)
      return;
    int lane = schedule.vectorAxis, row = cost.transposedAxis(lane);
    // A long axis along which every access is a gather was better than gathers along short ones; their tiles have none.
    if (!cost.isContiguousSomewhere(loops.axes[lane]))
      for (int k = (int)loops.axes.size(); k-- > 0;)
        if (int other = cost.isContiguousSomewhere(loops.axes[k]) ? cost.transposedAxis(k) : -1; other >= 0) {
          lane = k;
          row = other;
          break;
        }
    if (row < 0)
      return;
    // What goes lane by lane anyway is left to gathers.
    if (hasLaneEffects())
      return;
    int64_t wanted = lane == schedule.vectorAxis ? schedule.lanes : chooseLanes(lane);
    int64_t rows = wholeTiles(row, transposedRows(widestElement())), lanes = wholeTiles(lane, std::min(wanted, rows));
    int mostWork = cost.narrowestElement() < 4 ? partialNarrowWork : partialWork;
    if (lanes < vectorBytes / std::max<int64_t>(4, widestElement()) && loops.work() > mostWork) {
      vectorName = loops.axes[schedule.vectorAxis].name;
      return;
    }
    schedule.vectorAxis = lane;
    schedule.lanes = lanes;
    schedule.rowAxis = row;
    schedule.rows = rows;
  }

  /// Reductions whose accesses are contiguous along different axes, a parallel and a reduced one: likewise. Each row
  /// has accumulators of its own.
  void chooseCrossedTile(Schedule &schedule) {
    if (schedule.vectorAxis < 0 || schedule.rowAxis >= 0 || hasLaneEffects())
      return;
    auto [lane, row] = cost.crossedAxes(schedule.vectorAxis, shortestCrossed);
    if (lane < 0)
      return;
    int64_t bytes = 4, results = 0;
    for (const FusedMember &member : loops.members)
      if (LoopsOp op = member.op; op.isReduction()) {
        results = std::max<int64_t>(results, op.getNumResults());
        for (Type type : op.getResultTypes())
          bytes = std::max(bytes, torch_tile::fusion::elementBytes(cast<GraphTensorType>(type).getElementType()));
      }
    schedule.vectorAxis = lane;
    schedule.rowAxis = row;
    vectorName = loops.axes[lane].name;
    schedule.rows = crossedRows(row, transposedRows(results > 1 ? 8 : std::max(bytes, widestElement())));
    schedule.lanes = std::min(vectorBytes / std::max<int64_t>(4, widestElement()), rowsOfTransposedTile);
  }

  /// A short reduced axis inside another one: points of both make a tile, so that there are as many accumulators as on
  /// a long axis.
  void chooseReducedRows(Schedule &schedule) {
    if (isOrdered || schedule.vectorAxis < 0 || schedule.rowAxis >= 0 || !loops.axes[schedule.vectorAxis].reduced ||
        hasLaneEffects())
      return;
    const Axis &lane = loops.axes[schedule.vectorAxis];
    std::optional<int64_t> length = lane.extent.constant();
    if (!length || *length < 2 || *length > schedule.lanes || !cost.isLinearAlong(lane))
      return;
    int row = (int)loops.axes.size() - 1;
    while (row >= 0 && (row == schedule.vectorAxis || !loops.axes[row].reduced || !cost.isLinearAlong(loops.axes[row])))
      --row;
    if (row < 0)
      return;
    int64_t rows = wholeTiles(row, wantedLanes(schedule.vectorAxis) / schedule.lanes);
    if (rows < 2)
      return;
    schedule.rowAxis = row;
    schedule.rows = rows;
  }

  /// Short rows side by side, each along its lanes: halves of two rows are folded at once, and their results are lanes.
  void chooseShortRows(Schedule &schedule) {
    if (isOrdered || schedule.vectorAxis < 0 || schedule.rowAxis >= 0 || !loops.axes[schedule.vectorAxis].reduced ||
        hasLaneEffects())
      return;
    const Axis &lane = loops.axes[schedule.vectorAxis];
    int row = (int)llvm::count_if(loops.axes, [](const Axis &axis) { return !axis.reduced; }) - 1;
    std::optional<int64_t> length = lane.extent.constant();
    if (row < 0 || !length || *length < 2 || *length > longestSideBySide || !cost.isLinearAlong(lane) ||
        !cost.isLinearAlong(loops.axes[row]))
      return;
    // What later stages read again of several reduced axes is not in registers.
    if (row + 2 < (int)loops.axes.size() && loops.numStages > 1)
      return;
    int64_t values = 1; // of each point, in registers
    for (const FusedMember &member : loops.members)
      values = std::max<int64_t>(values, LoopsOp(member.op).getNumResults());
    int64_t lanes = std::max<int64_t>(4, (int64_t)llvm::PowerOf2Ceil((uint64_t)*length));
    int64_t perRow = std::max<int64_t>(1, lanes * std::max<int64_t>(4, widestElement()) / vectorBytes) * values;
    int64_t registers = vectorBytes == 32 ? 8 : 16; // half of what there are
    int64_t rows =
        std::min(rowsOfTransposedTile, (int64_t)llvm::bit_floor((uint64_t)std::max<int64_t>(1, registers / perRow)));
    rows = std::min(rows, (int64_t)llvm::bit_floor((uint64_t)extent(loops.axes[row])));
    while (rows > 1 && rows * loops.work() > rowsWork)
      rows /= 2;
    if (rows < fewestRows)
      return;
    schedule.lanes = lanes;
    schedule.rowAxis = row;
    schedule.rows = rows;
  }

  /// Long columns side by side in memory. A tile that goes down its columns reads a few lines of each row: the
  /// prefetchers of the caches see no run, and rows a power of two apart share a set.
  void chooseStreamed(Schedule &schedule) {
    if (isOrdered || schedule.vectorAxis < 0 || schedule.rowAxis >= 0 || loops.axes[schedule.vectorAxis].reduced ||
        hasLaneEffects())
      return;
    auto isReduced = [](const Axis &axis) { return axis.reduced; };
    const Axis *rows = llvm::find_if(loops.axes, isReduced);
    if (llvm::count_if(loops.axes, isReduced) != 1 || extent(*rows) < fewestStreamedRows ||
        extent(loops.axes[schedule.vectorAxis]) < 2 * schedule.lanes || !llvm::isPowerOf2_64(schedule.lanes))
      return;
    // What later stages read again of the rows is not there any more.
    if (llvm::any_of(loops.members, [](const FusedMember &member) { return member.isFull && member.stage > 0; }))
      return;
    double bytes = (double)cost.bytesPerPoint(loops.axes[schedule.vectorAxis]);
    for (const Axis &axis : loops.axes)
      bytes *= (double)extent(axis);
    if (bytes >= (double)fewestStreamedBytes)
      schedule.streamedRows = 1;
  }

  /// Columns of a program that streams rows: whole lines of many rows, what is carried in a part of the first cache.
  int64_t streamedBlock(const Schedule &schedule) {
    int64_t carried = 0, programs = 1;
    for (const FusedMember &member : loops.members)
      if (LoopsOp op = member.op; op.isReduction())
        for (Type type : op.getResultTypes())
          carried += torch_tile::fusion::elementBytes(cast<GraphTensorType>(type).getElementType());
    for (auto [k, axis] : llvm::enumerate(loops.axes))
      if (!axis.reduced && (int)k != schedule.vectorAxis)
        programs *= extent(axis);
    int64_t columns = extent(loops.axes[schedule.vectorAxis]);
    int64_t shared = llvm::divideCeil(columns, llvm::divideCeil(streamedPrograms, programs));
    int64_t most = carriedBytes / std::max<int64_t>(carried, 1);
    int64_t block = std::min(std::max(shared, fewestRunBytes / widestElement()), most);
    return (int64_t)llvm::alignTo((uint64_t)block, (uint64_t)schedule.lanes);
  }

  bool hasLaneEffects() {
    return llvm::any_of(loops.members, [](const FusedMember &member) {
      return llvm::any_of(*LoopsOp(member.op).bodyBlock(),
                          [](Operation &inner) { return isa<CheckIndexOp, UniformOp>(inner); });
    });
  }

  void chooseGrid(Schedule &schedule) {
    int numParallel = llvm::count_if(loops.axes, [](const Axis &axis) { return !axis.reduced; });
    bool vectorIsParallel = schedule.vectorAxis >= 0 && !loops.axes[schedule.vectorAxis].reduced;
    double reducedPoints = 1;
    for (const Axis &axis : loops.axes)
      if (axis.reduced)
        reducedPoints *= (double)extent(axis);

    // From the inside out, axes stay in the program until it has enough to do.
    double points = reducedPoints;
    int64_t mostPoints = pointsPerProgram;
    if (schedule.interleavedAxis >= 0)
      points *= (double)extent(loops.axes[schedule.interleavedAxis]);
    if (vectorIsParallel) {
      int64_t e = extent(loops.axes[schedule.vectorAxis]);
      int64_t wanted = std::max<int64_t>(schedule.lanes, (int64_t)((double)pointsPerProgram / points));
      schedule.isVectorInnermost = isOrdered && !loops.isScan() && numParallel < (int)loops.axes.size();
      if (schedule.isVectorInnermost)
        wanted = std::max({wanted, scatterColumns, e / scatterPrograms});
      if (schedule.streamedRows) {
        wanted = streamedBlock(schedule);
        int64_t bytes = std::min(e, wanted) * cost.bytesPerPoint(loops.axes[schedule.vectorAxis]);
        schedule.streamedRows = bytes >= fewestBytesApart ? mostStreamedRows : 1;
      }
      wanted = (int64_t)llvm::alignTo((uint64_t)wanted, (uint64_t)schedule.lanes);
      if (schedule.rowAxis >= 0 && !loops.axes[schedule.rowAxis].reduced) {
        double all = (double)widestElement();
        for (const Axis &axis : loops.axes)
          all *= (double)extent(axis);
        int64_t rows = std::max(schedule.rows, transposedRowBytes / widestElement());
        mostPoints = rows * transposedRun;
        // Runs that end early, with no axis between to go on along: more rows.
        if (schedule.rowAxis + 1 == schedule.vectorAxis && e < transposedRun)
          rows = std::min<int64_t>(mostPoints / (int64_t)llvm::PowerOf2Ceil((uint64_t)e), 4 * rows);
        schedule.rowBlock = all > (double)squareBytes ? transposedSquare : rows;
        wanted = all > (double)squareBytes ? transposedSquare : transposedRun;
      }
      // A size that is not known may be much larger than the one that was seen.
      if (e > wanted || !loops.axes[schedule.vectorAxis].extent.isConstant())
        schedule.block = wanted;
      points *= (double)std::min(e, wanted);
      if (schedule.rowAxis >= 0 && !loops.axes[schedule.rowAxis].reduced)
        points *= (double)std::min<int64_t>(extent(loops.axes[schedule.rowAxis]), schedule.rowBlock);
    }
    if (schedule.rowAxis >= 0 && !vectorIsParallel) { // short rows
      int64_t wanted = std::max<int64_t>(schedule.rows, (int64_t)((double)pointsPerProgram / points));
      schedule.rowBlock = (int64_t)llvm::alignTo((uint64_t)wanted, (uint64_t)schedule.rows);
      points *= (double)std::min(extent(loops.axes[schedule.rowAxis]), schedule.rowBlock);
    }
    schedule.numGridAxes = numParallel;
    for (int k = numParallel; k-- > 0;) {
      if (k == schedule.vectorAxis || k == schedule.rowAxis || k == schedule.interleavedAxis)
        continue;
      double more = points * (double)extent(loops.axes[k]);
      if (more > (double)mostPoints) {
        // A part of the axis: what does not change along it is then computed once per program.
        int64_t rows = (int64_t)llvm::bit_floor((uint64_t)((double)mostPoints / points));
        if (rows >= 2) {
          schedule.blockedAxis = k;
          schedule.axisBlock = rows;
          schedule.numGridAxes = k;
          points *= (double)rows;
        }
        break;
      }
      points = more;
      schedule.numGridAxes = k;
    }
    double work = loops.work() + 2.0 * (double)cost.numAccesses();
    double perLane = 16.0 * 4 / (double)vectorBytes;
    schedule.programCostNs = (int64_t)std::clamp(5 + points * work * perLane * 0.02, 5.0, 1e15);
  }

  FusedLoops &loops;
  ScheduleCost cost;
  int64_t vectorBytes;
  bool isOrdered;
  /// Of the vector axis, once it is chosen.
  std::string vectorName;
};

} // namespace

Schedule chooseSchedule(FusedLoops &loops, int64_t vectorBytes, bool foldsLanes) {
  return Chooser(loops, vectorBytes, foldsLanes).run();
}

} // namespace torch_tile::tile_build
