// Pieces at any address, each put together from the two words of memory that it lies across.
#include "compiler/codegen/gpu/MemoryAccess.h"

using namespace mlir;
using namespace torch_tile::codegen;

/// Of loads: as many elements as a piece has before and after those of the tile may be read, too.
static constexpr llvm::StringLiteral surroundedAttrName = "tile.surrounded";

/// A piece that lies across two words of memory, as the words that it would be: both have something of it. `low` and
/// `high` are vectors of 32-bit words, `bytes` is how far into `low` it begins (i32).
static Value joinWords(ImplicitLocOpBuilder &b, ArrayRef<Value> words, Value bytes, int64_t elementBytes) {
  Type i32 = b.getI32Type();
  auto constant = [&](int64_t value) -> Value {
    return LLVM::ConstantOp::create(b, i32, b.getI32IntegerAttr((int32_t)value));
  };
  int64_t count = (int64_t)words.size() / 2;
  bool isPart = elementBytes < 4; // of a word
  SmallVector<Value> current(words);
  for (int64_t step = count / 2; step >= std::max<int64_t>(1, elementBytes / 4); step /= 2) {
    Value bit = arith::AndIOp::create(b, bytes, constant(step * 4));
    Value isSet = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, bit, constant(0));
    SmallVector<Value> next;
    for (int64_t k = 0, end = count + step - 1 + isPart; k < end; ++k)
      next.push_back(arith::SelectOp::create(b, isSet, current[k + step], current[k]));
    current = next;
  }
  Value result = LLVM::PoisonOp::create(b, VectorType::get({count}, i32));
  Value bits = isPart ? arith::ShLIOp::create(b, bytes, constant(3)).getResult() : Value();
  for (int64_t k = 0; k < count; ++k) {
    Value word = current[k];
    if (isPart) // the shift counts modulo 32
      word = LLVM::CallIntrinsicOp::create(b, i32, b.getStringAttr("llvm.fshr.i32"),
                                           ValueRange{current[k + 1], current[k], bits})
                 .getResult(0);
    result = LLVM::InsertElementOp::create(b, result, word, constant(k));
  }
  return result;
}

/// Pieces of a tile that is all there, at any address. Two words are read for each, unless one may lie outside: at the
/// ends of the tile pieces are read element by element.
SmallVector<Value> ThreadLowering::loadAcross(const Access &access, ArrayRef<std::pair<int64_t, Piece>> parts,
                                              ArrayRef<bool> mayLeave) {
  int64_t lanes = lanesOf(access.type), elementBytes = bytesOf(access.storage), bytes = lanes * elementBytes;
  Type type = withLanes(access.storage, lanes), words = withLanes(b.getI32Type(), bytes / 4);
  Value offset = arith::TruncIOp::create(b, b.getI32Type(), access.misalignment);
  auto branch = scf::IfOp::create(b, SmallVector<Type>(parts.size(), words), access.isAligned, /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(branch.thenBlock());
  SmallVector<Value> whole, joined;
  for (const auto &[piece, part] : parts)
    whole.push_back(LLVM::LoadOp::create(b, words, part.ptr, unsigned(bytes)));
  scf::YieldOp::create(b, whole);
  b.setInsertionPointToEnd(branch.elseBlock());
  Value back = arith::SubIOp::create(b, i64(0), access.misalignment), next = arith::AddIOp::create(b, back, i64(bytes));
  auto join = [&](const Piece &part) -> Value {
    SmallVector<Value> both;
    for (int64_t word = 0; word < 2; ++word) {
      Value ptr =
          LLVM::GEPOp::create(b, ptrType, b.getI8Type(), part.ptr, ArrayRef<LLVM::GEPArg>{word == 0 ? back : next});
      Value loaded = LLVM::LoadOp::create(b, words, ptr, unsigned(bytes));
      for (int64_t k = 0; k < bytes / 4; ++k)
        both.push_back(extract(loaded, k));
    }
    Value result = joinWords(b, both, offset, elementBytes);
    return result;
  };
  for (const auto &[piece, part] : parts) {
    Value isInside;
    auto keepInside = [&](int64_t thread) {
      isInside = both(isInside, arith::CmpIOp::create(b, arith::CmpIPredicate::ne, threadId, i32(thread)));
    };
    if (mayLeave[2 * piece])
      keepInside(0);
    if (mayLeave[2 * piece + 1])
      keepInside(numThreads - 1);
    if (!isInside) {
      joined.push_back(join(part));
      continue;
    }
    auto choice = scf::IfOp::create(b, words, isInside, /*addThenBlock=*/true, /*addElseBlock=*/true);
    OpBuilder::InsertionGuard inner(b);
    b.setInsertionPointToEnd(choice.thenBlock());
    scf::YieldOp::create(b, ValueRange(join(part)));
    b.setInsertionPointToEnd(choice.elseBlock());
    scf::YieldOp::create(b, ValueRange(LLVM::BitcastOp::create(b, words, loadElements(type, part.ptr))));
    joined.push_back(choice.getResult(0));
  }
  scf::YieldOp::create(b, joined);
  b.setInsertionPointAfter(branch);
  return llvm::map_to_vector(branch.getResults(),
                             [&](Value value) -> Value { return LLVM::BitcastOp::create(b, type, value); });
}

/// Whether pieces may be put together from words: those of a tile in whole pieces of all threads, of some 32-bit words.
bool ThreadLowering::canLoadAcross(const Access &access) {
  int64_t lanes = lanesOf(access.type), bytes = lanes * bytesOf(access.storage);
  return access.misalignment && bytes >= 8 && llvm::isPowerOf2_64(bytes) &&
         access.type.getNumElements() % (numThreads * lanes) == 0;
}

/// Pieces without masks from words, all others by themselves.
RowLowering::Rows ThreadLowering::loadAcrossOrSingle(tile::LoadOp op, const Access &access, ArrayRef<Piece> parts,
                                                     Value other) {
  int64_t lanes = lanesOf(access.type), held = numThreads * lanes;
  int64_t least = op.getValid().empty() ? access.type.getNumElements() : access.leastValid;
  bool isSurrounded = op->hasAttr(surroundedAttrName);
  Rows result(parts.size());
  SmallVector<std::pair<int64_t, Piece>> whole;
  SmallVector<bool> mayLeave;
  for (auto [k, part] : llvm::enumerate(parts)) {
    int64_t first = (int64_t)k * held;
    bool mayBegin = first == 0 || (op.getMask() && !isTrueFrom(op.getMask(), first - lanes));
    mayLeave.push_back(!isSurrounded && mayBegin);
    mayLeave.push_back(!isSurrounded && first + held + lanes > least);
    if (part.mask)
      result[k] = loadPieces(access, part, other, /*firstIsInside=*/false, /*isMixed=*/false)[0];
    else
      whole.push_back({(int64_t)k, part});
  }
  if (!whole.empty())
    for (auto [part, loaded] : llvm::zip_equal(whole, loadAcross(access, whole, mayLeave)))
      result[part.first] = loaded;
  return result;
}
