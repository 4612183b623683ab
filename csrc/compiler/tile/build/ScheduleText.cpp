// Schedules as dumps and attributes of kernels show them.
#include "compiler/tile/build/Schedule.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using torch_tile::fusion::Axis;

namespace torch_tile::tile_build {

std::string Schedule::str(const FusedLoops &loops) const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "axes [";
  llvm::interleaveComma(loops.axes, os, [&](const Axis &axis) {
    os << (axis.reduced ? "reduce " : "") << axis.name << " = " << axis.extent.str();
  });
  os << "] grid axes " << numGridAxes << " vector axis " << (vectorAxis >= 0 ? loops.axes[vectorAxis].name : "none")
     << " lanes " << lanes;
  if (rowAxis >= 0)
    os << " row axis " << loops.axes[rowAxis].name << " rows " << rows << " row block " << rowBlock;
  if (interleavedAxis >= 0)
    os << " interleaved axis " << loops.axes[interleavedAxis].name;
  if (blockedAxis >= 0)
    os << " blocked axis " << loops.axes[blockedAxis].name << " by " << axisBlock;
  if (isVectorInnermost)
    os << " innermost";
  if (streamedRows)
    os << " streamed rows " << streamedRows;
  if (numThreads)
    os << " threads " << numThreads;
  if (programsPerBlock > 1)
    os << " programs per block " << programsPerBlock;
  if (!gridOrder.empty()) {
    os << " grid order";
    for (int axis : gridOrder)
      os << " " << loops.axes[axis].name;
  }
  if (isBackwards)
    os << " backwards";
  if (heldBytes)
    os << " held bytes " << heldBytes;
  if (blocksPerProcessor)
    os << " blocks per processor " << blocksPerProcessor;
  if (isOnline)
    os << " online";
  if (unroll > 1)
    os << " unroll " << unroll;
  if (pieceLanes)
    os << " pieces of " << pieceLanes;
  if (alignedLanes)
    os << " from multiples of " << alignedLanes;
  if (lastLanes)
    os << " last lanes " << lastLanes;
  if (predictedNs > 0)
    os << " predicted " << (int64_t)(predictedNs / 1000) << " us";
  os << " block " << block << " program cost " << programCostNs << " ns";
  return text;
}

} // namespace torch_tile::tile_build
