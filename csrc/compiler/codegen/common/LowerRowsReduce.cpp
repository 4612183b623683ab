// Combining values: the parts of a reduction that do not depend on where elements lie.
#include "compiler/codegen/common/RowLowering.h"

using namespace mlir;
using namespace torch_tile::codegen;

LogicalResult RowLowering::lowerCombiner(Block &block) {
  for (Operation &inner : block.without_terminator()) {
    if (auto constant = dyn_cast<arith::ConstantOp>(inner)) {
      if (failed(lowerConstant(constant)))
        return failure();
      continue;
    }
    // Lanes decide for themselves: both sides are computed.
    if (auto branch = dyn_cast<scf::IfOp>(inner); branch && branch.elseBlock()) {
      if (failed(lowerCombiner(*branch.thenBlock())) || failed(lowerCombiner(*branch.elseBlock())))
        return failure();
      for (auto [result, yes, no] :
           llvm::zip_equal(branch.getResults(), branch.thenYield().getOperands(), branch.elseYield().getOperands())) {
        int64_t lanes = std::max(lanesOf(scalar(yes).getType()), lanesOf(scalar(no).getType()));
        lanes = std::max(lanes, lanesOf(scalar(branch.getCondition()).getType()));
        auto spread = [&](Value value) { return broadcast(value, withLanes(elementOf(value.getType()), lanes)); };
        set(result, {arith::SelectOp::create(b, spread(scalar(branch.getCondition())), spread(scalar(yes)),
                                             spread(scalar(no)))});
      }
      continue;
    }
    if (!OpTrait::hasElementwiseMappableTraits(&inner))
      return inner.emitOpError("expected a pointwise op in a combiner, which neither loops nor reads memory");
    if (failed(lowerPointwise(&inner)))
      return failure();
  }
  return success();
}

FailureOr<RowLowering::Tuple> RowLowering::combine(Region &combiner, const Tuple &lhs, const Tuple &rhs) {
  Block &block = combiner.front();
  for (auto [index, value] : llvm::enumerate(llvm::concat<const Value>(lhs, rhs)))
    set(block.getArgument(index), {value});
  if (failed(lowerCombiner(block)))
    return failure();
  Tuple result;
  for (auto [index, value] : llvm::enumerate(block.getTerminator()->getOperands()))
    result.push_back(broadcast(scalar(value), lhs[index].getType()));
  return result;
}

FailureOr<RowLowering::Tuple> RowLowering::combineRows(tile::ReduceOp op, SmallVector<Tuple> list) {
  while (list.size() > 1) {
    size_t half = list.size() / 2;
    bool isOdd = list.size() % 2 != 0;
    for (size_t index = 0; index < half; ++index) {
      auto combined = combine(op, list[index], list[index + half]);
      if (failed(combined))
        return failure();
      list[index] = *combined;
    }
    if (isOdd)
      list[half] = list.back();
    list.resize(half + isOdd);
  }
  return list[0];
}

FailureOr<RowLowering::Tuple> RowLowering::combineLanes(tile::ReduceOp op, Tuple vectors) {
  SmallVector<Tuple> extras; // odd lanes, combined last
  for (int64_t lanes = lanesOf(vectors[0].getType()); lanes > 1; lanes /= 2) {
    int64_t half = lanes / 2;
    auto part = [&](int64_t offset, int64_t size) {
      return Tuple(llvm::map_range(vectors, [&](Value v) { return slice(v, offset, size); }));
    };
    if (lanes % 2 != 0)
      extras.push_back(part(lanes - 1, 1));
    auto combined = combine(op, part(0, half), part(half, half));
    if (failed(combined))
      return failure();
    vectors = *combined;
  }
  for (const Tuple &extra : llvm::reverse(extras)) {
    auto combined = combine(op, vectors, extra);
    if (failed(combined))
      return failure();
    vectors = *combined;
  }
  return vectors;
}
