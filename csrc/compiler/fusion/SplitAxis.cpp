#include "compiler/fusion/SplitAxis.h"

#include "compiler/fusion/Axes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {

std::optional<int64_t> exactChunkNear(int64_t extent, int64_t chunk, int64_t most) {
  for (int64_t candidate = chunk; candidate <= 2 * chunk && candidate < extent; ++candidate)
    if (extent % candidate == 0)
      return candidate;
  for (int64_t candidate = chunk - 1; candidate > 1 && 2 * candidate >= chunk; --candidate)
    if (extent % candidate == 0)
      return candidate;
  for (int64_t candidate = 2 * chunk + 1; candidate <= most && candidate < extent; ++candidate)
    if (extent % candidate == 0)
      return candidate;
  return std::nullopt;
}

void shiftAxis(LoopsOp op, AxisAttr axis, SizeExpr position, bool isExact, SizeContext &sizes) {
  AxisSubstitution substitution;
  substitution.set(axis.getName().getValue(), position);
  auto shifted = [&](ArrayRef<SizeExpr> indices) {
    return exprArray(op.getContext(),
                     llvm::map_to_vector(indices, [&](SizeExpr e) { return substitution.apply(sizes, e); }));
  };
  OpBuilder builder = OpBuilder::atBlockBegin(op.bodyBlock());
  Location loc = op.getLoc();
  Value mask;
  if (!isExact) {
    auto index = [&](SizeExpr e) {
      return IndexOp::create(builder, loc, builder.getI64Type(), ExprAttr::get(op.getContext(), e), ValueRange());
    };
    Value at = index(position), extent = index(axis.getExtent());
    mask = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, at, extent);
  }
  for (Operation &inner :
       llvm::make_early_inc_range(llvm::make_range(builder.getInsertionPoint(), op.bodyBlock()->end()))) {
    builder.setInsertionPoint(&inner);
    auto conjoin = [&](Value other) -> Value {
      return other ? arith::AndIOp::create(builder, loc, mask, other).getResult() : mask;
    };
    if (auto load = dyn_cast<LoadOp>(inner)) {
      load.setIndicesAttr(shifted(load.indexExprs()));
      if (mask) {
        if (!load.getOther())
          load.getOtherMutable().assign(arith::ConstantOp::create(builder, loc, builder.getZeroAttr(load.getType())));
        load.getMaskMutable().assign(conjoin(load.getMask()));
      }
    } else if (auto write = dyn_cast<WriteAtOp>(inner)) {
      write.setIndicesAttr(shifted(write.indexExprs()));
      if (mask)
        write.getMaskMutable().assign(conjoin(write.getMask()));
    } else if (auto index = dyn_cast<IndexOp>(inner)) {
      index.setExprAttr(ExprAttr::get(op.getContext(), substitution.apply(sizes, index.getExpr().getValue())));
    } else if (auto check = dyn_cast<CheckIndexOp>(inner); check && mask) {
      check.getMaskMutable().assign(conjoin(check.getMask()));
    } else if (auto yield = dyn_cast<YieldOp>(inner); yield && mask) {
      for (auto [k, init] : llvm::enumerate(op.getInitsAttr())) {
        Value identity = arith::ConstantOp::create(builder, loc, cast<TypedAttr>(init));
        yield.setOperand(k, arith::SelectOp::create(builder, loc, mask, yield.getOperand(k), identity));
      }
    }
  }
}

} // namespace torch_tile::fusion
