// What schedules of every target ask of a loop nest.
#pragma once

#include "compiler/tile/build/Schedule.h"

namespace torch_tile::tile_build {

class ScheduleCost {
public:
  explicit ScheduleCost(FusedLoops &loops) : loops(loops), accesses(loops.accesses()) {}

  int64_t extent(const fusion::Axis &axis) const { return std::max<int64_t>(1, loops.facts().estimate(axis.extent)); }
  /// Index of the axis that tiles should lie along.
  int chooseVectorAxis();
  /// Pointwise nests with accesses that are contiguous along another axis than the vector axis: that axis; -1 if there
  /// is none, or if either axis has fewer than `minExtent` points.
  int transposedAxis(int vectorAxis, int64_t minExtent);
  bool hasScalarsAlong(const FusedLoops::Access &access, llvm::StringRef axis);

private:
  double accessCost(const FusedLoops::Access &access, const fusion::Axis &axis);
  double vectorCost(const fusion::Axis &axis);

  FusedLoops &loops;
  llvm::SmallVector<FusedLoops::Access> accesses;
};

} // namespace torch_tile::tile_build
