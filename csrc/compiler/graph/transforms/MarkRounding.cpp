// Which roundings to low precision fusion may leave out. One value has one rounding: what several ops read, or is
// stored, or is compared, is rounded for all of them.
#include "compiler/graph/transforms/LowerOps.h"

using namespace mlir;
using namespace mlir::graph;

/// Ops whose answer jumps where their operand changes by a rounding: ties, integers, signs, overflow; and what says
/// that another graph has the rounded value.
static bool jumps(Operation *op) {
  return isa<EqOp, NeOp, LtOp, LeOp, GtOp, GeOp, IsnanOp, IsinfOp, SignOp, FloorOp, CeilOp, RoundOp, TruncOp,
             DivFloorOp, DivTruncOp, RemainderOp, FmodOp, LogicalNotOp, LogicalAndOp, LogicalOrOp, LogicalXorOp, AnyOp,
             AllOp, ArgmaxOp, ArgminOp, CummaxOp, CumminOp, RoundedOp>(op);
}

/// Ops that round nothing themselves: who reads their result reads their operand.
static bool passesOn(Operation *op) {
  return (op->hasTrait<ViewTrait>() && !isa<AsStridedOp>(op)) ||
         isa<WhereOp, CatOp, ConstantPadOp, FlipOp, CloneOp, IndexTensorOp, GatherOp>(op);
}

/// Float types of 8 bits: whoever converts to one asks for its few values.
static bool isTiny(Value value) {
  auto type = dyn_cast<FloatType>(elementType(value));
  return type && type.getWidth() < 16;
}

/// Whether `value` is read by one op alone, which bears a difference of a rounding, as does all that reads it through
/// exact casts.
static bool hasOneSmoothReader(Value value) {
  llvm::SmallPtrSet<Operation *, 4> readers, passed;
  SmallVector<std::pair<Value, bool>> work{{value, false}};
  while (!work.empty()) {
    auto [each, isCast] = work.pop_back_val();
    for (Operation *user : each.getUsers()) {
      auto cast = dyn_cast<CastOp>(user);
      if (!passesOn(user) && !isCast)
        readers.insert(user);
      if (readers.size() > 1 || jumps(user) ||
          (cast && (!isa<FloatType>(elementType(cast.getResult())) || isTiny(cast.getResult()))))
        return false;
      bool isExact =
          cast && elementType(cast.getResult()).getIntOrFloatBitWidth() > elementType(value).getIntOrFloatBitWidth();
      if ((passesOn(user) || isExact) && passed.insert(user).second)
        work.push_back({user->getResult(0), isCast || isExact});
    }
  }
  return readers.size() == 1;
}

void mlir::graph::markRounding(Value tensor, Value scalar) {
  auto rounding = scalar.getDefiningOp<arith::TruncFOp>();
  if (rounding && !isTiny(tensor) && rounding.getIn().getType() == computeType(rounding.getType()) &&
      hasOneSmoothReader(tensor))
    rounding->setDiscardableAttr(kElidableRounding, UnitAttr::get(rounding.getContext()));
}
