#include "compiler/analysis/Memory.h"
#include "compiler/graph/ir/Marks.h"
#include "compiler/graph/transforms/LowerOps.h"

#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;
using namespace mlir::graph;
using torch_tile::Proof;
using torch_tile::SizeExpr;

namespace {

/// How a reduction op folds one value.
struct Fold {
  Type type;      // element type of the accumulator
  Attribute init; // identity
  ScalarFold combine;
};

/// The axes of a reduction op, and where its operand is read.
class ReductionShape {
public:
  explicit ReductionShape(Operation *op) : source(tensorType(op->getOperand(0))), result(tensorType(op->getResult(0))) {
    keepdim = isSet(op->getAttr("keepdim"));
    isReduced.assign(source.getRank(), false);
    auto dims = op->getAttrOfType<DenseI64ArrayAttr>("dims");
    auto dim = op->getAttrOfType<IntegerAttr>("dim");
    if (source.getRank() == 0)
      return;
    if (dim)
      isReduced[dim.getInt()] = true;
    else if (!dims || dims.empty())
      isReduced.assign(source.getRank(), true);
    else
      for (int64_t each : dims.asArrayRef())
        isReduced[each] = true;
    for (auto [k, size] : llvm::enumerate(source.getSizes()))
      if (isReduced[k])
        reducedSizes.push_back(size);
  }

  GraphTensorType accumulatorType(Type elementType) const {
    return elementType == result.getElementType()
               ? result
               : GraphTensorType::getContiguous(result.getContext(), result.getSizes(), elementType);
  }

  SmallVector<SizeExpr> operandIndices(const LoopNest &nest) const {
    SmallVector<SizeExpr> indices;
    unsigned parallel = 0, reduced = 0;
    for (unsigned k = 0; k < source.getRank(); ++k) {
      indices.push_back(isReduced[k] ? nest.reducedAt()[reduced++] : nest.at()[keepdim ? k : parallel]);
      parallel += !isReduced[k];
    }
    return indices;
  }

  GraphTensorType source, result;
  SmallVector<SizeExpr> reducedSizes;

private:
  SmallVector<bool> isReduced;
  bool keepdim;
};

} // namespace

static TypedAttr numberAttr(Type elementType, double value) {
  if (isa<FloatType>(elementType))
    return FloatAttr::get(elementType, value);
  return IntegerAttr::get(scalarType(elementType), int64_t(value));
}

/// The value that every other one beats: the identity of a maximum or of a minimum.
static TypedAttr lowestAttr(Type elementType, bool ofMaximum) {
  if (isa<FloatType>(elementType))
    return FloatAttr::get(elementType, ofMaximum ? -INFINITY : INFINITY);
  unsigned bits = elementType.getIntOrFloatBitWidth();
  bool isUnsigned = elementType.isUnsignedInteger() || bits == 1;
  APInt lowest = isUnsigned ? APInt::getMinValue(bits) : APInt::getSignedMinValue(bits);
  APInt highest = isUnsigned ? APInt::getMaxValue(bits) : APInt::getSignedMaxValue(bits);
  return IntegerAttr::get(scalarType(elementType), ofMaximum ? lowest : highest);
}

TypedAttr mlir::graph::foldIdentity(StringRef name, Type elementType) {
  if (name == "add" || name == "mul")
    return numberAttr(elementType, name == "mul");
  return lowestAttr(elementType, name == "max");
}

template <typename FloatOp, typename SignedOp, typename UnsignedOp, typename BoolOp>
static ScalarFold foldWith(Type type) {
  bool isFloat = isa<FloatType>(type), isBool = type.isInteger(1), isUnsigned = type.isUnsignedInteger();
  return [=](ScalarBuilder &s, Value a, Value b) {
    if (isFloat) {
      Type wide = computeType(type);
      return s.cast(s.make<FloatOp>(s.cast(a, type, wide), s.cast(b, type, wide)), wide, type);
    }
    return isBool ? s.make<BoolOp>(a, b) : isUnsigned ? s.make<UnsignedOp>(a, b) : s.make<SignedOp>(a, b);
  };
}

