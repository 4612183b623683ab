// Gathers whose indices lie in memory: each index is loaded as a scalar, and the element it names goes into its lane.
// Processors without a fast gather instruction take 1.5 times as long for it; narrow elements have none.
#include "compiler/codegen/cpu/TileLowering.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace torch_tile::codegen {
namespace {

/// Loads of indices that the offsets of one gather are made of. More would have lanes wait for loads of indices.
constexpr size_t mostStoredIndices = 4;
/// Steps of one lane, each of which is emitted for every lane: a product and a sum for each index.
constexpr unsigned mostSteps = 16;

/// Offsets made from indices in memory by the same steps for all lanes.
struct StoredIndices {
  SmallVector<tile::LoadOp> loads;
  SmallVector<tile::CheckIndexOp> checks;
  unsigned numSteps = 0;
};

Value splatScalar(Value tile) {
  auto splat = tile.getDefiningOp<tile::SplatOp>();
  return splat ? splat->getOperand(0) : Value();
}

/// Whether nothing between the two ops of one block writes memory.
bool isUnchangedBetween(Operation *from, Operation *to) {
  if (from->getBlock() != to->getBlock())
    return false;
  for (Operation *op = from->getNextNode(); op != to; op = op->getNextNode())
    if (!isMemoryEffectFree(op) && !isa<tile::LoadOp, tile::GatherOp, tile::CheckIndexOp>(op))
      return false;
  return true;
}

bool isPlainRow(tile::LoadOp load) {
  auto type = dyn_cast<RankedTensorType>(load.getType());
  return type && type.getRank() == 1 && load.getStaticStrides().back() == 1 && load.getValid().empty() &&
         !load.getMask() && type.getElementType().getIntOrFloatBitWidth() >= 32;
}

/// Adds what `offsets` of `op` are made of; false where a lane's offset has other steps than those of `emitOffset`.
bool addStoredIndices(Value offsets, tile::GatherOp op, bool isChecked, StoredIndices &found) {
  Operation *step = offsets.getDefiningOp();
  if (++found.numSteps > mostSteps)
    return false;
  if (auto load = dyn_cast_or_null<tile::LoadOp>(step)) {
    found.loads.push_back(load);
    return found.loads.size() <= mostStoredIndices && isPlainRow(load) && isUnchangedBetween(load, op);
  }
  if (auto check = dyn_cast_or_null<tile::CheckIndexOp>(step)) {
    if (isChecked || check.getMask() || check.getValid() || check.getDivision())
      return false;
    found.checks.push_back(check);
    return addStoredIndices(check.getIndex(), op, /*isChecked=*/true, found);
  }
  if (isa_and_nonnull<arith::ExtSIOp>(step))
    return addStoredIndices(step->getOperand(0), op, isChecked, found);
  // What is checked is what was stored.
  if (isChecked || !isa_and_nonnull<arith::AddIOp, arith::MulIOp, arith::SubIOp>(step))
    return false;
  return llvm::all_of(step->getOperands(), [&](Value operand) {
    return splatScalar(operand) || addStoredIndices(operand, op, isChecked, found);
  });
}

std::optional<StoredIndices> findStoredIndices(tile::GatherOp op) {
  StoredIndices found;
  bool isStored = op.getOffsets() && addStoredIndices(op.getOffsets(), op, /*isChecked=*/false, found);
  return isStored && !found.loads.empty() ? std::optional(found) : std::nullopt;
}

} // namespace

bool TileLowering::lowerAsScalarLoads(tile::GatherOp op) {
  auto type = dyn_cast<RankedTensorType>(op.getType());
  if (!type || type.getRank() != 1 || lanesOf(type) < 2 || op.getMask() || !isa<tile::PtrType>(op.getBase().getType()))
    return false;
  Type element = type.getElementType(), storage = storageOf(element);
  if (features.hasFastGather && bytesOf(storage) >= 4)
    return false;
  std::optional<StoredIndices> stored = findStoredIndices(op);
  if (!stored)
    return false;
  Value base = scalar(op.getBase());
  Type rowType = withLanes(storage, lanesOf(type));
  llvm::DenseMap<Operation *, Value> firsts; // load -> address of the first index
  for (tile::LoadOp load : stored->loads) {
    Type indexType = getElementTypeOrSelf(load.getType());
    firsts[load] = elementPtr(scalar(load.getBase()), indexType, scalar(load.getOffset()));
  }

  // The offset of one lane, by the steps that `addStoredIndices` takes.
  auto emitOffset = [&](auto &self, Value offsets, int64_t lane) -> Value {
    if (Value uniform = splatScalar(offsets))
      return scalar(uniform);
    Operation *step = offsets.getDefiningOp();
    Type element = getElementTypeOrSelf(offsets.getType());
    if (isa<tile::LoadOp>(step))
      return loadElements(element, elementPtr(firsts[step], element, i64(lane)));
    if (auto check = dyn_cast<tile::CheckIndexOp>(step))
      return self(self, check.getIndex(), lane);
    if (isa<arith::ExtSIOp>(step))
      return createIndexCast(self(self, step->getOperand(0), lane), element, /*isSigned=*/true);
    Value left = self(self, step->getOperand(0), lane), right = self(self, step->getOperand(1), lane);
    return createClone(step, {left, right}, element);
  };
  auto loadLanes = [&]() -> Value {
    SmallVector<Value> loaded;
    for (int64_t lane = 0; lane < lanesOf(type); ++lane)
      loaded.push_back(loadElements(storage, lanePtr(base, storage, emitOffset(emitOffset, op.getOffsets(), lane))));
    return fromScalars(loaded);
  };
  if (stored->checks.empty()) {
    set(op.getResult(), {fromStorage(loadLanes(), element)});
    return true;
  }
  // Indices out of range, and those that count from the end, are not what is in memory.
  Value areStored;
  for (tile::CheckIndexOp check : stored->checks) {
    Value isStored =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, rows(check.getIndex())[0], rows(check.getResult())[0]);
    Value all = LLVM::vector_reduce_and::create(b, b.getI1Type(), isStored);
    areStored = areStored ? arith::AndIOp::create(b, areStored, all).getResult() : all;
  }
  auto branch = scf::IfOp::create(b, TypeRange{rowType}, areStored, /*addThenBlock=*/true, /*addElseBlock=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(branch.thenBlock());
    scf::YieldOp::create(b, loadLanes());
    b.setInsertionPointToEnd(branch.elseBlock());
    scf::YieldOp::create(b, gatherLanes(rowType, base, rows(op.getOffsets())[0], Value(), Value()));
  }
  set(op.getResult(), {fromStorage(branch.getResult(0), element)});
  return true;
}

} // namespace torch_tile::codegen
