// What is known about integers when a kernel is compiled: by what they are divisible, and how they grow along lanes.
#include "compiler/codegen/gpu/ThreadLowering.h"

#include "mlir/IR/Matchers.h"

#include <numeric>

using namespace mlir;
using namespace torch_tile::codegen;

/// Enough for any access; products stay below it, so nothing overflows.
static constexpr int64_t largestMultiple = 1 << 20;

/// Operations that are looked at for one answer: values may be used twice at each step.
static constexpr int mostSteps = 200;

static int64_t limited(int64_t value) {
  value = value < 0 ? -value : value;
  return value == 0 ? largestMultiple : std::gcd(value, largestMultiple);
}

static std::optional<int64_t> constantOfValue(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)) && constant.getBitWidth() <= 64)
    return constant.getSExtValue();
  return std::nullopt;
}

static int64_t multipleOf(Value value, int &steps) {
  if (--steps < 0)
    return 1;
  if (std::optional<int64_t> known = constantOfValue(value))
    return limited(*known);
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (!loop || argument != loop.getInductionVar())
      return 1;
    return std::gcd(multipleOf(loop.getLowerBound(), steps), multipleOf(loop.getStep(), steps));
  }
  Operation *op = value.getDefiningOp();
  auto operand = [&](unsigned k) { return multipleOf(op->getOperand(k), steps); };
  if (isa<arith::MulIOp>(op))
    return limited(operand(0) * operand(1));
  if (isa<arith::AddIOp, arith::SubIOp, arith::MinSIOp, arith::MaxSIOp, arith::RemUIOp>(op))
    return std::gcd(operand(0), operand(1));
  if (isa<arith::SelectOp>(op))
    return std::gcd(operand(1), operand(2));
  if (isa<arith::ExtUIOp, arith::ExtSIOp, arith::TruncIOp, arith::IndexCastOp>(op))
    return operand(0);
  return 1;
}

int64_t torch_tile::codegen::knownMultiple(Value value) {
  int steps = mostSteps;
  return multipleOf(value, steps);
}

