// Softmax and log-sum-exp read what they reduce twice: for its maximum, and for the sum of exponentials relative to
// that. Pairs (maximum, sum) are associative, so that one reduction gives both, wherever it runs: along columns, over
// several axes, in pieces. Rows that one program has to itself are left alone: tile building reads them once, too.
#include "compiler/analysis/Memory.h"
#include "compiler/fusion/Axes.h"
#include "compiler/fusion/Combiner.h"
#include "compiler/fusion/Fusion.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/fusion/ReductionLayout.h"
#include "compiler/graph/ir/Marks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

/// Points that a thread holds from the maximum to the sum.
constexpr double mostHeld = 32;
/// Programs of a multiprocessor that share its first-level cache.
constexpr double sharingPrograms = 4;
/// Pointwise loops that one value is followed through, and values that are compared.
constexpr int longestChain = 8, mostCompared = 256;

/// A scalar of the body of some loops; `at` gives the axes of these over the axes of the sum.
struct Term {
  Value value;
  AxisSubstitution at;
};

class ExponentialSums {
public:
  ExponentialSums(FuncOp func, const Machine &machine, std::vector<FusionDecision> &decisions)
      : func(func), machine(machine), sizes(GraphDialect::sizes(func.getContext())), facts(func.facts()),
        decisions(decisions) {}

  void run() {
    for (Operation &op : llvm::make_early_inc_range(func.getBody().front()))
      if (auto sum = dyn_cast<LoopsOp>(op); sum && isFold(sum) && isFloatSum(sum, 0))
        if (std::optional<Match> match = find(sum); match && pays(*match))
          join(*match);
  }

private:
  struct Match {
    LoopsOp maximum, sum;
    LoadOp load;             // of the maximum, that tells where the sum's points lie in it
    AxisSubstitution loadAt; // over the axes of the sum
    bool isLogarithm;        // an infinite maximum is subtracted as 0
  };

  static bool isFold(LoopsOp op) {
    return op.isReduction() && op.getDests().empty() && op.getNumResults() == 1 &&
           cast<GraphTensorType>(op.getResult(0).getType()).getElementType().isF32();
  }

  static bool isMaximum(LoopsOp op) {
    Block &block = op.getCombine().front();
    auto maximum = block.getTerminator()->getOperand(0).getDefiningOp<arith::MaximumFOp>();
    return maximum && llvm::all_of(maximum->getOperands(), [](Value v) { return isa<BlockArgument>(v); });
  }

  SizeExpr placed(const Term &term, SizeExpr e) { return facts.simplify(term.at.apply(sizes, e)); }

  /// What a value is computed by: through loads of what pointwise loops make.
  Term resolve(Term term) {
    for (int k = 0; k < longestChain; ++k) {
      auto load = term.value.getDefiningOp<LoadOp>();
      auto producer = load ? load.getSource().getDefiningOp<LoopsOp>() : LoopsOp();
      if (!producer || load.getMask() || !load.getScalars().empty() || producer.isReduction() ||
          producer.getWriteAt() || !producer.getDests().empty() || producer.getNumResults() != 1)
        return term;
      Term inner;
      for (auto [axis, index] : llvm::zip_equal(producer.parallelAxes(), load.indexExprs()))
        inner.at.set(axis.getName().getValue(), placed(term, index));
      inner.value = producer.bodyBlock()->getTerminator()->getOperand(0);
      term = inner;
    }
    return term;
  }

  template <typename Op> Op definedBy(Term &term) {
    term = resolve(term);
    return term.value.getDefiningOp<Op>();
  }

