// What is known about integers when a kernel is compiled: by what they are divisible, and how they grow along lanes.
#include "compiler/codegen/gpu/ThreadLowering.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"

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

namespace {
/// One question: what may still be looked at, and the values carried by loops that it is being asked of.
struct Search {
  int steps = mostSteps;
  /// With the lanes of the piece, to the step along it; without lanes for the value itself.
  llvm::SmallMapVector<std::pair<Value, int64_t>, int64_t, 4> carried;
};
} // namespace

static scf::ForOp loopThatCarries(BlockArgument argument) {
  auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
  return loop && argument != loop.getInductionVar() ? loop : scf::ForOp();
}

/// What a loop carries, of the value in its body or behind it; null for other values.
static BlockArgument carriedValue(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return loopThatCarries(argument) ? argument : BlockArgument();
  auto result = cast<OpResult>(value);
  auto loop = dyn_cast<scf::ForOp>(result.getOwner());
  return loop ? loop.getRegionIterArg(result.getResultNumber()) : BlockArgument();
}

static int64_t multipleOf(Value value, Search &search);

/// What a loop carries starts as a multiple, and stays one of what is added: the value itself, while it is asked of,
/// may be taken for 0.
static int64_t multipleOfCarried(BlockArgument argument, Search &search) {
  scf::ForOp loop = loopThatCarries(argument);
  if (!search.carried.insert({{argument, 0}, 0}).second)
    return largestMultiple;
  int64_t init = multipleOf(loop.getTiedLoopInit(argument)->get(), search);
  int64_t result = std::gcd(init, multipleOf(loop.getTiedLoopYieldedValue(argument)->get(), search));
  search.carried.erase({argument, 0});
  return result;
}

static int64_t multipleOfArgument(BlockArgument argument, Search &search) {
  Operation *parent = argument.getOwner()->getParentOp();
  if (auto loop = dyn_cast<scf::ForOp>(parent))
    return std::gcd(multipleOf(loop.getLowerBound(), search), multipleOf(loop.getStep(), search));
  auto known = parent->getAttrOfType<DenseI64ArrayAttr>(argumentMultiplesAttrName);
  return isa<tile::KernelOp>(parent) && known ? std::max<int64_t>(1, known[argument.getArgNumber()]) : 1;
}

static int64_t elementBytesOf(Value pointer) {
  Type element = cast<tile::PtrType>(getElementTypeOrSelf(pointer.getType())).getElementType();
  return element.isIntOrFloat() ? std::max(1u, element.getIntOrFloatBitWidth() / 8) : 8;
}

