// Shapes: rows are rearranged by whole-vector shuffles.
#include "compiler/codegen/cpu/TileLowering.h"

using namespace mlir;
using namespace torch_tile::codegen;

LogicalResult TileLowering::lowerShape(Operation *op) {
  Value result = op->getResult(0);
  auto type = cast<RankedTensorType>(result.getType());
  if (auto trans = dyn_cast<tile::TransOp>(op))
    return lowerTrans(trans);
  if (auto repeat = dyn_cast<tile::BroadcastOp>(op))
    return lowerBroadcast(repeat);
  if (isa<tile::IotaOp>(op)) {
    if (type.getRank() != 1 || !type.getElementType().isIntOrIndex())
      return op->emitOpError("expected one axis of integers, got ") << type;
    set(result, {iota(rowTypeOf(type))});
    return success();
  }
  if (auto join = dyn_cast<tile::JoinOp>(op)) {
    if (type.getRank() == 1) {
      set(result, {fromScalars({scalar(join.getLhs()), scalar(join.getRhs())})});
      return success();
    }
    // Interleaved rows, as they are wanted flat.
    Rows list;
    for (auto [left, right] : llvm::zip_equal(rows(join.getLhs()), rows(join.getRhs()))) {
      int64_t lanes = lanesOf(left.getType());
      SmallVector<int32_t> mask;
      for (int64_t lane = 0; lane < lanes; ++lane)
        mask.append({int32_t(lane), int32_t(lane + lanes)});
      list.push_back(lanes == 1 ? fromScalars({left, right}) : shuffle(left, right, mask));
    }
    bool isFlattened = llvm::all_of(result.getUsers(), [](Operation *user) { return isa<tile::ReshapeOp>(user); });
    set(result, isFlattened ? list : rechunk(list, 2));
    return success();
  }
  if (auto reshape = dyn_cast<tile::ReshapeOp>(op))
    if (lowerAsShuffle(reshape))
      return success();
  Value source = op->getOperand(0);
  // A new axis of size 1 keeps the order of the elements as reshape does.
  auto sourceType = cast<RankedTensorType>(source.getType());
  if (sourceType.getNumElements() != type.getNumElements())
    return op->emitOpError("expected as many elements as before, got ") << sourceType << " and " << type;
  set(result, rechunk(rows(source), lanesOf(type)));
  return success();
}

LogicalResult TileLowering::lowerShuffleXor(tile::ShuffleXorOp op) {
  const Rows source = rows(op.getSource());
  int64_t lanes = lanesOf(op.getType()), mask = op.getMask();
  if (!llvm::isPowerOf2_64(lanes))
    return op.emitOpError("expected a power of two of lanes, got ") << lanes;
  SmallVector<int32_t> within;
  for (int64_t lane = 0; lane < lanes; ++lane)
    within.push_back(int32_t(lane ^ (mask & (lanes - 1))));
  Rows result;
  for (size_t row = 0; row < source.size(); ++row) {
    Value partner = source[row ^ (size_t)(mask / lanes)];
    result.push_back(mask & (lanes - 1) ? shuffle(partner, partner, within) : partner);
  }
  set(op.getResult(), std::move(result));
  return success();
}

bool TileLowering::lowerAsShuffle(tile::ReshapeOp op) {
  auto repeat = op.getSource().getDefiningOp<tile::BroadcastOp>();
  auto inner = repeat ? repeat.getSource().getDefiningOp<tile::ReshapeOp>() : tile::ReshapeOp();
  if (!inner || cast<RankedTensorType>(op.getType()).getRank() != 1 || rows(inner.getSource()).size() != 1 ||
      lanesOf(inner.getSource().getType()) == 1)
    return false;
  ArrayRef<int64_t> from = cast<RankedTensorType>(inner.getType()).getShape(),
                    to = cast<RankedTensorType>(repeat.getType()).getShape();
  SmallVector<int32_t> mask;
  for (int64_t lane = 0, end = lanesOf(op.getType()); lane < end; ++lane) {
    int64_t rest = lane, place = 0, stride = 1;
    for (int64_t axis = to.size() - 1; axis >= 0; --axis) {
      place += (from[axis] == 1 ? 0 : rest % to[axis]) * stride;
      rest /= to[axis];
      stride *= from[axis];
    }
    mask.push_back(place);
  }
  Value source = rows(inner.getSource())[0];
  set(op.getResult(), {shuffle(source, source, mask)});
  return true;
}