ScalarFold mlir::graph::scalarFold(StringRef name, Type elementType) {
  if (name == "add")
    return foldWith<arith::AddFOp, arith::AddIOp, arith::AddIOp, arith::OrIOp>(elementType);
  if (name == "mul")
    return foldWith<arith::MulFOp, arith::MulIOp, arith::MulIOp, arith::AndIOp>(elementType);
  if (name == "max")
    return foldWith<arith::MaximumFOp, arith::MaxSIOp, arith::MaxUIOp, arith::OrIOp>(elementType);
  return foldWith<arith::MinimumFOp, arith::MinSIOp, arith::MinUIOp, arith::AndIOp>(elementType);
}

static Fold foldOf(Operation *op) {
  Type source = computeType(elementType(op->getOperand(0))), result = computeType(elementType(op->getResult(0)));
  Type i1 = IntegerType::get(op->getContext(), 1);
  auto named = [](StringRef name, Type type) { return Fold{type, foldIdentity(name, type), scalarFold(name, type)}; };
  return llvm::TypeSwitch<Operation *, Fold>(op)
      .Case([&](SumOp) { return named("add", result); })
      // Products are made in parts, of which some may overflow and others be as small as 0 where the whole is a number.
      .Case([&](ProdOp) { return named("mul", result.isF32() ? Type(Float64Type::get(op->getContext())) : result); })
      .Case([&](AmaxOp) { return named("max", source); })
      .Case([&](AminOp) { return named("min", source); })
      .Case([&](AnyOp) { return named("max", i1); })
      .Case([&](AllOp) { return named("min", i1); })
      .Default(Fold());
}

static LogicalResult lowerFold(Lowering &lowering, OpBuilder &builder, Operation *op) {
  Fold fold = foldOf(op);
  if (!fold.type)
    return emitUnsupported(op) << "no loops for this reduction";
  ReductionShape shape(op);
  Value x = op->getOperand(0);
  GraphTensorType type = shape.accumulatorType(fold.type);
  LoopNest nest(lowering, builder, op->getLoc(), TypeRange(type), shape.result.getSizes(), shape.reducedSizes);
  Value value = nest.scalars().cast(nest.load(x, shape.operandIndices(nest)), elementType(x), fold.type);
  Value result = nest.reduce(value, fold.init,
                             [&](ScalarBuilder &s, ValueRange accumulators, ValueRange values) -> SmallVector<Value> {
                               return {fold.combine(s, accumulators[0], values[0])};
                             })
                     .getResult(0);
  if (type != shape.result) {
    LoopNest rounding(lowering, builder, op->getLoc(), TypeRange(shape.result), shape.result.getSizes());
    Value rounded =
        rounding.scalars().cast(rounding.load(result, rounding.at()), fold.type, shape.result.getElementType());
    markRounding(op->getResult(0), rounded);
    result = rounding.yield(rounded).getResult(0);
  }
  op->getResult(0).replaceAllUsesWith(result);
  return success();
}

