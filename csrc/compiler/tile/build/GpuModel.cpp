// How long a nest takes on a GPU under a schedule: memory, caches, instructions and what waits.
#include "compiler/tile/build/GpuModel.h"
#include "compiler/tile/build/HeldValues.h"
#include "compiler/tile/ir/LinearLayout.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using torch_tile::fusion::Axis;

namespace torch_tile::tile_build {

/// Instructions that an access takes beside itself: its address, a mask; the position of each element on its own.
static constexpr double accessWork = 2, addressWork = 4, gatherWork = 8;
/// Of an element under a mask: it chooses its address.
static constexpr double maskedWork = 4;
/// Of further accesses of an axis that is taken apart into others: its digits are there.
static constexpr double sharedWork = 4;
/// Of a load's latency that one after the other costs, where compilers cannot issue several together.
static constexpr double maskedLoadShare = 0.3;
/// Of a thread that begins and ends: where its program is, and what it needs before the first load.
static constexpr double programWork = 8;
/// Of an element that goes from thread to thread through shared memory: its places there, a store and a load, and what
/// threads wait for each other.
static constexpr double exchangeWork = 18;
/// Row and lane of an element, where rows are no power of two: a division that is a product.
static constexpr double rowDivisionWork = 5;
/// Writing a part of a sector takes the cache as long as so many sectors: it is put together with what was there.
static constexpr double partWeight = 2;
/// Lines up to which a warp's access of them is put together with those that follow at once, before it goes to the
/// second-level cache.
static constexpr double mostJoinedLines = 8;
/// Registers of a thread beside the elements it holds.
static constexpr int64_t ownRegisters = 28;
/// Registers that a thread may have.
static constexpr int64_t mostRegisters = 255;
/// Elements that a thread loads before it uses the first.
static constexpr int64_t mostLoads = 16;
/// Elements that a thread holds from stage to stage at no cost.
static constexpr int64_t freelyHeld = 4;

/// What threads of a block do with their parts of results: shuffles within a warp, or steps through shared memory.
double GpuModel::foldNs(const Schedule &schedule, int64_t threads, int64_t vector) const {
  int v = schedule.vectorAxis, r = schedule.rowAxis;
  auto stepsOf = [&](int64_t results, int64_t size) {
    int64_t parts = 1;
    while (parts * parts < size && parts * 2 * results <= threads)
      parts *= 2;
    return (double)(size / parts + (parts > 1 ? parts : 0));
  };
  bool isVectorReduced = v >= 0 && loops.axes[v].reduced, isRowReduced = r >= 0 && loops.axes[r].reduced;
  double steps = 0;
  if (isRowReduced)
    steps += stepsOf(schedule.lanes, std::max<int64_t>(1, threads * vector / schedule.lanes));
  if (isVectorReduced && r >= 0 && !isRowReduced) {
    if (!areRowsInWarps(schedule, widestAlong(v)))
      steps += stepsOf(schedule.rows, schedule.lanes) + (double)(schedule.lanes * schedule.rows / threads);
  }
  return (threads == warpSize && r < 0 ? machine.warpFoldNs : machine.foldNs) +
         steps * (double)numValues * machine.sharedStepNs;
}

/// What combiners take for each point: what tiles that are under way together make is joined first, in pairs of equal
/// counts that are known.
double GpuModel::combineWorkOf(const Schedule &schedule, int64_t perThread, bool isOneTile) const {
  double carried = isOneTile ? 0 : 1 / (double)std::max<int64_t>(1, schedule.unroll);
  // Where no tile is masked, a thread computes of counts once for all its elements.
  auto isWhole = [&](int axis, int64_t step) {
    return axis < 0 || !loops.axes[axis].reduced || extents[axis] % step == 0;
  };
  bool isEqual = masksOnlyAtEnds(loops, schedule) ||
                 (!schedule.alignedLanes && isWhole(schedule.vectorAxis, schedule.lanes) &&
                  isWhole(schedule.rowAxis, schedule.rows * std::max<int64_t>(1, schedule.unroll)));
  double counts = (combineWork - joinWork) / (isEqual ? (double)perThread : 1);
  return joinWork + counts * carried;
}

/// Instructions of all threads of a program that fold what they hold: shuffles between threads of a warp, or accesses
/// of shared memory for each element that is left.
double GpuModel::foldWork(const Schedule &schedule, int64_t threads, int64_t vector) const {
  int v = schedule.vectorAxis, r = schedule.rowAxis;
  bool isVectorReduced = v >= 0 && loops.axes[v].reduced, isRowReduced = r >= 0 && loops.axes[r].reduced;
  int64_t rows = r >= 0 ? schedule.rows : 1, points = schedule.lanes * rows;
  double step = 2 * (double)numValues + combineWork, work = 0;
  if (isRowReduced && threads * vector > schedule.lanes)
    work += (double)std::min(points, threads * vector) * step;
  if (!isVectorReduced)
    return work;
  int64_t holding = std::clamp<int64_t>(schedule.lanes / vector, 1, threads);
  if (r >= 0 && !isRowReduced && !areRowsInWarps(schedule, widestAlong(v)))
    return work + (double)points * (step + exchangeWork);
  int64_t results =
      isRowReduced ? 1 : std::max<int64_t>(1, points / (schedule.lanes * std::max<int64_t>(1, threads / holding)));
  return work + (double)(threads * results) * llvm::Log2_64_Ceil((uint64_t)holding) * step;
}

/// Whether elements of a tile differ in whether they are loaded.
bool GpuModel::isMaskedIn(const Stream &stream, const Schedule &schedule) const {
  auto variesAlong = [&](int axis) { return axis >= 0 && stream.maskVaries[axis]; };
  return variesAlong(schedule.vectorAxis) || (schedule.rows > 1 && variesAlong(schedule.rowAxis));
}

/// In blocks that the second-level cache moves at once.
double GpuModel::blockBytesOf(const Stream &stream, const Box &box) const {
  return sectorsOf(stream, box, machine.memoryBlockBytes) * (double)machine.memoryBlockBytes;
}

/// Results that lie between each other, as the columns of rows that are written one by one: how many write the sectors
/// of this one.
double GpuModel::interleaved(const Stream &stream) const {
  if (stream.isScattered)
    return 1;
  return (double)llvm::count_if(streams, [&](const Stream &other) {
    return !other.isLoad && other.elementBytes == stream.elementBytes && other.strides == stream.strides;
  });
}

/// Of the sectors that a result touches in a box, its share where others write the rest of them.
double GpuModel::shareOfSectors(const Stream &stream, const Box &box) const {
  if (stream.isLoad || stream.isScattered)
    return 1;
  double points = 1;
  for (auto [stride, count] : llvm::zip(stream.strides, box))
    points *= stride && *stride != 0 ? (double)count : 1;
  double used = points * (double)stream.elementBytes / (sectorsOf(stream, box) * (double)sectorBytes);
  return std::min(1.0, std::max(used, 1 / interleaved(stream)));
}

/// Moved beside the `once` bytes that all programs need: blocks that programs of several waves write parts of, sectors
/// that several programs of one do, and what they do not use of the blocks that they read.
double GpuModel::wastedBytes(const Stream &stream, const Box &program, double programs, double once) const {
  if (!plain)
    return 0;
  double used = programs * sectorsOf(stream, program) * (double)sectorBytes * stream.share;
  if (!stream.isLoad) {
    double unique = blockBytesOf(stream, Box(extents)) * stream.share;
    return machine.partStores * std::max(0.0, once - unique) + machine.sharedStores * std::max(0.0, used - once);
  }
  double read = programs * blockBytesOf(stream, program) * stream.share;
  return machine.unusedLoads * std::max(0.0, read - std::max(once, used));
}

/// What a thread is taken to need.
int64_t GpuModel::registersOf(const Schedule &schedule) const {
  int64_t threads = std::max<int64_t>(schedule.numThreads, warpSize);
  int64_t points = schedule.lanes * (schedule.rowAxis >= 0 ? schedule.rows : 1);
  int64_t perThread = llvm::divideCeil(points, threads),
          held = std::max<int64_t>(1, widestAlong(schedule.vectorAxis) / 4);
  int64_t mostUnderWay = heldAxis(schedule) >= 0 && loops.numStages > 1 ? INT64_MAX : mostLoads;
  return std::min<int64_t>(mostRegisters,
                           ownRegisters + perThread * numValues +
                               std::min(perThread * std::max<int64_t>(1, schedule.unroll), mostUnderWay) * held);
}

bool GpuModel::hasRegisters(const Schedule &schedule) const {
  return registersOf(schedule) * std::max<int64_t>(schedule.numThreads, warpSize) * schedule.programsPerBlock <=
         machine.registers;
}

/// Whether what reductions carry, and what tiles that are under way together make before it is joined in pairs, leaves
/// a thread's registers: the assembler then moves nearly all of it through memory.
bool GpuModel::spills(const Schedule &schedule) const {
  if (llvm::none_of(loops.axes, [](const Axis &axis) { return axis.reduced; }))
    return false;
  int64_t points = schedule.lanes * (schedule.rowAxis >= 0 ? schedule.rows : 1);
  int64_t perThread = llvm::divideCeil(points, std::max<int64_t>(schedule.numThreads, warpSize));
  int64_t underWay = 1 + llvm::Log2_64_Ceil((uint64_t)std::max<int64_t>(1, schedule.unroll));
  int64_t blockThreads = std::max<int64_t>(schedule.numThreads, warpSize) * schedule.programsPerBlock;
  return ownRegisters + perThread * numValues * underWay > std::min(mostRegisters, machine.registers / blockThreads);
}

bool GpuModel::hasRoom(const Schedule &schedule, int64_t sharedBytes) const {
  int v = schedule.vectorAxis, r = schedule.rowAxis;
  if (spills(schedule))
    return false;
  if (schedule.lanes * schedule.rows > std::max(schedule.numThreads, warpSize) * tile::mostElementsOfThread)
    return false;
  if (v < 0 || r < 0 || !loops.axes[v].reduced || loops.axes[r].reduced || areRowsInWarps(schedule, widestAlong(v)))
    return true;
  int64_t bytes = schedule.lanes * schedule.rows * valueBytes * schedule.programsPerBlock;
  return bytes + bytes / warpSize + reservedSharedBytes <= sharedBytes; // one element more for each warp, between rows
}

bool GpuModel::readsRows(const Schedule &schedule) const {
  int v = schedule.vectorAxis;
  return v >= 0 && loops.axes[v].reduced && llvm::any_of(streams, [&](const Stream &stream) {
           return stream.isLoad && stream.isFull && stream.strides[v] == stream.elementBytes;
         });
}

/// Whether no access is contiguous along the lanes of a tile over two axes.
bool GpuModel::followsNoMemory(const Schedule &schedule) const {
  int v = schedule.vectorAxis;
  return v >= 0 && schedule.rowAxis >= 0 && llvm::none_of(streams, [&](const Stream &stream) {
           return stream.isFull && stream.strides[v] && std::abs(*stream.strides[v]) == stream.elementBytes;
         });
}

/// Times longer that memory takes where few threads are under way: they hide less of what others wait for.
double GpuModel::idleness(const Schedule &schedule, double running) const {
  // Of a row that is read once, a thread has much under way.
  if (!plain || (readsRows(schedule) && lastFullStage(loops) == 0))
    return 1;
  bool reduces = llvm::any_of(loops.axes, [](const Axis &axis) { return axis.reduced; });
  auto threads = (double)std::max<int64_t>(schedule.numThreads, warpSize);
  double share = running * threads / (double)(machine.multiprocessors * machine.threads);
  return std::pow(share, reduces ? -machine.idleReducingPower : -machine.idleCopyingPower);
}

/// Times longer than what is moved and computed takes: for lack of other blocks, and for what threads hold.
double GpuModel::overheadOf(const Schedule &schedule, int64_t perThread, int64_t blocks) const {
  if (!plain)
    return 1;
  bool reduces = llvm::any_of(loops.axes, [](const Axis &axis) { return axis.reduced; });
  double overhead = 1 + machine.loneBlockShare / (double)std::max<int64_t>(1, blocks);
  if (!reduces) {
    if (schedule.rowAxis >= 0 && schedule.numThreads * schedule.programsPerBlock < machine.fewThreads)
      overhead *= 1 + machine.fewThreadsShare;
    if (followsNoMemory(schedule))
      overhead *= 1 + machine.acrossShare;
  }
  // Rows that follow memory: what a thread reads is in its registers at once.
  if (readsRows(schedule))
    return overhead;
  int v = schedule.vectorAxis;
  if (loops.numStages > 1 && v >= 0 && loops.axes[v].reduced && schedule.lanes >= extents[v] && schedule.heldBytes == 0)
    overhead *= 1 + machine.heldShare * (double)std::max<int64_t>(0, perThread - freelyHeld);
  return overhead * (1 + machine.elementShare * (double)perThread);
}

int GpuModel::heldAxis(const Schedule &schedule) const {
  auto isReduced = [](const Axis &axis) { return axis.reduced; };
  auto reduced = llvm::find_if(loops.axes, isReduced);
  if (reduced == loops.axes.end() || llvm::count_if(loops.axes, isReduced) > 1 || loops.isOrdered())
    return -1;
  int number = (int)(reduced - loops.axes.begin());
  bool isHeld = number != schedule.vectorAxis && number != schedule.rowAxis && reduced->extent.isConstant() &&
                extents[number] <= schedule.unroll;
  return isHeld ? number : -1;
}

double GpuModel::floorNs() const {
  double bytes = 0;
  llvm::SmallPtrSet<Value, 8> seen;
  for (const Stream &stream : streams)
    if (seen.insert(stream.buffer).second)
      bytes += sectorsOf(stream, Box(extents)) * (double)sectorBytes;
  return bytes / machine.memoryRate;
}

double GpuModel::busyness(const Schedule &schedule) const {
  if (plain)
    return 1;
  int64_t points = schedule.lanes * (schedule.rowAxis >= 0 ? schedule.rows : 1);
  return 1 + machine.busyElementShare * (double)llvm::divideCeil(points, std::max(schedule.numThreads, warpSize));
}

double GpuModel::predictNs(const Schedule &schedule) {
  int v = schedule.vectorAxis, r = schedule.rowAxis;
  auto isParallel = [&](int k) { return !loops.axes[k].reduced; };
  int64_t threads = std::max<int64_t>(schedule.numThreads, warpSize), rows = r >= 0 ? schedule.rows : 1;
  int64_t points = schedule.lanes * rows, widestBytes = widestAlong(v);
  int64_t most = std::max<int64_t>(1, schedule.pieceLanes ? schedule.pieceLanes : accessBytes / widestBytes);
  int64_t vector = tile::lanesOfPiece(points, threads, most);

  // What threads compute: of a tile that they do not divide, some elements twice.
  auto slots = (double)(threads * vector * (int64_t)llvm::divideCeil(points, threads * vector));
  double repeats = slots / (double)points;

  // The grid, outermost first; a program's loops likewise; what one tile covers.
  struct Dim {
    int axis;
    int64_t count, step;
  };
  SmallVector<Dim> grid, trips;
  Box tile(extents.size(), 1);
  for (int k = 0; k < (int)extents.size(); ++k)
    if (isParallel(k) && k != v && k != r)
      (k < schedule.numGridAxes ? grid : trips).push_back({k, extents[k], 1});
  auto addTile = [&](int k, int64_t size, int64_t block) {
    if (k < 0)
      return;
    size = std::min(size, extents[k]);
    tile[k] = size;
    if (!isParallel(k)) {
      trips.push_back({k, (int64_t)llvm::divideCeil(extents[k], size), size});
      return;
    }
    block = block > 0 ? std::min(block, extents[k]) : extents[k];
    grid.push_back({k, (int64_t)llvm::divideCeil(extents[k], block), block});
    if (block > size)
      trips.push_back({k, (int64_t)llvm::divideCeil(block, size), size});
  };
  for (int k = 0; k < (int)extents.size(); ++k)
    if (!isParallel(k) && k != v && k != r)
      trips.push_back({k, extents[k], 1});
  addTile(r, rows, schedule.rowBlock);
  addTile(v, schedule.lanes, schedule.block);
  if (!schedule.gridOrder.empty())
    llvm::stable_sort(grid, [&](const Dim &a, const Dim &b) {
      return llvm::find(schedule.gridOrder, a.axis) < llvm::find(schedule.gridOrder, b.axis);
    });

  double programs = 1, iterations = 1;
  for (const Dim &dim : grid)
    programs *= (double)dim.count;
  for (const Dim &dim : trips)
    iterations *= (double)dim.count;
  int numReduced = llvm::count_if(loops.axes, [](const Axis &axis) { return axis.reduced; });
  bool holdsRow = v >= 0 && !isParallel(v) && numReduced == 1 && schedule.lanes >= extents[v];
  holdsRow |= schedule.heldBytes > 0 || heldAxis(schedule) >= 0;

  // Programs under way at once.
  int64_t perThread = llvm::divideCeil(points, threads), registers = registersOf(schedule);
  int64_t blockThreads = threads * schedule.programsPerBlock;
  int64_t blocks =
      std::min({machine.blocks, machine.threads / blockThreads, machine.registers / (registers * blockThreads)});
  if (schedule.heldBytes > 0)
    blocks = std::min<int64_t>(blocks, std::max<int64_t>(1, schedule.blocksPerProcessor));
  double resident = (double)(machine.multiprocessors * std::max<int64_t>(blocks, 1) * schedule.programsPerBlock);
  double running = std::min(programs, resident),
         perProcessor = std::max(1.0, running / (double)machine.multiprocessors);

  // What programs that run at the same time share of memory.
  Box together(tile), program(tile);
  for (const Dim &dim : trips)
    program[dim.axis] = std::min(extents[dim.axis], program[dim.axis] * dim.count);
  together = program;
  double waves = programs;
  for (size_t k = grid.size(); k-- > 0;) {
    double room = resident / (programs / waves);
    if (room < 2)
      break;
    int64_t count = std::min<int64_t>(grid[k].count, (int64_t)room);
    together[grid[k].axis] = std::min(extents[grid[k].axis], together[grid[k].axis] * count);
    waves /= (double)count;
    if (count < grid[k].count)
      break;
  }

  double memoryBytes = 0, cacheBytes = 0, cycles = 0, instructions = 0;
  int numStages = loops.numStages;
  for (int stage = 0; stage < numStages; ++stage) {
    SmallVector<const Stream *> full, ofResults;
    bool isDivided = false, isTakenApart = false;
    for (const Stream &stream : streams) {
      if (!llvm::is_contained(stream.stages, stage))
        continue;
      bool isKept =
          stream.isLoad && holdsRow && stage > 0 && stream.isFull && llvm::any_of(streams, [&](const Stream &other) {
            return other.isLoad && other.stages.front() < stage && isSame(other, stream);
          });
      SmallVector<const Stream *> &before = stream.isFull ? full : ofResults;
      bool isRepeated = stream.isLoad && llvm::any_of(before, [&](const Stream *other) {
                          return other->isLoad && isSame(*other, stream);
                        });
      if (isKept || isRepeated)
        continue;
      before.push_back(&stream);
      Request request = requestsOf(stream, schedule, vector);
      // Tiles of which no point is read cost nothing.
      double share = isMaskedIn(stream, schedule) ? 1 : stream.share;
      double tiles = programs * (stream.isFull ? iterations : 1) * share;
      cycles += tiles * request.count * std::max(request.lines, 1.0) * repeats;
      instructions +=
          tiles * slots *
          ((isMaskedIn(stream, schedule) ? maskedWork : 0) + accessWork / (double)vector + request.placeWork +
           (request.isTakenApart && isTakenApart ? sharedWork
            : request.isGathered                 ? gatherWork
            : request.lines > 8                  ? addressWork
                                                 : 0));
      isTakenApart |= request.isTakenApart;
      isDivided |= request.isDivided;
      if (!stream.isLoad) {
        double weight = request.hasParts ? partWeight : 1;
        if (request.hasParts && request.lines <= mostJoinedLines)
          weight /= interleaved(stream);
        cacheBytes += tiles * request.count * request.sectors * (double)sectorBytes * weight;
      }
      if (!stream.isFull) {
        // What the tiles have read is near.
        bool isRead = stream.isLoad && llvm::any_of(streams, [&](const Stream &other) {
                        return other.isLoad && other.isFull && other.buffer == stream.buffer;
                      });
        double bytes = sectorsOf(stream, program) * (double)sectorBytes * shareOfSectors(stream, program);
        memoryBytes += isRead ? 0 : programs * bytes * 0.5;
        continue;
      }
      if (stream.isBorder)
        continue;
      // Again in a later stage: from the second-level cache, if it holds what the programs under way have read.
      double once = waves * blockBytesOf(stream, together) * newShare(stream, ArrayRef(full).drop_back(), together) *
                    stream.share * shareOfSectors(stream, together);
      once += wastedBytes(stream, program, programs, once);
      // What the second-level cache holds as a whole is moved once, in whatever order.
      double whole = blockBytesOf(stream, Box(extents));
      if ((stream.isLoad || stream.isScattered) && whole < machine.residentShare * (double)machine.cacheBytes)
        once = std::min(once, whole);
      bool isAgain = stream.isLoad && llvm::any_of(streams, [&](const Stream &other) {
                       return other.isLoad && other.stages.front() < stage && other.buffer == stream.buffer;
                     });
      double underWay = running * sectorsOf(stream, program) * (double)sectorBytes;
      if (!isAgain || underWay > 0.7 * (double)machine.cacheBytes)
        memoryBytes += once;
    }
    if (isDivided)
      instructions += programs * iterations * slots * rowDivisionWork;
    // From the second-level cache comes what the first-level one has lost since it was last used.
    double room = (double)machine.localBytes / perProcessor;
    Box box(program);
    double outer = programs;
    size_t k = 0;
    auto bytesOf = [&](const Box &of) {
      double bytes = 0;
      for (auto [k, stream] : llvm::enumerate(full))
        if (stream->isLoad && !stream->isBorder)
          bytes += sectorsOf(*stream, of) * (double)sectorBytes * stream->share *
                   newShare(*stream, ArrayRef(full).take_front(k), of);
      return bytes;
    };
    while (k < trips.size() && bytesOf(box) > room) {
      box[trips[k].axis] =
          tile[trips[k].axis] > 1 || trips[k].axis == v || trips[k].axis == r ? tile[trips[k].axis] : 1;
      outer *= (double)trips[k].count;
      ++k;
    }
    double requested = 0;
    for (const Stream *stream : full)
      if (stream->isLoad && !stream->isBorder) {
        Request request = requestsOf(*stream, schedule, vector);
        requested += programs * iterations * request.count * request.sectors * (double)sectorBytes * stream->share;
      }
    cacheBytes += bytesOf(box) > room ? requested : std::min(requested, outer * bytesOf(box));
    if (!full.empty())
      instructions += programs * iterations * slots *
                      ((holdsRow ? firstWork : stageWork)[stage] +
                       std::max(1.0, combineWorkOf(schedule, perThread, holdsRow)) / numStages);
  }

  double rate = (double)machine.multiprocessors * machine.cyclesPerNs;
  double busy = std::min(1.0, running / (double)machine.multiprocessors);
  double memory = memoryBytes / machine.memoryRate, cache = cacheBytes / machine.cacheRate;
  double issued = rate * busy * (double)machine.lanes * machine.issueShare; // of instructions in a nanosecond
  double local = cycles * machine.lineCycles / (rate * busy), compute = instructions / issued;
  // A program waits for each of its tiles, unless several are under way.
  bool folds = numReduced > 0 && ((v >= 0 && !isParallel(v)) || (r >= 0 && !isParallel(r)));
  double steps = iterations * (schedule.isOnline && schedule.heldBytes == 0 ? numStages - 1 : holdsRow ? 1 : numStages);
  // Threads of a row all compute what follows of its result, but where rows go through shared memory.
  if (v >= 0 && !isParallel(v)) {
    int64_t sharing = r < 0 ? threads : std::min(threads, std::max<int64_t>(1, schedule.lanes / vector));
    if (r >= 0 && !areRowsInWarps(schedule, widestBytes))
      sharing = 1;
    compute += programs * (double)(rows * sharing) * (r < 0 || isParallel(r) ? resultWork : 0) / issued;
  } else if (numReduced > 0) {
    compute += programs * (double)(r < 0 || isParallel(r) ? points : schedule.lanes) * resultWork / issued;
  }
  if (folds)
    compute += programs * foldWork(schedule, threads, vector) * std::max(1, numStages - 1) / issued;
  compute += programs * (double)threads * programWork / issued;
  double latency = machine.blockNs + (folds ? foldNs(schedule, threads, vector) * std::max(1, numStages - 1) : 0) +
                   steps / (double)std::max<int64_t>(1, schedule.unroll) * machine.loadNs;
  // Masked elements of a piece are loaded one after the other, each behind a branch: in tiles that reach past an end.
  auto endShare = [&](int axis, int64_t size) {
    bool hasEnd = axis >= 0 && extents[axis] % size != 0;
    return hasEnd ? 1 / (double)llvm::divideCeil(extents[axis], size) : 0;
  };
  double inside = (schedule.alignedLanes ? 1 : 1 - endShare(v, schedule.lanes)) * (1 - endShare(r, rows));
  for (const Stream &stream : streams)
    if (inside < 1 && stream.isLoad && stream.isFull && vector > 1 &&
        requestsOf(stream, schedule, vector).count * warpSize >= (double)points)
      latency += (1 - inside) * iterations * (double)perThread * maskedLoadShare * machine.loadNs;
  // Others on the multiprocessor hide most of it, if there are any.
  double unhidden = machine.waitShare + (1 - machine.waitShare) / perProcessor;
  double rounds = programs / resident;
  double waiting = (rounds < 4 ? std::ceil(rounds) : rounds) * latency * unhidden;
  if (compute < std::max({memory, cache, local, waiting}))
    for (double *each : {&memory, &cache, &local, &waiting})
      *each *= idleness(schedule, running);
  double slowest = std::max({memory, cache, local, compute, waiting});
  double others = 0.25 * (memory + cache + local + compute + waiting - slowest);
  slowest = std::max(slowest, machine.blockStartNs * programs / (double)schedule.programsPerBlock);
  double time = slowest + others;
  double doublings = r < 0 ? 0 : std::max(0.0, std::log2((double)perThread / (double)machine.freeElements));
  return time * overheadOf(schedule, perThread, blocks) * (1 + machine.doublingShare * doublings);
}

} // namespace torch_tile::tile_build
