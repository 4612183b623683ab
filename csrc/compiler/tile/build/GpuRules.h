// Schedules for programs that are blocks of threads, by rules for common nests.
#pragma once

#include "compiler/tile/build/ScheduleCost.h"

#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

namespace torch_tile::tile_build {

class GpuRules {
public:
  GpuRules(FusedLoops &loops, int64_t sharedBytes)
      : loops(loops), cost(loops, /*foldsLanes=*/true), accesses(loops.accesses()), sharedBytes(sharedBytes) {}

  Schedule run();

private:
  static constexpr int64_t warpSize = 32, maxThreads = 1024, accessBytes = 16;
  /// Threads that keep a device busy; rows take more threads than they need where there are few of them.
  static constexpr int64_t wantedThreads = 1 << 18;

  const torch_tile::fusion::Axis &vectorAxis() const { return loops.axes[schedule.vectorAxis]; }
  int64_t extent(const torch_tile::fusion::Axis &axis) const {
    return std::max<int64_t>(1, loops.facts().estimate(axis.extent));
  }
  /// Of the vector axis; 1 where nothing is.
  std::optional<int64_t> knownExtent() const;
  static int64_t floorPower(int64_t value) { return (int64_t)llvm::bit_floor((uint64_t)std::max<int64_t>(value, 1)); }
  static int64_t ceilPower(int64_t value) { return (int64_t)llvm::bit_ceil((uint64_t)std::max<int64_t>(value, 1)); }
  static int64_t threadsFor(int64_t wanted, int64_t most) { return std::clamp(floorPower(wanted), warpSize, most); }

  bool variesAlongLanes(const FusedLoops::Access &access);

  /// Where most of what lies along the lanes begins anywhere in memory, tiles begin at multiples of 16 bytes before. Of
  /// several places to begin, that of the most bytes decides. What is read at an index of its own gains nothing by it.
  void alignRows();

  /// Neighbours from `offset` on that are always a whole word, at most of 16 bytes. What depends on sizes may turn out
  /// to be as wide as any, which is asked at run time.
  int64_t widthOf(SizeExpr offset);

  /// Elements that a thread holds for each of a row: of what is read, or of what is computed of that, whichever is
  /// less.
  int64_t numHeld();

  /// Whether a maximum and the sum of exponentials relative to it are among what is computed of rows.
  bool hasOnlineSum();

  /// Rows in shared memory. Where registers would hold them, too, that pays if one pass takes the place of two: a
  /// multiprocessor then has room for two rows, so that one is read while the other is reduced.
  bool chooseHeldRows(int64_t lanes);

  /// Whether all reductions of rows are a maximum and a sum of exponentials, in a loop of any order.
  bool hasOnlineSumAlone();

  /// Whether they are all that is computed of rows.
  bool isOnlineSum();

  /// Pieces that a thread has under way of what it reads once: fewer of bytes, of which a piece has sixteen.
  int64_t mostReadOnce() const;

  /// Of each load along the lanes, pieces that a thread has under way.
  int64_t piecesOfEach();

  int64_t numReducedAxes() const;
  int64_t numResults();

  /// A row, or what is left of it after outer reduced axes, lies along the threads of a program.
  void chooseRows();

  /// What is read again comes from the second-level cache: few enough rows are under way at once.
  void chooseLoopedRows(bool isReadAgain);

  /// Whether a reduction carries several numbers that are computed of one another.
  bool joinsMoments();

  /// Rows that a few threads of a warp hold: several of them side by side in a tile.
  bool chooseRowTile(int64_t lanes, int64_t width, bool isReadAgain);

  /// The axis whose rows may lie side by side; -1 if none.
  int rowsSideBySide();

  /// Short rows that are multiples of few neighbours: a warp reads each at once, so that its threads' accesses lie side
  /// by side, and has several rows under way.
  bool chooseNarrowRows(bool isReadAgain);

  /// Neighbouring results along the threads; rows of a tile are reduced side by side where that needs no more than
  /// folding them at the end.
  void chooseColumns();

  bool isLinearAlong(int k);

  void choosePointwise();

  /// Of a point, without that of indices and masks, most of which is the same for all elements of a piece.
  int64_t arithmetic();

  /// The innermost other axis: its points are near in memory.
  int nextAxis() const;

  FusedLoops &loops;
  ScheduleCost cost;
  llvm::SmallVector<FusedLoops::Access> accesses;
  int64_t sharedBytes;
  Schedule schedule;
  int64_t widestBytes = 1, vector = 1;
  std::optional<int64_t> held;
  /// Neighbours that all large accesses along the lanes have in whole words.
  int64_t narrowLanes = 1;
  /// Likewise those of them that are masked: others are put together from whole words where tiles have one row.
  int64_t narrowMasked = 1;
};

} // namespace torch_tile::tile_build
