// Products of matrices by instructions of whole warps: operands in shared memory or in registers, sums in registers.
#include "compiler/codegen/gpu/FragmentReader.h"
#include "compiler/codegen/gpu/WarpProduct.h"
#include "compiler/codegen/gpu/WarpShare.h"
#include "compiler/tile/ir/LinearLayout.h"
#include "compiler/tile/ir/MatrixInstructions.h"
#include "compiler/tile/ir/MatrixOperands.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace torch_tile::codegen;

/// After so many bytes the permutation of words repeats itself.
static constexpr int64_t matrixAlignment = 1024;

//===-- tiles in shared memory ----------------------------------------------------------------------------------===//

ThreadLowering::SharedMatrix ThreadLowering::matrixOf(RankedTensorType type, Value base) {
  SharedMatrix matrix;
  matrix.base = base;
  matrix.columns = type.getShape().back();
  matrix.rows = type.getNumElements() / matrix.columns;
  matrix.element = storageOf(elementOf(type));
  matrix.isTransposed = false;
  return matrix;
}

Value ThreadLowering::wordOffset(const SharedMatrix &matrix, Value row, Value columnByte) {
  int64_t panel = matrix.panelBytes(), numPanels = matrix.columns * matrix.elementBytes() / panel;
  auto shift = [&](Value value, int64_t bits) -> Value { return arith::ShLIOp::create(b, value, i32(bits)); };
  Value offset = shift(row, llvm::Log2_64(panel));
  // Bits 4 to 6 of the address are those of the word, exclusive-or bits 7 to 9 of the row's, as far as a row has them.
  Value bits = arith::ShRUIOp::create(b, offset, i32(3));
  bits = arith::AndIOp::create(b, bits, i32((panel / wordBytes - 1) * wordBytes));
  if (numPanels > 1) {
    Value number = arith::ShRUIOp::create(b, columnByte, i32(llvm::Log2_64(panel)));
    offset = arith::AddIOp::create(b, offset, arith::MulIOp::create(b, number, i32(matrix.rows * panel)));
    columnByte = arith::AndIOp::create(b, columnByte, i32(panel - 1));
  }
  return arith::AddIOp::create(b, offset, arith::XOrIOp::create(b, columnByte, bits));
}

Value ThreadLowering::laneOffset(const SharedMatrix &matrix, RankedTensorType type, int64_t piece, int64_t lane) {
  // Eight rows on, words are permuted alike: what is a multiple of that from the first piece on is a constant.
  int64_t first = 0, more = 0;
  if (!linearLayoutOf(type) && !isOwned(type, piece)) {
    int64_t distance = piece * numThreads * lanesOf(type);
    if (distance % (8 * matrix.columns) == 0)
      more = distance / matrix.columns * matrix.panelBytes();
    else
      first = piece;
  } else {
    first = piece;
  }
  SmallVector<Value> place = coordinates(addI32(start(type, first), lane), {matrix.rows, matrix.columns});
  Value columnByte = arith::MulIOp::create(b, place[1], i32(matrix.elementBytes()));
  Value word = arith::AndIOp::create(b, columnByte, i32(~(wordBytes - 1)));
  Value inWord = arith::AndIOp::create(b, columnByte, i32(wordBytes - 1));
  return addI32(arith::AddIOp::create(b, wordOffset(matrix, place[0], word), inWord), more);
}

/// Elements that one access moves: neighbours in a row, and in a word.
static int64_t elementsAtOnce(int64_t lanes, int64_t elementBytes, int64_t columns) {
  return std::min({lanes, wordBytes / elementBytes, columns});
}

void ThreadLowering::storeMatrix(const SharedMatrix &matrix, Value source) {
  auto type = cast<RankedTensorType>(source.getType());
  const Rows pieces = rows(source);
  int64_t bytes = matrix.elementBytes(), atOnce = elementsAtOnce(lanesOf(type), bytes, matrix.columns);
  for (auto [piece, row] : llvm::enumerate(pieces)) {
    Value value = toStorage(row);
    auto store = [&, piece = piece] {
      for (int64_t lane = 0, lanes = lanesOf(type); lane < lanes; lane += atOnce) {
        Value offset = laneOffset(matrix, type, piece, lane);
        Value ptr = LLVM::GEPOp::create(b, sharedPtrType, b.getI8Type(), matrix.base, ArrayRef<LLVM::GEPArg>{offset});
        Value part = atOnce == lanes ? value : slice(value, lane, atOnce);
        LLVM::StoreOp::create(b, part, ptr, unsigned(atOnce * bytes));
      }
    };
    if (Value isOwner = isOwned(type, piece))
      guardedStore(isOwner, store);
    else
      store();
  }
}