  bool isSame(Term left, Term right, int &budget) {
    left = resolve(left);
    right = resolve(right);
    Operation *a = left.value.getDefiningOp(), *b = right.value.getDefiningOp();
    if (!a || !b || --budget < 0 || a->getName() != b->getName() || a->getNumOperands() != b->getNumOperands() ||
        left.value.getType() != right.value.getType() || a->getNumRegions() > 0 || isa<CheckIndexOp, UniformOp>(a))
      return false;
    if (auto load = dyn_cast<LoadOp>(a)) {
      auto other = cast<LoadOp>(b);
      if (load.getSource() != other.getSource() || load.indexExprs().size() != other.indexExprs().size())
        return false;
      for (auto [x, y] : llvm::zip_equal(load.indexExprs(), other.indexExprs()))
        if (placed(left, x) != placed(right, y))
          return false;
    } else if (auto index = dyn_cast<IndexOp>(a)) {
      if (placed(left, index.getExpr().getValue()) != placed(right, cast<IndexOp>(b).getExpr().getValue()))
        return false;
    } else if (a->getAttrDictionary() != b->getAttrDictionary()) {
      return false;
    }
    unsigned first = isa<LoadOp>(a) ? 1 : 0; // the tensor
    for (auto [x, y] : llvm::zip_equal(a->getOperands().drop_front(first), b->getOperands().drop_front(first)))
      if (!isSame({x, left.at}, {y, right.at}, budget))
        return false;
    return true;
  }

  /// Whether `term` is (|m| == inf ? 0 : m), with the maximum m.
  bool skipsInfinity(Term &term) {
    auto choice = definedBy<arith::SelectOp>(term);
    if (!choice || !matchPattern(choice.getTrueValue(), m_AnyZeroFloat()))
      return false;
    Term condition{choice.getCondition(), term.at}, other{choice.getFalseValue(), term.at};
    auto compare = definedBy<arith::CmpFOp>(condition);
    if (!compare || compare.getPredicate() != arith::CmpFPredicate::OEQ ||
        !matchPattern(compare.getRhs(), m_PosInfFloat()))
      return false;
    Term magnitude{compare.getLhs(), condition.at};
    auto absolute = definedBy<math::AbsFOp>(magnitude);
    if (!absolute)
      return false;
    int budget = mostCompared;
    term = resolve(other);
    return isSame({absolute.getOperand(), magnitude.at}, term, budget);
  }

  std::optional<Match> find(LoopsOp sum) {
    Term power{sum.bodyBlock()->getTerminator()->getOperand(0), {}};
    auto exp = definedBy<math::ExpOp>(power);
    if (!exp)
      return std::nullopt;
    Term argument{exp.getOperand(), power.at};
    auto difference = definedBy<arith::SubFOp>(argument);
    if (!difference || !difference.getType().isF32())
      return std::nullopt;
    Term x{difference.getLhs(), argument.at}, subtracted = resolve({difference.getRhs(), argument.at});
    bool isLogarithm = skipsInfinity(subtracted);
    auto load = subtracted.value.getDefiningOp<LoadOp>();
    auto maximum = load ? load.getSource().getDefiningOp<LoopsOp>() : LoopsOp();
    if (!maximum || load.getMask() || !load.getScalars().empty() || !isFold(maximum) || !isMaximum(maximum))
      return std::nullopt;
    // The points of the maximum, over the axes of the sum.
    SmallVector<AxisAttr> reduced = sum.reducedAxes(), others = maximum.reducedAxes();
    if (reduced.size() != others.size())
      return std::nullopt;
    AxisSubstitution points;
    for (auto [axis, index] : llvm::zip_equal(maximum.parallelAxes(), load.indexExprs())) {
      SizeExpr at = placed(subtracted, index);
      if (llvm::any_of(reduced, [&](AxisAttr r) { return at.contains(r.getName().getValue()); }))
        return std::nullopt;
      points.set(axis.getName().getValue(), at);
    }
    for (auto [mine, its] : llvm::zip_equal(reduced, others)) {
      if (mine.getExtent() != its.getExtent())
        return std::nullopt;
      points.set(its.getName().getValue(), sizes.symbol(mine.getName().getValue()));
    }
    int budget = mostCompared;
    Value reducedValue = maximum.bodyBlock()->getTerminator()->getOperand(0);
    if (!isSame(x, {reducedValue, points}, budget) || isWrittenBetween(maximum, sum))
      return std::nullopt;
    return Match{maximum, sum, load, subtracted.at, isLogarithm};
  }

  /// Whether something that the maximum reads, through pointwise loops or not, is overwritten before the sum reads it.
  static bool isWrittenBetween(LoopsOp maximum, LoopsOp sum) {
    for (Operation *op = maximum->getNextNode(); op && op != sum; op = op->getNextNode())
      if (!analysis::writtenPlaces(op).empty())
        return true;
    return false;
  }

