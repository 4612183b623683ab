// Operands of matrix instructions, from shared memory to registers.
#include "compiler/codegen/gpu/FragmentReader.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace torch_tile::codegen;

ThreadLowering::FragmentReader::FragmentReader(ThreadLowering &lowering, const SharedMatrix &matrix, bool isLeft,
                                               Value outer, Value firstRow)
    : lowering(lowering), matrix(matrix), isLeft(isLeft), isDepthAlongRow(isLeft != matrix.isTransposed),
      panel(matrix.panelBytes()) {
  int64_t bytes = matrix.elementBytes();
  if (bytes == 8)
    mode = Mode::Elements;
  else if (isDepthAlongRow)
    mode = Mode::Rows;
  else
    mode = bytes == 1 ? Mode::Bytes : bytes == 2 ? Mode::Halves : Mode::Elements;
  placeWords(isLeft, outer, firstRow);
}

/// A bit of the thread's number, times `value`.
Value ThreadLowering::FragmentReader::bit(int64_t which, int64_t value) const {
  ImplicitLocOpBuilder &b = lowering.b;
  Value set =
      arith::AndIOp::create(b, arith::ShRUIOp::create(b, lowering.threadId, lowering.i32(which)), lowering.i32(1));
  return arith::MulIOp::create(b, set, lowering.i32(value));
}

/// Bits of a place in a panel that permute the words of a row; `row` in bytes from the first row on.
static int64_t permutation(int64_t rowBytes, int64_t panel) {
  return rowBytes >> 3 & (panel / wordBytes - 1) * wordBytes;
}

void ThreadLowering::FragmentReader::placeWords(bool isLeft, Value outer, Value firstRow) {
  ImplicitLocOpBuilder &b = lowering.b;
  auto i32 = [&](int64_t value) { return lowering.i32(value); };
  auto add = [&](Value left, Value right) -> Value { return arith::AddIOp::create(b, left, right); };
  auto sumOfBits = [&](ArrayRef<int64_t> values) {
    Value sum;
    for (auto [which, value] : llvm::enumerate(values))
      if (value)
        sum = sum ? add(sum, bit((int64_t)which, value)) : bit((int64_t)which, value);
    return sum;
  };
  int64_t bytes = matrix.elementBytes();
  Value row, place; // of this thread, the place in bytes along the row
  switch (mode) {
  case Mode::Rows:
  case Mode::Halves: {
    // Four matrices of eight rows of 16 bytes: each thread has the address of one row. The second matrix is the next 8
    // rows of the left operand, and the second half of the depth of the right one.
    Value second = bit(3, 1), fourth = bit(4, 1);
    Value nextOuter = isLeft ? second : fourth, nextDepth = isLeft ? fourth : second;
    row = arith::AndIOp::create(b, lowering.threadId, i32(7));
    row = add(row, arith::MulIOp::create(b, isDepthAlongRow ? nextOuter : nextDepth, i32(8)));
    place = arith::MulIOp::create(b, isDepthAlongRow ? nextDepth : nextOuter, i32(wordBytes));
    break;
  }
  case Mode::Bytes:
    // Pairs of rows of the first matrix are the first two of four bytes of a thread, those of the second the others.
    row = sumOfBits({1, 4, 8, 2, 16});
    place = i32(0);
    break;
  case Mode::Elements: {
    Value quarter = sumOfBits({1, 2}), eighth = sumOfBits({0, 0, 1, 2, 4});
    row = isDepthAlongRow ? eighth : quarter;
    place = arith::MulIOp::create(b, isDepthAlongRow ? quarter : eighth, i32(bytes));
    break;
  }
  }
  if (isDepthAlongRow)
    row = add(row, outer);
  else
    place = add(place, arith::MulIOp::create(b, outer, i32(bytes)));
  rowStart = arith::ShLIOp::create(b, row, i32(llvm::Log2_64(panel)));
  Value bits = arith::ShRUIOp::create(b, rowStart, i32(3));
  bits = arith::AndIOp::create(b, bits, i32((panel / wordBytes - 1) * wordBytes));
  if (!isDepthAlongRow && matrix.columns * bytes > panel) {
    Value number = arith::ShRUIOp::create(b, place, i32(llvm::Log2_64(panel)));
    rowStart = add(rowStart, arith::MulIOp::create(b, number, i32(matrix.rows * panel)));
    place = arith::AndIOp::create(b, place, i32(panel - 1));
  }
  if (firstRow)
    rowStart = add(rowStart, arith::MulIOp::create(b, firstRow, i32(panel)));
  inPanel = arith::XOrIOp::create(b, place, bits);
}

