#include "compiler/tile/build/IndexSteps.h"

#include "compiler/fusion/Access.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::strideAlong;

namespace torch_tile::tile_build {

/// Integers of a table of positions, as along one dimension of an image, and the points for each of them. Those of
/// longer ones, as the edges of a graph, may be anything.
static constexpr double mostPositions = 8192, pointsOfPosition = 256;

static std::optional<double> constantOf(Value value) {
  Attribute attribute;
  if (!matchPattern(value, m_Constant(&attribute)))
    return std::nullopt;
  if (auto number = dyn_cast<FloatAttr>(attribute))
    return number.getValueAsDouble();
  if (auto number = dyn_cast<IntegerAttr>(attribute))
    return (double)number.getValue().getSExtValue();
  return std::nullopt;
}

IndexSteps::Step IndexSteps::of(Value index) {
  Step step = stepOf(index);
  return step.kind == Step::Smooth ? Step{Step::Known, 1} : step;
}

std::optional<double> IndexSteps::ofOffset(SizeExpr offset, SizeExpr own, ValueRange scalars) {
  auto sum = (double)loops.facts().estimate(own);
  std::optional<double> field;
  for (auto [k, scalar] : llvm::enumerate(scalars)) {
    Step step = of(scalar);
    if (step.kind == Step::Known && step.value == 0)
      continue;
    std::optional<SizeExpr> factor = strideAlong(loops.sizes(), offset, "x" + std::to_string(k));
    if (step.kind == Step::Any || !factor)
      return std::nullopt;
    double moved = step.value * (double)loops.facts().estimate(*factor);
    if (step.kind == Step::Field)
      field = std::min(field.value_or(std::abs(moved)), std::abs(moved));
    else
      sum += moved;
  }
  return sum == 0 ? field.value_or(0) : sum;
}

IndexSteps::Step IndexSteps::stepOf(Value value) {
  if (!loops.variesAlong(value, axis))
    return {Step::Known, 0};
  Operation *op = value.getDefiningOp();
  if (!op)
    return {};
  auto [it, isNew] = known.try_emplace(value, Step());
  if (!isNew)
    return it->second;
  Step step = compute(op);
  known[value] = step;
  return step;
}

/// Floats that become positions are coordinates where they follow one axis, and fields where several: what neighbours
/// hold is near each other. Integers are looked up.
IndexSteps::Step IndexSteps::ofLoad(LoadOp load) {
  Value source = load.getSource();
  if (const FusedMember *from = loops.producer(source)) {
    LoopsOp op = from->op;
    if (op.isReduction() || op.getWriteAt())
      return {};
    auto yield = cast<YieldOp>(op.bodyBlock()->getTerminator());
    return stepOf(yield.getValues()[cast<OpResult>(source).getResultNumber()]);
  }
  if (load.getScalars().empty() && !loops.exprOf(load).contains(axis))
    return {Step::Known, 0}; // a mask says whether, not where
  if (isa<FloatType>(load.getType())) {
    auto numAxes = llvm::count_if(loops.axes, [&](const torch_tile::fusion::Axis &each) {
      return !each.extent.isConstant(1) && loops.exprOf(load).contains(each.name);
    });
    return numAxes > 1 ? Step{Step::Field, 1} : Step{Step::Smooth};
  }
  double entries = (double)loops.facts().estimate(cast<GraphTensorType>(source.getType()).numElements());
  bool isTable = load.getScalars().empty() && entries <= mostPositions && entries * pointsOfPosition <= points &&
                 strideAlong(loops.sizes(), loops.exprOf(load), axis);
  return isTable ? Step{Step::Field, 1} : Step();
}

IndexSteps::Step IndexSteps::ofIndex(IndexOp index) {
  SizeExpr expr = loops.exprOf(index);
  std::optional<SizeExpr> own = strideAlong(loops.sizes(), expr, axis);
  if (!own)
    return {Step::Known, 1};
  double sum = (double)loops.facts().estimate(*own);
  for (auto [k, scalar] : llvm::enumerate(index.getScalars())) {
    Step step = stepOf(scalar);
    std::optional<SizeExpr> factor = strideAlong(loops.sizes(), expr, "x" + std::to_string(k));
    if (step.kind == Step::Any)
      return step;
    if (step.value != 0)
      sum += step.value * (factor ? (double)loops.facts().estimate(*factor) : 1);
  }
  return {Step::Known, sum};
}

/// Whether a value says where a point lies, along this axis or another one.
bool IndexSteps::isCoordinate(Value value, Step step) {
  if (step.kind == Step::Smooth)
    return true;
  return step.kind == Step::Known && llvm::any_of(loops.axes, [&](const torch_tile::fusion::Axis &each) {
           return loops.variesAlong(value, each.name);
         });
}

/// Of a combination of two floats: a coordinate that something moves a little is still one.
IndexSteps::Step IndexSteps::follow(Value a, Value b) {
  Step first = stepOf(a), second = stepOf(b);
  if (first.kind == Step::Any || second.kind == Step::Any)
    return {};
  if (first.kind == Step::Field)
    return isCoordinate(b, second) ? second : first;
  if (second.kind == Step::Field)
    return isCoordinate(a, first) ? first : second;
  return {Step::Smooth};
}

IndexSteps::Step IndexSteps::compute(Operation *op) {
  auto operand = [&](unsigned number) { return stepOf(op->getOperand(number)); };
  auto isKnown = [](Step step) { return step.kind == Step::Known; };
  auto isFixed = [](Step step) { return step.kind == Step::Known && step.value == 0; };
  // The one of two that moves.
  auto either = [&](Step a, Step b) {
    if (a.kind == Step::Any || b.kind == Step::Any)
      return Step();
    if (isKnown(a) && isKnown(b))
      return std::abs(a.value) > std::abs(b.value) ? a : b;
    return isFixed(b) ? a : isFixed(a) || b.kind < a.kind ? b : a;
  };
  // A masked value may vary with its mask alone.
  if (op->getNumOperands() > 0 && !isa<LoadOp, IndexOp>(op) &&
      llvm::all_of(op->getOperands(), [&](Value each) { return each.getType().isInteger(1) || isFixed(stepOf(each)); }))
    return {Step::Known, 0};
  return llvm::TypeSwitch<Operation *, Step>(op)
      .Case([&](LoadOp load) { return ofLoad(load); })
      .Case([&](IndexOp index) { return ofIndex(index); })
      .Case<CheckIndexOp, arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp, arith::SIToFPOp, arith::UIToFPOp,
            arith::ExtFOp, arith::TruncFOp, math::FloorOp, math::CeilOp, math::TruncOp, math::RoundEvenOp,
            math::RoundOp, arith::NegFOp, math::AbsFOp, math::AbsIOp, arith::RemSIOp, arith::RemUIOp, arith::RemFOp>(
          [&](Operation *) { return operand(0); })
      .Case<arith::FPToSIOp, arith::FPToUIOp>([&](Operation *) {
        Step step = operand(0);
        return step.kind == Step::Smooth ? Step{Step::Known, 1} : step;
      })
      .Case<arith::AddIOp, arith::SubIOp>([&](Operation *) {
        Step a = operand(0), b = operand(1);
        if (isKnown(a) && isKnown(b))
          return Step{Step::Known, a.value + (isa<arith::AddIOp>(op) ? b.value : -b.value)};
        // Of a row and a column that fields name: neighbours lie in one row.
        if (a.kind == Step::Field && b.kind == Step::Field)
          return Step{Step::Field, std::min(std::abs(a.value), std::abs(b.value))};
        return a.kind == Step::Any || b.kind == Step::Any ? Step() : isFixed(a) || isKnown(b) ? b : a;
      })
      .Case<arith::AddFOp, arith::SubFOp>([&](Operation *) {
        Step a = operand(0), b = operand(1);
        if (isKnown(a) && isKnown(b))
          return Step{Step::Known, a.value + (isa<arith::AddFOp>(op) ? b.value : -b.value)};
        return follow(op->getOperand(0), op->getOperand(1));
      })
      .Case<arith::MulIOp, arith::MulFOp, arith::DivFOp, arith::DivSIOp, arith::FloorDivSIOp>([&](Operation *) {
        bool divides = isa<arith::DivFOp, arith::DivSIOp, arith::FloorDivSIOp>(op);
        bool isSwapped = !divides && isFixed(operand(0));
        Value moved = op->getOperand(isSwapped), other = op->getOperand(!isSwapped);
        Step step = stepOf(moved);
        if (!isFixed(stepOf(other)))
          return isa<arith::MulIOp, arith::DivSIOp, arith::FloorDivSIOp>(op) ? Step() : follow(moved, other);
        std::optional<double> factor = constantOf(other);
        bool isFloat = isa<FloatType>(moved.getType());
        if (step.kind == Step::Any || step.kind == Step::Smooth || (isFloat && step.kind == Step::Field))
          return step;
        if (!factor || *factor == 0)
          return isFloat ? Step{Step::Smooth} : step;
        return Step{step.kind, divides ? step.value / *factor : step.value * *factor};
      })
      .Case([&](arith::ShRSIOp) { return operand(0).kind == Step::Any ? Step() : Step{Step::Known, 1}; })
      .Case<arith::MinSIOp, arith::MaxSIOp, arith::MinUIOp, arith::MaxUIOp, arith::MinimumFOp, arith::MaximumFOp,
            arith::MinNumFOp, arith::MaxNumFOp>([&](Operation *) { return either(operand(0), operand(1)); })
      .Case([&](arith::SelectOp) { return either(operand(1), operand(2)); })
      .Default([&](Operation *) {
        bool isFloat = op->getNumResults() == 1 && isa<FloatType>(op->getResult(0).getType());
        bool isComputed = isFloat && llvm::all_of(op->getOperands(), [&](Value each) {
                            return isa<FloatType>(each.getType()) && stepOf(each).kind != Step::Any;
                          });
        return isComputed ? Step{Step::Smooth} : Step();
      });
}

} // namespace torch_tile::tile_build
