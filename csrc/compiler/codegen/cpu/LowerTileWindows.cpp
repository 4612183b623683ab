// Gathers along quotients and remainders of indices: what the lanes of a register read lies side by side, so it is
// loaded once, and an instruction puts it into lanes. A gather costs a memory access a lane.
#include "compiler/codegen/cpu/TileLowering.h"

#include "compiler/tile/ir/Marks.h"

using namespace mlir;

namespace torch_tile::codegen {
namespace {

/// Offsets of lanes: scalars, and a marked tile of small integers.
struct Window {
  SmallVector<Value> scalars;
  arith::ExtUIOp places;
};

} // namespace

static bool addWindow(Value offsets, Window &window) {
  Operation *op = offsets.getDefiningOp();
  if (auto splat = dyn_cast_or_null<tile::SplatOp>(op)) {
    window.scalars.push_back(splat->getOperand(0));
    return true;
  }
  if (isa_and_nonnull<arith::AddIOp>(op))
    return addWindow(op->getOperand(0), window) && addWindow(op->getOperand(1), window);
  auto places = dyn_cast_or_null<arith::ExtUIOp>(op);
  if (!places || window.places || !(op->hasAttr(tile::kStepsOfOne) || op->hasAttr(tile::kAllBelow)))
    return false;
  window.places = places;
  return true;
}

/// Whether no lane is below the one before it, or above that by more than one: sums and bounds of such a tile.
static bool ascendsByOne(Value offsets, bool &varies) {
  Operation *op = offsets.getDefiningOp();
  if (isa_and_nonnull<tile::SplatOp>(op))
    return true;
  if (isa_and_nonnull<arith::ExtUIOp>(op) && op->hasAttr(tile::kStepsOfOne) && !varies)
    return varies = true;
  bool isBound = isa_and_nonnull<arith::MaxSIOp, arith::MinSIOp>(op) &&
                 llvm::any_of(op->getOperands(), [](Value v) { return v.getDefiningOp<tile::SplatOp>(); });
  return (isBound || isa_and_nonnull<arith::AddIOp>(op)) && ascendsByOne(op->getOperand(0), varies) &&
         ascendsByOne(op->getOperand(1), varies);
}

/// Integers that an instruction moves to any lane of a register; null where there is none.
Type TileLowering::permutedElement(Type storage) {
  int64_t bytes = bytesOf(storage);
  if (bytes == 4 && (features.vectorBits == 512 || (features.vectorBits == 256 && features.hasGather)))
    return b.getI32Type();
  if (features.vectorBits != 512)
    return {};
  if (bytes == 8)
    return b.getI64Type();
  return bytes <= 2 && features.hasMaskedBytes ? Type(b.getI16Type()) : Type();
}

/// Lane l of the result is lane lanes[l] of `window`, a whole register.
Value TileLowering::permute(Value window, Value lanes) {
  auto type = cast<VectorType>(window.getType());
  unsigned bits = type.getElementTypeBitWidth();
  if (features.vectorBits == 256)
    return LLVM::CallIntrinsicOp::create(b, type, b.getStringAttr("llvm.x86.avx2.permd"), ValueRange{window, lanes})
        .getResult(0);
  StringRef name = bits == 64   ? "llvm.x86.avx512.permvar.di.512"
                   : bits == 32 ? "llvm.x86.avx512.permvar.si.512"
                                : "llvm.x86.avx512.permvar.hi.512";
  return LLVM::CallIntrinsicOp::create(b, type, b.getStringAttr(name), ValueRange{window, lanes}).getResult(0);
}

bool TileLowering::lowerAsWindows(tile::GatherOp op) {
  auto type = dyn_cast<RankedTensorType>(op.getType());
  if (!type || type.getRank() != 1 || op.getMask() || !op.getOffsets() || !isa<tile::PtrType>(op.getBase().getType()))
    return false;
  Type element = type.getElementType(), storage = storageOf(element), permuted = permutedElement(storage);
  if (!permuted)
    return false;
  Window window;
  bool isSum = addWindow(op.getOffsets(), window) && window.places, varies = false;
  if (!isSum && (!ascendsByOne(op.getOffsets(), varies) || !varies))
    return false;
  int64_t lanes = lanesOf(type), bits = permuted.getIntOrFloatBitWidth(), perRegister = features.vectorBits / bits;
  auto all = isSum ? window.places->getAttrOfType<IntegerAttr>(tile::kAllBelow) : IntegerAttr();
  if (lanes % perRegister != 0 || (all && all.getInt() > perRegister))
    return false;
  Value first = scalar(op.getBase());
  if (isSum)
    for (Value part : window.scalars)
      first = elementPtr(first, storage, scalar(part));
  Value places = rows(isSum ? window.places.getIn() : op.getOffsets())[0];
  Type i32 = b.getI32Type(), part = withLanes(storage, perRegister), whole = withLanes(permuted, perRegister);
  Rows parts;
  for (int64_t at = 0; at < lanes; at += perRegister) {
    Value chosen = slice(places, at, perRegister), from = first, count;
    if (isSum)
      chosen = createIndexCast(chosen, i32, /*isSigned=*/false);
    if (all) {
      count = i64(all.getInt());
    } else {
      Value begin = extract(chosen, 0);
      count = arith::AddIOp::create(b, arith::SubIOp::create(b, extract(chosen, perRegister - 1), begin),
                                    constant(begin.getType(), 1));
      count = createIndexCast(count, b.getI64Type(), /*isSigned=*/false);
      from = elementPtr(first, storage, createIndexCast(begin, b.getI64Type(), /*isSigned=*/false));
      chosen = arith::SubIOp::create(b, chosen, broadcast(begin, chosen.getType()));
    }
    Value loaded = loadContiguous(part, from, count, Value());
    if (bytesOf(storage) == 1)
      loaded = arith::ExtUIOp::create(b, whole, loaded);
    else if (loaded.getType() != whole)
      loaded = LLVM::BitcastOp::create(b, whole, loaded);
    Value placed = permute(loaded, createIndexCast(chosen, permuted, /*isSigned=*/false));
    if (bytesOf(storage) == 1)
      placed = arith::TruncIOp::create(b, part, placed);
    else if (placed.getType() != part)
      placed = LLVM::BitcastOp::create(b, part, placed);
    parts.push_back(placed);
  }
  set(op.getResult(), {fromStorage(rechunk(parts, lanes).front(), element)});
  return true;
}

} // namespace torch_tile::codegen
