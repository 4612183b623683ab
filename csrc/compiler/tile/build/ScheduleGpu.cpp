// Schedules for programs that are blocks of threads, by rules for common nests.
#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/tile/build/GpuModel.h"
#include "compiler/tile/build/HeldValues.h"
#include "compiler/tile/build/OnlineSum.h"
#include "compiler/tile/build/ScheduleCost.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;
using torch_tile::fusion::strideAlong;

namespace torch_tile::tile_build {
namespace {

constexpr int64_t warpSize = 32, maxThreads = 1024, accessBytes = 16;
/// Threads of a program without reductions: several programs share a multiprocessor.
constexpr int64_t pointwiseThreads = 256;
/// Elements that a thread may hold through all stages, for all values together: half of its registers where one of the
/// largest blocks has a multiprocessor to itself.
constexpr int64_t persistentElements = 32;
/// Elements of which a thread carries means and squares from tile to tile.
constexpr int64_t mostMoments = 16;
/// Threads that share a row before each takes more than two pieces of it.
constexpr int64_t usualRowThreads = 512;
/// Arithmetic of a point, in simple instructions for each byte of an element, that takes about as long as the memory.
constexpr int64_t muchWork = 10;
/// Blocks of such work on a multiprocessor, which have 64 registers a thread: one more than the assembler would have.
constexpr int64_t heavyBlocks = 4, heavyRegisters = 64;
/// Of those registers, what addresses and the expansions of functions take.
constexpr int64_t ownRegisters = 16;
/// Rows that one warp reduces share a block: more of them are under way at once.
constexpr int64_t warpsOfBlock = 4;
/// Pieces of 16 bytes that a thread has under way of what it reads once, of all of that together, and of what it holds.
constexpr int64_t piecesReadOnce = 8, mostPieces = 16, piecesHeld = 4;
/// Threads that keep a device busy; rows take more threads than they need where there are few of them.
constexpr int64_t wantedThreads = 1 << 18;
/// Threads of a row that is read again, from the second-level cache, and tiles that are under way together.
constexpr int64_t onlineThreads = 128, onlineTiles = 4;
/// Pieces of a row from which on its maximum and sum of exponentials come of one pass.
constexpr int64_t onlinePieces = 1024;
/// Of an axis that is shorter than this many tiles, all tiles have the same size.
constexpr int64_t mostEqualTiles = 16;
/// Shared memory that a block takes beside the rows it holds: the driver's, and what reductions exchange.
constexpr int64_t reservedBytes = 2 << 10;
/// Blocks of a multiprocessor that hold rows: one is read while the other is reduced and written.
constexpr int64_t mostHeldBlocks = 2;
/// Elements that a thread computes side by side there.
constexpr int64_t mostHeldLanes = 8;
/// Edge of a tile that is transposed: 64 elements of a row are 128 bytes or more.
constexpr int64_t transposedEdge = 64;
/// Bytes that are read at any place for each that is written there: reads are put together from whole words.
constexpr double storeWeight = 4;
/// Columns and rows of a tile of a column reduction.
constexpr int64_t columnsOfTile = 128, leastColumns = 32;

class GpuChooser {
public:
  GpuChooser(FusedLoops &loops, int64_t sharedBytes)
      : loops(loops), cost(loops, /*foldsLanes=*/true), accesses(loops.accesses()), sharedBytes(sharedBytes) {}

