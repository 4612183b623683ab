// Accesses by index, and checks of indices.
#include "compiler/codegen/gpu/CompileGpuKernel.h"
#include "compiler/codegen/gpu/MemoryAccess.h"
#include "compiler/tile/ir/Marks.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace torch_tile::codegen;

bool ThreadLowering::hasSameRows(Type left, Type right) const {
  return numRowsOf(left) == numRowsOf(right) && lanesOf(left) == lanesOf(right);
}

LogicalResult ThreadLowering::lowerGather(tile::GatherOp op) {
  if (op.getOffsets() && !hasSameRows(op.getType(), op.getOffsets().getType()))
    return op.emitOpError("expected a result of the offsets' shape, got ")
           << op.getType() << " and " << op.getOffsets().getType();
  return gatherPointers(op);
}

LogicalResult ThreadLowering::lowerScatter(tile::ScatterOp op) {
  if (op.getOffsets() && !hasSameRows(op.getValue().getType(), op.getOffsets().getType()))
    return op.emitOpError("expected values of the offsets' shape, got ")
           << op.getValue().getType() << " and " << op.getOffsets().getType();
  return scatterPointers(op);
}

/// An index that fails ends the launch as a failing assertion of eager's kernels does: nothing that reads its results
/// runs. Those that are not checked become 0.
LogicalResult ThreadLowering::lowerCheckIndex(tile::CheckIndexOp op) {
  auto type = dyn_cast<RankedTensorType>(op.getIndex().getType());
  // Integers of 64 bits take several instructions each.
  APInt known;
  Type element = getElementTypeOrSelf(op.getIndex().getType());
  bool isNarrow = element.isInteger(32) && matchPattern(op.getSize(), m_ConstantInt(&known)) && known.sle(INT32_MAX);
  Type computed = isNarrow ? element : b.getI64Type();
  Value size = createIndexCast(scalar(op.getSize()), computed, /*isSigned=*/true), none = constant(computed, 0);
  auto compare = [&](arith::CmpIPredicate predicate, Value left, Value right) -> Value {
    return arith::CmpIOp::create(b, predicate, left, right);
  };
  Rows result;
  Value anyOutside; // one branch for all elements, so that what they are indices of is loaded together
  const Rows indices = rows(op.getIndex());
  for (auto [row, list] : llvm::enumerate(indices)) {
    SmallVector<Value> lanes;
    for (int64_t lane = 0, end = lanesOf(list.getType()); lane < end; ++lane) {
      Value given = createIndexCast(extract(list, lane), computed, /*isSigned=*/true), index = given;
      if (op.getWrap()) {
        Value isNegative = compare(arith::CmpIPredicate::slt, index, none);
        index = arith::SelectOp::create(b, isNegative, arith::AddIOp::create(b, index, size), index);
      }
      Value inside =
          both(compare(arith::CmpIPredicate::sge, index, none), compare(arith::CmpIPredicate::slt, index, size));
      Value active;
      if (op.getValid()) {
        // `valid` counts along the first axis.
        Value position = i64(0);
        if (type && type.getRank() > 0)
          position = arith::ExtUIOp::create(b, b.getI64Type(),
                                            coordinates(addI32(start(type, row), lane), type.getShape())[0]);
        active = compare(arith::CmpIPredicate::slt, position, scalar(op.getValid()));
      }
      if (op.getMask()) {
        const Rows &mask = rows(op.getMask());
        active = both(active, extract(mask[mask.size() == 1 ? 0 : row], lane));
      }
      // Integers may be divided by zero here, as in eager: the result is some number.
      if (!op.getDivision()) {
        Value outside = arith::XOrIOp::create(b, inside, constant(b.getI1Type(), 1));
        outside = both(outside, active);
        anyOutside = anyOutside ? arith::OrIOp::create(b, anyOutside, outside).getResult() : outside;
      }
      Value safe = arith::SelectOp::create(b, both(inside, active), index, none);
      lanes.push_back(createIndexCast(safe, element, /*isSigned=*/true));
    }
    result.push_back(fromScalars(lanes));
  }
  if (anyOutside)
    guardedStore(anyOutside, [&] { failAssertion("index out of bounds: 0 <= index < size"); });
  set(op.getResult(), result);
  return success();
}