LogicalResult TileLowering::lowerBroadcast(tile::BroadcastOp op) {
  auto from = cast<RankedTensorType>(op.getSource().getType()), to = cast<RankedTensorType>(op.getType());
  if (from.getRank() != to.getRank())
    return op.emitOpError("expected equal ranks, got ") << from << " and " << to;
  for (auto [source, target] : llvm::zip_equal(from.getShape(), to.getShape()))
    if (source != 1 && source != target)
      return op.emitOpError("expected axes to be equal or 1, got ") << from << " and " << to;
  const Rows sources = rows(op.getSource());
  DenseMap<int64_t, Value> widened;
  Rows result;
  for (int64_t index = 0, end = numRowsOf(to); index < end; ++index) {
    // The row's position, axis by axis from the last but one, mapped to the source.
    int64_t rest = index, sourceIndex = 0, sourceStride = 1;
    for (int64_t axis = to.getRank() - 2; axis >= 0; --axis) {
      int64_t position = rest % to.getDimSize(axis);
      rest /= to.getDimSize(axis);
      sourceIndex += (from.getDimSize(axis) == 1 ? 0 : position) * sourceStride;
      sourceStride *= from.getDimSize(axis);
    }
    Value &row = widened[sourceIndex];
    if (!row)
      row = broadcast(sources[sourceIndex], rowTypeOf(to));
    result.push_back(row);
  }
  set(op.getResult(), result);
  return success();
}

TileLowering::Rows TileLowering::rechunk(ArrayRef<Value> source, int64_t lanes) {
  int64_t from = lanesOf(source[0].getType());
  if (from == lanes)
    return Rows(source);
  Rows result;
  if (from % lanes == 0) {
    for (Value row : source)
      for (int64_t offset = 0; offset < from; offset += lanes)
        result.push_back(slice(row, offset, lanes));
    return result;
  }
  if (from == 1) {
    for (size_t first = 0; first < source.size(); first += lanes)
      result.push_back(fromScalars(source.slice(first, lanes)));
    return result;
  }
  if (lanes % (2 * from) == 0) { // join pairs until wide enough
    auto mask = llvm::to_vector(llvm::seq<int32_t>(0, 2 * from));
    for (size_t first = 0; first < source.size(); first += 2)
      result.push_back(shuffle(source[first], source[first + 1], mask));
    return rechunk(result, lanes);
  }
  return rechunk(rechunk(source, 1), lanes);
}

/// The same value, whose origin code generation does not look into: it tries to merge each shuffle with all that it is
/// made of, 2^k shuffles at step k of a transpose, and finds nothing.
Value TileLowering::fence(Value value) {
  Type type = value.getType();
  int64_t bits = lanesOf(type) * bytesOf(type) * 8;
  if (bits % 32 != 0 || bits < 64)
    return value;
  Type floats = withLanes(b.getF32Type(), bits / 32);
  Value fenced = LLVM::CallIntrinsicOp::create(b, floats, b.getStringAttr("llvm.arithmetic.fence"),
                                               ValueRange{LLVM::BitcastOp::create(b, floats, value)})
                     .getResult(0);
  return LLVM::BitcastOp::create(b, type, fenced);
}

