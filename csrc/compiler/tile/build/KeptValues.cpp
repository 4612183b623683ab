// Values of the inner loops that a later stage needs again: kept in the program's scratch memory where computing them
// anew costs more than a store and a load.
#include "compiler/fusion/FusionCost.h"
#include "compiler/tile/build/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;

namespace torch_tile::tile_build {
namespace {

/// A store, a load and the cache lines they touch, in units of simple vector instructions.
constexpr int costOfKeeping = 10;
/// What does not stay in a core's cache is not worth keeping.
constexpr int64_t maxKeptBytes = 256 << 10;

} // namespace

/// For each member: what it takes to compute its value again, and the last stage that needs it, directly or through
/// values computed anew there.
void KernelEmitter::findRepeats() {
  auto made = [&](Operation &inner) -> const FusedMember * {
    auto load = dyn_cast<LoadOp>(inner);
    return load ? loops.producer(load.getSource()) : nullptr;
  };
  for (const FusedMember &member : loops.members) {
    LoopsOp op = member.op;
    Repeat repeat{torch_tile::fusion::bodyCost(op).work, member.stage};
    for (Operation &inner : *op.bodyBlock())
      if (const FusedMember *from = made(inner);
          from && from->isFull && !LoopsOp(from->op).isReduction() && !escapes(cast<LoadOp>(inner).getSource()))
        repeat.work =
            std::min(repeat.work + repeats.lookup(from).work, costOfKeeping); // beyond that it does not matter how much
    repeats[&member] = repeat;
  }
  for (const FusedMember &member : llvm::reverse(loops.members)) {
    LoopsOp op = member.op;
    int last = op.isReduction() ? member.stage : repeats.lookup(&member).lastUse;
    for (Operation &inner : *op.bodyBlock())
      if (const FusedMember *from = made(inner))
        repeats[from].lastUse = std::max(repeats[from].lastUse, last);
  }
}

bool KernelEmitter::isWorthKeeping(const FusedMember &member) {
  LoopsOp op = member.op;
  if (!member.isFull || op.isReduction() || repeats.lookup(&member).lastUse <= currentStage ||
      op.getNumResults() != 1 || escapes(op.getResult(0)))
    return false;
  // On GPU scratch memory is as far as any other.
  if (options.isGpu || schedule.rowAxis >= 0 || repeats.lookup(&member).work < costOfKeeping)
    return false;
  double elements = isVectorReduced() ? 1 : (double)schedule.lanes;
  for (const Axis &axis : loops.axes)
    if (axis.reduced)
      elements *= (double)loops.facts().estimate(axis.extent);
  return elements * 4 <= (double)maxKeptBytes;
}

/// Position of the current tile among all points of the reduced axes; lanes lie innermost.
SizeExpr KernelEmitter::scratchIndex() const {
  SizeContext &sizes = loops.sizes();
  SizeExpr index = sizes.constant(0);
  for (auto [k, axis] : llvm::enumerate(loops.axes))
    if (axis.reduced && (int)k != schedule.vectorAxis)
      index = sizes.add(sizes.mul(index, axis.extent), sizes.symbol(axis.name));
  if (!isVectorReduced())
    return sizes.mul(index, sizes.constant(schedule.lanes));
  const Axis &vector = loops.axes[schedule.vectorAxis];
  return sizes.add(sizes.mul(index, vector.extent), sizes.symbol(vector.name));
}

Value KernelEmitter::scratchPointer(Value result) {
  Type element = scalarType(cast<GraphTensorType>(result.getType()).getElementType());
  Value offset = exprs.emit(kept.lookup(result).offset, {});
  return reuse(tile::ScratchOp::create(builder, tile::PtrType::get(builder.getContext(), element), offset));
}

void KernelEmitter::keep(Value result, Value value) {
  SizeContext &sizes = loops.sizes();
  auto [it, isNew] = kept.try_emplace(result, Kept{scratchBytes, currentStage});
  if (isNew) {
    // One tile more than the points: the last tile is stored whole.
    SizeExpr elements = sizes.constant(isVectorReduced() ? 1 : schedule.lanes);
    for (const Axis &axis : loops.axes)
      if (axis.reduced)
        elements = sizes.mul(elements, axis.extent);
    elements = sizes.add(elements, sizes.constant(schedule.lanes));
    int64_t bytes = torch_tile::fusion::elementBytes(cast<GraphTensorType>(result.getType()).getElementType());
    SizeExpr lines = sizes.ceilDiv(sizes.mul(elements, sizes.constant(bytes)), sizes.constant(64));
    scratchBytes = sizes.add(scratchBytes, sizes.mul(lines, sizes.constant(64)));
  }
  Value index = exprs.emit(scratchIndex(), bindings);
  tile::StoreOp::create(builder, toTile(builder, value, tileShape()), scratchPointer(result), index, ValueRange(),
                        builder.getDenseI64ArrayAttr({1}), ValueRange());
}

Value KernelEmitter::loadKept(Value result) {
  Type element = scalarType(cast<GraphTensorType>(result.getType()).getElementType());
  Value index = exprs.emit(scratchIndex(), bindings);
  Value value = reuse(tile::LoadOp::create(builder, tileOf(element), scratchPointer(result), index, ValueRange(),
                                           builder.getDenseI64ArrayAttr({1}), ValueRange(), Value(), Value()));
  scopes.back().values[result] = value;
  return value;
}

//===-- rows in shared memory -----------------------------------------------------------------------------------===//

/// Whether a load reads a row that later stages read again. Under a condition it may not have been read before.
bool KernelEmitter::isHeld(SizeExpr offset) const {
  return schedule.heldBytes > 0 && isVectorReduced() && !hasRows() && conditionDepth == 0 &&
         offset.contains(vectorName());
}

/// From memory in the first stage that reads it, which leaves it in shared memory; from there in later ones.
Value KernelEmitter::heldLoad(LoadOp load, SizeExpr offset) {
  Value pointer = pointerOf(load.getSource()), index = tilePlace ? tilePlace : bindings[vectorName()];
  auto found = heldRows.find({pointer, offset});
  if (found != heldRows.end() && found->second.stage < currentStage)
    return reuse(
        tile::HeldOp::create(builder, tileOf(load.getType()), index, builder.getI64IntegerAttr(found->second.offset)));
  Value value = structuredLoad(pointer, offset, load.getType());
  if (found == heldRows.end()) {
    int64_t tiles =
        llvm::divideCeil(*loops.axes[schedule.vectorAxis].extent.constant() + schedule.mostSkipped(), schedule.lanes);
    int64_t bytes = tiles * schedule.lanes * torch_tile::fusion::elementBytes(load.getType());
    if (heldBytes + bytes > schedule.heldBytes)
      return value;
    found = heldRows.try_emplace({pointer, offset}, HeldRow{heldBytes, currentStage}).first;
    heldBytes += llvm::alignTo(bytes, 16);
  }
  if (llvm::none_of(value.getUsers(), [](Operation *user) { return isa<tile::HoldOp>(user); }))
    tile::HoldOp::create(builder, value, index, builder.getI64IntegerAttr(found->second.offset));
  return value;
}

void KernelEmitter::dropUnusedHolds() {
  llvm::SmallDenseSet<int64_t> used;
  kernel.walk([&](tile::HeldOp op) { used.insert(op.getOffset()); });
  kernel.walk([&](tile::HoldOp op) {
    if (!used.contains(op.getOffset()))
      op.erase();
  });
  if (!used.empty())
    kernel->setAttr("tile.held_bytes", builder.getI64IntegerAttr(heldBytes));
}

} // namespace torch_tile::tile_build
