// What reductions carry from one tile to the next.
#include "compiler/tile/build/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::tile_build {

bool KernelEmitter::mayBePartial() const {
  auto isWhole = [&](int axis, int64_t tile) {
    return loops.facts().divides(loops.sizes().constant(tile), loops.axes[axis].extent) == Proof::Yes;
  };
  return (isVectorReduced() && (isAligned() || !isWhole(schedule.vectorAxis, schedule.lanes))) ||
         (isRowReduced() && !isWhole(schedule.rowAxis, schedule.rows * schedule.unroll));
}

/// Whether lanes past the end of a reduced vector axis are the same ones in all tiles, so that what they hold is
/// dropped after the loop. Threads keep it to themselves until then.
bool KernelEmitter::dropsLanesAtEnd() const {
  return options.isGpu && isVectorReduced() && isRowReduced() && !isAligned() && !isAlwaysFull();
}

bool masksOnlyAtEnds(const FusedLoops &loops, const Schedule &schedule) {
  for (auto [k, axis] : llvm::enumerate(loops.axes))
    if (axis.reduced && (((int)k != schedule.vectorAxis && (int)k != schedule.rowAxis) || !axis.extent.isConstant()))
      return false;
  return schedule.alignedLanes == 0;
}

bool KernelEmitter::isOnlyTile() const {
  if (!isVectorReduced() || (!options.isGpu && !hasColumns()))
    return false;
  for (auto [k, axis] : llvm::enumerate(loops.axes))
    if (axis.reduced && (int)k != schedule.vectorAxis)
      return false;
  return hasColumnLoop() || isOneTile();
}

/// Whether the combiner only compares and chooses among what is carried as `number`.
static bool isOnlyChosen(Region &combine, unsigned number) {
  Block &block = combine.front();
  unsigned count = block.getNumArguments() / 2;
  SmallVector<Value> values = {block.getArgument(number), block.getArgument(number + count)};
  for (size_t k = 0; k < values.size(); ++k)
    for (OpOperand &use : values[k].getUses()) {
      Operation *user = use.getOwner();
      if (auto choice = dyn_cast<arith::SelectOp>(user); choice && use.getOperandNumber() > 0)
        values.push_back(choice.getResult());
      else if (!isa<arith::CmpIOp>(user) && user != block.getTerminator())
        return false;
    }
  // What is chosen stays with its own kind.
  for (Value value : values)
    if (auto choice = value.getDefiningOp<arith::SelectOp>())
      if (!llvm::is_contained(values, choice.getTrueValue()) || !llvm::is_contained(values, choice.getFalseValue()))
        return false;
  return llvm::is_contained(values, block.getTerminator()->getOperand(number));
}

SmallVector<KernelEmitter::Carried> KernelEmitter::kindsOf(LoopsOp op) {
  bool isAlongLanes = op.isScan() && isVectorReduced();
  SmallVector<Carried> kinds(op.isReduction() || isAlongLanes ? op.getNumResults() : 0, Carried::Tile);
  if (kinds.empty())
    return kinds;
  Operation *yield = op.bodyBlock()->getTerminator();
  for (auto [k, kind] : llvm::enumerate(kinds)) {
    auto index = yield->getOperand(k).getDefiningOp<IndexOp>();
    if (!index || !index.getScalars().empty() || !yield->getOperand(k).getType().isInteger(64))
      continue;
    SizeRange range = loops.facts().range(loops.exprOf(index));
    if (range.min >= 0 && range.max < std::numeric_limits<int32_t>::max() && isOnlyChosen(op.getCombine(), k))
      kind = Carried::Narrow;
  }
  // On the CPU, beside values of 64 bits, masks would have to be joined.
  for (auto [k, kind] : llvm::enumerate(kinds))
    if (!options.isGpu && kind == Carried::Tile && yield->getOperand(k).getType().getIntOrFloatBitWidth() > 32)
      kinds.assign(kinds.size(), Carried::Tile);
  if (!op.isReduction() || isOnlyTile() || foldsRowsAtOnce())
    return kinds;
  if (mayBePartial() && !(options.isGpu && masksOnlyAtEnds(loops, schedule)))
    return kinds;
  // The same number for every point, combined with nothing else.
  Block &combiner = op.getCombine().front();
  for (auto [k, kind] : llvm::enumerate(kinds)) {
    Operation *folded = combiner.getTerminator()->getOperand(k).getDefiningOp();
    bool dependsOnItself =
        folded && llvm::all_of(folded->getOperands(), [&, number = k](Value operand) {
          return operand == combiner.getArgument(number) || operand == combiner.getArgument(number + kinds.size());
        });
    Value value = yield->getOperand(k);
    if (auto choice = value.getDefiningOp<arith::SelectOp>())
      if (auto known = decided.find(choice.getCondition().getDefiningOp()); known != decided.end())
        value = known->second ? choice.getTrueValue() : choice.getFalseValue();
    if (kind == Carried::Tile && value.getDefiningOp<arith::ConstantOp>() && dependsOnItself)
      kind = Carried::Uniform;
  }
  return kinds;
}

Value KernelEmitter::initialOf(Carried kind, TypedAttr init, Value usual) {
  if (kind == Carried::Tile)
    return usual;
  if (kind == Carried::Uniform)
    return arith::ConstantOp::create(builder, init);
  int64_t value = cast<IntegerAttr>(init).getInt();
  value = std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  Value narrow = arith::ConstantOp::create(builder, builder.getI32IntegerAttr((int32_t)value));
  auto tile = dyn_cast<RankedTensorType>(usual.getType());
  return tile ? toTile(builder, narrow, tile.getShape()) : narrow;
}

} // namespace torch_tile::tile_build