/// Each step interleaves row i with row i + R/2, which moves the top bit of an element's number to the bottom: after
/// log2(R) steps the elements lie in column order. Short rows share registers.
TileLowering::Rows TileLowering::transpose(ArrayRef<Value> source, int64_t lanes) {
  int64_t numRows = source.size();
  if (lanes == 1 || numRows == 1)
    return rechunk(source, numRows);
  // Neither masks nor 8-bit floats have shuffles.
  if (Type element = getElementTypeOrSelf(source[0].getType());
      element.isInteger(1) || (isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8)) {
    Rows bytes = transpose(llvm::map_to_vector(source, [&](Value row) { return toStorage(row); }), lanes);
    return Rows(llvm::map_range(bytes, [&](Value row) { return fromStorage(row, element); }));
  }
  Rows list(source);
  if (!llvm::isPowerOf2_64(numRows)) {
    SmallVector<Rows> scalars;
    for (Value row : source)
      scalars.push_back(rechunk({row}, 1));
    Rows result;
    for (int64_t lane = 0; lane < lanes; ++lane)
      result.push_back(fromScalars(llvm::map_to_vector(scalars, [&](const Rows &row) { return row[lane]; })));
    return result;
  }
  if (llvm::isPowerOf2_64(lanes)) {
    int64_t perRegister = int64_t(features.vectorBits) / 8 / bytesOf(getElementTypeOrSelf(list[0].getType()));
    lanes = std::max(lanes, std::min(perRegister, lanes * numRows / 2));
    list = rechunk(list, lanes);
  }
  int64_t half = list.size() / 2;
  SmallVector<int32_t> low, high;
  for (int64_t position = 0; position < 2 * lanes; ++position)
    (position < lanes ? low : high).push_back(position / 2 + (position % 2) * lanes);
  int64_t numSteps = 0;
  for (int64_t step = numRows; step > 1; step /= 2, ++numSteps) {
    if (numSteps > 0 && numSteps % 2 == 0)
      list = Rows(llvm::map_range(list, [&](Value row) { return fence(row); }));
    Rows next;
    for (int64_t index = 0; index < half; ++index) {
      next.push_back(shuffle(list[index], list[index + half], low));
      next.push_back(shuffle(list[index], list[index + half], high));
    }
    list = std::move(next);
  }
  return rechunk(list, numRows);
}

TileLowering::Rows TileLowering::interleave(ArrayRef<Value> source) {
  Type type = source[0].getType();
  int64_t lanes = lanesOf(type), count = source.size();
  if (count == 1)
    return Rows(source);
  if (lanes == 1 || !llvm::isPowerOf2_64(lanes))
    return rechunk(transpose(source, lanes), lanes);
  if (count % 2 == 0) { // halves, then pairs of their elements
    Rows halves[2], result;
    for (int64_t k = 0; k < 2; ++k) {
      SmallVector<Value> every;
      for (int64_t index = k; index < count; index += 2)
        every.push_back(source[index]);
      halves[k] = interleave(every);
    }
    SmallVector<int32_t> mask[2];
    for (int64_t position = 0; position < 2 * lanes; ++position)
      mask[position / lanes].push_back(position / 2 + (position % 2) * lanes);
    for (auto [even, odd] : llvm::zip_equal(halves[0], halves[1]))
      for (int64_t k = 0; k < 2; ++k)
        result.push_back(shuffle(even, odd, mask[k]));
    return result;
  }
  // LLVM's combiner of shuffles does not end for some trees of them whose vectors are parts of a register.
  bool isPart = lanes * bytesOf(getElementTypeOrSelf(type)) < 16;
  Rows result;
  for (int64_t run = 0; run < count; ++run) {
    // Lane `lane` holds element (run*lanes + lane) / count of the source at the remainder.
    Value row;
    for (int64_t from = 0; from < count; ++from) {
      SmallVector<int32_t> mask;
      for (int64_t lane = 0; lane < lanes; ++lane) {
        int64_t place = run * lanes + lane, which = place % count;
        mask.push_back(which == from ? (from == 0 ? 0 : lanes) + place / count : which < from ? lane : -1);
      }
      row = from == 0 ? shuffle(source[0], source[0], mask) : shuffle(row, source[from], mask);
      if (isPart)
        row = fence(row);
    }
    result.push_back(row);
  }
  return result;
}

