#include "compiler/codegen/common/Philox.h"
#include "compiler/codegen/common/MathBuilder.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace torch_tile::codegen {

namespace {
constexpr uint32_t kMultiplier0 = 0xd2511f53;
constexpr uint32_t kMultiplier1 = 0xcd9e8d57;
constexpr uint32_t kWeyl0 = 0x9e3779b9;
constexpr uint32_t kWeyl1 = 0xbb67ae85;

struct Product {
  Value low;
  Value high;
};
} // namespace

/// value * multiplier as 64 bits. Vectors of even size multiply even and odd lanes in 64-bit lanes (vpmuludq), without
/// widening shuffles, for the high halves; the low ones are a product of 32 bits.
static Product multiplyWide(MathBuilder &b, Value value, uint32_t multiplier) {
  Type i64 = b.getI64Type();
  if (!b.isVector() || b.numLanes() % 2) {
    Type wide = b.shaped(i64);
    Value product = b.mulI(arith::ExtUIOp::create(b, wide, value), b.bits(i64, multiplier));
    Value high = b.shru(product, b.bits(i64, 32));
    return {arith::TruncIOp::create(b, b.i32(), product), arith::TruncIOp::create(b, b.i32(), high)};
  }
  auto narrowType = cast<VectorType>(value.getType());
  auto wideType = VectorType::get({b.numLanes() / 2}, i64);
  Value pairs = vector::BitCastOp::create(b, wideType, value);
  auto wideConstant = [&](uint64_t bits) -> Value {
    return arith::ConstantOp::create(b, DenseElementsAttr::get(wideType, APInt(64, bits)));
  };
  Value factor = wideConstant(multiplier), lowMask = wideConstant(0xffffffff),
        highMask = wideConstant(0xffffffff00000000), shift = wideConstant(32);
  Value even = b.mulI(b.andI(pairs, lowMask), factor);
  Value odd = b.mulI(b.shru(pairs, shift), factor);
  Value low = b.mulI(value, b.bits(b.getI32Type(), multiplier));
  Value high = b.orI(b.shru(even, shift), b.andI(odd, highMask));
  return {low, vector::BitCastOp::create(b, narrowType, high)};
}

SmallVector<Value, 4> philox4x32(ImplicitLocOpBuilder &builder, Value keyLo, Value keyHi, ValueRange counters) {
  assert(counters.size() == 4 && "expected four counter words");
  Value widest = counters[0];
  auto consider = [&](Value value) {
    if (isa<VectorType>(value.getType()))
      widest = value;
  };
  consider(keyLo), consider(keyHi);
  for (Value counter : counters)
    consider(counter);
  MathBuilder b(builder, widest);
  auto broadcast = [&](Value value) -> Value {
    if (value.getType() == widest.getType())
      return value;
    return vector::BroadcastOp::create(b, widest.getType(), value);
  };

  SmallVector<Value, 4> words;
  for (Value counter : counters)
    words.push_back(broadcast(counter));
  // Scalar keys stay scalar while they are bumped.
  MathBuilder keyBuilder0(b, keyLo), keyBuilder1(b, keyHi);
  for (int round = 0; round < 10; ++round) {
    if (round) {
      keyLo = keyBuilder0.addI(keyLo, keyBuilder0.integer(int32_t(kWeyl0)));
      keyHi = keyBuilder1.addI(keyHi, keyBuilder1.integer(int32_t(kWeyl1)));
    }
    Product first = multiplyWide(b, words[0], kMultiplier0);
    Product second = multiplyWide(b, words[2], kMultiplier1);
    words = {b.xorI(b.xorI(second.high, words[1]), broadcast(keyLo)), second.low,
             b.xorI(b.xorI(first.high, words[3]), broadcast(keyHi)), first.low};
  }
  return words;
}

} // namespace torch_tile::codegen
