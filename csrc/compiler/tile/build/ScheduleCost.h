// What schedules of every target ask of a loop nest.
#pragma once

#include "compiler/tile/build/Schedule.h"

namespace torch_tile::tile_build {

class ScheduleCost {
public:
  /// `foldsLanes`: whether lanes along an axis that keeps its order can be folded one after the other.
  /// `shufflesLoads`: whether elements a few apart are loaded as vectors and shuffled.
  ScheduleCost(FusedLoops &loops, bool foldsLanes, bool shufflesLoads = false)
      : loops(loops), foldsLanes(foldsLanes), shufflesLoads(shufflesLoads), isOrdered(loops.isOrdered()),
        accesses(loops.accesses()) {}

  int64_t extent(const fusion::Axis &axis) const { return std::max<int64_t>(1, loops.facts().estimate(axis.extent)); }
  size_t numAccesses() const { return accesses.size(); }
  /// Index of the axis that tiles should lie along; -1 if all keep their order and lanes cannot be folded.
  int chooseVectorAxis();
  /// Whether consecutive points of the axis are neighbours in an access.
  bool isContiguousSomewhere(const fusion::Axis &axis);
  /// Pointwise nests with accesses that are contiguous along another axis than the vector axis: that axis; -1 if there
  /// is none, or if either axis has fewer than `minExtent` points; without that, if it is too short for a processor's
  /// tiles of both to pay.
  int transposedAxis(int vectorAxis, std::optional<int64_t> minExtent = std::nullopt);
  /// A parallel axis for lanes and a reduced one for the rows of tiles, where each access is contiguous along one of
  /// them (or the same for all lanes), and some would be gathers along `vectorAxis`; -1 twice if there are none.
  std::pair<int, int> crossedAxes(int vectorAxis, int64_t minExtent);
  /// The innermost axis of a pointwise nest if it is short, every result is contiguous along it and then along the axis
  /// before it, and loads along that one are structured; -1 if not.
  int interleavedAxis();
  /// Whether each load reads neighbours along the axis, or one element for all of it; at least one of them reads others
  /// at each point of the axis before it.
  bool areRowsRead(int axis);
  /// Bytes of an element of what the nest reads and writes, at least.
  int64_t narrowestElement();
  /// Bytes that a point of the nest reads of what is contiguous along the axis.
  int64_t bytesPerPoint(const fusion::Axis &axis);
  /// Whether every access walks memory in equal steps along the axis.
  bool isLinearAlong(const fusion::Axis &axis);

private:
  bool hasScalarsAlong(const FusedLoops::Access &access, llvm::StringRef axis);
  int combinerWork();
  int64_t piecesAlong(const fusion::Axis &axis);
  double accessCost(const FusedLoops::Access &access, const fusion::Axis &axis);
  double vectorCost(const fusion::Axis &axis);

  FusedLoops &loops;
  bool foldsLanes, shufflesLoads, isOrdered;
  llvm::SmallVector<FusedLoops::Access> accesses;
};

} // namespace torch_tile::tile_build