  Schedule run() {
    if (loops.axes.empty()) {
      schedule.numThreads = warpSize;
      schedule.programCostNs = 1;
      return schedule;
    }
    schedule.vectorAxis = cost.chooseVectorAxis();
    schedule.programCostNs = 1;
    for (const FusedLoops::Access &access : accesses)
      if ((access.isFull || !vectorAxis().reduced) && variesAlongLanes(access))
        widestBytes = std::max(widestBytes, torch_tile::fusion::elementBytes(access.elementType));
    vector = std::max<int64_t>(1, accessBytes / widestBytes);
    alignRows();
    bool hasReduction = llvm::any_of(loops.axes, [](const Axis &axis) { return axis.reduced; });
    schedule.numGridAxes = llvm::count_if(loops.axes, [](const Axis &axis) { return !axis.reduced; });
    if (vectorAxis().reduced)
      chooseRows();
    else if (hasReduction)
      chooseColumns();
    else
      choosePointwise();
    if (int64_t narrow = schedule.rowAxis >= 0 ? narrowLanes : narrowMasked; !schedule.alignedLanes && narrow < vector)
      schedule.pieceLanes = narrow;
    return schedule;
  }

private:
  const Axis &vectorAxis() const { return loops.axes[schedule.vectorAxis]; }
  int64_t extent(const Axis &axis) const { return std::max<int64_t>(1, loops.facts().estimate(axis.extent)); }
  /// Of the vector axis; 1 where nothing is.
  std::optional<int64_t> knownExtent() const {
    std::optional<int64_t> known = vectorAxis().extent.constant();
    return known ? std::max<int64_t>(1, *known) : known;
  }
  static int64_t floorPower(int64_t value) { return (int64_t)llvm::bit_floor((uint64_t)std::max<int64_t>(value, 1)); }
  static int64_t ceilPower(int64_t value) { return (int64_t)llvm::bit_ceil((uint64_t)std::max<int64_t>(value, 1)); }
  static int64_t threadsFor(int64_t wanted, int64_t most) { return std::clamp(floorPower(wanted), warpSize, most); }

  bool variesAlongLanes(const FusedLoops::Access &access) {
    std::optional<SizeExpr> stride = strideAlong(loops.sizes(), access.offset, vectorAxis().name);
    return !stride || !stride->isConstant(0) ||
           llvm::any_of(access.scalars, [&](Value v) { return loops.variesAlong(v, vectorAxis().name); });
  }

  /// Where most of what lies along the lanes begins anywhere in memory, tiles begin at multiples of 16 bytes before. Of
  /// several places to begin, that of the most bytes decides. What is read at an index of its own gains nothing by it.
  void alignRows() {
    struct Start {
      SizeExpr offset;
      double bytes;
    };
    SmallVector<Start> starts;
    struct Width {
      int64_t lanes;
      double bytes;
      bool isMasked;
    };
    SmallVector<Width> widths;
    double alignedBytes = 0, gatheredBytes = 0;
    SizeContext &sizes = loops.sizes();
    SizeExpr lanes = sizes.constant(vector);
    auto bytesOf = [&](const FusedLoops::Access &access) {
      double bytes = (double)torch_tile::fusion::elementBytes(access.elementType);
      for (const Axis &axis : loops.axes)
        if (access.offset.contains(axis.name))
          bytes *= (double)extent(axis);
      return bytes;
    };
    auto isMultiple = [&](SizeExpr e) { return loops.facts().divides(lanes, loops.facts().simplify(e)) == Proof::Yes; };
    narrowLanes = narrowMasked = vector;
    double mostBytes = 0;
    if (vector == 1)
      return;
    for (const FusedLoops::Access &access : accesses) {
      std::optional<SizeExpr> stride = strideAlong(sizes, access.offset, vectorAxis().name);
      auto load = dyn_cast_or_null<LoadOp>(access.load);
      if (load && !stride && access.scalars.empty())
        gatheredBytes += bytesOf(access);
      if (!stride || !stride->isConstant(1) || !access.scalars.empty() || isUnaligned(access.buffer, loops.facts()))
        continue;
      SizeExpr offset = torch_tile::fusion::withoutAxis(sizes, access.offset, vectorAxis().name);
      double bytes = bytesOf(access) * (load ? 1 : storeWeight);
      widths.push_back({widthOf(offset), bytes, load && load.getMask()});
      mostBytes = std::max(mostBytes, bytes);
      if (load && load.getMask())
        continue;
      if (isMultiple(offset)) {
        alignedBytes += bytes;
        continue;
      }
      auto same =
          llvm::find_if(starts, [&](const Start &start) { return isMultiple(sizes.sub(offset, start.offset)); });
      if (same == starts.end())
        starts.push_back({offset, bytes});
      else
        same->bytes += bytes;
    }
    for (auto [width, bytes, isMasked] : widths) {
      if (bytes * 2 * storeWeight < mostBytes)
        continue;
      narrowLanes = std::min(narrowLanes, width);
      if (isMasked)
        narrowMasked = std::min(narrowMasked, width);
    }
    if (loops.facts().range(vectorAxis().extent).min < 1)
      return;
    auto most = llvm::max_element(starts, [](const Start &a, const Start &b) { return a.bytes < b.bytes; });
    if (most == starts.end() || most->bytes <= std::max(alignedBytes, gatheredBytes * storeWeight) ||
        loops.facts().range(most->offset).min < 0)
      return;
    schedule.alignedLanes = vector;
    schedule.alignedOffset = most->offset;
  }

