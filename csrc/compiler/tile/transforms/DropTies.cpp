// Searches for the place of an extremum: of equal elements the first counts, and a loop meets that one first.
#include "compiler/tile/transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "llvm/ADT/SetVector.h"

#include <optional>

namespace mlir::tile {
#define GEN_PASS_DEF_DROPTIES
#include "compiler/tile/transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

/// Operations that give each element of the result that of one operand.
static bool isSpread(Operation *op) {
  return isa<SplatOp, BroadcastOp, ExpandDimsOp, arith::TruncIOp, arith::ExtSIOp, arith::ExtUIOp, arith::IndexCastOp>(
      op);
}

static std::optional<APInt> constantOf(Value value) {
  if (auto splat = value.getDefiningOp<SplatOp>())
    value = splat.getSource();
  APInt number;
  return matchPattern(value, m_ConstantInt(&number)) ? std::optional(number) : std::nullopt;
}

static std::optional<int64_t> smallConstantOf(Value value) {
  std::optional<APInt> number = constantOf(value);
  return number && number->isSignedIntN(32) ? std::optional(number->getSExtValue()) : std::nullopt;
}

namespace {
/// Compares values that are sums of the same parts, but for constants. Positions do not wrap.
class Distance {
public:
  /// `left` - `right`, where that is the same number for all elements.
  std::optional<int64_t> between(Value left, Value right) {
    if (left == right)
      return 0;
    if (--steps < 0)
      return std::nullopt;
    std::optional<int64_t> a = smallConstantOf(left), b = smallConstantOf(right);
    if (a && b)
      return *a - *b;
    Operation *l = left.getDefiningOp(), *r = right.getDefiningOp();
    if (l && r && l->getName() == r->getName() && left.getType() == right.getType()) {
      if (isSpread(l))
        return between(l->getOperand(0), r->getOperand(0));
      if (isa<arith::AddIOp>(l)) {
        std::optional<int64_t> first = between(l->getOperand(0), r->getOperand(0));
        if (std::optional<int64_t> second = first ? between(l->getOperand(1), r->getOperand(1)) : first)
          return *first + *second;
      }
      if (isSamePure(l, r) && llvm::all_of(llvm::zip_equal(l->getOperands(), r->getOperands()), [&](auto operands) {
            return between(std::get<0>(operands), std::get<1>(operands)) == 0;
          }))
        return 0;
    }
    if (std::optional<int64_t> behind = pastConstant(l, right))
      return behind;
    std::optional<int64_t> ahead = pastConstant(r, left);
    return ahead ? std::optional(-*ahead) : std::nullopt;
  }

private:
  /// Of `sum` from `other`, if one operand of the sum is a constant.
  std::optional<int64_t> pastConstant(Operation *sum, Value other) {
    if (isa_and_present<arith::AddIOp>(sum))
      for (int side : {0, 1})
        if (std::optional<int64_t> constant = smallConstantOf(sum->getOperand(1 - side)))
          if (std::optional<int64_t> rest = between(sum->getOperand(side), other))
            return *rest + *constant;
    return std::nullopt;
  }

  static bool isSamePure(Operation *left, Operation *right) {
    return left->getNumRegions() == 0 && isMemoryEffectFree(left) &&
           left->getNumOperands() == right->getNumOperands() && left->getAttrDictionary() == right->getAttrDictionary();
  }

  /// Values are compared with several others: beyond so many pairs nothing is known.
  int steps = 200;
};
} // namespace

static std::optional<int64_t> distance(Value left, Value right) { return Distance().between(left, right); }

/// Whether every element is at least as good as `worst`, by a comparison that asks whether one is better than another.
static bool isWorst(Operation *compare, Value worst) {
  if (auto splat = worst.getDefiningOp<SplatOp>())
    worst = splat.getSource();
  if (auto floats = dyn_cast<arith::CmpFOp>(compare)) {
    using Is = arith::CmpFPredicate;
    Is predicate = floats.getPredicate();
    bool isMaximum = predicate == Is::UGT || predicate == Is::OGT,
         isMinimum = predicate == Is::ULT || predicate == Is::OLT;
    return (isMaximum && matchPattern(worst, m_NegInfFloat())) || (isMinimum && matchPattern(worst, m_PosInfFloat()));
  }
  std::optional<APInt> number = constantOf(worst);
  if (!number)
    return false;
  switch (cast<arith::CmpIOp>(compare).getPredicate()) {
  case arith::CmpIPredicate::sgt:
    return number->isMinSignedValue();
  case arith::CmpIPredicate::ugt:
    return number->isMinValue();
  case arith::CmpIPredicate::slt:
    return number->isMaxSignedValue();
  case arith::CmpIPredicate::ult:
    return number->isMaxValue();
  default:
    return false;
  }
}

/// The operand beside `one`.
static Value otherOperand(Operation *op, Value one) { return op->getOperand(op->getOperand(0) == one ? 1 : 0); }

/// `better`, or `better` and something else.
static Operation *comparisonIn(Value condition, Value left, Value right) {
  Operation *op = condition.getDefiningOp();
  if (!op)
    return nullptr;
  if (isa<arith::CmpFOp, arith::CmpIOp>(op))
    return op->getOperand(0) == left && op->getOperand(1) == right ? op : nullptr;
  if (isa<arith::AndIOp>(op))
    for (Value operand : op->getOperands())
      if (Operation *found = comparisonIn(operand, left, right))
        return found;
  return nullptr;
}

namespace {

/// One value that a loop carries: the position of what has been found.
class Search {
public:
  Search(scf::ForOp loop, unsigned number)
      : loop(loop), number(number), carried(loop.getRegionIterArg(number)), step(smallConstantOf(loop.getStep())) {}

