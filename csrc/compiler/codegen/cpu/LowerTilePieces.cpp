// Moves without masks and without loops, for processors that lack an instruction: a prefix of known length as whole
// pieces, and elements some distance apart one by one. A loop over the lanes goes by way of the stack, and loading a
// vector from what single stores left there waits until they are in the cache.
#include "compiler/codegen/cpu/TileLowering.h"

#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace torch_tile::codegen;

/// Lanes that go one by one without a loop: more would make code that takes long to compile.
static constexpr int64_t mostSingleLanes = 32;
/// Of so many lanes of a row, one is moved by itself rather than all by an instruction that takes a mask.
static constexpr int64_t fewOfLanes = 8;

/// AVX's masked store is one of many steps on AMD's processors (42 operations on Zen 2); its masked load is not.
bool TileLowering::movesInPieces(Type type, Value count, bool isStore) const {
  return constantOf(count) && lanesOf(type) > 1 &&
         (!hasMaskedAccess(type) || (isStore && !features.hasAvx512 && bytesOf(getElementTypeOrSelf(type)) >= 4));
}

/// Powers of two that add up to `known` lanes of `lanes`, largest first, each with the lane that it begins at.
static SmallVector<std::pair<int64_t, int64_t>, 6> piecesOf(int64_t known, int64_t lanes) {
  SmallVector<std::pair<int64_t, int64_t>, 6> pieces;
  known = std::clamp<int64_t>(known, 0, lanes);
  for (int64_t first = 0; first < known;) {
    int64_t size = int64_t(llvm::bit_floor(uint64_t(known - first)));
    pieces.push_back({first, size});
    first += size;
  }
  return pieces;
}

Value TileLowering::loadPieces(Type type, Value ptr, int64_t known, Value other) {
  int64_t lanes = lanesOf(type);
  Type element = getElementTypeOrSelf(type);
  Value result = other ? broadcast(other, type) : zero(type);
  for (auto [first, size] : piecesOf(known, lanes)) {
    Value from = first ? elementPtr(ptr, element, i64(first)) : ptr;
    if (size == lanes)
      return loadElements(type, from);
    Value piece = loadElements(withLanes(element, size), from);
    if (size == 1) {
      result = LLVM::InsertElementOp::create(b, result, piece, constant(b.getI32Type(), first));
      continue;
    }
    SmallVector<int32_t, 64> wide(lanes, -1), chosen;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      if (lane < size)
        wide[lane] = int32_t(lane);
      bool isOfPiece = lane >= first && lane < first + size;
      chosen.push_back(int32_t(isOfPiece ? lanes + lane - first : lane));
    }
    result = shuffle(result, shuffle(piece, piece, wide), chosen);
  }
  return result;
}

void TileLowering::storePieces(Value value, Value ptr, int64_t known) {
  Type element = getElementTypeOrSelf(value.getType());
  for (auto [first, size] : piecesOf(known, lanesOf(value.getType())))
    storeElements(slice(value, first, size), first ? elementPtr(ptr, element, i64(first)) : ptr);
}

bool TileLowering::movesLaneByLane(Type type, Value count, bool isStore) const {
  int64_t lanes = lanesOf(type);
  if (lanes < 2 || (count && !constantOf(count)))
    return false;
  // Of a piece at the edge of a row, a few lanes are moved.
  int64_t moved = count ? std::clamp<int64_t>(*constantOf(count), 0, lanes) : lanes;
  if (moved > mostSingleLanes)
    return false;
  bool hasInstruction = isStore ? features.hasScatter : features.hasGather && features.hasFastGather;
  return !hasInstruction || bytesOf(getElementTypeOrSelf(type)) < 4 || moved * fewOfLanes <= lanes;
}

/// The address of a lane of a row whose elements are `stride` apart.
Value TileLowering::stridedPtr(Type element, Value ptr, std::optional<int64_t> known, Value stride, int64_t lane) {
  if (lane == 0)
    return ptr;
  if (known)
    return elementPtr(ptr, element, i64(lane * *known));
  return elementPtr(ptr, element, lane == 1 ? stride : arith::MulIOp::create(b, stride, i64(lane)).getResult());
}

Value TileLowering::loadLaneByLane(Type type, Value ptr, std::optional<int64_t> known, Value stride, Value count,
                                   Value other) {
  Type element = getElementTypeOrSelf(type);
  int64_t lanes = lanesOf(type), read = count ? std::clamp<int64_t>(*constantOf(count), 0, lanes) : lanes;
  Value result = read == lanes ? Value(LLVM::PoisonOp::create(b, type)) : other ? broadcast(other, type) : zero(type);
  for (int64_t lane = 0; lane < read; ++lane) {
    Value loaded = loadElements(element, stridedPtr(element, ptr, known, stride, lane));
    result = LLVM::InsertElementOp::create(b, result, loaded, constant(b.getI32Type(), lane));
  }
  return result;
}

void TileLowering::storeLaneByLane(Value value, Value ptr, std::optional<int64_t> known, Value stride, Value count) {
  Type element = getElementTypeOrSelf(value.getType());
  int64_t lanes = lanesOf(value.getType()), stored = count ? std::clamp<int64_t>(*constantOf(count), 0, lanes) : lanes;
  for (int64_t lane = 0; lane < stored; ++lane)
    storeElements(extract(value, lane), stridedPtr(element, ptr, known, stride, lane));
}
