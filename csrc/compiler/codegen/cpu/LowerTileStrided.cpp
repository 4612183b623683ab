// Loads of every second element, or third, ..., and of elements in reverse: whole vectors and shuffles. A gather costs
// a memory access a lane.
#include "compiler/codegen/cpu/TileLowering.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;

namespace torch_tile::codegen {

/// More vectors than these cost as much as a gather.
static constexpr int64_t maxStride = 16;

bool TileLowering::canLoadStrided(Type type, std::optional<int64_t> stride, Value count) const {
  if (!stride || lanesOf(type) < 4 || !llvm::isPowerOf2_64(lanesOf(type)))
    return false;
  if (*stride == -1)
    return !count || ((constantOf(count) || hasMaskedAccess(type)) && !movesLaneByLane(type, count, /*isStore=*/false));
  // Of more vectors than lanes, those before the last would lie behind the last element that is wanted.
  int64_t lanes = std::min(lanesOf(type), lanesPerRegister(type));
  return *stride >= 2 && *stride <= std::min(maxStride, lanes) &&
         (!count || constantOf(count) || hasMaskedAccess(type));
}

/// The lanes of one register, `first` lanes into the tile. Reads no element beyond the last one wanted.
Value TileLowering::loadStridedPiece(Type type, Value ptr, int64_t first, int64_t stride, Value count) {
  int64_t lanes = lanesOf(type), lastElement = stride * (lanes - 1);
  Type element = getElementTypeOrSelf(type);
  Value base = first == 0 ? ptr : elementPtr(ptr, element, i64(first * stride));
  Value numElements; // from `base` to the last one wanted
  std::optional<int64_t> known = constantOf(count);
  if (known) {
    numElements = i64((*known - first) * stride - (stride - 1));
  } else if (count) {
    Value rest = first == 0 ? count : arith::SubIOp::create(b, count, i64(first)).getResult();
    numElements = arith::SubIOp::create(b, arith::MulIOp::create(b, rest, i64(stride)), i64(stride - 1));
  }
  Value result;
  for (int64_t k = 0; k < stride; ++k) {
    // Without a mask the last vector ends with the last element.
    int64_t start = k + 1 < stride || count ? k * lanes : lastElement - lanes + 1;
    int64_t end = k + 1 < stride ? (k + 1) * lanes : lastElement + 1;
    Value from = start == 0 ? base : elementPtr(base, element, i64(start));
    Value inside = numElements;
    if (known)
      inside = i64(*constantOf(numElements) - start);
    else if (count && start != 0)
      inside = arith::SubIOp::create(b, numElements, i64(start));
    Value loaded = loadContiguous(type, from, inside, Value());
    SmallVector<int32_t, 64> mask(lanes, -1);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      int64_t wanted = lane * stride;
      if (wanted < k * lanes)
        mask[lane] = lane; // from an earlier vector
      else if (wanted < end)
        mask[lane] = (k == 0 ? 0 : lanes) + wanted - start;
    }
    result = shuffle(k == 0 ? loaded : result, loaded, mask);
  }
  return result;
}

/// Elements that lie in reverse from `ptr` down. Reads none below the last one wanted.
Value TileLowering::loadReversed(Type type, Value ptr, Value count, Value other) {
  int64_t lanes = lanesOf(type);
  Type element = getElementTypeOrSelf(type);
  std::optional<int64_t> known = constantOf(count);
  if (hasKnownParts(type, count)) {
    int64_t perRegister = lanesPerRegister(type);
    Type part = withLanes(element, perRegister);
    Rows parts;
    for (int64_t at = 0; at < lanes; at += perRegister)
      if (int64_t left = *known - at; left <= 0)
        parts.push_back(other ? broadcast(other, part) : zero(part));
      else
        parts.push_back(loadReversed(part, at ? elementPtr(ptr, element, i64(-at)) : ptr,
                                     left >= perRegister ? Value() : i64(left), other));
    return rechunk(parts, lanes).front();
  }
  // With a known count the vector starts at the last wanted element, so that nothing below it is read.
  int64_t wanted = known ? std::clamp<int64_t>(*known, 1, lanes) : lanes;
  SmallVector<int32_t, 64> mask;
  for (int64_t lane = 0; lane < lanes; ++lane)
    mask.push_back(lane < wanted ? wanted - 1 - lane : lane);
  Value first = elementPtr(ptr, element, i64(1 - wanted));
  if (!count || known) {
    Value loaded = loadContiguous(type, first, count, other);
    return shuffle(loaded, loaded, mask);
  }
  Value prefix = prefixMask(count, lanes), active = shuffle(prefix, prefix, mask);
  Value passThrough = other ? broadcast(other, type) : zero(type);
  Value loaded = LLVM::MaskedLoadOp::create(b, type, first, active, passThrough, uint32_t(bytesOf(type)));
  return shuffle(loaded, loaded, mask);
}

Value TileLowering::loadStrided(Type type, Value ptr, int64_t stride, Value count, Value other) {
  int64_t lanes = lanesOf(type);
  Type element = getElementTypeOrSelf(type);
  if (stride == -1)
    return loadReversed(type, ptr, count, other);
  int64_t perPiece = std::min(lanes, static_cast<int64_t>(features.vectorBits) / (8 * bytesOf(element)));
  SmallVector<Value, 4> pieces;
  for (int64_t first = 0; first < lanes; first += perPiece)
    pieces.push_back(loadStridedPiece(withLanes(element, perPiece), ptr, first, stride, count));
  Value loaded = rechunk(pieces, lanes).front();
  if (!count)
    return loaded;
  Value passThrough = other ? broadcast(other, type) : zero(type);
  return arith::SelectOp::create(b, prefixMask(count, lanes), loaded, passThrough);
}

} // namespace torch_tile::codegen
