// Integers that are functions of the axes alone (arange and what is computed of it) become index expressions, and what
// is read there a plain access: the rest of the compiler sees strides where it saw tables.
#include "compiler/analysis/Memory.h"
#include "compiler/fusion/Axes.h"
#include "compiler/fusion/Fusion.h"
#include "compiler/fusion/IndexRanges.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

class IndexFolder {
public:
  IndexFolder(LoopsOp op, const SizeFacts &symbols, uint32_t maxNodes, llvm::function_ref<bool(Value)> isWritten)
      : op(op), maxNodes(maxNodes), isWritten(isWritten), symbols(symbols), sizes(symbols.sizes()),
        facts(withAxes(symbols, axesOf(op))), builder(op.getContext()) {}

  void run() {
    for (Operation &inner : llvm::make_early_inc_range(op.bodyBlock()->without_terminator())) {
      builder.setInsertionPoint(&inner);
      visit(&inner);
    }
    SmallVector<Operation *> all = llvm::map_to_vector(*op.bodyBlock(), [](Operation &inner) { return &inner; });
    for (Operation *inner : llvm::reverse(all))
      if (inner->use_empty() && (isOpTriviallyDead(inner) || isa<LoadOp>(inner)))
        inner->erase();
  }

private:
  /// Whether integers can be computed as the expression says, and with no more work than reading them.
  bool isIndex(SizeExpr e) { return treeSize(e) <= maxNodes && staysInRange(facts, e); }

  SizeExpr exprOf(Value value) {
    SizeExpr expr;
    if (APInt constant; value.getType().isInteger(64) && matchPattern(value, m_ConstantInt(&constant)))
      expr = sizes.constant(constant.getSExtValue());
    else if (auto index = value.getDefiningOp<IndexOp>(); index && index.getScalars().empty())
      expr = index.getExpr().getValue();
    return expr && isIndex(expr) ? expr : SizeExpr();
  }
  static std::optional<bool> truthOf(Value value) {
    if (APInt constant; value.getType().isInteger(1) && matchPattern(value, m_ConstantInt(&constant)))
      return constant.isOne();
    return std::nullopt;
  }

  void replace(Operation *inner, SizeExpr expr) {
    expr = facts.simplify(expr);
    if (!isIndex(expr))
      return;
    Value value = IndexOp::create(builder, inner->getLoc(), builder.getI64Type(), ExprAttr::get(op.getContext(), expr),
                                  ValueRange());
    inner->getResult(0).replaceAllUsesWith(value);
    inner->erase();
  }
  void replace(Operation *inner, bool truth) {
    Value value = arith::ConstantOp::create(builder, inner->getLoc(), builder.getBoolAttr(truth));
    inner->getResult(0).replaceAllUsesWith(value);
    inner->erase();
  }
  void replace(Operation *inner, Value value) {
    inner->getResult(0).replaceAllUsesWith(value);
    inner->erase();
  }

  static bool isPolynomial(SizeExpr e) {
    return e.isValid() && llvm::all_of(SizeContext::terms(e), [](const SizeTerm &term) {
             return llvm::none_of(term.factors,
                                  [](auto &factor) { return SizeContext::asCall(factor.first).has_value(); });
           });
  }

  bool isPositive(SizeExpr e) { return facts.range(e).min > 0; }
  bool isNonNegative(SizeExpr e) { return facts.lessEqual(sizes.constant(0), e) == Proof::Yes; }

  void visit(Operation *inner) {
    if (auto load = dyn_cast<LoadOp>(inner))
      return visitLoad(load);
    if (auto index = dyn_cast<IndexOp>(inner))
      return visitIndex(index);
    if (auto check = dyn_cast<CheckIndexOp>(inner))
      return visitCheck(check);
    if (auto compare = dyn_cast<arith::CmpIOp>(inner))
      return visitCompare(compare);
    if (auto select = dyn_cast<arith::SelectOp>(inner)) {
      if (std::optional<bool> truth = truthOf(select.getCondition()))
        replace(inner, *truth ? select.getTrueValue() : select.getFalseValue());
      return;
    }
    if (auto magnitude = dyn_cast<math::AbsIOp>(inner)) {
      if (SizeExpr e = exprOf(magnitude.getOperand()))
        replace(inner, sizes.max(e, sizes.sub(sizes.constant(0), e)));
      return;
    }
    if (inner->getNumOperands() != 2 || inner->getNumResults() != 1)
      return;
    if (inner->getResult(0).getType().isInteger(1))
      return visitLogical(inner);
    if (inner->getResult(0).getType().isInteger(64))
      visitArithmetic(inner);
  }

