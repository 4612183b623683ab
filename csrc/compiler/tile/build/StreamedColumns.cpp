// Columns that are reduced in the order of memory. A few rows are taken at a time, and all lanes of the program's block
// from each: so many streams the prefetchers of a cache follow. What is carried from rows to rows lies in scratch
// memory, for each lane of the block. Sums, whose error grows with the terms of an accumulator, have several levels of
// it.
#include "compiler/fusion/FusionCost.h"
#include "compiler/tile/build/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;

namespace torch_tile::tile_build {

/// Where what the current tile carries lies in a level: tiles have places of their own, also the last one, which may be
/// moved back so that it is whole.
Value KernelEmitter::streamedSlot() {
  Value inside = reuse(arith::SubIOp::create(builder, bindings[vectorName()], blockLow));
  Value up = reuse(arith::AddIOp::create(builder, inside, exprs.constant(schedule.lanes - 1)));
  // The next multiple of the lanes, of which there are a power of two.
  return reuse(arith::AndIOp::create(builder, up, exprs.constant(-schedule.lanes)));
}

Value KernelEmitter::streamedPointer(size_t level, size_t number, Type type) {
  size_t count = streamedOffsets.size() / streamedLevels;
  Value offset = exprs.emit(streamedOffsets[level * count + number], {});
  Type element = getElementTypeOrSelf(type);
  return reuse(tile::ScratchOp::create(builder, tile::PtrType::get(builder.getContext(), element), offset));
}

/// What the current tile carries in a level; of the types of `like`.
KernelEmitter::ValueList KernelEmitter::loadStreamed(size_t level, ValueRange like) {
  ValueList values;
  for (auto [number, value] : llvm::enumerate(like)) {
    Type type = value.getType();
    SmallVector<int64_t> strides(isa<RankedTensorType>(type) ? 1 : 0, 1);
    values.push_back(tile::LoadOp::create(builder, type, streamedPointer(level, number, type), streamedSlot(),
                                          ValueRange(), builder.getDenseI64ArrayAttr(strides), ValueRange(), Value(),
                                          Value()));
  }
  return values;
}

void KernelEmitter::storeStreamed(size_t level, ValueRange values) {
  for (auto [number, value] : llvm::enumerate(values)) {
    SmallVector<int64_t> strides(isa<RankedTensorType>(value.getType()) ? 1 : 0, 1);
    tile::StoreOp::create(builder, value, streamedPointer(level, number, value.getType()), streamedSlot(), ValueRange(),
                          builder.getDenseI64ArrayAttr(strides), ValueRange());
  }
}

/// The loop over the rows, which leaves the results of all tiles of the block in the last level.
void KernelEmitter::emitStreamed() {
  ScopeGuard scope(*this);
  currentStage = 0;
  ValueList initial;
  SmallVector<Reduction> items = reductionsOf(0, initial);
  SumBlocks blocks(*this, items, initial);
  const Axis &rows = *llvm::find_if(loops.axes, [](const Axis &axis) { return axis.reduced; });
  SmallVector<int64_t> steps = {schedule.streamedRows};
  if (sumBlocks)
    llvm::append_range(steps, blockSteps(rows.extent, schedule.streamedRows, 1));

  SizeContext &sizes = loops.sizes();
  SizeExpr columns = schedule.block ? sizes.constant(schedule.block) : loops.axes[schedule.vectorAxis].extent;
  SizeExpr places = sizes.add(columns, sizes.constant(2 * schedule.lanes)); // whole tiles
  streamedLevels = steps.size();
  streamedOffsets.clear();
  for (size_t level = 0; level < streamedLevels; ++level)
    for (Value value : initial) {
      streamedOffsets.push_back(scratchBytes);
      int64_t bytes = torch_tile::fusion::elementBytes(getElementTypeOrSelf(value.getType()));
      SizeExpr lines = sizes.ceilDiv(sizes.mul(places, sizes.constant(bytes)), sizes.constant(64));
      scratchBytes = sizes.add(scratchBytes, sizes.mul(lines, sizes.constant(64)));
    }

  auto forEachTile = [&](llvm::function_ref<void()> body) {
    emitVectorLoop(blockLow, blockHigh, isAlwaysFull(), {}, [&](ValueRange) -> ValueList {
      body();
      return {};
    });
  };
  auto clear = [&](size_t level) { forEachTile([&] { storeStreamed(level, initial); }); };
  bool hasIdentity = true;
  auto sumOfRows = [&](Value low, Value high) {
    emitParallelMembers(/*isStored=*/false);
    return emitFor(low, high, 1, initial, [&](Value row, ValueRange carried) {
      bindings[rows.name] = row;
      return emitPoint(items, blocks, carried, hasIdentity);
    });
  };
  std::function<void(size_t, Value, Value)> emit = [&](size_t level, Value low, Value high) {
    emitFor(low, high, steps[level], {}, [&](Value row, ValueRange) -> ValueList {
      Value end = reuse(arith::AddIOp::create(builder, row, exprs.constant(steps[level])));
      end = reuse(arith::MinSIOp::create(builder, end, high));
      if (level > 0) {
        clear(level - 1);
        emit(level - 1, row, end);
      }
      forEachTile([&] {
        ValueList block = level == 0 ? sumOfRows(row, end) : loadStreamed(level - 1, initial);
        storeStreamed(level, blocks.join(loadStreamed(level, initial), block));
      });
      return {};
    });
  };
  clear(streamedLevels - 1);
  emit(streamedLevels - 1, exprs.constant(0), exprs.emit(rows.extent, {}));
}

} // namespace torch_tile::tile_build