RowLowering::Rows ThreadLowering::loadMatrix(const SharedMatrix &matrix, RankedTensorType type) {
  int64_t bytes = matrix.elementBytes(), lanes = lanesOf(type), atOnce = elementsAtOnce(lanes, bytes, matrix.columns);
  Type part = withLanes(matrix.element, atOnce);
  Rows result;
  for (int64_t piece = 0, end = numRowsOf(type); piece < end; ++piece) {
    SmallVector<Value> scalars;
    Value whole;
    for (int64_t lane = 0; lane < lanes; lane += atOnce) {
      Value offset = laneOffset(matrix, type, piece, lane);
      Value ptr = LLVM::GEPOp::create(b, sharedPtrType, b.getI8Type(), matrix.base, ArrayRef<LLVM::GEPArg>{offset});
      whole = LLVM::LoadOp::create(b, part, ptr, unsigned(atOnce * bytes));
      for (int64_t k = 0; k < atOnce && atOnce < lanes; ++k)
        scalars.push_back(extract(whole, k));
    }
    result.push_back(fromStorage(atOnce == lanes ? whole : fromScalars(scalars), elementOf(type)));
  }
  return result;
}

//===-- operands ------------------------------------------------------------------------------------------------===//

/// Whether the left operand's elements are where an instruction takes them from registers.
bool torch_tile::codegen::isLeftInRegisters(tile::DotOp op) {
  auto encodingOf = [](Value value) {
    return dyn_cast_if_present<tile::LinearAttr>(cast<RankedTensorType>(value.getType()).getEncoding());
  };
  auto lhs = cast<RankedTensorType>(op.getLhs().getType()), type = cast<RankedTensorType>(op.getType());
  tile::LinearAttr left = encodingOf(op.getLhs()), layout = encodingOf(op.getResult());
  return left && layout && lhs.getElementTypeBitWidth() == 16 &&
         tile::isLeftFragment(left, lhs.getShape(), layout, type.getShape());
}

ThreadLowering::DotOperands ThreadLowering::placeOperands(tile::DotOp op) {
  DotOperands operands;
  operands.isLeftInRegisters = isLeftInRegisters(op);
  SmallVector<std::pair<SharedMatrix, Value>> stored;
  int64_t used = 0;
  auto place = [&](Value operand) {
    Value source = tile::storedOperand(operand);
    auto type = cast<RankedTensorType>(source.getType());
    SharedMatrix matrix;
    if (auto staged = source.getDefiningOp<tile::StagedOp>()) {
      matrix = matrixOf(type, stagedPtr(staged.getOffset(), scalar(staged.getSlot()), staged.getSlotBytes()));
      hasStagedReaders = true;
    } else {
      matrix = matrixOf(type, sharedPtr({b.getI8Type(), used, false}, i32(0)));
      used += llvm::alignTo(matrix.bytes(), matrixAlignment);
      stored.push_back({matrix, source});
    }
    matrix.isTransposed = source != operand;
    return matrix;
  };
  if (!operands.isLeftInRegisters)
    operands.left = place(op.getLhs());
  operands.right = place(op.getRhs());
  if (stored.empty())
    return operands;
  useShared(used);
  awaitReaders();
  for (auto &[matrix, source] : stored)
    storeMatrix(matrix, source);
  fenceStores();
  barrier();
  hasSharedReaders = true;
  return operands;
}

//===-- fragments -----------------------------------------------------------------------------------------------===//

SmallVector<Value> ThreadLowering::leftFragment(const Rows &pieces, int64_t first) {
  SmallVector<Value> words;
  for (int64_t piece = 0; piece < 4; ++piece)
    words.push_back(LLVM::BitcastOp::create(b, b.getI32Type(), pieces[first + piece]));
  return words;
}

