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

bool variesAlongLanes(FusedLoops &loops, const Schedule &schedule, const FusedLoops::Access &access) {
  StringRef name = loops.axes[schedule.vectorAxis].name;
  std::optional<SizeExpr> stride = strideAlong(loops.sizes(), access.offset, name);
  return !stride || !stride->isConstant(0) ||
         llvm::any_of(access.scalars, [&](Value v) { return loops.variesAlong(v, name); });
}

int64_t widestAlongLanes(FusedLoops &loops, const Schedule &schedule) {
  int64_t widest = 1;
  if (schedule.vectorAxis < 0)
    return widest;
  bool isReduced = loops.axes[schedule.vectorAxis].reduced;
  for (const FusedLoops::Access &access : loops.accesses())
    if ((access.isFull || !isReduced) && variesAlongLanes(loops, schedule, access))
      widest = std::max(widest, torch_tile::fusion::elementBytes(access.elementType));
  return widest;
}

bool areRowsInWarps(const Schedule &schedule, int64_t widestBytes) {
  int64_t most = schedule.pieceLanes ? schedule.pieceLanes : std::max<int64_t>(1, pieceBytes / widestBytes);
  int64_t vector = tile::lanesOfPiece(schedule.lanes * schedule.rows, schedule.numThreads, most);
  return tile::areRowsInWarps({schedule.rows, schedule.lanes}, schedule.numThreads, vector);
}

} // namespace torch_tile::tile_build
