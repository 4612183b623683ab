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

BodyCost bodyCost(graph::LoopsOp op) {
  BodyCost cost;
  for (Operation &inner : *op.bodyBlock()) {
    if (auto load = dyn_cast<graph::LoadOp>(inner)) {
      cost.loads += load.getScalars().empty() ? 1 : 4;
      cost.branches += load.getMask() ? 1 : 0;
      continue;
    }
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
