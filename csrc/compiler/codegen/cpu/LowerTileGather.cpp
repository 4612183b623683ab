// Gathers whose indices lie in memory: each index is loaded as a scalar, and the element it names goes into its lane.
// Processors without a fast gather instruction take 1.5 times as long for it; narrow elements have none.
#include "compiler/codegen/cpu/TileLowering.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace torch_tile::codegen {
namespace {

/// Offsets made from indices in memory by the same steps for all lanes.
struct StoredIndices {
  tile::LoadOp load;
  tile::CheckIndexOp check;       // null if there is none
  SmallVector<Operation *> steps; // last first
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

std::optional<StoredIndices> findStoredIndices(tile::GatherOp op) {
  StoredIndices found;
  Value offsets = op.getOffsets();
  while (Operation *step = offsets ? offsets.getDefiningOp() : nullptr) {
    if (auto load = dyn_cast<tile::LoadOp>(step)) {
      auto type = dyn_cast<RankedTensorType>(load.getType());
      bool isPlain = type && type.getRank() == 1 && load.getStaticStrides().back() == 1 && load.getValid().empty() &&
                     !load.getMask() && type.getElementType().getIntOrFloatBitWidth() >= 32;
      found.load = load;
      return isPlain && isUnchangedBetween(load, op) ? std::optional(found) : std::nullopt;
    }
    if (auto check = dyn_cast<tile::CheckIndexOp>(step)) {
      if (found.check || check.getMask() || check.getValid() || check.getDivision())
        return {};
      found.check = check;
      offsets = check.getIndex();
    } else if (isa<arith::ExtSIOp>(step)) {
      found.steps.push_back(step);
      offsets = step->getOperand(0);
    } else if (isa<arith::AddIOp, arith::MulIOp, arith::SubIOp>(step)) {
      bool isFirst = bool(splatScalar(step->getOperand(1)));
      if (found.check ? true : !isFirst && !splatScalar(step->getOperand(0)))
        return {}; // what is checked is what was stored
      found.steps.push_back(step);
      offsets = step->getOperand(isFirst ? 0 : 1);
    } else {
      return {};
    }
  }
  return {};
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
  tile::LoadOp load = stored->load;
  Type indexType = getElementTypeOrSelf(load.getType());
  Value first = elementPtr(scalar(load.getBase()), indexType, scalar(load.getOffset()));
  Value base = scalar(op.getBase());
  Type rowType = withLanes(storage, lanesOf(type));

  auto loadLanes = [&]() -> Value {
    SmallVector<Value> loaded;
    for (int64_t lane = 0; lane < lanesOf(type); ++lane) {
      Value offset = loadElements(indexType, elementPtr(first, indexType, i64(lane)));
      for (Operation *step : llvm::reverse(stored->steps)) {
        if (isa<arith::ExtSIOp>(step)) {
          offset = createIndexCast(offset, getElementTypeOrSelf(step->getResult(0).getType()), /*isSigned=*/true);
          continue;
        }
        Value right = splatScalar(step->getOperand(1)), left = right ? Value() : splatScalar(step->getOperand(0));
        Value operands[] = {left ? scalar(left) : offset, right ? scalar(right) : offset};
        offset = createClone(step, operands, offset.getType());
      }
      loaded.push_back(loadElements(storage, lanePtr(base, storage, offset)));
    }
    return fromScalars(loaded);
  };
  if (!stored->check) {
    set(op.getResult(), {fromStorage(loadLanes(), element)});
    return true;
  }
  // Indices out of range, and those that count from the end, are not what is in memory.
  Value isStored = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, rows(stored->check.getIndex())[0],
                                         rows(stored->check.getResult())[0]);
  Value areStored = LLVM::vector_reduce_and::create(b, b.getI1Type(), isStored);
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
