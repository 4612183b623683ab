#include "compiler/tile/build/KernelEmitter.h"

#include "artifact/CheckPlace.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/graph/ir/CheckLocation.h"
#include "compiler/tile/build/OnlineSum.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Iterators.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;

namespace torch_tile::tile_build {

KernelEmitter::KernelEmitter(FusedLoops &loops, const Schedule &schedule, const BuildOptions &options, ModuleOp module,
                             Location location)
    : loops(loops), schedule(schedule), options(options), module(module), builder(location, module.getContext()),
      exprs(
          builder, loops.facts(), [this](SizeExpr e) { return integerArgument(e); },
          [this](Operation *op) { return reuse(op); }, options.isGpu) {}

void KernelEmitter::collectBuffers() {
  auto addInput = [&](Value buffer) {
    if (!llvm::is_contained(inputs, buffer))
      inputs.push_back(buffer);
  };
  for (const FusedMember &member : loops.members) {
    LoopsOp op = member.op;
    for (Operation &inner : *op.bodyBlock()) {
      if (auto load = dyn_cast<LoadOp>(inner); load && !loops.producer(load.getSource()))
        addInput(load.getSource());
      // The seed of random numbers is read like any scalar tensor.
    }
    for (Value dest : op.getDests())
      if (!loops.producer(dest))
        addInput(dest);
  }
  for (Value output : loops.outputs)
    if (!loops.destOf(output))
      newOutputs.push_back(output);
}

FailureOr<tile::KernelOp> KernelEmitter::run(StringRef name) {
  collectBuffers();
  findRepeats();
  findSegments();
  scratchBytes = loops.sizes().constant(0);
  MLIRContext *context = module.getContext();
  builder.setInsertionPointToEnd(module.getBody());
  kernel = tile::KernelOp::create(builder, name, FunctionType::get(context, {}, {}), ArrayAttr(), ArrayAttr(),
                                  DenseI64ArrayAttr());
  Block *entry = new Block();
  kernel.getBody().push_back(entry);
  auto addPointer = [&](Value buffer) {
    Type element = cast<GraphTensorType>(buffer.getType()).getElementType();
    // Memory has no sign: the ops on a value say how they read it.
    if (element.isUnsignedInteger())
      element = IntegerType::get(context, element.getIntOrFloatBitWidth());
    pointers[buffer] = entry->addArgument(tile::PtrType::get(context, element), builder.getLoc());
  };
  for (Value input : inputs)
    addPointer(input);
  for (Value output : newOutputs)
    addPointer(output);
  builder.setInsertionPointToEnd(entry);
  scopes.emplace_back();
  emitProgram();
  builder.setInsertionPointToEnd(entry);
  tile::ReturnOp::create(builder);
  dropUnusedHolds();
  // Unused values: scalars that became tiles, elided roundings.
  kernel.walk<WalkOrder::PostOrder, ReverseIterator>([](Operation *op) {
    if (isOpTriviallyDead(op))
      op->erase();
  });
  kernel.setFunctionTypeAttr(TypeAttr::get(FunctionType::get(context, entry->getArgumentTypes(), {})));
  SmallVector<int64_t> lines;
  torch_tile::fusion::collectLines(builder.getLoc(), lines);
  llvm::sort(lines);
  lines.erase(llvm::unique(lines), lines.end());
  kernel.setLinesAttr(builder.getDenseI64ArrayAttr(lines));
  kernel.walk([&](tile::CheckIndexOp check) {
    SmallVector<int64_t> own;
    torch_tile::fusion::collectLines(check.getLoc(), own);
    const auto *found = own.empty() ? lines.end() : llvm::find(lines, own.front());
    check.setLine(torch_tile::encodeCheckPlace(dimensionOfCheck(check.getLoc()),
                                               found == lines.end() ? std::nullopt
                                                                    : std::optional<int64_t>(found - lines.begin())));
  });
  return kernel;
}

Value KernelEmitter::integerArgument(SizeExpr expr) {
  Value &value = integerArguments[expr];
  if (!value) {
    value = kernel.getBody().front().addArgument(builder.getI64Type(), builder.getLoc());
    integers.push_back(expr);
  }
  return value;
}

Value KernelEmitter::pointerOf(Value buffer) {
  if (loops.producer(buffer))
    if (Value dest = loops.destOf(buffer))
      return pointers.lookup(dest);
  return pointers.lookup(buffer);
}

SmallVector<int64_t> KernelEmitter::tileShape() const {
  if (schedule.vectorAxis < 0)
    return {};
  if (hasRows())
    return {schedule.rows, schedule.lanes};
  return {tileLanes()};
}

SmallVector<int64_t> KernelEmitter::accumulatorShape() const {
  if (isRowReduced() && !foldsRowsAtOnce())
    return {schedule.rows, schedule.lanes};
  return tileShape();
}

Type KernelEmitter::tileOf(Type element) const {
  SmallVector<int64_t> shape = tileShape();
  return shape.empty() ? element : RankedTensorType::get(shape, element);
}

//===-- programs ------------------------------------------------------------------------------------------------===//

void KernelEmitter::emitProgram() {
  SizeContext &sizes = loops.sizes();
  // The grid, outermost first: axes, then blocks of the tile axes.
  struct GridAxis {
    int axis;
    SizeExpr extent;
    std::function<void(Value)> bind;
  };
  SmallVector<GridAxis> grid;
  for (int k = 0; k < schedule.numGridAxes; ++k) {
    const Axis &axis = loops.axes[k];
    if (k != schedule.vectorAxis && k != schedule.rowAxis && k != schedule.interleavedAxis)
      grid.push_back({k, axis.extent, [this, name = axis.name](Value index) { bindings[name] = index; }});
  }
  auto addBlocks = [&](int k, int64_t block, Value &low, Value &high) {
    const Axis &axis = loops.axes[k];
    if (axis.reduced)
      return;
    if (k == schedule.vectorAxis && isAligned()) { // of places, which begin before the row
      SizeExpr places = sizes.add(axis.extent, sizes.constant(schedule.mostSkipped()));
      grid.push_back(
          {k, sizes.ceilDiv(places, sizes.constant(block)), [this, block, extent = axis.extent](Value index) {
             blockLow = arith::MulIOp::create(builder, index, exprs.constant(block));
             blockHigh = exprs.emit(extent, {});
           }});
      return;
    }
    if (block == 0) {
      low = exprs.constant(0);
      high = exprs.emit(axis.extent, {});
      return;
    }
    SizeExpr count = loops.facts().simplify(sizes.ceilDiv(axis.extent, sizes.constant(block)));
    grid.push_back({k, count, [this, block, extent = axis.extent, &low, &high](Value index) {
                      low = arith::MulIOp::create(builder, index, exprs.constant(block));
                      high = arith::AddIOp::create(builder, low, exprs.constant(block));
                      if (loops.facts().divides(loops.sizes().constant(block), extent) != Proof::Yes)
                        high = arith::MinSIOp::create(builder, high, exprs.emit(extent, {}));
                    }});
  };
  if (schedule.blockedAxis >= 0)
    addBlocks(schedule.blockedAxis, schedule.axisBlock, axisLow, axisHigh);
  if (schedule.rowAxis >= 0 && !isRowReduced())
    addBlocks(schedule.rowAxis, schedule.rowBlock, rowLow, rowHigh);
  if (schedule.vectorAxis >= 0)
    addBlocks(schedule.vectorAxis, schedule.block, blockLow, blockHigh);
  // Programs of one thread follow each other in the order in which results lie in memory.
  if (!options.isGpu)
    llvm::stable_sort(grid, [](const GridAxis &a, const GridAxis &b) { return a.axis < b.axis; });
  else if (!schedule.gridOrder.empty())
    llvm::stable_sort(grid, [&](const GridAxis &a, const GridAxis &b) {
      return llvm::find(schedule.gridOrder, a.axis) < llvm::find(schedule.gridOrder, b.axis);
    });

  numPrograms = sizes.constant(1);
  for (const GridAxis &axis : grid)
    numPrograms = sizes.mul(numPrograms, axis.extent);
  if (!grid.empty()) {
    Value id = tile::ProgramIdOp::create(builder, builder.getI64Type(), builder.getI64IntegerAttr(0));
    if (schedule.isBackwards)
      id = arith::SubIOp::create(builder, exprs.emit(sizes.sub(numPrograms, sizes.constant(1)), {}), id);
    for (size_t k = grid.size(); k-- > 0;) {
      if (k == 0) {
        grid[k].bind(id);
        break;
      }
      Value extent = exprs.emit(grid[k].extent, {});
      grid[k].bind(arith::RemUIOp::create(builder, id, extent));
      id = arith::DivUIOp::create(builder, id, extent);
    }
  }
  if (hasRowTiles() && schedule.rowAxis < schedule.numGridAxes)
    emitRows(schedule.numGridAxes);
  else
    emitInnerAxes(schedule.numGridAxes);
}

/// Whether the tiles of a row axis are a loop of the program.
bool KernelEmitter::hasRowTiles() const {
  if (isVectorReduced())
    return hasColumnLoop();
  return schedule.rowAxis >= 0 && !isRowReduced() &&
         !(schedule.rowBlock == schedule.rows && schedule.block == schedule.lanes);
}

/// Outside of the axes that lie within a row, so that long runs of it are written.
void KernelEmitter::emitRows(int innerAxis) {
  emitFor(rowLow, rowHigh, schedule.rows, {}, [&](Value row, ValueRange) -> ValueList {
    bindings[rowName()] = mayOverlap(schedule.rowAxis, schedule.rows) ? movedInside(row, rowHigh, schedule.rows) : row;
    emitInnerAxes(innerAxis);
    return {};
  });
}

void KernelEmitter::emitInnerAxes(int axis) {
  while (axis < (int)loops.axes.size() && !loops.axes[axis].reduced &&
         (axis == schedule.vectorAxis || axis == schedule.rowAxis || axis == schedule.interleavedAxis)) {
    if (axis == schedule.rowAxis && hasRowTiles())
      return emitRows(axis + 1);
    ++axis;
  }
  if (axis >= (int)loops.axes.size() || loops.axes[axis].reduced) {
    emitTiles();
    return;
  }
  bool isBlocked = axis == schedule.blockedAxis;
  Value low = isBlocked ? axisLow : exprs.constant(0);
  Value high = isBlocked ? axisHigh : exprs.emit(loops.axes[axis].extent, {});
  emitFor(low, high, 1, {}, [&](Value index, ValueRange) -> ValueList {
    bindings[loops.axes[axis].name] = index;
    emitInnerAxes(axis + 1);
    return {};
  });
}

void KernelEmitter::emitTiles() {
  if (schedule.rowAxis >= 0 && !isRowReduced())
    return isVectorReduced() ? emitRowTile() : emitTransposedTiles();
  if (schedule.vectorAxis < 0 || isVectorReduced() || schedule.isVectorInnermost)
    return emitStages();
  if (isAligned())
    return emitAlignedBlock();
  if (isStreamed())
    emitStreamed();
  emitSegments(blockLow, blockHigh, isAlwaysFull(), {}, [&](ValueRange) -> ValueList {
    if (schedule.interleavedAxis >= 0)
      emitInterleaved();
    else
      emitStages();
    return {};
  });
}

/// Whether the vector axis has whole tiles alone.
bool KernelEmitter::isAlwaysFull() const {
  SizeExpr lanes = loops.sizes().constant(schedule.lanes);
  return loops.facts().divides(lanes, loops.axes[schedule.vectorAxis].extent) == Proof::Yes;
}

/// Rows side by side, each reduced along its lanes.
void KernelEmitter::emitRowTile() {
  bindings[vectorName()] = exprs.constant(0);
  bool isWhole =
      loops.facts().divides(loops.sizes().constant(schedule.rows), loops.axes[schedule.rowAxis].extent) == Proof::Yes;
  if (hasColumnLoop()) {
    if (isWhole || mayOverlap(schedule.rowAxis, schedule.rows))
      return emitStages();
    Value rows = exprs.constant(schedule.rows), left = arith::SubIOp::create(builder, rowHigh, bindings[rowName()]);
    auto emit = [&](Value valid) -> ValueList {
      validRows = valid;
      emitStages();
      validRows = {};
      return {};
    };
    emitIf(
        arith::CmpIOp::create(builder, arith::CmpIPredicate::sge, left, rows), {}, [&] { return emit({}); },
        [&] { return emit(left); });
    return;
  }
  bindings[rowName()] = rowLow;
  if (isWhole)
    return emitStages();
  Value left = reuse(arith::SubIOp::create(builder, rowHigh, rowLow));
  auto partial = [&]() -> ValueList {
    validRows = left;
    emitStages();
    validRows = {};
    return {};
  };
  if (isNeverFull(schedule.rowAxis, schedule.rows)) {
    partial();
    return;
  }
  Value isFull = arith::CmpIOp::create(builder, arith::CmpIPredicate::sge, left, exprs.constant(schedule.rows));
  emitIf(
      isFull, {},
      [&]() -> ValueList {
        emitStages();
        return {};
      },
      partial);
}

/// Whether the axis is shorter than one tile.
bool KernelEmitter::isNeverFull(int axis, int64_t size) const {
  return loops.facts().range(loops.axes[axis].extent).max < size;
}

/// On GPU: programs that reduce come with and without masks, so that the loads of several steps of a loop are under way
/// together: each masked load is a branch. So do those whose pieces are put together from two words, which takes a tile
/// that is all there.
bool KernelEmitter::hasTwoVersions() const {
  return options.isGpu && (llvm::any_of(loops.axes, [](const Axis &axis) { return axis.reduced; }) ||
                           llvm::any_of(inputs, [&](Value input) { return isUnaligned(input, loops.facts()); }));
}

/// The points of the short axis one after the other, with its index as a constant: masks that depend on it alone (those
/// of cat and stack) become a choice made here.
void KernelEmitter::emitInterleaved() {
  llvm::MapVector<Value, ValueList> results;
  int64_t length = *loops.axes[schedule.interleavedAxis].extent.constant();
  for (int64_t point = 0; point < length; ++point) {
    bindings[interleavedName()] = exprs.constant(point);
    ScopeGuard scope(*this);
    for (const FusedMember &member : loops.members) {
      LoopsOp op = member.op;
      for (auto [result, value] : llvm::zip(op.getOutputs(), emitBody(member))) {
        scopes.back().values[result] = value;
        if (escapes(result))
          results[result].push_back(toTile(builder, value, tileShape()));
      }
    }
  }
  bindings[interleavedName()] = exprs.constant(0);
  for (auto &[result, values] : results)
    storeInterleaved(result, values);
}

void KernelEmitter::storeInterleaved(Value result, ArrayRef<Value> values) {
  int64_t length = values.size(), lanes = schedule.lanes;
  SmallVector<Type> types(length, values[0].getType());
  auto runs = tile::InterleaveOp::create(builder, types, values);
  Value first = exprs.emit(loops.offsetOf(result), bindings), numValid;
  if (validLanes)
    numValid = reuse(arith::MulIOp::create(builder, validLanes, exprs.constant(length)));
  for (auto [k, run] : llvm::enumerate(runs.getResults())) {
    Value before = exprs.constant(int64_t(k) * lanes), offset = reuse(arith::AddIOp::create(builder, first, before));
    ValueList valid;
    if (numValid)
      valid.push_back(reuse(arith::SubIOp::create(builder, numValid, before)));
    tile::StoreOp::create(builder, run, pointerOf(result), offset, ValueRange(), builder.getDenseI64ArrayAttr({1}),
                          valid);
  }
}

void KernelEmitter::emitTransposedTiles() {
  auto isDivisible = [&](int axis, int64_t by) {
    return loops.facts().divides(loops.sizes().constant(by), loops.axes[axis].extent) == Proof::Yes;
  };
  bool rowsOverlap = mayOverlap(schedule.rowAxis, schedule.rows),
       lanesOverlap = mayOverlap(schedule.vectorAxis, schedule.lanes);
  bool alwaysFull = (rowsOverlap || isDivisible(schedule.rowAxis, schedule.rows)) &&
                    (lanesOverlap || isDivisible(schedule.vectorAxis, schedule.lanes));
  if (schedule.rowBlock == schedule.rows && schedule.block == schedule.lanes) {
    bindings[rowName()] = rowsOverlap ? movedInside(rowLow, rowHigh, schedule.rows) : rowLow;
    bindings[vectorName()] = lanesOverlap ? movedInside(blockLow, blockHigh, schedule.lanes) : blockLow;
    if (alwaysFull) {
      emitStages();
      return;
    }
    Value rowsLeft = reuse(arith::SubIOp::create(builder, rowHigh, bindings[rowName()])),
          lanesLeft = reuse(arith::SubIOp::create(builder, blockHigh, bindings[vectorName()]));
    auto partial = [&]() -> ValueList {
      validRows = isDivisible(schedule.rowAxis, schedule.rows) ? Value() : rowsLeft;
      validLanes = isDivisible(schedule.vectorAxis, schedule.lanes) ? Value() : lanesLeft;
      emitStages();
      validRows = validLanes = {};
      return {};
    };
    if (!hasTwoVersions() || isNeverFull(schedule.rowAxis, schedule.rows) ||
        isNeverFull(schedule.vectorAxis, schedule.lanes)) {
      partial();
      return;
    }
    Value rowsFull = arith::CmpIOp::create(builder, arith::CmpIPredicate::sge, rowsLeft, exprs.constant(schedule.rows));
    Value lanesFull =
        arith::CmpIOp::create(builder, arith::CmpIPredicate::sge, lanesLeft, exprs.constant(schedule.lanes));
    emitIf(
        arith::AndIOp::create(builder, rowsFull, lanesFull), {},
        [&]() -> ValueList {
          emitStages();
          return {};
        },
        partial);
    return;
  }
  Value row = bindings[rowName()];
  emitFor(blockLow, blockHigh, schedule.lanes, {}, [&](Value lane, ValueRange) -> ValueList {
    bindings[vectorName()] = lane = lanesOverlap ? movedInside(lane, blockHigh, schedule.lanes) : lane;
    if (alwaysFull) {
      emitStages();
      return {};
    }
    Value rowsLeft = arith::SubIOp::create(builder, rowHigh, row),
          lanesLeft = arith::SubIOp::create(builder, blockHigh, lane);
    Value rowsFull = arith::CmpIOp::create(builder, arith::CmpIPredicate::sge, rowsLeft, exprs.constant(schedule.rows));
    Value lanesFull =
        arith::CmpIOp::create(builder, arith::CmpIPredicate::sge, lanesLeft, exprs.constant(schedule.lanes));
    emitIf(
        arith::AndIOp::create(builder, rowsFull, lanesFull), {},
        [&]() -> ValueList {
          emitStages();
          return {};
        },
        [&]() -> ValueList {
          validRows = arith::MinSIOp::create(builder, rowsLeft, exprs.constant(schedule.rows));
          validLanes = arith::MinSIOp::create(builder, lanesLeft, exprs.constant(schedule.lanes));
          emitStages();
          validRows = validLanes = {};
          return {};
        });
    return {};
  });
}

} // namespace torch_tile::tile_build