/// Of pointers in bytes.
static int64_t multipleOf(Value value, Search &search) {
  if (--search.steps < 0)
    return 1;
  if (std::optional<int64_t> known = constantOfValue(value))
    return limited(*known);
  if (BlockArgument carried = carriedValue(value))
    return multipleOfCarried(carried, search);
  if (auto argument = dyn_cast<BlockArgument>(value))
    return multipleOfArgument(argument, search);
  Operation *op = value.getDefiningOp();
  auto operand = [&](unsigned k) { return multipleOf(op->getOperand(k), search); };
  if (isa<tile::PtrAddOp>(op))
    return std::gcd(operand(0), limited(operand(1) * elementBytesOf(value)));
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
  Search search;
  return multipleOf(value, search);
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

/// The number that a tile repeats, if it is known.
static std::optional<int64_t> repeatedNumber(Value value) {
  if (auto splat = value.getDefiningOp<tile::SplatOp>())
    return constantOfValue(splat.getSource());
  return constantOfValue(value);
}

static Progression progressionOf(Value value, int64_t lanes, Search &search);

static Progression progressionOfCarried(BlockArgument argument, int64_t lanes, Search &search) {
  scf::ForOp loop = loopThatCarries(argument);
  if (auto it = search.carried.find({argument, lanes}); it != search.carried.end())
    return {it->second, largestMultiple};
  Progression init = progressionOf(loop.getTiedLoopInit(argument)->get(), lanes, search);
  if (!init.step)
    return {};
  search.carried.insert({{argument, lanes}, *init.step});
  Progression next = progressionOf(loop.getTiedLoopYieldedValue(argument)->get(), lanes, search);
  search.carried.erase({argument, lanes});
  return next.step == init.step ? Progression{init.step, std::gcd(init.multiple, next.multiple)} : Progression{};
}

static Progression progressionOfBinary(Operation *op, int64_t lanes, Search &search) {
  Progression left = progressionOf(op->getOperand(0), lanes, search);
  Progression right = progressionOf(op->getOperand(1), lanes, search);
  if (!left.step || !right.step)
    return {};
  if (isa<arith::AddIOp>(op))
    return {*left.step + *right.step, std::gcd(left.multiple, right.multiple)};
  if (isa<arith::SubIOp>(op))
    return {*left.step - *right.step, std::gcd(left.multiple, right.multiple)};
  if (isa<tile::PtrAddOp>(op))
    return {*left.step + *right.step,
            std::gcd(left.multiple, limited(right.multiple * elementBytesOf(op->getResult(0))))};
  if (isa<arith::MulIOp>(op)) {
    int64_t multiple = limited(left.multiple * right.multiple);
    if (*left.step == 0 && *right.step == 0)
      return {0, multiple};
    if (std::optional<int64_t> factor = repeatedNumber(op->getOperand(1)))
      return {*left.step * *factor, multiple};
    if (std::optional<int64_t> factor = repeatedNumber(op->getOperand(0)))
      return {*right.step * *factor, multiple};
    return {};
  }
  // Of a divisor that is a multiple of the lanes, a piece lies between two multiples. As in Triton, what is divided in
  // a kernel is taken not to be negative: the remainders of negative positions are no positions.
  if (*left.step == 1 && *right.step == 0 && left.multiple % lanes == 0 && right.multiple % lanes == 0) {
    if (isa<arith::DivUIOp>(op))
      return {0, 1};
    if (isa<arith::RemUIOp, arith::RemSIOp>(op))
      return {1, std::gcd(left.multiple, right.multiple)};
  }
  return {};
}

static Progression progressionOfOp(Operation *op, int64_t lanes, Search &search) {
  Value value = op->getResult(0);
  if (std::optional<int64_t> known = constantOfValue(value))
    return {0, limited(*known)};
  if (isa<tile::SplatOp>(op))
    return {0, multipleOf(op->getOperand(0), search)};
  if (isa<tile::IotaOp>(op))
    return {1, lanes}; // pieces start at multiples of their lanes
  if (isa<arith::ExtUIOp, arith::ExtSIOp, arith::TruncIOp, tile::ExpandDimsOp>(op))
    return progressionOf(op->getOperand(0), lanes, search);
  // A row's own number, for all its lanes; what a check lets through lies where it did.
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return load.getStaticStrides().empty() || load.getStaticStrides().back() != 0 || load.getMask() ||
                   !load.getValid().empty()
               ? Progression{}
               : Progression{0, 1};
  if (auto check = dyn_cast<tile::CheckIndexOp>(op)) {
    bool isRepeated = progressionOf(check.getIndex(), lanes, search).step == 0 && !check.getValid() && !check.getMask();
    return isRepeated ? Progression{0, 1} : Progression{};
  }
  if (isa<tile::BroadcastOp, tile::ReshapeOp>(op)) {
    auto from = cast<RankedTensorType>(op->getOperand(0).getType()), to = cast<RankedTensorType>(value.getType());
    if (isa<tile::ReshapeOp>(op))
      return from.getEncoding() == to.getEncoding() ? progressionOf(op->getOperand(0), lanes, search) : Progression{};
    if (to.getRank() == 0 || to.getShape().back() % lanes != 0)
      return {};
    if (from.getShape().back() == to.getShape().back())
      return progressionOf(op->getOperand(0), lanes, search);
    return {0, progressionOf(op->getOperand(0), 1, search).multiple};
  }
  return op->getNumOperands() == 2 ? progressionOfBinary(op, lanes, search) : Progression{};
}

static Progression progressionOf(Value value, int64_t lanes, Search &search) {
  Progression unknown;
  if (lanes == 1)
    unknown.step = 0;
  if (--search.steps < 0)
    return unknown;
  Progression result;
  if (BlockArgument carried = carriedValue(value))
    result = progressionOfCarried(carried, lanes, search);
  else if (Operation *op = value.getDefiningOp())
    result = progressionOfOp(op, lanes, search);
  if (!result.step)
    return unknown;
  if (lanes == 1)
    result.step = 0;
  return result;
}

Progression torch_tile::codegen::knownProgression(Value value, int64_t lanes) {
  Search search;
  return progressionOf(value, lanes, search);
}

static bool isSameAlong(Value mask, int64_t lanes, int &steps) {
  Operation *op = mask.getDefiningOp();
  if (!op || --steps < 0)
    return false;
  if (isa<tile::SplatOp>(op) || matchPattern(mask, m_Constant()))
    return true;
  if (isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op))
    return isSameAlong(op->getOperand(0), lanes, steps) && isSameAlong(op->getOperand(1), lanes, steps);
  if (isa<tile::ExpandDimsOp>(op))
    return isSameAlong(op->getOperand(0), lanes, steps);
  if (isa<tile::BroadcastOp>(op)) {
    int64_t from = cast<RankedTensorType>(op->getOperand(0).getType()).getShape().back(),
            to = cast<RankedTensorType>(mask.getType()).getShape().back();
    return to % lanes == 0 && (from != to || isSameAlong(op->getOperand(0), lanes, steps));
  }
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
