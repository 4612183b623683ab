#include "compiler/fusion/FusionCost.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace torch_tile::fusion {

int costOf(Operation *op) {
  if (op->hasTrait<OpTrait::IsTerminator>() || isa<arith::ConstantOp>(op))
    return 0;
  if (isa<arith::DivFOp, math::SqrtOp, math::RsqrtOp>(op))
    return 4;
  if (isa<arith::DivSIOp, arith::RemSIOp, arith::DivUIOp, arith::RemUIOp, arith::FloorDivSIOp, arith::RemFOp>(op))
    return 16;
  if (isa<graph::UniformOp>(op))
    return 60;
  if (isa<math::AbsFOp, math::AbsIOp, math::FloorOp, math::CeilOp, math::TruncOp, math::RoundEvenOp, math::CopySignOp,
          math::FmaOp>(op))
    return 1;
  if (isa<math::PowFOp, math::FPowIOp, math::Atan2Op>(op))
    return 40;
  if (isa<math::MathDialect>(op->getDialect()))
    return 16;
  return 1;
}

/// Whether `expr` is of sizes alone, which the host computes once.
static bool isOfSizes(SizeExpr expr) {
  return llvm::all_of(expr.symbols(), [](std::string_view name) { return name[0] == 's' || name[0] == 'u'; });
}

int IndexCost::add(SizeExpr expr) {
  constexpr int constantDivision = 4, division = 16; // a constant's is a multiplication
  if (!expr.isValid() || expr.isConstant() || expr.symbol() || !seen.insert(expr.opaque()).second)
    return 0;
  int cost = 0;
  for (const SizeTerm &term : SizeContext::terms(expr))
    for (const auto &[atom, power] : term.factors) {
      std::optional<SizeCall> call = SizeContext::asCall(atom);
      if (!call || isOfSizes(atom) || (atom != expr && !seen.insert(atom.opaque()).second))
        continue;
      for (SizeExpr argument : call->args)
        cost += add(argument);
      if (call->fn == SizeFn::Min || call->fn == SizeFn::Max)
        cost += (int)call->args.size() - 1;
      else if (!call->args[0].symbol())
        cost += call->args[1].isConstant() ? constantDivision : division;
    }
  return cost;
}

BodyCost bodyCost(graph::LoopsOp op) {
  BodyCost cost;
  IndexCost index;
  for (Operation &inner : *op.bodyBlock()) {
    if (auto load = dyn_cast<graph::LoadOp>(inner)) {
      cost.loads += load.getScalars().empty() ? 1 : 4;
      cost.branches += load.getMask() ? 1 : 0;
      for (SizeExpr expr : load.indexExprs())
        cost.index += index.add(expr);
      continue;
    }
    if (auto value = dyn_cast<graph::IndexOp>(inner))
      cost.index += index.add(value.getExpr().getValue());
    cost.work += costOf(&inner);
  }
  return cost;
}

int64_t elementBytes(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type))
    return 2 * elementBytes(complex.getElementType());
  return std::max<int64_t>(1, (int64_t)type.getIntOrFloatBitWidth() / 8);
}

int64_t estimateBytes(graph::GraphTensorType type, const SizeFacts &facts) {
  // Sums of several estimates must not overflow.
  return std::min(facts.estimate(type.numElements()), int64_t(1) << 50) * elementBytes(type.getElementType());
}

double estimatePoints(graph::LoopsOp op, const SizeFacts &facts) {
  double points = 1;
  for (graph::AxisAttr axis : op.axisList())
    points *= (double)facts.estimate(axis.getExtent());
  return points;
}

void collectLines(Location location, SmallVectorImpl<int64_t> &lines) {
  location->walk([&](Location inner) {
    if (auto file = dyn_cast<FileLineColLoc>(inner))
      lines.push_back(file.getLine());
    return WalkResult::advance();
  });
}

int lineOf(Location location) {
  SmallVector<int64_t> lines;
  collectLines(location, lines);
  return lines.empty() ? 0 : (int)lines.front();
}

} // namespace torch_tile::fusion
