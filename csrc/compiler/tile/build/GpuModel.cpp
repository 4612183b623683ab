#include "compiler/tile/build/GpuModel.h"

#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;
using torch_tile::fusion::strideAlong;

namespace torch_tile::tile_build {

static constexpr int64_t sectorBytes = 32, lineBytes = 128, warpSize = 32, accessBytes = 16;
/// What the second-level cache reads from memory, and writes to it, at once.
static constexpr int64_t memoryBlockBytes = 64;
/// Instructions that an access takes beside itself: its address, a mask; the position of each element on its own.
static constexpr double accessWork = 2, addressWork = 4, gatherWork = 14;
/// Of a division that rounds as IEEE's does: a reciprocal, its correction, and the test for what that does not serve.
static constexpr double divisionWork = 24;
/// Of a load's latency that one after the other costs, where compilers cannot issue several together.
static constexpr double maskedLoadShare = 0.3;
/// Registers of a thread beside the elements it holds.
static constexpr int64_t ownRegisters = 28;
/// Elements that a thread loads before it uses the first.
static constexpr int64_t mostLoads = 16;

/// `expr` where no index wraps around: between two places at most, most points lie as they do there.
static SizeExpr withoutWraps(const SizeFacts &facts, SizeExpr expr) {
  SizeContext &sizes = facts.sizes();
  SizeExpr sum = sizes.constant(0);
  for (const SizeTerm &term : SizeContext::terms(expr)) {
    SizeExpr product = sizes.constant(term.coefficient);
    for (const auto &[atom, power] : term.factors) {
      std::optional<SizeCall> call = SizeContext::asCall(atom);
      bool isMod = call && (call->fn == SizeFn::Mod || call->fn == SizeFn::PythonMod);
      std::optional<int64_t> length = isMod ? call->args[1].constant() : std::nullopt;
      bool wrapsOnce = length && facts.range(call->args[0]).max / 2 < *length;
      for (int k = 0; k < power; ++k)
        product = sizes.mul(product, wrapsOnce ? withoutWraps(facts, call->args[0]) : atom);
    }
    sum = sizes.add(sum, product);
  }
  return sum;
}

GpuModel::GpuModel(FusedLoops &loops, const target::GpuMachine &machine) : loops(loops), machine(machine) {
  for (const Axis &axis : loops.axes)
    extents.push_back(std::max<int64_t>(1, loops.facts().estimate(axis.extent)));
  for (const Axis &axis : loops.flattened)
    flatExtents.push_back(std::max<int64_t>(1, loops.facts().estimate(axis.extent)));
  SizeContext &sizes = loops.sizes();
  auto add = [&](Operation *load, Value buffer, SizeExpr offset, Type type, bool isFull, ValueRange scalars,
                 int stage) {
    Stream stream;
    stream.elementBytes = torch_tile::fusion::elementBytes(type);
    stream.isLoad = load != nullptr;
    stream.isFull = isFull;
    stream.stage = stage;
    stream.buffer = buffer;
    stream.isUnaligned = isUnaligned(buffer, loops.facts());
    stream.offset = offset;
    SizeExpr plain = withoutWraps(loops.facts(), offset);
    for (const Axis &axis : loops.axes) {
      std::optional<SizeExpr> stride = strideAlong(sizes, plain, axis.name);
      stream.wraps.push_back(plain != offset && !strideAlong(sizes, offset, axis.name));
      bool isIndirect = llvm::any_of(scalars, [&](Value v) { return loops.variesAlong(v, axis.name); });
      if (!stride || isIndirect)
        stream.strides.push_back(std::nullopt);
      else
        stream.strides.push_back(std::abs(loops.facts().estimate(*stride)) * stream.elementBytes);
    }
    if (loops.flatAxis >= 0 && !stream.strides[loops.flatAxis] && scalars.empty()) {
      SizeExpr apart = withoutWraps(loops.facts(), load ? loops.unflattened(load) : loops.unflattened(buffer));
      for (const Axis &axis : loops.flattened)
        if (std::optional<SizeExpr> stride = strideAlong(sizes, apart, axis.name))
          stream.digits.push_back(loops.facts().estimate(*stride) * stream.elementBytes);
      if (stream.digits.size() < loops.flattened.size())
        stream.digits.clear();
    }
    streams.push_back(std::move(stream));
  };
  for (const FusedMember &member : loops.members) {
    LoopsOp op = member.op;
    for (Operation &inner : *op.bodyBlock())
      if (auto load = dyn_cast<LoadOp>(inner); load && !loops.producer(load.getSource()))
        add(load, load.getSource(), loops.exprOf(load), load.getType(), member.isFull, load.getScalars(), member.stage);
    WriteAtOp write = op.getWriteAt();
    ValueRange places = write ? ValueRange(write.getScalars()) : ValueRange();
    for (Value result : op.getOutputs())
      if (llvm::is_contained(loops.outputs, result))
        add(nullptr, result, loops.offsetOf(result), cast<GraphTensorType>(result.getType()).getElementType(),
            member.isFull && !op.isReduction(), places, member.stage);
    if (!op.isReduction())
      continue;
    numValues = std::max<int64_t>(numValues, op.getNumResults());
    if (member.isFull)
      for (Operation &inner : op.getCombine().front()) {
        bool divides = isa<arith::DivFOp>(inner);
        combineWork += divides ? divisionWork : torch_tile::fusion::costOf(&inner);
        joinWork += divides ? 0 : torch_tile::fusion::costOf(&inner);
      }
  }
  for (const FusedMember &member : loops.members)
    if (!member.isFull && llvm::any_of(loops.axes, [](const Axis &axis) { return axis.reduced; }))
      for (Operation &inner : *LoopsOp(member.op).bodyBlock())
        resultWork += isa<arith::DivFOp>(inner) ? divisionWork : torch_tile::fusion::costOf(&inner);
  for (const Stream &stream : streams)
    if (stream.isFull)
      widestBytes = std::max(widestBytes, stream.elementBytes);
}

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
  double count = 1;
  for (auto [k, stride] : llvm::enumerate(stream.strides)) {
    if (box[k] <= 1 || (stride && *stride == 0))
      continue;
    if (stride) {
      dims.push_back({*stride, box[k]});
    } else if (stream.digits.empty()) {
      count *= (double)box[k];
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
  bool isAligned = true;
  for (auto [stride, points] : dims) {
    if (stride <= sectorBytes || (double)stride <= run) {
      run = std::max(run, (double)stride * (double)(points - 1) + run);
    } else {
      count *= (double)points;
      isAligned = isAligned && stride % sectorBytes == 0;
    }
  }
  // A run that begins anywhere crosses one boundary more than one that begins at a sector.
  double sectors = std::ceil(run / (double)sectorBytes);
  if (count > 1 && !isAligned)
    sectors = run / (double)sectorBytes + 1;
  return count * sectors;
}

/// What one tile of an access asks of the first-level cache: requests of a warp, and sectors and lines of each.
GpuModel::Request GpuModel::requestsOf(const Stream &stream, const Schedule &schedule, int64_t vector) const {
  auto strideOf = [&](int axis) -> std::optional<int64_t> { return axis < 0 ? 0 : stream.strides[axis]; };
  std::optional<int64_t> lane = strideOf(schedule.vectorAxis), row = strideOf(schedule.rowAxis);
  int64_t lanes = schedule.lanes, rows = schedule.rowAxis >= 0 ? schedule.rows : 1;
  int64_t validLanes = schedule.vectorAxis < 0 ? 1 : extents[schedule.vectorAxis],
          validRows = schedule.rowAxis < 0 ? 1 : extents[schedule.rowAxis];
  if (lane == 0 && (row == 0 || rows == 1))
    return {1, 1, 1, false};
  int64_t element = stream.elementBytes;
  bool isTransposed = rows > 1 && row == element && lane && *lane != 0 && *lane != element;
  if (isTransposed) {
    std::swap(lane, row);
    std::swap(lanes, rows);
    std::swap(validLanes, validRows);
  }
  auto wrapsAlong = [&](int axis) { return axis >= 0 && stream.wraps[axis]; };
  bool isTakenApart = !stream.digits.empty() && schedule.vectorAxis == loops.flatAxis;
  bool isGathered = isTakenApart || wrapsAlong(schedule.vectorAxis) || wrapsAlong(schedule.rowAxis);
  // Somewhere in the middle, where a tile begins.
  int64_t middle = isTakenApart ? validLanes / 2 / lanes * lanes : 0;
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
  llvm::SmallSet<int64_t, 32> sectors, lines;
  for (int64_t t = 0; t < warpSize; ++t) { // the first of vector / width requests
    int64_t position = t * vector, r = position / lanes, l = position % lanes;
    if (r >= rows || l >= validLanes || r >= validRows)
      continue;
    int64_t address = (isTakenApart ? addressOf(stream, middle + l) : l * lane.value_or(4 * lineBytes)) +
                      r * row.value_or(64 * lineBytes);
    for (int64_t byte : {address, address + joined * width * element - 1}) {
      sectors.insert(byte / sectorBytes);
      lines.insert(byte / lineBytes);
    }
  }
  double count = std::max(1.0, (double)(lanes * rows) / (double)(warpSize * width)) / (double)joined;
  // Through shared memory, an element at a time on one side.
  double turned = isTransposed ? (double)(lanes * rows) / warpSize * 2 / count : 0;
  return {count, (double)sectors.size(), (double)lines.size() + turned, isGathered};
}

SmallVector<SmallVector<int>> GpuModel::gridOrders() const {
  SmallVector<SmallVector<int>> orders;
  for (const Stream &stream : streams) {
    SmallVector<int> order;
    for (int k = 0; k < (int)extents.size(); ++k)
      if (!loops.axes[k].reduced)
        order.push_back(k);
    llvm::stable_sort(order,
                      [&](int a, int b) { return stream.strides[a].value_or(0) > stream.strides[b].value_or(0); });
    if (!llvm::is_contained(orders, order))
      orders.push_back(std::move(order));
  }
  return orders;
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
    int64_t holding = schedule.lanes / vector;
    bool isInWarp = (holding <= warpSize && llvm::isPowerOf2_64(std::max<int64_t>(holding, 1))) || threads == warpSize;
    if (!isInWarp)
      steps += stepsOf(schedule.rows, schedule.lanes) + (double)(schedule.lanes * schedule.rows / threads);
  }
  return machine.foldNs + steps * (double)numValues * machine.sharedStepNs;
}

/// What combiners take for each point: what tiles that are under way together make is joined first, in pairs of equal
/// counts that are known.
double GpuModel::combineWorkOf(const Schedule &schedule, int64_t perThread, bool isOneTile) const {
  double carried = isOneTile ? 0 : 1 / (double)std::max<int64_t>(1, schedule.unroll);
  // Where no tile is masked, a thread computes of counts once for all its elements.
  auto isWhole = [&](int axis, int64_t step) {
    return axis < 0 || !loops.axes[axis].reduced || extents[axis] % step == 0;
  };
  bool isEqual = !schedule.alignedLanes && isWhole(schedule.vectorAxis, schedule.lanes) &&
                 isWhole(schedule.rowAxis, schedule.rows * std::max<int64_t>(1, schedule.unroll));
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
  if (r >= 0 && !isRowReduced && (!llvm::isPowerOf2_64(schedule.lanes) || holding > warpSize))
    return work + (double)points * step;
  int64_t results =
      isRowReduced ? 1 : std::max<int64_t>(1, points / (schedule.lanes * std::max<int64_t>(1, threads / holding)));
  return work + (double)(threads * results) * llvm::Log2_64_Ceil((uint64_t)holding) * step;
}

double GpuModel::predictNs(const Schedule &schedule) {
  int v = schedule.vectorAxis, r = schedule.rowAxis;
  auto isParallel = [&](int k) { return !loops.axes[k].reduced; };
  int64_t threads = std::max<int64_t>(schedule.numThreads, warpSize), rows = r >= 0 ? schedule.rows : 1;
  int64_t points = schedule.lanes * rows;
  int64_t vector = std::max<int64_t>(1, schedule.pieceLanes ? schedule.pieceLanes : accessBytes / widestBytes);
  while (vector > 1 && (points % vector != 0 || vector * threads > points))
    vector /= 2;

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
  int64_t perThread = llvm::divideCeil(points, threads), held = std::max<int64_t>(1, widestBytes / 4);
  int64_t mostUnderWay = heldAxis(schedule) >= 0 && loops.numStages > 1 ? INT64_MAX : mostLoads;
  int64_t registers =
      std::min<int64_t>(255, ownRegisters + perThread * numValues +
                                 std::min(perThread * std::max<int64_t>(1, schedule.unroll), mostUnderWay) * held);
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
    SmallVector<const Stream *> full;
    for (const Stream &stream : streams) {
      if (stream.stage != stage)
        continue;
      bool isKept =
          stream.isLoad && holdsRow && stage > 0 && stream.isFull && llvm::any_of(streams, [&](const Stream &other) {
            return other.isLoad && other.stage < stage && other.buffer == stream.buffer &&
                   other.offset == stream.offset;
          });
      bool isRepeated = stream.isLoad && llvm::any_of(full, [&](const Stream *other) {
                          return other->isLoad && other->buffer == stream.buffer && other->offset == stream.offset;
                        });
      if (isKept || isRepeated)
        continue;
      if (stream.isFull)
        full.push_back(&stream);
      Request request = requestsOf(stream, schedule, vector);
      double tiles = programs * (stream.isFull ? iterations : 1);
      cycles += tiles * request.count * std::max(request.lines, 1.0);
      instructions += tiles * (double)points *
                      (accessWork / (double)vector + (request.isGathered  ? gatherWork
                                                      : request.lines > 8 ? addressWork
                                                                          : 0));
      if (!stream.isLoad)
        cacheBytes += tiles * request.count * request.sectors * (double)sectorBytes;
      if (!stream.isFull) {
        Box box(program);
        memoryBytes += programs * sectorsOf(stream, box) * (double)sectorBytes * 0.5;
        continue;
      }
      // Again in a later stage: from the second-level cache, if it holds what the programs under way have read.
      double once = waves * sectorsOf(stream, together, memoryBlockBytes) * (double)memoryBlockBytes;
      bool isAgain = stream.isLoad && llvm::any_of(streams, [&](const Stream &other) {
                       return other.isLoad && other.stage < stage && other.buffer == stream.buffer;
                     });
      double underWay = running * sectorsOf(stream, program) * (double)sectorBytes;
      if (!isAgain || underWay > 0.7 * (double)machine.cacheBytes)
        memoryBytes += once;
    }
    // From the second-level cache comes what the first-level one has lost since it was last used.
    double room = (double)machine.localBytes / perProcessor;
    Box box(program);
    double outer = programs;
    size_t k = 0;
    auto bytesOf = [&](const Box &of) {
      double bytes = 0;
      for (const Stream *stream : full)
        if (stream->isLoad)
          bytes += sectorsOf(*stream, of) * (double)sectorBytes;
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
      if (stream->isLoad) {
        Request request = requestsOf(*stream, schedule, vector);
        requested += programs * iterations * request.count * request.sectors * (double)sectorBytes;
      }
    cacheBytes += bytesOf(box) > room ? requested : std::min(requested, outer * bytesOf(box));
    if (!full.empty())
      instructions += programs * iterations * (double)points *
                      ((double)loops.work() + std::max(1.0, combineWorkOf(schedule, perThread, holdsRow))) / numStages;
  }

  double rate = (double)machine.multiprocessors * machine.cyclesPerNs;
  double busy = std::min(1.0, running / (double)machine.multiprocessors);
  double memory = memoryBytes / machine.memoryRate, cache = cacheBytes / machine.cacheRate;
  double local = cycles / (rate * busy), compute = instructions / (rate * busy * (double)machine.lanes);
  // A program waits for each of its tiles, unless several are under way.
  bool folds = numReduced > 0 && ((v >= 0 && !isParallel(v)) || (r >= 0 && !isParallel(r)));
  double steps = iterations * (schedule.isOnline && schedule.heldBytes == 0 ? numStages - 1 : holdsRow ? 1 : numStages);
  // Threads that share rows of a tile all compute what follows of their results.
  if (v >= 0 && r >= 0 && !isParallel(v) && isParallel(r))
    compute += programs * (double)(rows * std::min(threads, std::max<int64_t>(1, schedule.lanes / vector))) *
               resultWork / (rate * busy * (double)machine.lanes);
  if (folds)
    compute += programs * foldWork(schedule, threads, vector) * std::max(1, numStages - 1) /
               (rate * busy * (double)machine.lanes);
  double latency = machine.blockNs + (folds ? foldNs(schedule, threads, vector) * std::max(1, numStages - 1) : 0) +
                   steps / (double)std::max<int64_t>(1, schedule.unroll) * machine.loadNs;
  // Masked elements of a piece are loaded one after the other, each behind a branch.
  bool isMasked = (v >= 0 && schedule.lanes > extents[v] && !schedule.alignedLanes) || (r >= 0 && rows > extents[r]);
  for (const Stream &stream : streams)
    if (isMasked && stream.isLoad && stream.isFull && vector > 1 &&
        requestsOf(stream, schedule, vector).count * warpSize >= (double)points)
      latency += iterations * (double)perThread * maskedLoadShare * machine.loadNs;
  double rounds = programs / resident;
  double waiting = (rounds < 4 ? std::ceil(rounds) : rounds) * latency;
  double slowest = std::max({memory, cache, local, compute, waiting});
  return slowest + 0.25 * (memory + cache + local + compute + waiting - slowest);
}

} // namespace torch_tile::tile_build