/// Pairs (value, index). The better value wins, NaN beats numbers, and among equals the lower index. The values are
/// also the result of `extremum`, if there is one.
static LogicalResult lowerArgExtremum(Lowering &lowering, OpBuilder &builder, Operation *op,
                                      Operation *extremum = nullptr) {
  if (op->use_empty())
    return success(); // an extremum had it
  bool isMaximum = isa<ArgmaxOp>(op);
  ReductionShape shape(op);
  Value x = op->getOperand(0);
  Type i64 = builder.getI64Type();
  if (shape.result.getElementType() != i64)
    return emitUnsupported(op) << "expected an i64 result, got " << shape.result;
  Type type = elementType(x).isInteger(1) ? builder.getI32Type() : computeType(elementType(x));
  bool isFloat = isa<FloatType>(type), isUnsigned = type.isUnsignedInteger();
  LoopNest nest(lowering, builder, op->getLoc(), {shape.accumulatorType(type), shape.result}, shape.result.getSizes(),
                shape.reducedSizes);
  Value value = nest.scalars().cast(nest.load(x, shape.operandIndices(nest)), elementType(x), type);
  Value index = nest.index(linearIndex(lowering.sizes, shape.reducedSizes, nest.reducedAt()));
  auto combine = [&](ScalarBuilder &s, ValueRange best, ValueRange next) -> SmallVector<Value> {
    Value better, equal;
    if (isFloat) {
      Value bestIsNan = s.isNan(best[0]), nextIsNan = s.isNan(next[0]);
      // Or unordered: then next is NaN, or best.
      better = s.compareFloats(isMaximum ? arith::CmpFPredicate::UGT : arith::CmpFPredicate::ULT, next[0], best[0]);
      better = s.make<arith::AndIOp>(better, s.logicalNot(bestIsNan));
      equal = s.make<arith::OrIOp>(s.compareFloats(arith::CmpFPredicate::OEQ, next[0], best[0]),
                                   s.make<arith::AndIOp>(nextIsNan, bestIsNan));
    } else {
      auto predicate = isUnsigned ? (isMaximum ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::ult)
                                  : (isMaximum ? arith::CmpIPredicate::sgt : arith::CmpIPredicate::slt);
      better = s.compareInts(predicate, next[0], best[0]);
      equal = s.compareInts(arith::CmpIPredicate::eq, next[0], best[0]);
    }
    Value earlier = s.compareInts(arith::CmpIPredicate::slt, next[1], best[1]);
    Value takeNext = s.make<arith::OrIOp>(better, s.make<arith::AndIOp>(equal, earlier));
    return {s.select(takeNext, next[0], best[0]), s.select(takeNext, next[1], best[1])};
  };
  Attribute noIndex = builder.getI64IntegerAttr(std::numeric_limits<int64_t>::max());
  LoopsOp loops = nest.reduce({value, index}, {lowestAttr(type, isMaximum), noIndex}, combine);
  op->getResult(0).replaceAllUsesWith(loops.getResult(1));
  if (!extremum)
    return success();
  Value best = loops.getResult(0);
  if (auto wanted = tensorType(extremum->getResult(0)); best.getType() != wanted) { // one of x: exact
    LoopNest narrowing(lowering, builder, op->getLoc(), TypeRange(wanted), wanted.getSizes());
    Value narrow = narrowing.scalars().cast(narrowing.load(best, narrowing.at()), type, wanted.getElementType());
    best = narrowing.yield(narrow).getResult(0);
  }
  extremum->getResult(0).replaceAllUsesWith(best);
  return success();
}

/// The search behind `extremum` for the index of what it finds, as the other result of `max` over a dimension; null if
/// there is none, or something is written between the two.
static Operation *searchOf(Operation *extremum) {
  auto reduced = [](Operation *op) -> std::optional<int64_t> {
    if (auto dim = op->getAttrOfType<IntegerAttr>("dim"))
      return dim.getInt();
    auto dims = op->getAttrOfType<DenseI64ArrayAttr>("dims");
    return dims && dims.size() == 1 ? std::optional(dims[0]) : std::nullopt;
  };
  std::optional<int64_t> dim = reduced(extremum);
  if (!dim || elementType(extremum->getOperand(0)) != elementType(extremum->getResult(0)))
    return nullptr;
  for (Operation *user : extremum->getOperand(0).getUsers()) {
    bool isSame = isa<AmaxOp>(extremum) ? isa<ArgmaxOp>(user) : isa<ArgminOp>(user);
    if (!isSame || user->use_empty() || user->getBlock() != extremum->getBlock() || !extremum->isBeforeInBlock(user) ||
        reduced(user) != dim || isSet(user->getAttr("keepdim")) != isSet(extremum->getAttr("keepdim")))
      continue;
    auto between = llvm::make_range(std::next(extremum->getIterator()), user->getIterator());
    if (llvm::all_of(between, [](Operation &op) {
          return torch_tile::analysis::writtenValues(&op).empty() && !torch_tile::analysis::hasEffect(&op);
        }))
      return user;
  }
  return nullptr;
}

