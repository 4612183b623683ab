// Rows side by side on a GPU: which threads hold one.
#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/tile/build/Schedule.h"
#include "compiler/tile/ir/LinearLayout.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using torch_tile::fusion::strideAlong;

namespace torch_tile::tile_build {

/// Of a piece that the threads of a GPU load at once.
static constexpr int64_t pieceBytes = 16;

int64_t widestAlongLanes(FusedLoops &loops, const Schedule &schedule) {
  int64_t widest = 1;
  if (schedule.vectorAxis < 0)
    return widest;
  const torch_tile::fusion::Axis &axis = loops.axes[schedule.vectorAxis];
  for (const FusedLoops::Access &access : loops.accesses()) {
    std::optional<SizeExpr> stride = strideAlong(loops.sizes(), access.offset, axis.name);
    bool varies = !stride || !stride->isConstant(0) ||
                  llvm::any_of(access.scalars, [&](Value v) { return loops.variesAlong(v, axis.name); });
    if (varies && (access.isFull || !axis.reduced))
      widest = std::max(widest, torch_tile::fusion::elementBytes(access.elementType));
  }
  return widest;
}

bool areRowsInWarps(const Schedule &schedule, int64_t widestBytes) {
  int64_t points = schedule.lanes * schedule.rows;
  int64_t vector = schedule.pieceLanes ? schedule.pieceLanes : std::max<int64_t>(1, pieceBytes / widestBytes);
  while (vector > 1 && (points % vector != 0 || vector * schedule.numThreads > points))
    vector /= 2;
  return tile::areRowsInWarps({schedule.rows, schedule.lanes}, schedule.numThreads, vector);
}

} // namespace torch_tile::tile_build
