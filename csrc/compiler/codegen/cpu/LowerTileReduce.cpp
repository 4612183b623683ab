// Reductions and scans along one axis of row-major rows.
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

/// Along rows one after the other. Along lanes in log2(lanes) steps: step d combines each lane with what is known d
/// lanes before it.
LogicalResult TileLowering::lowerScan(tile::ScanOp op) {
  auto type = cast<RankedTensorType>(op.getSources()[0].getType());
  int64_t axis = op.getAxis(), last = type.getRank() - 1, lanes = type.getDimSize(last);
  bool isReverse = op.getReverse();
  SmallVector<Rows> results = llvm::map_to_vector(op.getSources(), [&](Value source) { return rows(source); });
  auto tupleAt = [&](int64_t row) {
    return Tuple(llvm::map_range(results, [&](const Rows &list) { return list[row]; }));
  };
  auto setTuple = [&](int64_t row, const Tuple &tuple) {
    for (auto [list, value] : llvm::zip_equal(results, tuple))
      list[row] = value;
  };

  if (axis != last) {
    int64_t size = type.getDimSize(axis), inner = 1;
    for (int64_t k = axis + 1; k < last; ++k)
      inner *= type.getDimSize(k);
    int64_t outer = results[0].size() / (size * inner);
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i)
        for (int64_t step = 1; step < size; ++step) {
          int64_t k = isReverse ? size - 1 - step : step, before = isReverse ? k + 1 : k - 1;
          auto combined =
              combine(op.getCombine(), tupleAt((o * size + before) * inner + i), tupleAt((o * size + k) * inner + i));
          if (failed(combined))
            return failure();
          setTuple((o * size + k) * inner + i, *combined);
        }
  } else {
    for (size_t row = 0; row < results[0].size(); ++row)
      for (int64_t distance = 1; distance < lanes; distance *= 2) {
        SmallVector<int32_t> moved, chosen;
        for (int64_t lane = 0; lane < lanes; ++lane) {
          int64_t from = isReverse ? lane + distance : lane - distance;
          bool exists = from >= 0 && from < lanes;
          moved.push_back((int32_t)(exists ? from : lane));
          chosen.push_back((int32_t)(exists ? lane : lanes + lane));
        }
        Tuple known = tupleAt(row);
        Tuple before(llvm::map_range(known, [&](Value value) { return shuffle(value, value, moved); }));
        auto combined = combine(op.getCombine(), before, known);
        if (failed(combined))
          return failure();
        // The first lanes are complete.
        for (auto [value, old] : llvm::zip_equal(*combined, known))
          value = shuffle(value, old, chosen);
        setTuple(row, *combined);
      }
  }
  for (auto [result, list] : llvm::zip_equal(op.getResults(), results))
    set(result, std::move(list));
  return success();
}

LogicalResult TileLowering::lowerExtract(tile::ExtractOp op) {
  const Rows &source = rows(op.getSource());
  if (source.size() != 1)
    return op.emitOpError("expected a tile with one axis, got ") << op.getSource().getType();
  Value element = source.front();
  if (isa<VectorType>(element.getType()))
    element = LLVM::ExtractElementOp::create(b, element, scalar(op.getPosition()));
  set(op.getResult(), {element});
  return success();
}
