// Rules for common nests on a GPU: what all schedules ask, columns, and nests without reductions.
#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/tile/build/GpuModel.h"
#include "compiler/tile/build/GpuRules.h"
#include "compiler/tile/build/HeldValues.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;
using torch_tile::fusion::strideAlong;

namespace torch_tile::tile_build {

/// Threads of a program without reductions: several programs share a multiprocessor.
static constexpr int64_t pointwiseThreads = 256;
/// Arithmetic of a point, in simple instructions for each byte of an element, that takes about as long as the memory.
static constexpr int64_t muchWork = 10;
/// Blocks of such work on a multiprocessor, which have 64 registers a thread: one more than the assembler would have.
static constexpr int64_t heavyBlocks = 4, heavyRegisters = 64;
/// Of those registers, what addresses and the expansions of functions take.
static constexpr int64_t ownRegisters = 16;
/// Of an axis that is shorter than this many tiles, all tiles have the same size.
static constexpr int64_t mostEqualTiles = 16;
/// Edge of a tile that is transposed: 64 elements of a row are 128 bytes or more.
static constexpr int64_t transposedEdge = 64;
/// Bytes that are read at any place for each that is written there: reads are put together from whole words.
static constexpr double storeWeight = 4;
/// Columns and rows of a tile of a column reduction.
static constexpr int64_t columnsOfTile = 128, leastColumns = 32;

Schedule GpuRules::run() {
  if (loops.axes.empty()) {
    schedule.numThreads = warpSize;
    schedule.programCostNs = 1;
    return schedule;
  }
  schedule.vectorAxis = cost.chooseVectorAxis();
  schedule.programCostNs = 1;
  widestBytes = widestAlongLanes(loops, schedule);
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

std::optional<int64_t> GpuRules::knownExtent() const {
  std::optional<int64_t> known = vectorAxis().extent.constant();
  return known ? std::max<int64_t>(1, *known) : known;
}

bool GpuRules::variesAlongLanes(const FusedLoops::Access &access) {
  return tile_build::variesAlongLanes(loops, schedule, access);
}

void GpuRules::alignRows() {
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
    auto same = llvm::find_if(starts, [&](const Start &start) { return isMultiple(sizes.sub(offset, start.offset)); });
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

int64_t GpuRules::widthOf(SizeExpr offset) {
  if (llvm::any_of(offset.symbols(), [&](std::string_view name) { return !loops.axis(StringRef(name)); }))
    return vector;
  int64_t width = vector;
  while (width > 1 && loops.facts().divides(loops.sizes().constant(width), offset) != Proof::Yes)
    width /= 2;
  return width;
}

void GpuRules::chooseColumns() {
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

bool GpuRules::isLinearAlong(int k) {
  return llvm::all_of(accesses, [&](const FusedLoops::Access &access) {
    return strideAlong(loops.sizes(), access.offset, loops.axes[k].name).has_value();
  });
}

void GpuRules::choosePointwise() {
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

int64_t GpuRules::arithmetic() {
  int64_t work = 0;
  for (const FusedMember &member : loops.members)
    for (Operation &op : *LoopsOp(member.op).bodyBlock())
      if (op.getNumResults() == 1 && isa<FloatType>(op.getResult(0).getType()) && !isa<LoadOp>(op))
        work += torch_tile::fusion::costOf(&op);
  return work;
}

int GpuRules::nextAxis() const {
  for (int k = (int)loops.axes.size(); k-- > 0;)
    if (k != schedule.vectorAxis && extent(loops.axes[k]) > 1)
      return k;
  return -1;
}

Schedule chooseGpuScheduleByRules(FusedLoops &loops, int64_t sharedBytes) { return GpuRules(loops, sharedBytes).run(); }

} // namespace torch_tile::tile_build