  bool pays(const Match &match) {
    LoopsOp op = match.maximum;
    ReductionLayout layout(op, machine, facts);
    if (layout.numReduced() <= mostHeld)
      return false;
    SmallVector<AxisAttr> reduced = op.reducedAxes();
    bool isOneAxis = true;
    for (size_t k = 0; k + 1 < reduced.size(); ++k)
      isOneAxis &= layout.areOneAxis(reduced[k], reduced[k + 1]);
    bool isInPieces = layout.numPrograms() < (double)machine.fewPrograms;
    if (!machine.joinsWholeExponentialSums)
      return isInPieces && estimatePoints(op, facts) >= (double)machine.smallReduction;
    if (isInPieces)
      return true;
    // What follows reads everything again: columns that a near cache holds are there for the sum, too, and a maximum
    // takes less to compute than a pair.
    double columnBytes = layout.numReduced() * (double)machine.columnBytes;
    if (isReadAgain(match, layout) && columnBytes * sharingPrograms < (double)machine.nearBytes)
      return false;
    return layout.takesColumns() || !isOneAxis;
  }

  /// Whether an op that uses the maximum or the sum runs over all that is reduced.
  bool isReadAgain(const Match &match, const ReductionLayout &layout) {
    double points = layout.numResults() * layout.numReduced();
    llvm::SmallSetVector<Operation *, 16> made;
    made.insert(LoopsOp(match.maximum));
    made.insert(LoopsOp(match.sum));
    for (size_t k = 0; k < made.size() && k < mostCompared; ++k)
      for (Operation *user : made[k]->getUsers()) {
        auto reader = isa<LoadOp>(user) ? user->getParentOfType<LoopsOp>() : LoopsOp();
        if (!reader || reader == LoopsOp(match.sum))
          continue;
        if (estimatePoints(reader, facts) > points / 2)
          return true;
        made.insert(reader);
      }
    return false;
  }