  void run() {
    Value init = loop.getInitArgs()[number];
    Type element = getElementTypeOrSelf(carried.getType());
    std::optional<APInt> none = element.isInteger() ? constantOf(init) : std::nullopt;
    if (!none || !none->isMaxSignedValue() || !step || *step <= 0)
      return;
    // What the loop hands on is one of the positions that it has met, or what it was given.
    if (!collect(loop.getYieldedValues()[number]) || positions.empty())
      return;
    for (Value position : positions)
      if (slopeOf(position).value_or(0) <= 0)
        return;
    SmallVector<arith::CmpIOp> dropped;
    loop.getBody()->walk([&](arith::CmpIOp compare) {
      if (compare.getPredicate() == arith::CmpIPredicate::slt && llvm::is_contained(positions, compare.getLhs()) &&
          chosen.contains(compare.getRhs()) && breaksTies(compare) && isBehind(compare.getLhs(), compare.getRhs()))
        dropped.push_back(compare);
    });
    auto isKnown = [&](Operation *user) { return isa<arith::SelectOp>(user) || llvm::is_contained(dropped, user); };
    if (dropped.empty() || !llvm::all_of(carried.getUsers(), isKnown) || !start(positions.front()))
      return;
    OpBuilder builder(loop);
    for (arith::CmpIOp compare : dropped) {
      builder.setInsertionPoint(compare);
      Value never = arith::ConstantOp::create(builder, compare.getLoc(), builder.getBoolAttr(false));
      if (isa<RankedTensorType>(compare.getType()))
        never = SplatOp::create(builder, compare.getLoc(), compare.getType(), never);
      compare.replaceAllUsesWith(never);
      compare.erase();
    }
  }

private:
  /// Gathers positions in the order of the chain that chooses among them.
  bool collect(Value value) {
    while (value != carried) {
      auto select = value.getDefiningOp<arith::SelectOp>();
      if (!select || !isInLoop(select))
        return false;
      chosen.insert(value);
      positions.push_back(select.getTrueValue());
      value = select.getFalseValue();
    }
    chosen.insert(carried);
    std::reverse(positions.begin(), positions.end());
    return true;
  }

  /// Whether the comparison of positions decides between equal elements alone: better | (equal & earlier) chooses both
  /// the element and its position.
  bool breaksTies(arith::CmpIOp earlier) {
    auto onlyUser = [](Value value) { return value.hasOneUse() ? *value.user_begin() : nullptr; };
    auto tie = dyn_cast_if_present<arith::AndIOp>(onlyUser(earlier));
    auto condition = tie ? dyn_cast_if_present<arith::OrIOp>(onlyUser(tie)) : arith::OrIOp();
    if (!condition)
      return false;
    Value better = otherOperand(condition, tie), equal = otherOperand(tie, earlier);
    bool choosesElement = false;
    for (Operation *user : condition->getUsers()) {
      auto select = dyn_cast<arith::SelectOp>(user);
      if (!select || select.getCondition() != condition.getResult())
        return false;
      if (select.getTrueValue() == earlier.getLhs() && select.getFalseValue() == earlier.getRhs())
        continue;
      Operation *compare = comparisonIn(better, select.getTrueValue(), select.getFalseValue());
      Value held = select.getFalseValue();
      while (auto inner = held.getDefiningOp<arith::SelectOp>())
        held = inner.getFalseValue();
      auto argument = dyn_cast<BlockArgument>(held);
      bool isHeld = argument && argument.getOwner() == loop.getBody() && argument != loop.getInductionVar();
      if (!compare || !isHeld || !isWorst(compare, loop.getTiedLoopInit(argument)->get()) ||
          !isEquality(equal, select.getTrueValue(), select.getFalseValue()))
        return false;
      choosesElement = true;
    }
    return choosesElement;
  }

