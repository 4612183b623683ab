// Reductions along one axis of row-major rows.
#include "compiler/codegen/cpu/TileLowering.h"

using namespace mlir;
using namespace torch_tile::codegen;

LogicalResult TileLowering::lowerReduce(tile::ReduceOp op) {
  auto type = cast<RankedTensorType>(op.getSources()[0].getType());
  int64_t axis = op.getAxis(), last = type.getRank() - 1;
  SmallVector<Rows> sources = llvm::map_to_vector(op.getSources(), [&](Value source) { return rows(source); });
  auto tupleAt = [&](int64_t row) {
    return Tuple(llvm::map_range(sources, [&](const Rows &list) { return list[row]; }));
  };
  SmallVector<Rows> results(op.getNumResults());
  auto append = [&](const Tuple &tuple) {
    for (auto [list, value] : llvm::zip_equal(results, tuple))
      list.push_back(value);
  };

  if (axis != last) {
    int64_t size = type.getDimSize(axis), inner = 1;
    for (int64_t k = axis + 1; k < last; ++k)
      inner *= type.getDimSize(k);
    int64_t outer = sources[0].size() / (size * inner);
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) {
        SmallVector<Tuple> list;
        for (int64_t k = 0; k < size; ++k)
          list.push_back(tupleAt((o * size + k) * inner + i));
        auto combined = combineRows(op, std::move(list));
        if (failed(combined))
          return failure();
        append(*combined);
      }
  } else {
    // Rows become lanes: a transpose makes the reduced axis the row axis, and whole vectors are combined.
    int64_t group = last > 0 ? type.getDimSize(last - 1) : 1, lanes = type.getDimSize(last);
    bool useTranspose = group >= 4 && llvm::isPowerOf2_64(group) && lanes > 1;
    for (size_t first = 0; first < sources[0].size(); first += group) {
      if (useTranspose) {
        SmallVector<Tuple> list(lanes);
        for (const Rows &source : sources)
          for (auto [index, row] : llvm::enumerate(transpose(ArrayRef(source).slice(first, group), lanes)))
            list[index].push_back(row);
        auto combined = combineRows(op, std::move(list));
        if (failed(combined))
          return failure();
        append(*combined);
        continue;
      }
      SmallVector<Rows> scalars(sources.size());
      for (int64_t row = 0; row < group; ++row) {
        auto combined = combineLanes(op, tupleAt(first + row));
        if (failed(combined))
          return failure();
        for (auto [list, value] : llvm::zip_equal(scalars, *combined))
          list.push_back(value);
      }
      append(Tuple(llvm::map_range(scalars, [&](const Rows &list) { return fromScalars(list); })));
    }
  }
  for (auto [result, list] : llvm::zip_equal(op.getResults(), results)) {
    if (numRowsOf(result.getType()) != (int64_t)list.size() || rowTypeOf(result.getType()) != list[0].getType())
      return op.emitOpError("expected results to be the sources without the axis, got ")
             << type << " and " << result.getType();
    set(result, std::move(list));
  }
  return success();
}