  void visitLogical(Operation *inner) {
    std::optional<bool> left = truthOf(inner->getOperand(0)), right = truthOf(inner->getOperand(1));
    if (!left && !right)
      return;
    Value other = inner->getOperand(left ? 1 : 0);
    bool truth = left ? *left : *right;
    if (isa<arith::XOrIOp>(inner) && left && right)
      replace(inner, *left != *right);
    else if ((isa<arith::AndIOp>(inner) && truth) || (isa<arith::OrIOp, arith::XOrIOp>(inner) && !truth))
      replace(inner, other);
    else if (isa<arith::AndIOp, arith::OrIOp>(inner))
      replace(inner, truth);
  }

  void visitArithmetic(Operation *inner) {
    SizeExpr left = exprOf(inner->getOperand(0)), right = exprOf(inner->getOperand(1));
    if (!left || !right)
      return;
    bool rounds = isPositive(right) && (isa<arith::FloorDivSIOp>(inner) || isNonNegative(left));
    if (isa<arith::AddIOp>(inner))
      replace(inner, sizes.add(left, right));
    else if (isa<arith::SubIOp>(inner))
      replace(inner, sizes.sub(left, right));
    else if (isa<arith::MulIOp>(inner))
      replace(inner, sizes.mul(left, right));
    else if (isa<arith::DivSIOp, arith::FloorDivSIOp>(inner) && rounds)
      replace(inner, facts.floorDiv(left, right));
    else if (isa<arith::RemSIOp>(inner) && rounds)
      replace(inner, facts.mod(left, right));
    else if (isa<arith::MinSIOp>(inner))
      replace(inner, sizes.min(left, right));
    else if (isa<arith::MaxSIOp>(inner))
      replace(inner, sizes.max(left, right));
  }

  void visitCompare(arith::CmpIOp compare) {
    using Predicate = arith::CmpIPredicate;
    SizeExpr left = exprOf(compare.getLhs()), right = exprOf(compare.getRhs());
    if (!left || !right)
      return;
    auto answer = [&](Proof proof, bool isNegated = false) {
      if (proof != Proof::Unknown)
        replace(compare, (proof == Proof::Yes) != isNegated);
    };
    Proof proof = Proof::Unknown;
    switch (compare.getPredicate()) {
    case Predicate::slt:
      proof = facts.less(left, right);
      break;
    case Predicate::sle:
      proof = facts.lessEqual(left, right);
      break;
    case Predicate::sgt:
      proof = facts.less(right, left);
      break;
    case Predicate::sge:
      proof = facts.lessEqual(right, left);
      break;
    case Predicate::eq:
    case Predicate::ne:
      return answer(facts.equal(left, right), compare.getPredicate() == Predicate::ne);
    default:
      return;
    }
    if (proof != Proof::Unknown)
      answer(proof);
    else
      compareWithoutQuotient(compare, left, right);
  }

  /// The left and right side of `difference` < 0 without one quotient: P + e // c is negative where c * P + e is, and
  /// P - e // c where e is at least c * (P + 1).
  std::optional<std::pair<SizeExpr, SizeExpr>> withoutQuotient(SizeExpr difference) {
    for (const SizeTerm &term : SizeContext::terms(difference)) {
      bool isAlone = term.factors.size() == 1 && term.factors.front().second == 1 && std::abs(term.coefficient) == 1;
      std::optional<SizeCall> call = isAlone ? SizeContext::asCall(term.factors.front().first) : std::nullopt;
      std::optional<int64_t> divisor = call && call->fn == SizeFn::FloorDiv ? call->args[1].constant() : std::nullopt;
      if (!divisor || *divisor < 2)
        continue;
      SizeExpr scale = sizes.constant(*divisor), quotient = term.factors.front().first, zero = sizes.constant(0);
      if (term.coefficient == 1)
        return std::pair(sizes.add(sizes.mul(sizes.sub(difference, quotient), scale), call->args[0]), zero);
      SizeExpr least = sizes.mul(sizes.add(sizes.add(difference, quotient), sizes.constant(1)), scale);
      return std::pair(least, sizes.add(call->args[0], sizes.constant(1)));
    }
    return std::nullopt;
  }

  /// Comparisons of rows that a reshape counts: no element divides.
  void compareWithoutQuotient(arith::CmpIOp compare, SizeExpr left, SizeExpr right) {
    using Predicate = arith::CmpIPredicate;
    Predicate predicate = compare.getPredicate();
    if (!llvm::is_contained({Predicate::slt, Predicate::sle, Predicate::sgt, Predicate::sge}, predicate))
      return;
    bool isSwapped = predicate == Predicate::sgt || predicate == Predicate::sge;
    SizeExpr difference = isSwapped ? sizes.sub(right, left) : sizes.sub(left, right);
    if (predicate == Predicate::sle || predicate == Predicate::sge)
      difference = sizes.sub(difference, sizes.constant(1));
    std::optional<std::pair<SizeExpr, SizeExpr>> sides = withoutQuotient(facts.simplify(difference));
    if (!sides)
      return;
    SizeExpr below = facts.simplify(sizes.sub(sides->first, sides->second)), zero = sizes.constant(0);
    if (!isIndex(below))
      return;
    auto index = [&](SizeExpr e) -> Value {
      return IndexOp::create(builder, compare.getLoc(), builder.getI64Type(), ExprAttr::get(op.getContext(), e),
                             ValueRange());
    };
    Value made = arith::CmpIOp::create(builder, compare.getLoc(), Predicate::slt, index(below), index(zero));
    replace(compare, made);
  }

