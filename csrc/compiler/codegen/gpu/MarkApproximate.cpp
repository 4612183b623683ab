// Where an instruction's approximation will do.
#include "compiler/codegen/common/ExpandMath.h"
#include "compiler/codegen/gpu/ThreadLowering.h"
#include "compiler/tile/ir/Marks.h"

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

static tile::ReduceOp maximumReduction(Value value) {
  auto result = dyn_cast<OpResult>(value);
  auto reduce = result ? dyn_cast<tile::ReduceOp>(result.getOwner()) : tile::ReduceOp();
  if (!reduce)
    return {};
  auto combiner = reduce.getCombine().front().getTerminator()->getOperand(result.getResultNumber());
  auto maximum = combiner.getDefiningOp<arith::MaximumFOp>();
  Block *block = &reduce.getCombine().front();
  unsigned count = reduce->getNumResults(), number = result.getResultNumber();
  bool isOfBoth = maximum && llvm::is_contained(maximum->getOperands(), block->getArgument(number)) &&
                  llvm::is_contained(maximum->getOperands(), block->getArgument(number + count));
  return isOfBoth ? reduce : tile::ReduceOp();
}

/// The maximum by a reduction that `value` is, or that it is never below, as a running maximum is not.
static Value maximumBelow(Value value) {
  if (auto larger = value.getDefiningOp<arith::MaximumFOp>())
    for (Value operand : larger->getOperands())
      if (maximumReduction(operand))
        return operand;
  return value;
}

/// Whether `max` has, at each element of the tile x, the maximum of x along an axis or of all of it, or more.
static bool isMaximumOf(Value max, Value x) {
  if (auto splat = max.getDefiningOp<tile::SplatOp>()) {
    Value value = splat.getOperand();
    while (tile::ReduceOp reduce = maximumReduction(value)) {
      value = reduce->getOperand(cast<OpResult>(value).getResultNumber());
      if (value == x)
        return true;
    }
    return false;
  }
  auto broadcast = max.getDefiningOp<tile::BroadcastOp>();
  auto column = broadcast ? broadcast->getOperand(0).getDefiningOp<tile::ExpandDimsOp>() : tile::ExpandDimsOp();
  Value result = column ? maximumBelow(column->getOperand(0)) : Value();
  tile::ReduceOp reduce = result ? maximumReduction(result) : tile::ReduceOp();
  return reduce && reduce.getAxis() == column.getAxis() &&
         reduce->getOperand(cast<OpResult>(result).getResultNumber()) == x;
}

/// e^(x - maximum of x): it is at most 1, and what is far below is lost in the sum of those that are not. (The
/// approximation's relative error grows with the argument.) Graphs say so by an attribute, for their kernels may read x
/// anew after they have its maximum.
static bool isAtMostZero(math::ExpOp exp) {
  if (exp->hasAttr(tile::kAtMostZero))
    return true;
  auto difference = exp.getOperand().getDefiningOp<arith::SubFOp>();
  return difference && isMaximumOf(difference.getRhs(), difference.getLhs());
}

/// a * b + c with one rounding.
static void contractSum(Operation *sum) {
  for (auto [k, operand] : llvm::enumerate(sum->getOperands())) {
    auto product = operand.getDefiningOp<arith::MulFOp>();
    if (!product || !product->hasOneUse() || product->getBlock() != sum->getBlock())
      continue;
    OpBuilder b(sum);
    Value factor = product.getLhs(), other = sum->getOperand(1 - k);
    if (isa<arith::SubFOp>(sum)) {
      Value &negative = k == 0 ? other : factor;
      negative = arith::NegFOp::create(b, sum->getLoc(), negative);
    }
    Value fused = math::FmaOp::create(b, sum->getLoc(), factor, product.getRhs(), other);
    sum->getResult(0).replaceAllUsesWith(fused);
    sum->erase();
    product.erase();
    return;
  }
}

/// As Triton does: sums of products have one rounding, powers of two below the smallest normal number are 0, and a
/// quotient is off by two units in the last place at most, unless it is said to be rounded.
static void useFastArithmetic(tile::KernelOp kernel) {
  SmallVector<Operation *> sums;
  kernel.walk([&](Operation *op) {
    if (isa<arith::AddFOp, arith::SubFOp>(op) && getElementTypeOrSelf(op->getResult(0).getType()).isF32())
      sums.push_back(op);
    if (isa<math::Exp2Op>(op))
      op->setAttr(approximateAttrName, UnitAttr::get(op->getContext()));
    if (isa<arith::DivFOp>(op) && getElementTypeOrSelf(op->getResult(0).getType()).isF32() &&
        !op->hasAttr(tile::kRounded))
      op->setAttr(fullRangeAttrName, UnitAttr::get(op->getContext()));
  });
  for (Operation *sum : sums)
    contractSum(sum);
}

void torch_tile::codegen::markApproximate(tile::KernelOp kernel) {
  if (kernel->hasAttr(fastArithmeticAttrName))
    useFastArithmetic(kernel);
  auto mark = [](Operation *op) { op->setAttr(approximateAttrName, UnitAttr::get(op->getContext())); };
  kernel.walk([&](math::ExpOp exp) {
    if (isAtMostZero(exp))
      mark(exp);
  });
  kernel.walk([&](arith::DivFOp division) {
    if (auto exp = exponentialPlusOne(division.getRhs()); exp && isOne(division.getLhs())) {
      mark(exp);
      mark(division);
    } else if (auto exp = division.getLhs().getDefiningOp<math::ExpOp>(); exp && exp->hasAttr(approximateAttrName)) {
      mark(division);
    } else if (division->hasAttr(tile::kWeight) && getElementTypeOrSelf(division.getType()).isF32()) {
      // By a flag: LLVM still computes quotients of counts that are known, which it does not through an instruction.
      division.setFastmath(division.getFastmath() | arith::FastMathFlags::afn);
    }
  });
}
