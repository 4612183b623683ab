// Rules for rows on a GPU: an axis that is reduced along the lanes.
#include "compiler/fusion/FusionCost.h"
#include "compiler/tile/build/GpuRules.h"
#include "compiler/tile/build/HeldValues.h"
#include "compiler/tile/build/OnlineSum.h"
#include "compiler/tile/ir/LinearLayout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;

namespace torch_tile::tile_build {

/// Elements that a thread may hold through all stages, for all values together: half of its registers where one of the
/// largest blocks has a multiprocessor to itself.
static constexpr int64_t persistentElements = 32;
/// Elements of which a thread carries means and squares from tile to tile.
static constexpr int64_t mostMoments = 16;
/// Threads that share a row before each takes more than two pieces of it.
static constexpr int64_t usualRowThreads = 512;
/// Rows that one warp reduces share a block: more of them are under way at once.
static constexpr int64_t warpsOfBlock = 4;
/// Pieces of 16 bytes that a thread has under way of what it reads once, of all of that together, and of what it holds.
static constexpr int64_t piecesReadOnce = 8, mostPieces = 16, piecesHeld = 4;
/// Threads of a row that is read again, from the second-level cache, and tiles that are under way together.
static constexpr int64_t onlineThreads = 128, onlineTiles = 4;
/// Pieces of a row from which on its maximum and sum of exponentials come of one pass.
static constexpr int64_t onlinePieces = 1024;
/// Blocks of a multiprocessor that hold rows: one is read while the other is reduced and written.
static constexpr int64_t mostHeldBlocks = 2;
/// Elements that a thread computes side by side there.
static constexpr int64_t mostHeldLanes = 8;

int64_t GpuRules::numHeld() {
  if (!held)
    held = std::max<int64_t>(1, std::min<int64_t>(heldBuffers(loops).size(), numHandedOn(loops)));
  return *held;
}

bool GpuRules::hasOnlineSum() {
  return llvm::any_of(loops.members, [&](const FusedMember &member) {
    return member.isFull && LoopsOp(member.op).isReduction() && onlineSumOf(loops, member);
  });
}

bool GpuRules::chooseHeldRows(int64_t lanes) {
  bool isTooLong = lanes > maxThreads * persistentElements / numHeld(), hasSum = hasOnlineSum();
  if ((lanes % vector != 0 && !schedule.alignedLanes) || numReducedAxes() != 1 || !(isTooLong || hasSum))
    return false;
  int64_t tile = maxThreads * std::min(vector, mostHeldLanes), bytes = 0;
  for (Value buffer : heldBuffers(loops)) {
    bool isRow =
        llvm::any_of(accesses, [&](auto &access) { return access.buffer == buffer && variesAlongLanes(access); });
    auto type = cast<GraphTensorType>(buffer.getType());
    bytes += isRow ? llvm::alignTo(lanes, tile) * torch_tile::fusion::elementBytes(type.getElementType()) : 0;
  }
  int64_t blocks = std::min(sharedBytes / (bytes + reservedSharedBytes), hasSum ? mostHeldBlocks : 1);
  if (blocks == 0)
    return false;
  schedule.isOnline = true;
  schedule.heldBytes = bytes;
  schedule.numThreads = maxThreads;
  schedule.lanes = tile;
  // So few registers that as many blocks fit as have shared memory; the same number of loads under way.
  schedule.blocksPerProcessor = blocks;
  schedule.unroll = mostHeldBlocks / blocks;
  int64_t rest = lanes % tile;
  if (schedule.alignedLanes && rest > 0 && lanes > tile && hasOnlineSumAlone())
    if (int64_t last = std::max(maxThreads, ceilPower(rest)); last < tile)
      schedule.lastLanes = last;
  return true;
}

bool GpuRules::hasOnlineSumAlone() {
  SmallVector<const FusedMember *> reductions;
  for (const FusedMember &member : loops.members) {
    if (member.isFull && LoopsOp(member.op).getWriteAt())
      return false;
    if (member.isFull && LoopsOp(member.op).isReduction())
      reductions.push_back(&member);
  }
  return reductions.size() == 2 && onlineSumOf(loops, *reductions[0]) == reductions[1];
}

bool GpuRules::isOnlineSum() {
  return hasOnlineSumAlone() && llvm::none_of(loops.members, [&](const FusedMember &member) {
           LoopsOp op = member.op;
           return member.isFull && !op.isReduction() &&
                  llvm::any_of(op.getOutputs(), [&](Value v) { return llvm::is_contained(loops.outputs, v); });
         });
}

int64_t GpuRules::mostReadOnce() const { return std::min(piecesReadOnce, tile::mostElementsOfThread / vector); }

int64_t GpuRules::piecesOfEach() {
  int64_t loads = llvm::count_if(accesses, [&](const FusedLoops::Access &access) {
    return access.load && access.isFull && variesAlongLanes(access);
  });
  return std::clamp<int64_t>(mostPieces / std::max<int64_t>(1, loads), 1, mostReadOnce());
}

int64_t GpuRules::numReducedAxes() const {
  return llvm::count_if(loops.axes, [](const Axis &axis) { return axis.reduced; });
}

int64_t GpuRules::numResults() {
  int64_t results = 1;
  for (const Axis &axis : loops.axes)
    if (!axis.reduced)
      results *= extent(axis);
  return results;
}

void GpuRules::chooseRows() {
  std::optional<int64_t> known = knownExtent();
  bool isReadAgain = lastFullStage(loops) > 0;
  if (known) {
    // Whole rows, so that nothing is masked; short ones fill a power of two.
    int64_t lanes = *known + schedule.mostSkipped(), width = vector;
    if (schedule.alignedLanes && lanes / vector < warpSize) { // too short for pieces
      schedule.alignedLanes = 0;
      lanes = *known;
    }
    if (!schedule.alignedLanes && narrowLanes < vector) {
      if (*known < warpSize * vector && chooseNarrowRows(isReadAgain))
        return;
      width = narrowMasked;
    }
    while (lanes % width != 0 && !schedule.alignedLanes)
      width /= 2;
    if (lanes / width < warpSize) {
      lanes = ceilPower(lanes);
      width = std::min(vector, lanes);
    }
    int64_t pieces = llvm::divideCeil(lanes, width);
    // One pass over a row is better than holding it. Several rows cannot be held; counts of masked tiles differ.
    bool isCostly = joinsMoments() && numReducedAxes() > 1 && pieces > warpSize &&
                    (schedule.alignedLanes > 0 || lanes != *known || lanes > usualRowThreads * mostMoments);
    if ((pieces >= onlinePieces && isOnlineSum()) || isCostly)
      return chooseLoopedRows(isReadAgain);
    if (pieces <= warpSize && llvm::isPowerOf2_64(lanes) && !schedule.alignedLanes &&
        chooseRowTile(lanes, width, isReadAgain))
      return;
    if (isReadAgain && lanes > usualRowThreads * persistentElements / numHeld() && chooseHeldRows(lanes))
      return;
    int64_t words = llvm::divideCeil(lanes, std::max(width, vector));
    int64_t threads = threadsFor(words / (isReadAgain ? 2 : mostReadOnce()), isReadAgain ? usualRowThreads : 256);
    while (threads * numResults() < wantedThreads && threads * 2 <= std::min(pieces, maxThreads))
      threads *= 2;
    // A warp takes its row as a whole: a loop would wait for each of its tiles.
    int64_t once = (threads == warpSize ? mostReadOnce() : piecesOfEach()) * vector;
    int64_t limit = isReadAgain ? persistentElements / numHeld() : once;
    while (lanes > limit * threads && isReadAgain && threads < maxThreads)
      threads *= 2;
    if (schedule.alignedLanes) { // whole pieces of all threads
      auto padded = [&](int64_t count) { return (int64_t)llvm::alignTo(lanes, count * vector); };
      if (threads > warpSize && numResults() * threads > wantedThreads && padded(threads / 2) < padded(threads) &&
          padded(threads / 2) <= threads / 2 * limit)
        threads /= 2;
      lanes = padded(threads);
    }
    if (lanes <= std::max(limit, vector) * threads) {
      schedule.lanes = lanes;
      schedule.numThreads = threads;
      // Rows of outer reduced axes follow one another: several are under way at once.
      int64_t perThread = llvm::divideCeil(lanes, threads);
      schedule.unroll = isReadAgain ? 1 : std::clamp<int64_t>(floorPower(once / perThread), 1, 4);
      schedule.programsPerBlock = threads == warpSize ? warpsOfBlock : 1;
      return;
    }
  }
  chooseLoopedRows(isReadAgain);
}

void GpuRules::chooseLoopedRows(bool isReadAgain) {
  int64_t e = extent(vectorAxis()) + schedule.mostSkipped(), pieces = llvm::divideCeil(e, vector);
  schedule.isOnline = isReadAgain;
  schedule.numThreads =
      threadsFor(pieces / (isReadAgain ? onlineTiles : mostReadOnce()), isReadAgain ? onlineThreads : 256);
  // Few rows: more threads for each.
  while (schedule.numThreads * numResults() < wantedThreads && schedule.numThreads * 2 <= std::min(pieces, maxThreads))
    schedule.numThreads *= 2;
  // What carries several numbers joins tiles before it adds them to those.
  bool joins = !isReadAgain && joinsMoments();
  // As many tiles as it takes, of about equal size, so that the last one is not nearly empty.
  int64_t most = isReadAgain || joins ? 1 : piecesOfEach();
  int64_t perThread = llvm::divideCeil(pieces, schedule.numThreads);
  int64_t rounds = llvm::divideCeil(perThread, most);
  schedule.lanes = schedule.numThreads * vector * std::max<int64_t>(1, llvm::divideCeil(perThread, rounds));
  schedule.unroll = isReadAgain ? onlineTiles : joins ? std::min(mostReadOnce(), perThread) : 1;
}

bool GpuRules::joinsMoments() {
  return llvm::any_of(loops.members, [](const FusedMember &member) {
    LoopsOp op = member.op;
    return op.isReduction() && op.getNumResults() > 1 && llvm::any_of(op.getCombine().front(), [](Operation &inner) {
             return isa<arith::DivFOp, math::ExpOp>(inner);
           });
  });
}

bool GpuRules::chooseRowTile(int64_t lanes, int64_t width, bool isReadAgain) {
  int row = rowsSideBySide();
  if (row < 0)
    return false;
  // Pieces of a thread: fewer where programs would become rare.
  int64_t held = std::max<int64_t>(1, persistentElements / 2 / (width * numHeld()));
  int64_t pieces = floorPower(isReadAgain ? std::min(piecesHeld, held) : mostReadOnce());
  while (pieces > 1 && numResults() * lanes / (width * pieces) < wantedThreads / 2)
    pieces /= 2;
  schedule.rowAxis = row;
  schedule.lanes = lanes;
  schedule.rows = schedule.rowBlock = std::max<int64_t>(1, warpSize * width * pieces / lanes);
  schedule.numThreads = warpSize;
  schedule.programsPerBlock = warpsOfBlock;
  return true;
}

int GpuRules::rowsSideBySide() {
  int row = -1;
  for (int k = 0; k < (int)loops.axes.size(); ++k)
    if (!loops.axes[k].reduced && extent(loops.axes[k]) > 1 && isLinearAlong(k))
      row = k;
  return row;
}

bool GpuRules::chooseNarrowRows(bool isReadAgain) {
  int64_t length = *knownExtent(), step = warpSize * narrowLanes;
  int64_t lanes = length <= step ? std::max(ceilPower(length), narrowLanes) : llvm::alignTo(length, step);
  int64_t most = isReadAgain ? persistentElements / 2 / numHeld() : persistentElements;
  int row = rowsSideBySide();
  if (row < 0 || lanes > warpSize * most)
    return false;
  schedule.rowAxis = row;
  schedule.lanes = lanes;
  schedule.rows = floorPower(warpSize * most / lanes);
  while (schedule.rows * lanes > step && schedule.rows > 1 &&
         numResults() / schedule.rows * warpSize < wantedThreads / 2)
    schedule.rows /= 2;
  schedule.rows = std::max(schedule.rows, step / lanes); // no thread has a copy
  schedule.rowBlock = schedule.rows;
  schedule.numThreads = warpSize;
  schedule.programsPerBlock = warpsOfBlock;
  return true;
}

} // namespace torch_tile::tile_build