LogicalResult ThreadLowering::lowerMatrixDot(tile::DotOp op) {
  auto lhs = cast<RankedTensorType>(op.getLhs().getType()), type = cast<RankedTensorType>(op.getType());
  tile::LinearAttr layout = linearLayoutOf(type);
  int64_t depth = lhs.getShape().back(), readDepth = stepBytes * 8 / lhs.getElementTypeBitWidth();
  DotOperands operands = placeOperands(op);
  if (op->hasAttr(tile::warpGroupAttrName))
    return lowerWarpGroupDot(op, operands);

  // Rows of several matrices lie one after the other.
  int64_t matrixRows = type.getShape().end()[-2], columns = type.getShape().back();
  int64_t shape[] = {type.getNumElements() / columns, columns}, numMatrices = shape[0] / matrixRows;

  // Where the warp's share begins: what its threads' bits beyond the first five move by.
  SmallVector<int64_t> rowMoves(layout.getThreads().size(), 0), columnMoves = rowMoves;
  for (auto [bit, move] : llvm::enumerate(layout.getThreads())) {
    tile::AxisMove along = tile::axisMove(move, shape);
    if (bit >= 5 && along.axis >= 0)
      (along.axis == 0 ? rowMoves : columnMoves)[bit] = along.distance;
  }
  Value firstRow = threadStart(tile::LinearAttr::get(b.getContext(), {}, rowMoves));
  Value firstColumn = threadStart(tile::LinearAttr::get(b.getContext(), {}, columnMoves));
  WarpShare share = warpShareOf(layout, shape);
  Value firstMatrix;
  if (numMatrices > 1) {
    firstMatrix = arith::ShRUIOp::create(b, firstRow, i32(llvm::Log2_64(matrixRows)));
    firstRow = arith::AndIOp::create(b, firstRow, i32(matrixRows - 1));
  }
  // Rows of the memory before the matrix.
  auto rowsBefore = [&](const SharedMatrix &operand) -> Value {
    return firstMatrix ? arith::MulIOp::create(b, firstMatrix, i32(operand.rows / numMatrices)).getResult() : Value();
  };
  std::optional<FragmentReader> leftReader;
  if (!operands.isLeftInRegisters)
    leftReader.emplace(*this, operands.left, /*isLeft=*/true, firstRow, rowsBefore(operands.left));
  FragmentReader rightReader(*this, operands.right, /*isLeft=*/false, firstColumn, rowsBefore(operands.right));

  SmallVector<SmallVector<Value>> sums; // by block of rows, then of columns
  const Rows start = rows(op.getAcc());
  for (size_t block = 0; block < share.rows.size() * share.columns.size(); ++block) {
    SmallVector<Value> four;
    for (Value pair : {start[2 * block], start[2 * block + 1]})
      four.append({extract(pair, 0), extract(pair, 1)});
    sums.push_back(four);
  }
  const Rows leftPieces = operands.isLeftInRegisters ? rows(op.getLhs()) : Rows();
  WarpProduct product(b, op);
  int64_t numReads = product.readsPerStep(), numSteps = depth / (numReads * readDepth);
  using Registers = WarpProduct::Registers;
  auto leftBlock = [&](size_t row, int64_t k) {
    return operands.isLeftInRegisters
               ? leftFragment(leftPieces, (row * numSteps + k) * 4)
               : leftReader->read(share.rows[row] % matrixRows, k * readDepth,
                                  share.rows[row] / matrixRows * (operands.left.rows / numMatrices));
  };
  auto stepOf = [&](int64_t k, bool isLeft, function_ref<Registers(int64_t)> read) {
    SmallVector<Registers> reads;
    for (int64_t next = 0; next < numReads; ++next)
      reads.push_back(read(k * numReads + next));
    return product.termsOf(reads, isLeft);
  };
  for (int64_t k = 0; k < numSteps; ++k) {
    SmallVector<WarpProduct::Terms> lefts;
    for (size_t row = 0; row < share.rows.size(); ++row)
      lefts.push_back(stepOf(k, /*isLeft=*/true, [&](int64_t at) { return leftBlock(row, at); }));
    for (size_t column = 0; column < share.columns.size(); column += 2) {
      llvm::MapVector<int64_t, WarpProduct::Terms> rights; // by matrix
      for (int64_t row : share.rows) {
        int64_t matrix = row / matrixRows;
        if (!rights.contains(matrix))
          rights[matrix] = stepOf(k, /*isLeft=*/false, [&](int64_t at) {
            return rightReader.read(share.columns[column], at * readDepth,
                                    matrix * (operands.right.rows / numMatrices));
          });
      }
      for (int64_t eight = 0; eight < 2; ++eight)
        for (size_t row = 0; row < share.rows.size(); ++row)
          product.multiply(lefts[row], rights[share.rows[row] / matrixRows], eight,
                           sums[row * share.columns.size() + column + eight]);
    }
  }
  Rows result;
  for (ArrayRef<Value> four : sums) {
    result.push_back(fromScalars(four.take_front(2)));
    result.push_back(fromScalars(four.drop_front(2)));
  }
  set(op.getResult(), std::move(result));
  return success();
}