Value ThreadLowering::FragmentReader::at(int64_t row, int64_t columnByte) const {
  ImplicitLocOpBuilder &b = lowering.b;
  Value place = arith::XOrIOp::create(b, inPanel, lowering.i32(columnByte % panel ^ permutation(row * panel, panel)));
  place = arith::AddIOp::create(b, rowStart, place);
  auto ptrType = lowering.sharedPtrType;
  Value ptr = LLVM::GEPOp::create(b, ptrType, b.getI8Type(), matrix.base, ArrayRef<LLVM::GEPArg>{place});
  int64_t more = (columnByte / panel * matrix.rows + row) * panel;
  return LLVM::GEPOp::create(b, ptrType, b.getI8Type(), ptr, ArrayRef<LLVM::GEPArg>{int32_t(more)});
}

SmallVector<Value> ThreadLowering::FragmentReader::readMatrices(Value ptr) const {
  ImplicitLocOpBuilder &b = lowering.b;
  Type word = b.getI32Type();
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), {word, word, word, word});
  std::string name =
      std::string("llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4") + (isDepthAlongRow ? "" : ".trans") + ".b16.p3";
  Value all = LLVM::CallIntrinsicOp::create(b, type, b.getStringAttr(name), ValueRange{ptr}).getResult(0);
  SmallVector<Value> words;
  for (int64_t k = 0; k < 4; ++k)
    words.push_back(LLVM::ExtractValueOp::create(b, all, ArrayRef<int64_t>{k}));
  return words;
}

/// A thread reads two bytes of the depth by two neighbours along the other axis, from four matrices. It joins four
/// bytes of the depth of one of them, and of the other, and gives both to the threads of which these are the eighth.
SmallVector<Value> ThreadLowering::FragmentReader::readBytes(Value ptr) const {
  ImplicitLocOpBuilder &b = lowering.b;
  auto i32 = [&](int64_t value) { return lowering.i32(value); };
  SmallVector<Value> words = readMatrices(ptr), byHalf[2];
  auto join = [&](Value low, Value high, int64_t selector) {
    return LLVM::CallIntrinsicOp::create(b, b.getI32Type(), b.getStringAttr("llvm.nvvm.prmt"),
                                         ValueRange{low, high, i32(selector)})
        .getResult(0);
  };
  // Thread t has neighbours 2 (t / 4) and 2 (t / 4) + 1; it needs number t / 4, and t / 4 + 8.
  Value source = arith::AddIOp::create(b, bit(0, 1), bit(1, 2));
  source = arith::AddIOp::create(b, source, arith::AddIOp::create(b, bit(3, 4), bit(4, 8)));
  Value isOdd = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, bit(2, 1), i32(0));
  for (int64_t half = 0; half < 2; ++half) {
    Value even = join(words[2 * half], words[2 * half + 1], 0x6420);
    Value odd = join(words[2 * half], words[2 * half + 1], 0x7531);
    for (int64_t next = 0; next < 2; ++next) {
      Value lane = lowering.addI32(source, 16 * next);
      Value fromEven = lowering.shuffleLanes(even, Shuffle::Index, lane);
      Value fromOdd = lowering.shuffleLanes(odd, Shuffle::Index, lane);
      byHalf[half].push_back(arith::SelectOp::create(b, isOdd, fromOdd, fromEven));
    }
  }
  if (isLeft)
    return {byHalf[0][0], byHalf[0][1], byHalf[1][0], byHalf[1][1]};
  return {byHalf[0][0], byHalf[1][0], byHalf[0][1], byHalf[1][1]};
}

SmallVector<Value> ThreadLowering::FragmentReader::readElements(int64_t row, int64_t columnByte) const {
  ImplicitLocOpBuilder &b = lowering.b;
  int64_t bytes = matrix.elementBytes(), numHalves = bytes == 8 ? 1 : 2;
  Type type = bytes == 8 ? Type(b.getF64Type()) : b.getI32Type();
  auto read = [&](int64_t next, int64_t half) -> Value {
    // Eight on along one axis, four along the depth.
    int64_t rows = isDepthAlongRow ? 8 * next : 4 * half, columns = isDepthAlongRow ? 4 * half : 8 * next;
    return LLVM::LoadOp::create(b, type, at(row + rows, columnByte + columns * bytes), unsigned(bytes));
  };
  SmallVector<Value> registers;
  for (int64_t k = 0; k < 2 * numHalves; ++k)
    registers.push_back(isLeft ? read(k % 2, k / 2) : read(k / numHalves, k % numHalves));
  return registers;
}

SmallVector<Value> ThreadLowering::FragmentReader::read(int64_t outer, int64_t depth, int64_t row) const {
  row += isDepthAlongRow ? outer : depth;
  int64_t columnByte = (isDepthAlongRow ? depth : outer) * matrix.elementBytes();
  switch (mode) {
  case Mode::Rows:
  case Mode::Halves:
    return readMatrices(at(row, columnByte));
  case Mode::Bytes:
    return readBytes(at(row, columnByte));
  case Mode::Elements:
    return readElements(row, columnByte);
  }
}
