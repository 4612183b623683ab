// Where an instruction's approximation will do.
#include "compiler/codegen/common/ExpandMath.h"
#include "compiler/codegen/gpu/ThreadLowering.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace torch_tile::codegen;

/// The value that all elements of a tile have, or that a narrower tile has for each.
static Value unspread(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<tile::SplatOp, tile::BroadcastOp, tile::ExpandDimsOp, tile::ReshapeOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

static bool isOne(Value value) { return matchPattern(unspread(value), m_OneFloat()); }

/// 1 + e^x
static math::ExpOp exponentialPlusOne(Value value) {
  auto sum = value.getDefiningOp<arith::AddFOp>();
  if (!sum)
    return {};
  if (isOne(sum.getLhs()))
    return sum.getRhs().getDefiningOp<math::ExpOp>();
  return isOne(sum.getRhs()) ? sum.getLhs().getDefiningOp<math::ExpOp>() : math::ExpOp();
}

static bool isMaximum(Value value) {
  value = unspread(value);
  if (auto choice = value.getDefiningOp<arith::SelectOp>())
    return isMaximum(choice.getTrueValue()) || isMaximum(choice.getFalseValue());
  auto result = dyn_cast<OpResult>(value);
  auto reduce = result ? dyn_cast<tile::ReduceOp>(result.getOwner()) : tile::ReduceOp();
  if (!reduce)
    return false;
  Operation *yield = reduce.getCombine().front().getTerminator();
  return isa_and_present<arith::MaximumFOp>(yield->getOperand(result.getResultNumber()).getDefiningOp());
}

void torch_tile::codegen::markApproximate(tile::KernelOp kernel) {
  auto mark = [](Operation *op) { op->setAttr(approximateAttrName, UnitAttr::get(op->getContext())); };
  kernel.walk([&](math::ExpOp exp) {
    if (auto difference = exp.getOperand().getDefiningOp<arith::SubFOp>(); difference && isMaximum(difference.getRhs()))
      mark(exp);
  });
  kernel.walk([&](arith::DivFOp division) {
    if (auto exp = exponentialPlusOne(division.getRhs()); exp && isOne(division.getLhs())) {
      mark(exp);
      mark(division);
    } else if (auto exp = division.getLhs().getDefiningOp<math::ExpOp>(); exp && exp->hasAttr(approximateAttrName)) {
      mark(division);
    }
  });
}