  /// Equal numbers, or that and both being NaN.
  static bool isEquality(Value condition, Value left, Value right) {
    if (auto either = condition.getDefiningOp<arith::OrIOp>())
      return isEquality(either.getLhs(), left, right) || isEquality(either.getRhs(), left, right);
    auto integers = condition.getDefiningOp<arith::CmpIOp>();
    auto floats = condition.getDefiningOp<arith::CmpFOp>();
    bool isEqual = (integers && integers.getPredicate() == arith::CmpIPredicate::eq) ||
                   (floats && floats.getPredicate() == arith::CmpFPredicate::OEQ);
    return isEqual && comparisonIn(condition, left, right);
  }

  bool isInLoop(Operation *op) { return op->getBlock() == loop.getBody(); }

  /// Of what lies within a tile, the position; nothing lies beyond where the mask is false.
  static Value unmasked(Value position) {
    auto select = position.getDefiningOp<arith::SelectOp>();
    std::optional<APInt> other = select ? constantOf(select.getFalseValue()) : std::nullopt;
    return other && other->isMaxSignedValue() ? select.getTrueValue() : position;
  }

  /// By how much a position grows from one iteration to the next.
  std::optional<int64_t> slopeOf(Value value) {
    value = unmasked(value);
    if (value == loop.getInductionVar())
      return step;
    Operation *op = value.getDefiningOp();
    if (!op || !isInLoop(op) || isa<IotaOp>(op) || op->hasTrait<OpTrait::ConstantLike>())
      return loop.getRegion().isAncestor(value.getParentRegion()) && !op ? std::nullopt : std::optional<int64_t>(0);
    if (isSpread(op))
      return slopeOf(op->getOperand(0));
    if (isa<arith::AddIOp>(op)) {
      std::optional<int64_t> left = slopeOf(op->getOperand(0)), right = slopeOf(op->getOperand(1));
      return left && right ? std::optional(*left + *right) : std::nullopt;
    }
    if (isa<arith::MulIOp>(op))
      for (int side : {0, 1})
        if (std::optional<int64_t> slope = slopeOf(op->getOperand(side)),
            factor = smallConstantOf(op->getOperand(1 - side));
            slope && factor)
          return *slope * *factor;
    return op->getNumRegions() == 0 && llvm::all_of(op->getOperands(), [&](Value v) { return slopeOf(v) == 0; }) &&
                   isMemoryEffectFree(op)
               ? std::optional<int64_t>(0)
               : std::nullopt;
  }

  /// Whether `position` comes after all that `before` may be: those before it in the chain of this iteration, and all
  /// of an earlier one.
  bool isBehind(Value position, Value before) {
    Value at = unmasked(position);
    int64_t slope = slopeOf(position).value_or(0);
    for (Value other : positions) {
      std::optional<int64_t> ahead = distance(at, unmasked(other));
      if (!ahead || *ahead + slope <= 0)
        return false;
    }
    while (before != carried) {
      auto select = before.getDefiningOp<arith::SelectOp>();
      if (distance(at, unmasked(select.getTrueValue())).value_or(0) <= 0)
        return false;
      before = select.getFalseValue();
    }
    return true;
  }

  /// The search begins at the first position instead of at none: if nothing is better than what it begins with, all
  /// elements equal that, and the first of them is the one to find.
  bool start(Value position) {
    llvm::SetVector<Operation *> slice;
    std::function<bool(Value)> add = [&](Value value) {
      Operation *op = value.getDefiningOp();
      if (value == loop.getInductionVar() || (op && !loop->isAncestor(op)))
        return true;
      if (!op)
        return !loop.getRegion().isAncestor(value.getParentRegion());
      if (!isInLoop(op) || op->getNumRegions() > 0 || !isMemoryEffectFree(op) || !llvm::all_of(op->getOperands(), add))
        return false;
      slice.insert(op);
      return true;
    };
    if (!add(position))
      return false;
    OpBuilder builder(loop);
    IRMapping mapping;
    mapping.map(loop.getInductionVar(), loop.getLowerBound());
    for (Operation *op : slice)
      builder.clone(*op, mapping);
    loop.getInitArgsMutable()[number].assign(mapping.lookupOrDefault(position));
    return true;
  }

  scf::ForOp loop;
  unsigned number;
  Value carried;
  std::optional<int64_t> step;
  /// In the order of the chain.
  SmallVector<Value> positions;
  llvm::DenseSet<Value> chosen;
};

struct DropTies : mlir::tile::impl::DropTiesBase<DropTies> {
  void runOnOperation() override { dropTies(getOperation()); }
};

} // namespace

void mlir::tile::dropTies(KernelOp kernel) {
  SmallVector<scf::ForOp> loops;
  kernel.walk([&](scf::ForOp loop) { loops.push_back(loop); });
  for (scf::ForOp loop : loops)
    for (unsigned number = 0; number < loop.getNumRegionIterArgs(); ++number)
      Search(loop, number).run();
}