  /// Pairs (a, s) and (b, t): the larger of a and b, and both sums relative to it.
  void fillCombiner(Region &region, Type type, Location loc) {
    Block *block = new Block();
    region.push_back(block);
    SmallVector<Value> in;
    for (int k = 0; k < 4; ++k)
      in.push_back(block->addArgument(type, loc));
    ImplicitLocOpBuilder b(loc, OpBuilder::atBlockEnd(block));
    Value larger = arith::MaximumFOp::create(b, in[0], in[2]), smaller = arith::MinimumFOp::create(b, in[0], in[2]);
    auto scale = math::ExpOp::create(b, arith::SubFOp::create(b, smaller, larger));
    scale->setDiscardableAttr(kAtMostZero, b.getUnitAttr());
    Value isFirst = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, in[0], in[2]);
    Value ofLarger = arith::SelectOp::create(b, isFirst, in[1], in[3]);
    Value ofSmaller = arith::SelectOp::create(b, isFirst, in[3], in[1]);
    Value sum = arith::AddFOp::create(b, ofLarger, arith::MulFOp::create(b, ofSmaller, scale));
    YieldOp::create(b, ValueRange{larger, sum});
  }

  /// Loops over the parallel axes of `like`; `fill` gives what its body yields.
  template <typename Fill> LoopsOp pointwise(OpBuilder &builder, LoopsOp like, Fill fill) {
    SmallVector<Attribute> axes;
    for (AxisAttr axis : like.parallelAxes())
      axes.push_back(axis);
    auto made = LoopsOp::create(builder, like.getLoc(), like.getResultTypes(), builder.getArrayAttr(axes), ValueRange(),
                                DenseI64ArrayAttr(), ArrayAttr(), ArrayAttr());
    Block *body = new Block();
    made.getBody().push_back(body);
    ImplicitLocOpBuilder b(like.getLoc(), OpBuilder::atBlockEnd(body));
    YieldOp::create(b, ValueRange{fill(b)});
    return made;
  }

  void join(Match &match) {
    LoopsOp maximum = match.maximum, sum = match.sum;
    Type f32 = Float32Type::get(func.getContext()), type = maximum.getResult(0).getType();
    const llvm::fltSemantics &semantics = cast<FloatType>(f32).getFloatSemantics();
    OpBuilder builder(maximum);
    APFloat zero = APFloat::getZero(semantics), infinity = APFloat::getInf(semantics),
            nan = APFloat::getQNaN(semantics);
    APFloat nothing = APFloat::getInf(semantics, /*Negative=*/true);
    APFloat lowest = APFloat::getLargest(semantics, /*Negative=*/true);
    Attribute inits[] = {FloatAttr::get(f32, lowest), FloatAttr::get(f32, zero)};
    auto pairs = LoopsOp::create(builder, FusedLoc::get(func.getContext(), {maximum.getLoc(), sum.getLoc()}),
                                 TypeRange{type, type}, maximum.getAxesAttr(), ValueRange(), DenseI64ArrayAttr(),
                                 builder.getArrayAttr(inits), ArrayAttr());
    auto constant = [&](ImplicitLocOpBuilder &b, const APFloat &value) -> Value {
      return arith::ConstantOp::create(b, FloatAttr::get(f32, value));
    };
    auto equals = [&](ImplicitLocOpBuilder &b, Value value, const APFloat &to) -> Value {
      return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, value, constant(b, to));
    };
    // -inf is the lowest finite value, no times: differences are numbers then.
    pairs.getBody().takeBody(maximum.getBody());
    Operation *yield = pairs.bodyBlock()->getTerminator();
    ImplicitLocOpBuilder inside(maximum.getLoc(), yield);
    Value x = yield->getOperand(0);
    Value times = arith::SelectOp::create(inside, equals(inside, x, nothing), constant(inside, zero),
                                          constant(inside, APFloat(semantics, 1)));
    yield->setOperand(0, arith::MaximumFOp::create(inside, x, constant(inside, lowest)));
    yield->insertOperands(1, times);
    fillCombiner(pairs.getCombine(), f32, maximum.getLoc());

    auto load = [&](ImplicitLocOpBuilder &b, Value from, ArrayRef<SizeExpr> at) -> Value {
      return LoadOp::create(b, f32, from, exprArray(b.getContext(), at), ValueRange(), Value(), Value());
    };
    // A sum of 0: there was nothing but -inf.
    LoopsOp largest = pointwise(builder, maximum, [&](ImplicitLocOpBuilder &b) -> Value {
      SmallVector<SizeExpr> own = llvm::map_to_vector(
          maximum.parallelAxes(), [&](AxisAttr axis) { return sizes.symbol(axis.getName().getValue()); });
      Value isNothing = equals(b, load(b, pairs.getResult(1), own), zero);
      return arith::SelectOp::create(b, isNothing, constant(b, nothing), load(b, pairs.getResult(0), own));
    });
    OpBuilder later(sum);
    LoopsOp total = pointwise(later, sum, [&](ImplicitLocOpBuilder &b) -> Value {
      SmallVector<SizeExpr> at = llvm::map_to_vector(
          match.load.indexExprs(), [&](SizeExpr e) { return facts.simplify(match.loadAt.apply(sizes, e)); });
      Value value = load(b, pairs.getResult(1), at), most = load(b, pairs.getResult(0), at);
      // e^(inf - inf), or e^inf where infinities are not subtracted; e^(-inf + inf), or e^-inf.
      value =
          arith::SelectOp::create(b, equals(b, most, infinity), constant(b, match.isLogarithm ? infinity : nan), value);
      if (!match.isLogarithm)
        value = arith::SelectOp::create(b, equals(b, value, zero), constant(b, nan), value);
      return value;
    });
    decisions.push_back({FusionDecision::Kind::Join, true, lineOf(maximum.getLoc()), lineOf(sum.getLoc()),
                         "a maximum and the sum of exponentials relative to it"});
    maximum.replaceAllUsesWith(largest);
    sum.replaceAllUsesWith(total);
    sum.erase();
    maximum.erase();
  }

  FuncOp func;
  const Machine &machine;
  SizeContext &sizes;
  SizeFacts facts;
  std::vector<FusionDecision> &decisions;
};

} // namespace

void joinExponentialSums(FuncOp func, const FusionOptions &options, std::vector<FusionDecision> &decisions) {
  ExponentialSums(func, options.machine, decisions).run();
}

} // namespace torch_tile::fusion