  /// Neighbours from `offset` on that are always a whole word, at most of 16 bytes. What depends on sizes may turn out
  /// to be as wide as any, which is asked at run time.
  int64_t widthOf(SizeExpr offset) {
    if (llvm::any_of(offset.symbols(), [&](std::string_view name) { return !loops.axis(StringRef(name)); }))
      return vector;
    int64_t width = vector;
    while (width > 1 && loops.facts().divides(loops.sizes().constant(width), offset) != Proof::Yes)
      width /= 2;
    return width;
  }

  /// Elements that a thread holds for each of a row: of what is read, or of what is computed of that, whichever is
  /// less.
  int64_t numHeld() {
    if (!held)
      held = std::max<int64_t>(1, std::min<int64_t>(heldBuffers(loops).size(), numHandedOn(loops)));
    return *held;
  }

  /// Whether a maximum and the sum of exponentials relative to it are among what is computed of rows.
  bool hasOnlineSum() {
    return llvm::any_of(loops.members, [&](const FusedMember &member) {
      return member.isFull && LoopsOp(member.op).isReduction() && onlineSumOf(loops, member);
    });
  }

  /// Rows in shared memory. Where registers would hold them, too, that pays if one pass takes the place of two: a
  /// multiprocessor then has room for two rows, so that one is read while the other is reduced.
  bool chooseHeldRows(int64_t lanes) {
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
    int64_t blocks = std::min(sharedBytes / (bytes + reservedBytes), hasSum ? mostHeldBlocks : 1);
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

  /// Whether all reductions of rows are a maximum and a sum of exponentials, in a loop of any order.
  bool hasOnlineSumAlone() {
    SmallVector<const FusedMember *> reductions;
    for (const FusedMember &member : loops.members) {
      if (member.isFull && LoopsOp(member.op).getWriteAt())
        return false;
      if (member.isFull && LoopsOp(member.op).isReduction())
        reductions.push_back(&member);
    }
    return reductions.size() == 2 && onlineSumOf(loops, *reductions[0]) == reductions[1];
  }

  /// Whether they are all that is computed of rows.
  bool isOnlineSum() {
    return hasOnlineSumAlone() && llvm::none_of(loops.members, [&](const FusedMember &member) {
             LoopsOp op = member.op;
             return member.isFull && !op.isReduction() &&
                    llvm::any_of(op.getOutputs(), [&](Value v) { return llvm::is_contained(loops.outputs, v); });
           });
  }

  /// Of each load along the lanes, pieces that a thread has under way.
  int64_t piecesOfEach() {
    int64_t loads = llvm::count_if(accesses, [&](const FusedLoops::Access &access) {
      return access.load && access.isFull && variesAlongLanes(access);
    });
    return std::clamp<int64_t>(mostPieces / std::max<int64_t>(1, loads), 1, piecesReadOnce);
  }

  int64_t numReducedAxes() const {
    return llvm::count_if(loops.axes, [](const Axis &axis) { return axis.reduced; });
  }

  int64_t numResults() {
    int64_t results = 1;
    for (const Axis &axis : loops.axes)
      if (!axis.reduced)
        results *= extent(axis);
    return results;
  }

  /// A row, or what is left of it after outer reduced axes, lies along the threads of a program.
  void chooseRows() {
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
      int64_t threads = threadsFor(words / (isReadAgain ? 2 : piecesReadOnce), isReadAgain ? usualRowThreads : 256);
      while (threads * numResults() < wantedThreads && threads * 2 <= std::min(pieces, maxThreads))
        threads *= 2;
      // A warp takes its row as a whole: a loop would wait for each of its tiles.
      int64_t once = (threads == warpSize ? piecesReadOnce : piecesOfEach()) * vector;
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

  /// What is read again comes from the second-level cache: few enough rows are under way at once.
  void chooseLoopedRows(bool isReadAgain) {
    int64_t e = extent(vectorAxis()) + schedule.mostSkipped(), pieces = llvm::divideCeil(e, vector);
    schedule.isOnline = isReadAgain;
    schedule.numThreads =
        threadsFor(pieces / (isReadAgain ? onlineTiles : piecesReadOnce), isReadAgain ? onlineThreads : 256);
    // Few rows: more threads for each.
    while (schedule.numThreads * numResults() < wantedThreads &&
           schedule.numThreads * 2 <= std::min(pieces, maxThreads))
      schedule.numThreads *= 2;
    // What carries several numbers joins tiles before it adds them to those.
    bool joins = !isReadAgain && joinsMoments();
    // As many tiles as it takes, of about equal size, so that the last one is not nearly empty.
    int64_t most = isReadAgain || joins ? 1 : piecesOfEach();
    int64_t perThread = llvm::divideCeil(pieces, schedule.numThreads);
    int64_t rounds = llvm::divideCeil(perThread, most);
    schedule.lanes = schedule.numThreads * vector * std::max<int64_t>(1, llvm::divideCeil(perThread, rounds));
    schedule.unroll = isReadAgain ? onlineTiles : joins ? std::min(piecesReadOnce, perThread) : 1;
  }

  /// Whether a reduction carries several numbers that are computed of one another.
  bool joinsMoments() {
    return llvm::any_of(loops.members, [](const FusedMember &member) {
      LoopsOp op = member.op;
      return op.isReduction() && op.getNumResults() > 1 && llvm::any_of(op.getCombine().front(), [](Operation &inner) {
               return isa<arith::DivFOp, math::ExpOp>(inner);
             });
    });
  }

  /// Rows that a few threads of a warp hold: several of them side by side in a tile.
  bool chooseRowTile(int64_t lanes, int64_t width, bool isReadAgain) {
    int row = rowsSideBySide();
    if (row < 0)
      return false;
    // Pieces of a thread: fewer where programs would become rare.
    int64_t held = std::max<int64_t>(1, persistentElements / 2 / (width * numHeld()));
    int64_t pieces = floorPower(isReadAgain ? std::min(piecesHeld, held) : piecesReadOnce);
    while (pieces > 1 && numResults() * lanes / (width * pieces) < wantedThreads / 2)
      pieces /= 2;
    schedule.rowAxis = row;
    schedule.lanes = lanes;
    schedule.rows = schedule.rowBlock = std::max<int64_t>(1, warpSize * width * pieces / lanes);
    schedule.numThreads = warpSize;
    schedule.programsPerBlock = warpsOfBlock;
    return true;
  }

  /// The axis whose rows may lie side by side; -1 if none.
  int rowsSideBySide() {
    int row = -1;
    for (int k = 0; k < (int)loops.axes.size(); ++k)
      if (!loops.axes[k].reduced && extent(loops.axes[k]) > 1 && isLinearAlong(k))
        row = k;
    return row;
  }

  /// Short rows that are multiples of few neighbours: a warp reads each at once, so that its threads' accesses lie side
  /// by side, and has several rows under way.
  bool chooseNarrowRows(bool isReadAgain) {
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

  /// Neighbouring results along the threads; rows of a tile are reduced side by side where that needs no more than
  /// folding them at the end.
  void chooseColumns() {
    schedule.alignedLanes = 0;
    int64_t e = extent(vectorAxis());
    int64_t lanes = std::min(columnsOfTile, ceilPower(e));
    // Fewer columns a program where there are few of them.
    while (lanes > leastColumns && numResults() / lanes < wantedThreads / (4 * pointwiseThreads))
      lanes /= 2;
    bool isSimple = llvm::all_of(
        loops.members, [&](const FusedMember &member) { return member.isFull ? member.stage == 0 : member.stage > 0; });
    int row = -1;
    for (auto [k, axis] : llvm::enumerate(loops.axes))
      if (axis.reduced && (row < 0 || extent(axis) >= extent(loops.axes[row])))
        row = k;
    if (isSimple && extent(loops.axes[row]) >= 8 && isLinearAlong(row)) {
      int64_t wanted = pointwiseThreads * vector * 2;
      schedule.rowAxis = row;
      schedule.rows = std::min(floorPower(wanted / lanes), ceilPower(extent(loops.axes[row])));
      schedule.numThreads = threadsFor(schedule.rows * lanes / vector, pointwiseThreads);
      schedule.unroll = 2;
    } else {
      lanes = std::min<int64_t>(pointwiseThreads * vector, ceilPower(e));
      schedule.numThreads = threadsFor(lanes / vector, pointwiseThreads);
      schedule.unroll = 4;
    }
    schedule.lanes = schedule.block = lanes;
  }

  bool isLinearAlong(int k) {
    return llvm::all_of(accesses, [&](const FusedLoops::Access &access) {
      return strideAlong(loops.sizes(), access.offset, loops.axes[k].name).has_value();
    });
  }

  void choosePointwise() {
    // Arithmetic that takes about as long as the memory: the second piece of a thread comes while it computes the
    // first.
    int64_t pieces = arithmetic() >= muchWork * std::max<int64_t>(widestBytes, 2) ? 2 : 1;
    if (pieces * vector * liveWords(loops) > heavyRegisters - ownRegisters)
      pieces = 1; // what does not fit would go to memory and back
    int64_t tile = pointwiseThreads * vector * pieces;
    schedule.numThreads = pointwiseThreads;
    if (pieces > 1)
      schedule.blocksPerProcessor = heavyBlocks;
    if (int row = cost.transposedAxis(schedule.vectorAxis, widestBytes <= 4 ? transposedEdge : transposedEdge / 2);
        row >= 0) {
      schedule.alignedLanes = 0;
      schedule.rowAxis = row;
      schedule.rows = schedule.rowBlock = schedule.lanes = schedule.block =
          widestBytes <= 4 ? transposedEdge : transposedEdge / 2;
      return;
    }
    std::optional<int64_t> known = knownExtent();
    if (known && *known <= tile / 2)
      if (int row = nextAxis(); row >= 0) {
        // A short axis whole, and as many rows as make a tile.
        schedule.alignedLanes = 0;
        schedule.lanes = schedule.block = *known;
        schedule.rowAxis = row;
        schedule.rows = schedule.rowBlock = std::min(floorPower(tile / *known), ceilPower(extent(loops.axes[row])));
        schedule.numThreads = threadsFor(schedule.rows * schedule.lanes / vector, pointwiseThreads);
        return;
      }
    if (known)
      *known += schedule.mostSkipped();
    schedule.lanes = schedule.block = known && *known < tile ? ceilPower(*known) : tile;
    if (known && *known > tile && *known < mostEqualTiles * tile) // tiles of equal size, not a nearly empty last one
      schedule.lanes = schedule.block = llvm::alignTo(llvm::divideCeil(*known, llvm::divideCeil(*known, tile)), vector);
    schedule.numThreads = threadsFor(llvm::divideCeil(schedule.lanes, vector), pointwiseThreads);
  }

  /// Of a point, without that of indices and masks, most of which is the same for all elements of a piece.
  int64_t arithmetic() {
    int64_t work = 0;
    for (const FusedMember &member : loops.members)
      for (Operation &op : *LoopsOp(member.op).bodyBlock())
        if (op.getNumResults() == 1 && isa<FloatType>(op.getResult(0).getType()) && !isa<LoadOp>(op))
          work += torch_tile::fusion::costOf(&op);
    return work;
  }

  /// The innermost other axis: its points are near in memory.
  int nextAxis() const {
    for (int k = (int)loops.axes.size(); k-- > 0;)
      if (k != schedule.vectorAxis && extent(loops.axes[k]) > 1)
        return k;
    return -1;
  }

  FusedLoops &loops;
  ScheduleCost cost;
  SmallVector<FusedLoops::Access> accesses;
  int64_t sharedBytes;
  Schedule schedule;
  int64_t widestBytes = 1, vector = 1;
  std::optional<int64_t> held;
  /// Neighbours that all large accesses along the lanes have in whole words.
  int64_t narrowLanes = 1;
  /// Likewise those of them that are masked: others are put together from whole words where tiles have one row.
  int64_t narrowMasked = 1;
};

} // namespace

Schedule chooseGpuScheduleByRules(FusedLoops &loops, int64_t sharedBytes) {
  return GpuChooser(loops, sharedBytes).run();
}

} // namespace torch_tile::tile_build
