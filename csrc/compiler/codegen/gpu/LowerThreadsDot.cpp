// Products of matrices: both operands lie in shared memory, each thread sums up the elements that it holds.
#include "compiler/codegen/gpu/ThreadLowering.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace torch_tile::codegen;

/// Of the shared memory that a block has; the rest is for what else moves.
static constexpr int64_t maxOperandBytes = 48 * 1024;
/// Rows of the left operand are one element longer, so that those of a warp lie in different banks.
static constexpr int64_t rowPadding = 1;
static constexpr int64_t unrolledSteps = 4;

LogicalResult ThreadLowering::lowerDot(tile::DotOp op) {
  auto lhs = cast<RankedTensorType>(op.getLhs().getType()), rhs = cast<RankedTensorType>(op.getRhs().getType()),
       type = cast<RankedTensorType>(op.getType());
  if (linearLayoutOf(type))
    return lowerMatrixDot(op);
  int64_t rank = type.getRank(), batch = rank == 3 ? type.getDimSize(0) : 1;
  int64_t rowCount = type.getDimSize(rank - 2), columns = type.getDimSize(rank - 1), depth = lhs.getDimSize(rank - 1);
  Type sum = elementOf(type);
  // Floats of 8 bits are converted once, not for each product.
  auto keptType = [&](RankedTensorType operand) -> Type {
    Type element = elementOf(operand);
    return isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8 ? b.getF32Type() : element;
  };
  Type left = keptType(lhs), right = keptType(rhs);
  int64_t leftBytes = bytesOf(storageOf(left)), rightBytes = bytesOf(storageOf(right));
  // As much of the depth at a time as there is room for.
  int64_t step = depth;
  auto sizeOf = [&](int64_t k) {
    return batch * (rowCount * (k + rowPadding) * leftBytes + k * columns * rightBytes) + 16;
  };
  while (sizeOf(step) > maxOperandBytes && step % 2 == 0)
    step /= 2;
  if (sizeOf(step) > maxOperandBytes)
    return op.emitOpError("unsupported on gpu: operands of ") << sizeOf(step) << " bytes, at most " << maxOperandBytes;
  int64_t leftStride = step + rowPadding;
  int64_t rightOffset = llvm::alignTo(batch * rowCount * leftStride * leftBytes, 16);
  Shared leftPart{storageOf(left), 0, false}, rightPart{storageOf(right), rightOffset, false};
  useShared(rightOffset + batch * step * columns * rightBytes);

  auto split = [&](Value index, RankedTensorType tile) { // matrix, row, column
    SmallVector<Value> all = coordinates(index, tile.getShape());
    if (rank == 2)
      all.insert(all.begin(), i32(0));
    return all;
  };
  auto at = [&](Value outer, int64_t size, Value inner) -> Value {
    return arith::AddIOp::create(b, arith::MulIOp::create(b, outer, i32(size)), inner);
  };
  // Leaves what lies in [start, start + step) of the depth, which is the last axis of the left operand and the one
  // before of the right.
  auto keep = [&](Value source, RankedTensorType tile, Type kept, const Shared &part, bool isLeft, int64_t first) {
    const Rows pieces = rows(source);
    for (auto [piece, row] : llvm::enumerate(pieces)) {
      Value value = kept == elementOf(tile) ? row : convertFloat(row, kept);
      value = toStorage(value);
      Value index = start(tile, piece);
      Value owner = isOwned(tile, piece);
      for (int64_t lane = 0, lanes = lanesOf(value.getType()); lane < lanes; ++lane) {
        SmallVector<Value> place = split(addI32(index, lane), tile);
        Value &k = place[isLeft ? 2 : 1], condition = owner;
        if (step < depth) {
          k = addI32(k, -first);
          condition = both(condition, arith::CmpIOp::create(b, arith::CmpIPredicate::ult, k, i32(step)));
        }
        auto store = [&] {
          Value linear = isLeft ? at(at(place[0], rowCount, place[1]), leftStride, place[2])
                                : at(at(place[0], step, place[1]), columns, place[2]);
          storeElements(extract(value, lane), sharedPtr(part, linear));
        };
        if (condition)
          guardedStore(condition, store);
        else
          store();
      }
    }
  };

  int64_t lanes = lanesOf(type), numPieces = numRowsOf(type);
  bool isRow = columns % lanes == 0; // lanes of a piece lie in one row
  SmallVector<Value> leftStarts, rightStarts;
  for (int64_t piece = 0; piece < numPieces; ++piece)
    for (int64_t lane = 0; lane < lanes; ++lane) {
      SmallVector<Value> place = split(addI32(start(type, piece), lane), type);
      leftStarts.push_back(arith::MulIOp::create(b, at(place[0], rowCount, place[1]), i32(leftStride)));
      rightStarts.push_back(
          arith::AddIOp::create(b, arith::MulIOp::create(b, place[0], i32(step * columns)), place[2]));
    }
  auto toSum = [&](Value value) -> Value {
    if (isa<FloatType>(sum))
      return convertFloat(value, sum);
    return createIndexCast(value, sum, /*isSigned=*/true);
  };
  auto addProducts = [&](Value k, SmallVector<Value> sums) {
    Value rowOffset = arith::MulIOp::create(b, k, i32(columns));
    for (int64_t piece = 0; piece < numPieces; ++piece) {
      SmallVector<Value> lefts, rights;
      for (int64_t lane = 0; lane < lanes; ++lane) {
        int64_t element = piece * lanes + lane;
        if (lane == 0 || !isRow)
          lefts.push_back(loadShared(leftPart, arith::AddIOp::create(b, leftStarts[element], k), left));
        if (!isRow)
          rights.push_back(loadShared(rightPart, arith::AddIOp::create(b, rightStarts[element], rowOffset), right));
      }
      Value a, c;
      if (isRow) {
        Value ptr = sharedPtr(rightPart, arith::AddIOp::create(b, rightStarts[piece * lanes], rowOffset));
        Type word = withLanes(rightPart.storage, lanes);
        unsigned bytes = unsigned(rightBytes * lanes);
        c = fromStorage(LLVM::LoadOp::create(b, word, ptr, std::min(16u, bytes)), right);
        a = broadcast(toSum(lefts[0]), withLanes(sum, lanes));
      } else {
        a = toSum(fromScalars(lefts));
        c = fromScalars(rights);
      }
      c = toSum(c);
      if (isa<FloatType>(sum))
        sums[piece] = math::FmaOp::create(b, a, c, sums[piece]);
      else
        sums[piece] = arith::AddIOp::create(b, arith::MulIOp::create(b, a, c), sums[piece]);
    }
    return sums;
  };

  SmallVector<Value> sums(rows(op.getAcc()).begin(), rows(op.getAcc()).end());
  int64_t unrolled = step % unrolledSteps == 0 ? unrolledSteps : 1;
  for (int64_t first = 0; first < depth; first += step) {
    if (first > 0)
      barrier();
    else
      awaitReaders();
    keep(op.getLhs(), lhs, left, leftPart, /*isLeft=*/true, first);
    keep(op.getRhs(), rhs, right, rightPart, /*isLeft=*/false, first);
    barrier();
    auto loop = scf::ForOp::create(b, i32(0), i32(step), i32(unrolled), sums);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      SmallVector<Value> next(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
      for (int64_t k = 0; k < unrolled; ++k)
        next = addProducts(addI32(loop.getInductionVar(), k), next);
      scf::YieldOp::create(b, next);
    }
    sums.assign(loop.result_begin(), loop.result_end());
    hasSharedReaders = true;
  }
  set(op.getResult(), Rows(sums.begin(), sums.end()));
  return success();
}
