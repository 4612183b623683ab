// What tiles ask of a GPU's caches: sectors of memory, requests of warps, and the lines of each.
#include "compiler/tile/build/GpuModel.h"

#include "llvm/ADT/SmallSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace torch_tile::tile_build {

static constexpr int64_t lineBytes = 128;
/// Of the sectors that a request touches, the share of bytes from which on they count as whole.
static constexpr double mostlyWhole = 0.7;
/// Of rows of fewer tiles than this, a mask's edges lie in most.
static constexpr int64_t mostlyEdges = 4;
/// Where so many points meet at an element on average, neighbours mostly update the same one, which takes each of them
/// after the first so many times what its own element would take.
static constexpr double crowd = 32, updateWait = 0.5;
/// The address of an element, or of a piece, in a tile of rows.
static constexpr double placeWork = 2;

/// Where the element at a position along the flat axis lies.
int64_t GpuModel::addressOf(const Stream &stream, int64_t position) const {
  int64_t address = 0;
  for (size_t k = flatExtents.size(); k-- > 0;) {
    int64_t index = position % flatExtents[k];
    address += (stream.digits[k] < 0 ? flatExtents[k] - 1 - index : index) * std::abs(stream.digits[k]);
    position /= flatExtents[k];
  }
  return address;
}

/// Sectors of so many bytes that the points of a box touch, each counted once.
double GpuModel::sectorsOf(const Stream &stream, const Box &box, int64_t sectorBytes) const {
  SmallVector<std::pair<int64_t, int64_t>> dims; // stride, count
  double count = 1, chosen = 1, parts = 1;
  for (auto [k, stride] : llvm::enumerate(stream.strides)) {
    if (box[k] <= 1 || (stride && *stride == 0))
      continue;
    if (stride) {
      dims.push_back({*stride, box[k]});
    } else if (stream.digits.empty()) {
      chosen *= (double)box[k];
      parts *= stream.isPart[k] ? (double)box[k] : 1;
    } else {
      int64_t points = box[k];
      for (size_t digit = flatExtents.size(); digit-- > 0 && points > 1;) {
        if (stream.digits[digit] != 0)
          dims.push_back({std::abs(stream.digits[digit]), std::min(points, flatExtents[digit])});
        points = (int64_t)llvm::divideCeil(points, flatExtents[digit]);
      }
    }
  }
  llvm::sort(dims);
  double run = (double)stream.elementBytes;
  for (auto [stride, points] : dims) {
    // Between runs that are less than a sector apart no sector is left out.
    if ((double)stride < run + (double)sectorBytes)
      run = std::max(run, (double)stride * (double)(points - 1) + run);
    else
      count *= (double)points;
  }
  // A run begins at a sector if all steps from run to run are whole sectors, also those between boxes.
  bool isAligned = true;
  auto addSteps = [&](int64_t stride, int64_t points, int64_t extent) {
    bool isInRun = points > 1 && (double)stride < run;
    if (extent > 1 && !(isInRun && points >= extent))
      isAligned = isAligned && stride * (isInRun ? points : 1) % sectorBytes == 0;
  };
  for (auto [k, stride] : llvm::enumerate(stream.strides))
    if (stride)
      addSteps(*stride, box[k], extents[k]);
  for (auto [stride, extent] : llvm::zip(stream.digits, flatExtents))
    addSteps(std::abs(stride), std::abs(stride) < run ? extent : 1, extent);
  // Neighbours that are chosen one by one may share a sector.
  double share = std::min(1.0, run / (double)sectorBytes);
  count *= std::min(chosen, parts * std::max(1.0, stream.chosen * share));
  // A run that begins anywhere crosses one boundary more than one that begins at a sector.
  double sectors = std::ceil(run / (double)sectorBytes);
  if (!isAligned)
    sectors = run / (double)sectorBytes + 1;
  // Indices may choose an element again.
  bool isChosen = llvm::is_contained(stream.isIndirect, true);
  return isChosen ? std::min(count * sectors, std::ceil(stream.bufferBytes / (double)sectorBytes)) : count * sectors;
}