static std::optional<int64_t> leastOf(Value value, int &steps) {
  if (--steps < 0)
    return std::nullopt;
  if (std::optional<int64_t> known = constantOfValue(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (isa_and_present<arith::RemUIOp>(op)) {
    std::optional<int64_t> divisor = constantOfValue(op->getOperand(1));
    return divisor && *divisor > 0 ? std::optional<int64_t>(0) : std::nullopt;
  }
  if (!isa_and_present<arith::AddIOp>(op))
    return std::nullopt;
  std::optional<int64_t> left = leastOf(op->getOperand(0), steps), right = leastOf(op->getOperand(1), steps);
  int64_t sum;
  if (!left || !right || llvm::AddOverflow(*left, *right, sum))
    return std::nullopt;
  return sum;
}

std::optional<int64_t> torch_tile::codegen::knownLeast(Value value) {
  int steps = mostSteps;
  return leastOf(value, steps);
}

static std::optional<int64_t> mostOf(Value value, int &steps) {
  if (--steps < 0)
    return std::nullopt;
  if (std::optional<int64_t> known = constantOfValue(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (isa_and_present<arith::RemUIOp>(op)) {
    std::optional<int64_t> divisor = constantOfValue(op->getOperand(1));
    return divisor && *divisor > 0 ? std::optional<int64_t>(*divisor - 1) : std::nullopt;
  }
  if (!isa_and_present<arith::SelectOp>(op))
    return std::nullopt;
  std::optional<int64_t> left = mostOf(op->getOperand(1), steps), right = mostOf(op->getOperand(2), steps);
  return left && right ? std::optional<int64_t>(std::max(*left, *right)) : std::nullopt;
}

std::optional<int64_t> torch_tile::codegen::knownMost(Value value) {
  int steps = mostSteps;
  return mostOf(value, steps);
}

static Progression progressionOf(Value value, int64_t lanes, int &steps) {
  Operation *op = value.getDefiningOp();
  if (!op || --steps < 0)
    return {};
  if (std::optional<int64_t> known = constantOfValue(value))
    return {0, limited(*known)};
  auto operand = [&](unsigned k) { return progressionOf(op->getOperand(k), lanes, steps); };
  if (isa<tile::SplatOp>(op))
    return {0, knownMultiple(op->getOperand(0))};
  if (isa<tile::IotaOp>(op))
    return {1, lanes}; // pieces start at multiples of their lanes
  if (isa<arith::ExtUIOp, arith::ExtSIOp, arith::TruncIOp>(op))
    return operand(0);
  if (isa<tile::ReshapeOp>(op)) {
    auto from = cast<RankedTensorType>(op->getOperand(0).getType()),
         to = cast<RankedTensorType>(op->getResult(0).getType());
    return from.getEncoding() == to.getEncoding() ? operand(0) : Progression{};
  }
  if (op->getNumOperands() != 2)
    return {};
  Progression left = operand(0), right = operand(1);
  if (!left.step || !right.step)
    return {};
  if (isa<arith::AddIOp>(op))
    return {*left.step + *right.step, std::gcd(left.multiple, right.multiple)};
  if (isa<arith::MulIOp>(op) && *left.step == 0 && *right.step == 0)
    return {0, limited(left.multiple * right.multiple)};
  // Of a divisor that is a multiple of the lanes, a piece lies between two multiples.
  if (*left.step == 1 && *right.step == 0 && left.multiple % lanes == 0 && right.multiple % lanes == 0) {
    if (isa<arith::DivUIOp>(op))
      return {0, 1};
    if (isa<arith::RemUIOp>(op))
      return {1, std::gcd(left.multiple, right.multiple)};
  }
  return {};
}

Progression torch_tile::codegen::knownProgression(Value value, int64_t lanes) {
  int steps = mostSteps;
  return progressionOf(value, lanes, steps);
}

static bool isSameAlong(Value mask, int64_t lanes, int &steps) {
  Operation *op = mask.getDefiningOp();
  if (!op || --steps < 0)
    return false;
  if (isa<tile::SplatOp>(op) || matchPattern(mask, m_Constant()))
    return true;
  if (isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op))
    return isSameAlong(op->getOperand(0), lanes, steps) && isSameAlong(op->getOperand(1), lanes, steps);
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare)
    return false;
  Progression left = knownProgression(compare.getLhs(), lanes), right = knownProgression(compare.getRhs(), lanes);
  if (!left.step || !right.step)
    return false;
  if (*left.step == 0 && *right.step == 0)
    return true;
  // A piece lies between two multiples of its lanes, and so on one side of each.
  using arith::CmpIPredicate;
  bool isBelow = llvm::is_contained({CmpIPredicate::slt, CmpIPredicate::ult, CmpIPredicate::sge, CmpIPredicate::uge},
                                    compare.getPredicate());
  return isBelow && *left.step == 1 && *right.step == 0 && left.multiple % lanes == 0 && right.multiple % lanes == 0;
}

bool torch_tile::codegen::isSameAlongPiece(Value mask, int64_t lanes) {
  int steps = mostSteps;
  return isSameAlong(mask, lanes, steps);
}

bool torch_tile::codegen::isTrueFrom(Value mask, int64_t first) {
  auto compare = mask.getDefiningOp<arith::CmpIOp>();
  if (!compare || compare.getPredicate() != arith::CmpIPredicate::sge ||
      !compare.getLhs().getDefiningOp<tile::IotaOp>())
    return false;
  auto bound = compare.getRhs().getDefiningOp<tile::SplatOp>();
  Value value = bound ? bound.getOperand() : Value();
  if (auto narrow = value ? value.getDefiningOp<arith::TruncIOp>() : arith::TruncIOp())
    value = narrow.getIn();
  std::optional<int64_t> most = value ? knownMost(value) : std::nullopt;
  // What is skipped is counted in 32 bits.
  return most && *most <= first && *most < std::numeric_limits<int32_t>::max();
}