LogicalResult TileLowering::lowerInterleave(tile::InterleaveOp op) {
  auto type = cast<RankedTensorType>(op.getSources()[0].getType());
  Type element = type.getElementType();
  int64_t lanes = lanesOf(type), perRegister = std::max<int64_t>(1, lanesPerRegister(storageOf(element)));
  int64_t perPiece = lanes % perRegister == 0 ? perRegister : lanes;
  // Register by register: longer vectors would be shuffled through memory.
  SmallVector<Rows> sources;
  for (Value source : op.getSources())
    sources.push_back(rechunk({toStorage(rows(source)[0])}, perPiece));
  Rows flat;
  for (int64_t piece = 0; piece < lanes / perPiece; ++piece)
    llvm::append_range(flat, interleave(llvm::map_to_vector(sources, [&](const Rows &list) { return list[piece]; })));
  for (auto [result, row] : llvm::zip_equal(op.getResults(), rechunk(flat, lanes)))
    set(result, {fromStorage(row, element)});
  return success();
}

LogicalResult TileLowering::lowerTrans(tile::TransOp op) {
  auto from = cast<RankedTensorType>(op.getSource().getType()), to = cast<RankedTensorType>(op.getType());
  ArrayRef<int64_t> perm = op.getPerm();
  int64_t rank = from.getRank();
  SmallVector<bool> seen(rank, false);
  for (int64_t axis : perm) {
    if ((int64_t)perm.size() != rank || axis < 0 || axis >= rank || seen[axis])
      return op.emitOpError("expected a permutation of the axes of ") << from;
    seen[axis] = true;
  }
  for (int64_t axis = 0; axis < rank; ++axis)
    if (to.getDimSize(axis) != from.getDimSize(perm[axis]))
      return op.emitOpError("expected axis ")
             << axis << " of the result to have the size of axis " << perm[axis] << ", got " << from << " and " << to;

  // First exchange the last axis with the one that becomes last; what remains is an order of rows.
  SmallVector<int64_t> shape(from.getShape());
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  Rows list = rows(op.getSource());
  int64_t inner = rank == 0 ? 0 : perm.back();
  if (rank > 1 && inner != rank - 1) {
    int64_t size = shape[inner], lanes = shape[rank - 1], stride = 1;
    for (int64_t axis = inner + 1; axis < rank - 1; ++axis)
      stride *= shape[axis];
    int64_t outerSize = list.size() / (size * stride);
    Rows exchanged(outerSize * lanes * stride);
    for (int64_t outer = 0; outer < outerSize; ++outer)
      for (int64_t middle = 0; middle < stride; ++middle) {
        Rows columns;
        for (int64_t index = 0; index < size; ++index)
          columns.push_back(list[(outer * size + index) * stride + middle]);
        for (auto [index, row] : llvm::enumerate(transpose(columns, lanes)))
          exchanged[(outer * lanes + index) * stride + middle] = row;
      }
    list = std::move(exchanged);
    std::swap(shape[inner], shape[rank - 1]);
    std::swap(order[inner], order[rank - 1]);
  }
  // `order[k]` is the source axis at position k of `list`; walk the result's rows and find each one's place.
  Rows result;
  for (int64_t index = 0, end = numRowsOf(to); index < end; ++index) {
    SmallVector<int64_t> position(rank, 0);
    int64_t rest = index;
    for (int64_t axis = rank - 2; axis >= 0; --axis) {
      position[perm[axis]] = rest % to.getDimSize(axis);
      rest /= to.getDimSize(axis);
    }
    int64_t place = 0;
    for (int64_t axis = 0; axis + 1 < rank; ++axis)
      place = place * shape[axis] + position[order[axis]];
    result.push_back(list[place]);
  }
  set(op.getResult(), result);
  return success();
}