/// Triples (mean, m2, count) of parts joined as by Chan, Golub and LeVeque (1979); a part of one element is (x, 0, 1).
static SmallVector<Value> joinMoments(ScalarBuilder &s, ValueRange a, ValueRange b) {
  auto mul = [&](Value x, Value y) { return s.make<arith::MulFOp>(x, y); };
  auto add = [&](Value x, Value y) { return s.make<arith::AddFOp>(x, y); };
  Value zero = s.floatConstant(a[0].getType(), 0);
  Value count = add(a[2], b[2]);
  Value delta = s.make<arith::SubFOp>(b[0], a[0]);
  Value isFirst = s.compareFloats(arith::CmpFPredicate::OEQ, a[2], zero);
  Value share = s.make<arith::DivFOp>(b[2], count);
  if (auto division = share.getDefiningOp<arith::DivFOp>())
    division->setDiscardableAttr(kWeight, UnitAttr::get(division.getContext()));
  // What comes first counts as a whole, however the quotient is rounded.
  Value weight = s.select(isFirst, s.floatConstant(a[0].getType(), 1), share);
  Value shift = mul(delta, weight);
  // delta * shift alone may overflow where nothing came before.
  return {add(a[0], shift), add(add(a[1], b[1]), mul(delta, mul(shift, a[2]))), count};
}

static LogicalResult lowerVarMean(Lowering &lowering, OpBuilder &builder, VarMeanOp op) {
  ReductionShape shape(op);
  Type source = elementType(op.getX()), type = computeType(source);
  if (!isa<FloatType>(type))
    return emitUnsupported(op) << "expected a float operand, got " << op.getX().getType();
  auto partial = GraphTensorType::getContiguous(op.getContext(), shape.result.getSizes(), type);
  LoopNest nest(lowering, builder, op.getLoc(), {partial, partial, partial}, shape.result.getSizes(),
                shape.reducedSizes);
  Value x = nest.scalars().cast(nest.load(op.getX(), shape.operandIndices(nest)), source, type);
  Value zero = nest.scalars().floatConstant(type, 0), one = nest.scalars().floatConstant(type, 1);
  Attribute zeroAttr = numberAttr(type, 0);
  LoopsOp moments = nest.reduce({x, zero, one}, {zeroAttr, zeroAttr, zeroAttr}, joinMoments);

  LoopNest last(lowering, builder, op.getLoc(), op->getResultTypes(), shape.result.getSizes());
  ScalarBuilder &s = last.scalars();
  SizeExpr count = lowering.sizes.constant(1);
  for (SizeExpr size : shape.reducedSizes)
    count = lowering.sizes.mul(count, size);
  Value n = s.cast(last.index(count), builder.getI64Type(), type);
  Value mean = last.load(moments.getResult(0), last.at()), m2 = last.load(moments.getResult(1), last.at());
  Value correction = op.getCorrectionAttr() ? s.constant(type, op.getCorrectionAttr()) : s.floatConstant(type, 1);
  Value divisor = s.make<arith::MaximumFOp>(s.make<arith::SubFOp>(n, correction), s.floatConstant(type, 0));
  Value var = s.make<arith::DivFOp>(m2, divisor);
  if (lowering.facts.lessEqual(lowering.sizes.constant(1), count) != Proof::Yes) {
    // The mean of nothing is NaN.
    Value isEmpty = s.compareFloats(arith::CmpFPredicate::OEQ, n, s.floatConstant(type, 0));
    mean = s.select(isEmpty, s.floatConstant(type, NAN), mean);
  }
  op->replaceAllUsesWith(
      last.yield({s.cast(var, type, elementType(op.getVar())), s.cast(mean, type, elementType(op.getMean()))}));
  return success();
}

LogicalResult mlir::graph::lowerReduction(Lowering &lowering, OpBuilder &builder, Operation *op) {
  if (isa<ArgmaxOp, ArgminOp>(op))
    return lowerArgExtremum(lowering, builder, op);
  if (isa<AmaxOp, AminOp>(op))
    if (Operation *search = searchOf(op))
      return lowerArgExtremum(lowering, builder, search, op);
  if (auto varMean = dyn_cast<VarMeanOp>(op))
    return lowerVarMean(lowering, builder, varMean);
  return lowerFold(lowering, builder, op);
}
