// How a fused loop nest becomes programs and tiles: a pure function from the nest to a plain struct, applied elsewhere.
#pragma once

#include "compiler/tile/build/FusedLoops.h"

#include <string>
#include <vector>

namespace torch_tile::tile_build {

struct Schedule {
  /// Index into FusedLoops::axes of the axis that lies along the lanes of tiles; -1 if the nest has no axes.
  int vectorAxis = -1;
  int64_t lanes = 1;
  /// A second tile axis, outer in tiles [rows, lanes], where some accesses are contiguous along one axis and some along
  /// the other; -1 if none.
  /// A reduced axis makes partial results per row, which are folded after the loop.
  int rowAxis = -1;
  int64_t rows = 1;
  /// A short innermost axis that results are contiguous along, while lanes lie along the next one: each of its points
  /// is computed by itself, and what they give is interleaved in registers; -1 if none.
  int interleavedAxis = -1;
  /// Axes [0, numGridAxes) choose the program, one index each; the other parallel axes are loops inside it.
  int numGridAxes = 0;
  /// The outermost loop axis of a program if the program takes only a block of it, and the size of the block; -1 if
  /// none.
  int blockedAxis = -1;
  int64_t axisBlock = 0;
  /// Elements of the vector axis (if it is parallel) per program; 0: all of them.
  int64_t block = 0;
  /// Likewise of the row axis.
  int64_t rowBlock = 0;
  /// The loop over the tiles of a parallel vector axis is the innermost one, inside those over the reduced axes: a
  /// scatter, which carries nothing from one point to the next, then writes whole rows.
  bool isVectorInnermost = false;
  /// A reduction whose results lie along the lanes takes so many rows at a time, all lanes of the block from each, and
  /// carries the block's results in scratch memory: memory is read in its order. 0: each tile goes down all rows.
  int64_t streamedRows = 0;
  /// Axes of the grid on GPU, outermost first; empty: axes in their order, then blocks of the row and the vector axis.
  llvm::SmallVector<int> gridOrder;
  /// The first program does the last block: what the kernel before it read last is still in the cache.
  bool isBackwards = false;
  /// Threads of a program, on GPU; 0: left to the layout.
  int64_t numThreads = 0;
  /// Programs of one warp that share a block.
  int64_t programsPerBlock = 1;
  /// Blocks that a multiprocessor should hold at once, which bounds the registers of a thread; 0: whatever fits.
  int64_t blocksPerProcessor = 0;
  /// Points of the innermost reduced loop that are computed side by side, so that their loads are under way together.
  int64_t unroll = 1;
  /// A maximum and the sum of exponentials that is taken relative to it come of one pass over the vector axis: the sum
  /// is scaled whenever the maximum grows.
  bool isOnline = false;
  /// Rows may begin anywhere in memory: their tiles begin at the last multiple of so many elements before
  /// `alignedOffset`, where the row begins in the memory that decides. 0: at the row's first element.
  int64_t alignedLanes = 0;
  SizeExpr alignedOffset;
  /// Lanes of the last tile of an aligned row, where what is left of it is short; 0: as many as the others have.
  int64_t lastLanes = 0;
  /// Neighbours that a thread accesses together, where rows are multiples of no more; 0: as many as 16 bytes have.
  int64_t pieceLanes = 0;
  /// Shared memory, on GPU, for rows that are read again; 0: they are read from memory again, or stay in registers.
  int64_t heldBytes = 0;
  /// Whether the threads that hold a row that is reduced along its lanes are of one warp, on GPU (areRowsInWarps).
  bool hasRowsInWarps = false;
  /// Estimated cost of one program.
  int64_t programCostNs = 0;
  /// Of the whole kernel, on GPU, and the least that its memory takes.
  double predictedNs = 0, floorNs = 0;
  /// Whether that prediction is of a plain nest (GpuModel::isPlain).
  bool isPlain = false;

  /// Blocks of which a multiprocessor has so many threads that memory is busy, and few enough for 64 registers each; 0
  /// where that bounds nothing, or other blocks are asked for.
  int64_t blocksOfLaunchBound() const;

  /// Lanes of a row's first tile that may lie before the row.
  int64_t mostSkipped() const { return alignedLanes > 0 ? alignedLanes - 1 : 0; }

  std::string str(const FusedLoops &loops) const;
};

/// Whether on GPU no tile but the last of a reduced axis, which straight code follows, is cut by the axis's end: what
/// all points have in common, like counts of points, is then carried as one number until there.
bool masksOnlyAtEnds(const FusedLoops &loops, const Schedule &schedule);

/// `foldsLanes`: lanes may lie along an axis whose order matters (a scan along lanes, a scatter lane after lane).
Schedule chooseSchedule(FusedLoops &loops, int64_t vectorBytes, bool foldsLanes);

/// For programs that are blocks of threads: accesses of 16 bytes that neighbouring threads make side by side, rows that
/// stay in registers or shared memory (of which a multiprocessor has `sharedBytes`) from one stage to the next where
/// they fit, enough loads under way to hide the memory's latency.
Schedule chooseGpuSchedule(FusedLoops &loops, int64_t sharedBytes);
/// Whether the lanes of a tile have different elements of an access.
bool variesAlongLanes(FusedLoops &loops, const Schedule &schedule, const FusedLoops::Access &access);
/// Bytes of the widest element in memory that lies along the lanes.
int64_t widestAlongLanes(FusedLoops &loops, const Schedule &schedule);
/// Whether the threads of a GPU that hold a row of a tile are of one warp: tile.reduce then combines rows by shuffles,
/// otherwise through shared memory. `widestBytes` is of an element that lies along the lanes.
bool areRowsInWarps(const Schedule &schedule, int64_t widestBytes);
/// Shared memory that a block takes beside rows: the driver's, and what reductions exchange.
inline constexpr int64_t reservedSharedBytes = 2 << 10;
/// All that are considered, in no order, with predictions; some more than once.
std::vector<Schedule> gpuSchedules(FusedLoops &loops, int64_t sharedBytes);
/// The first one that is considered.
Schedule chooseGpuScheduleByRules(FusedLoops &loops, int64_t sharedBytes);
/// Whether hardly any schedule can be better.
bool isNearFloor(const Schedule &schedule);
/// Whether a schedule of the nest by another walk is worth its divisions.
bool isWorthFlattening(const Schedule &asAccessed, const Schedule &flat, Walk walk);
/// Likewise of a scan, which goes along the threads or along a loop of each, whichever way memory is contiguous.
Schedule chooseGpuScanSchedule(FusedLoops &loops);

} // namespace torch_tile::tile_build