  void visitCheck(CheckIndexOp check) {
    if (check.getMask() || check.getDivision())
      return;
    SizeExpr index = exprOf(check.getIndex()), size = check.getSize().getValue();
    if (!index && rangeOf(check.getIndex(), symbols, isWritten).isWithin(size, symbols))
      return replace(check, check.getIndex());
    if (index && isNonNegative(index) && facts.less(index, size) == Proof::Yes)
      replace(check, index);
  }

  /// The expressions with known scalars in their places, and the scalars that are left.
  SmallVector<SizeExpr> withKnown(ArrayRef<SizeExpr> exprs, ValueRange scalars, SmallVectorImpl<Value> &left) {
    AxisSubstitution known;
    for (auto [k, scalar] : llvm::enumerate(scalars)) {
      SizeExpr expr = exprOf(scalar);
      if (!expr) {
        expr = sizes.symbol("x" + std::to_string(left.size()));
        left.push_back(scalar);
      }
      known.set("x" + std::to_string(k), expr);
    }
    return llvm::map_to_vector(exprs, [&](SizeExpr e) { return facts.simplify(known.apply(sizes, e)); });
  }

  void visitIndex(IndexOp index) {
    if (index.getScalars().empty())
      return;
    SmallVector<Value> left;
    SizeExpr expr = withKnown({index.getExpr().getValue()}, index.getScalars(), left)[0];
    if (left.size() == index.getScalars().size() || !isIndex(expr))
      return;
    index.setExprAttr(ExprAttr::get(op.getContext(), expr));
    index.getScalarsMutable().assign(left);
  }

  void visitLoad(LoadOp load) {
    if (std::optional<bool> isRead = load.getMask() ? truthOf(load.getMask()) : std::nullopt) {
      if (!*isRead)
        return replace(load, load.getOther());
      load.getMaskMutable().clear();
      load.getOtherMutable().clear();
    }
    SmallVector<Value> left;
    SmallVector<SizeExpr> indices = withKnown(load.indexExprs(), load.getScalars(), left);
    bool areIndices = llvm::all_of(indices, [&](SizeExpr e) { return e.isValid() && treeSize(e) <= maxNodes; });
    if (left.size() != load.getScalars().size() && areIndices) {
      load.setIndicesAttr(exprArray(op.getContext(), indices));
      load.getScalarsMutable().assign(left);
    }
    // A table of indices is its expression.
    auto table = load.getSource().getDefiningOp<LoopsOp>();
    if (!table || !load.getScalars().empty() || load.getMask() || table.getNumResults() != 1 || table.isReduction() ||
        table.getWriteAt() || !table.getDests().empty() || !load.getType().isInteger(64) || isWritten(load.getSource()))
      return;
    auto index = table.bodyBlock()->getTerminator()->getOperand(0).getDefiningOp<IndexOp>();
    if (!index || !index.getScalars().empty())
      return;
    AxisSubstitution place;
    for (auto [axis, at] : llvm::zip(table.parallelAxes(), load.indexExprs()))
      place.set(axis.getName().getValue(), at);
    SizeExpr expr = facts.simplify(place.apply(sizes, index.getExpr().getValue()));
    // Quotients for each element cost more than a look at a table.
    if (isPolynomial(expr))
      replace(load, expr);
  }

  LoopsOp op;
  uint32_t maxNodes;
  llvm::function_ref<bool(Value)> isWritten;
  const SizeFacts &symbols;
  SizeContext &sizes;
  SizeFacts facts;
  OpBuilder builder;
};

} // namespace

void foldIndices(FuncOp func, uint32_t maxIndexNodes) {
  SizeFacts facts = func.facts();
  llvm::DenseSet<Value> written;
  for (Operation &op : func.getBody().front())
    for (Value place : analysis::writtenPlaces(&op))
      written.insert(place);
  auto isWritten = [&](Value value) {
    return !written.empty() &&
           llvm::any_of(analysis::placesOf(value), [&](Value place) { return written.contains(place); });
  };
  for (Operation &op : func.getBody().front())
    if (auto loops = dyn_cast<LoopsOp>(op))
      IndexFolder(loops, facts, maxIndexNodes, isWritten).run();
  // Tables without readers.
  SmallVector<LoopsOp> all = llvm::to_vector(func.getBody().front().getOps<LoopsOp>());
  for (LoopsOp loops : llvm::reverse(all))
    if (loops->use_empty() && loops.getDests().empty())
      if (llvm::none_of(*loops.bodyBlock(), [](Operation &inner) { return isa<CheckIndexOp>(inner); }))
        loops.erase();
}

} // namespace torch_tile::fusion