/// What one tile of an access asks of the first-level cache: requests of a warp, and sectors and lines of each.
GpuModel::Request GpuModel::requestsOf(const Stream &stream, const Schedule &schedule, int64_t vector) const {
  auto strideOf = [&](int axis) -> std::optional<int64_t> { return axis < 0 ? 0 : stream.strides[axis]; };
  std::optional<int64_t> lane = strideOf(schedule.vectorAxis), row = strideOf(schedule.rowAxis);
  int64_t lanes = schedule.lanes, rows = schedule.rowAxis >= 0 ? schedule.rows : 1;
  int64_t validLanes = schedule.vectorAxis < 0 ? 1 : extents[schedule.vectorAxis],
          validRows = schedule.rowAxis < 0 ? 1 : extents[schedule.rowAxis];
  if (lane == 0 && (row == 0 || rows == 1))
    return {1, 1, 1, false, true};
  int64_t element = stream.elementBytes;
  auto wrapsAlong = [&](int axis) { return axis >= 0 && stream.wraps[axis]; };
  auto isIndirectAlong = [&](int axis) { return axis >= 0 && stream.isIndirect[axis]; };
  bool isTakenApart = !stream.digits.empty() && schedule.vectorAxis == loops.flatAxis;
  bool isGathered = isTakenApart || isIndirectAlong(schedule.vectorAxis) || wrapsAlong(schedule.vectorAxis) ||
                    wrapsAlong(schedule.rowAxis);
  // What indices choose is read where each thread wants it, whatever lies side by side.
  bool isAlongRows = rows > 1 && isAcross(stream, schedule.vectorAxis, schedule.rowAxis);
  bool isTransposed = isAlongRows || (rows > 1 && row == element && lane && *lane != 0 && *lane != element &&
                                      !isGathered && !isIndirectAlong(schedule.rowAxis));
  if (isTransposed) {
    std::swap(lane, row);
    std::swap(lanes, rows);
    std::swap(validLanes, validRows);
  }
  // Somewhere in the middle, where a tile begins.
  int64_t apart = isAlongRows ? validRows : validLanes, tileApart = isAlongRows ? rows : lanes;
  int64_t middle = isTakenApart ? apart / 2 / tileApart * tileApart : 0;
  int64_t width = lane == element && !isGathered ? vector : 1;
  while (lanes % width != 0)
    width /= 2;
  // Pieces that begin anywhere, or reach past the end, go element by element.
  if (!schedule.alignedLanes || rows > 1) {
    for (const std::optional<int64_t> &stride : stream.strides)
      if (stride && *stride > element && *stride % (width * element) != 0)
        width = 1;
    if (validLanes % width != 0 || (stream.isUnaligned && rows > 1))
      width = 1;
    // A row that begins elsewhere is put together from whole words only by itself, and where nothing is masked.
    bool isMasked = schedule.vectorAxis >= 0 && stream.maskVaries[schedule.vectorAxis];
    if ((rows > 1 || isMasked) && stream.firstByte % (width * element) != 0)
      width = 1;
  } else if (schedule.vectorAxis >= 0 && stream.maskVaries[schedule.vectorAxis] && validLanes < mostlyEdges * lanes) {
    width = 1; // only tiles between the edges of a mask do without it
  }
  // Points of a reduced axis that one thread has, and that follow one another, are one access of up to 16 bytes where
  // all of them begin at multiples of its size.
  int64_t joined = 1;
  if (int held = heldAxis(schedule);
      held >= 0 && stream.isFull && !stream.isUnaligned && stream.strides[held] == width * element) {
    auto isAligned = [&](int64_t bytes) {
      return llvm::all_of(llvm::enumerate(stream.strides), [&](auto stride) {
        return (int)stride.index() == held || !stride.value() || *stride.value() <= width * element ||
               *stride.value() % bytes == 0;
      });
    };
    while (joined * 2 <= extents[held] && joined * 2 * width * element <= accessBytes &&
           isAligned(joined * 2 * width * element))
      joined *= 2;
  }
  // What indices choose often lies near what the neighbours' choose: two share a sector. Updates of one sector follow
  // one another, so that it saves them no time.
  int64_t chosenApart = stream.isUpdated ? sectorBytes : sectorBytes / 2;
  llvm::SmallSet<int64_t, 32> sectors, lines;
  for (int64_t t = 0; t < warpSize; ++t) { // the first of vector / width requests
    int64_t position = t * vector, r = position / lanes, l = position % lanes;
    if (r >= rows || l >= validLanes || r >= validRows)
      continue;
    int64_t address = isAlongRows    ? addressOf(stream, middle + r) + l * element
                      : isTakenApart ? addressOf(stream, middle + l) + r * row.value_or(64 * lineBytes)
                                     : l * lane.value_or(chosenApart) + r * row.value_or(64 * lineBytes);
    for (int64_t byte : {address, address + joined * width * element - 1}) {
      sectors.insert(byte / sectorBytes);
      lines.insert(byte / lineBytes);
    }
  }
  // Points that choose the same element wait for one another; those of which an axis tells the elements apart do not.
  double waits = 1;
  if (stream.isUpdated && numPoints > crowd * stream.bufferBytes / (double)stream.elementBytes) {
    auto tellsApart = [&](int axis) { return axis < 0 || stream.strides[axis] || stream.isPart[axis]; };
    int64_t inWarp = std::min(lanes, warpSize), choosing = tellsApart(schedule.vectorAxis) ? 1 : inWarp;
    choosing *= tellsApart(schedule.rowAxis) ? 1 : std::min(rows, warpSize / inWarp);
    waits += updateWait * (double)(choosing - 1);
  }
  // A piece of what a row has in common is one element.
  int64_t repeated = lane == 0 && lanes % vector == 0 ? vector : width;
  double count = std::max(1.0, (double)(lanes * rows) / (double)(warpSize * repeated)) / (double)joined;
  // Through shared memory, an element at a time on one side.
  double turned = isTransposed ? (double)(lanes * rows) / warpSize * 2 / count : 0;
  bool hasParts = (double)(warpSize * width * joined * element) < mostlyWhole * (double)(sectors.size() * sectorBytes);
  bool areApart = rows > 1 && lanes % vector != 0; // neighbours of a piece may be of two rows
  double places = rows == 1 ? 0 : placeWork / (areApart ? 1 : (double)vector);
  bool isDivided = areApart || (rows > 1 && !llvm::isPowerOf2_64(lanes));
  return {count,
          (double)sectors.size() * waits,
          (double)lines.size() + turned,
          isGathered,
          hasParts,
          places,
          isDivided,
          isTakenApart};
}

} // namespace torch_tile::tile_build
