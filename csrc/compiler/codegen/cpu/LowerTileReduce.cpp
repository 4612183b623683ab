// Reductions and scans along one axis of row-major rows.
#include "compiler/codegen/cpu/TileLowering.h"

using namespace mlir;
using namespace torch_tile::codegen;

/// Halves of the lanes are combined, of two rows at a time: what is left of them shares a register, so that each step
/// has half as many as the one before. The numbers of rows and lanes are powers of two.
FailureOr<TileLowering::Tuple> TileLowering::combineLanesOfRows(tile::ReduceOp op, SmallVector<Tuple> list) {
  // Each tuple holds the rows of a run, `width` lanes of each.
  int64_t total = lanesOf(list[0][0].getType());
  for (int64_t width = total; width > 1; width /= 2) {
    bool isPair = list.size() > 1;
    SmallVector<int32_t> halves[2];
    for (int64_t lane = 0; lane < (isPair ? 2 * total : total); lane += width)
      for (int64_t k = 0; k < width; ++k)
        halves[k >= width / 2].push_back(lane + k);
    SmallVector<Tuple> next;
    for (size_t index = 0; index < list.size(); index += 2) {
      const Tuple &left = list[index], &right = list[isPair ? index + 1 : index];
      Tuple parts[2];
      for (auto [a, b] : llvm::zip_equal(left, right))
        for (int k : {0, 1})
          parts[k].push_back(shuffle(a, b, halves[k]));
      auto combined = combine(op, parts[0], parts[1]);
      if (failed(combined))
        return failure();
      next.push_back(*combined);
    }
    list = std::move(next);
    total = lanesOf(list[0][0].getType());
  }
  Tuple result;
  for (size_t k = 0; k < list[0].size(); ++k) {
    Rows parts = llvm::map_to_vector<1>(list, [&](const Tuple &tuple) { return tuple[k]; });
    result.push_back(parts.size() == 1 ? parts[0] : rechunk(parts, parts.size() * total).front());
  }
  return result;
}

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
    int64_t group = last > 0 ? type.getDimSize(last - 1) : 1, lanes = type.getDimSize(last);
    bool isShuffled = group >= 2 && lanes > 1 && llvm::isPowerOf2_64(group) && llvm::isPowerOf2_64(lanes) &&
                      llvm::none_of(sources, [](const Rows &list) { // there are no shuffles of masks
                        return getElementTypeOrSelf(list[0].getType()).isInteger(1);
                      });
    for (size_t first = 0; first < sources[0].size(); first += group) {
      if (isShuffled) {
        SmallVector<Tuple> list;
        for (int64_t row = 0; row < group; ++row)
          list.push_back(tupleAt(first + row));
        auto combined = combineLanesOfRows(op, std::move(list));
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

/// What a combiner of one op leaves every value as it is with, if there is such a number.
static std::optional<double> identityOf(Region &combiner) {
  Block &block = combiner.front();
  Operation &op = block.front();
  if (block.getNumArguments() != 2 || op.getNextNode() != block.getTerminator() || op.getNumOperands() != 2 ||
      op.getOperand(0) == op.getOperand(1) || block.getTerminator()->getOperand(0) != op.getResult(0) ||
      !llvm::all_of(op.getOperands(), [](Value value) { return isa<BlockArgument>(value); }))
    return std::nullopt;
  if (isa<arith::AddIOp, arith::OrIOp, arith::XOrIOp>(op))
    return 0;
  if (isa<arith::AddFOp>(op)) // 0 would take the sign from the other zero
    return -0.0;
  if (isa<arith::MulIOp, arith::MulFOp>(op))
    return 1;
  return std::nullopt;
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
    std::optional<double> identity = identityOf(op.getCombine());
    Value fill;
    if (Type element = type.getElementType(); identity && lanes > 1)
      fill = broadcast(isa<FloatType>(element)
                           ? arith::ConstantOp::create(b, b.getFloatAttr(element, *identity)).getResult()
                           : constant(element, (int64_t)*identity),
                       results[0][0].getType());
    for (size_t row = 0; row < results[0].size(); ++row)
      for (int64_t distance = 1; distance < lanes; distance *= 2) {
        SmallVector<int32_t> moved, chosen;
        for (int64_t lane = 0; lane < lanes; ++lane) {
          int64_t from = isReverse ? lane + distance : lane - distance;
          bool exists = from >= 0 && from < lanes;
          moved.push_back((int32_t)(exists ? from : fill ? lanes + lane : lane));
          chosen.push_back((int32_t)(exists ? lane : lanes + lane));
        }
        Tuple known = tupleAt(row);
        Tuple before(llvm::map_range(known, [&](Value value) { return shuffle(value, fill ? fill : value, moved); }));
        auto combined = combine(op.getCombine(), before, known);
        if (failed(combined))
          return failure();
        // The first lanes are complete.
        for (auto [value, old] : llvm::zip_equal(*combined, known))
          value = fill ? value : shuffle(value, old, chosen);
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
