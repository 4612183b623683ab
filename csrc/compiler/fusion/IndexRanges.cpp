#include "compiler/fusion/IndexRanges.h"

#include "compiler/fusion/Axes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

/// Values looked at for one range: a chain of clamps and casts through a few loops.
constexpr unsigned mostValues = 32;

class RangeFinder {
public:
  RangeFinder(const SizeFacts &symbols, llvm::function_ref<bool(Value)> isWritten)
      : symbols(symbols), sizes(symbols.sizes()), isWritten(isWritten) {}

  IndexRange find(Value value) {
    if (++numValues > mostValues || !value.getType().isIntOrIndex())
      return {};
    if (APInt constant; matchPattern(value, m_ConstantInt(&constant)))
      return constant.getSignificantBits() > 64 ? IndexRange() : rangeOfConstant(constant, value.getType());
    Operation *op = value.getDefiningOp();
    if (auto index = dyn_cast_or_null<IndexOp>(op))
      return index.getScalars().empty() ? rangeOfExpr(index) : IndexRange();
    if (auto load = dyn_cast_or_null<LoadOp>(op))
      return rangeOfLoad(load);
    if (auto select = dyn_cast_or_null<arith::SelectOp>(op))
      return unite(find(select.getTrueValue()), find(select.getFalseValue()));
    if (isa_and_nonnull<arith::MaxSIOp>(op)) {
      IndexRange left = find(op->getOperand(0)), right = find(op->getOperand(1));
      return {left.isNonNegative || right.isNonNegative, larger(left.atMost, right.atMost)};
    }
    if (isa_and_nonnull<arith::MinSIOp>(op)) {
      IndexRange left = find(op->getOperand(0)), right = find(op->getOperand(1));
      return {left.isNonNegative && right.isNonNegative, smaller(left.atMost, right.atMost)};
    }
    if (isa_and_nonnull<arith::AndIOp>(op)) { // the bits of what is not negative bound those of the result
      IndexRange left = find(op->getOperand(0)), right = find(op->getOperand(1));
      return {left.isNonNegative || right.isNonNegative,
              smaller(left.isNonNegative ? left.atMost : SizeExpr(), right.isNonNegative ? right.atMost : SizeExpr())};
    }
    if (isa_and_nonnull<arith::AddIOp, arith::MulIOp>(op)) {
      IndexRange left = find(op->getOperand(0)), right = find(op->getOperand(1));
      return combined(left, right, isa<arith::AddIOp>(op), value.getType());
    }
    if (isa_and_nonnull<arith::ExtSIOp>(op) && !op->getOperand(0).getType().isInteger(1))
      return find(op->getOperand(0));
    if (auto wider = dyn_cast_or_null<arith::ExtUIOp>(op))
      if (unsigned bits = wider.getIn().getType().getIntOrFloatBitWidth(); bits <= 32)
        return {true, sizes.constant((int64_t(1) << bits) - 1)};
    return {};
  }

private:
  IndexRange rangeOfConstant(const APInt &constant, Type type) {
    int64_t number = type.isInteger(1) ? constant.getZExtValue() : constant.getSExtValue();
    return {number >= 0, sizes.constant(number)};
  }

  /// Of a sum or a product, if it cannot wrap.
  IndexRange combined(const IndexRange &left, const IndexRange &right, bool isSum, Type type) {
    if (!left.isNonNegative || !right.isNonNegative || !left.atMost || !right.atMost || !type.isSignlessInteger())
      return {};
    SizeExpr most = isSum ? sizes.add(left.atMost, right.atMost) : sizes.mul(left.atMost, right.atMost);
    std::optional<int64_t> known = most.isValid() ? most.constant() : std::nullopt;
    if (!known || !llvm::isIntN(type.getIntOrFloatBitWidth(), *known))
      return {};
    return {true, most};
  }

  /// Axes are gone in bounds.
  IndexRange rangeOfExpr(IndexOp index) {
    SizeExpr expr = index.getExpr().getValue();
    auto loops = index->getParentOfType<LoopsOp>();
    SmallVector<Axis> axes;
    for (AxisAttr axis : loops.axisList())
      axes.push_back({axis.getName().str(), axis.getExtent(), axis.getReduced()});
    if (llvm::none_of(axes, [&](const Axis &axis) { return expr.contains(axis.name); }))
      return {symbols.lessEqual(sizes.constant(0), expr) == Proof::Yes, expr};
    SizeRange range = withAxes(symbols, axes).range(expr);
    bool isBounded = range.max < std::numeric_limits<int64_t>::max();
    return {range.min >= 0, isBounded ? sizes.constant(range.max) : SizeExpr()};
  }

  IndexRange rangeOfLoad(LoadOp load) {
    auto result = dyn_cast<OpResult>(load.getSource());
    auto producer = load.getSource().getDefiningOp<LoopsOp>();
    if (!producer || producer.isReduction() || producer.isScan() || producer.getWriteAt() ||
        !producer.getDests().empty() || isWritten(result))
      return {};
    IndexRange range = find(producer.bodyBlock()->getTerminator()->getOperand(result.getResultNumber()));
    return load.getMask() ? unite(range, find(load.getOther())) : range;
  }

  IndexRange unite(const IndexRange &left, const IndexRange &right) {
    return {left.isNonNegative && right.isNonNegative, larger(left.atMost, right.atMost)};
  }

  SizeExpr larger(SizeExpr a, SizeExpr b) {
    if (!a || !b)
      return {};
    if (symbols.lessEqual(a, b) == Proof::Yes)
      return b;
    return symbols.lessEqual(b, a) == Proof::Yes ? a : sizes.max(a, b);
  }
  SizeExpr smaller(SizeExpr a, SizeExpr b) {
    if (!a || !b)
      return a ? a : b;
    if (symbols.lessEqual(a, b) == Proof::Yes)
      return a;
    return symbols.lessEqual(b, a) == Proof::Yes ? b : sizes.min(a, b);
  }

  const SizeFacts &symbols;
  SizeContext &sizes;
  llvm::function_ref<bool(Value)> isWritten;
  unsigned numValues = 0;
};

} // namespace

IndexRange rangeOf(Value value, const SizeFacts &symbols, llvm::function_ref<bool(Value)> isWritten) {
  return RangeFinder(symbols, isWritten).find(value);
}

} // namespace torch_tile::fusion
