// Products of matrices: blocks of the result in registers, one step of the inner axis at a time.
#include "compiler/tile/transforms/StripMiner.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tile;

/// Rows of the result, and lanes of a row, that registers hold at once.
static constexpr int64_t maxRows = 6;
static constexpr int64_t maxColumns = 64;
static constexpr int64_t maxBlock = 256;

/// The operand in the type of the sum, in scratch: widening each element once beats widening it in every product.
static Value widen(ImplicitLocOpBuilder &b, Value value, Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  Type from = type.getElementType();
  if (from == element)
    return value;
  Type to = type.clone(element);
  if (isa<FloatType>(from) && isa<FloatType>(element))
    return from.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth()
               ? arith::ExtFOp::create(b, to, value).getResult()
               : arith::TruncFOp::create(b, to, value).getResult();
  if (isa<IntegerType>(from) && isa<IntegerType>(element))
    return from.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth()
               ? arith::ExtSIOp::create(b, to, value).getResult()
               : arith::TruncIOp::create(b, to, value).getResult();
  return arith::SIToFPOp::create(b, to, value);
}

LogicalResult StripMiner::lowerDot(DotOp op) {
  RankedTensorType type = tileOf(op.getResult());
  Type element = type.getElementType();
  // f16 sums are made in f32 and rounded at the end.
  bool isFloat = isa<FloatType>(element);
  Type sumElement = isFloat && element.getIntOrFloatBitWidth() < 32 ? b.getF32Type() : element;
  int64_t rank = type.getRank(), rows = type.getDimSize(rank - 2), columns = type.getDimSize(rank - 1),
          depth = tileOf(op.getLhs()).getDimSize(rank - 1), count = rank == 3 ? type.getDimSize(0) : 1;
  Value operands[2];
  for (auto [index, operand] : llvm::enumerate(ValueRange{op.getLhs(), op.getRhs()})) {
    Value wide = widen(b, operand, sumElement);
    auto scratch = inScratch(wide);
    if (failed(scratch))
      return failure();
    if (wide != operand)
      replaced.push_back(wide.getDefiningOp());
    operands[index] = *scratch;
  }
  Value result = scratchFor(op.getResult());
  b.setInsertionPoint(op);
  int64_t lanes = std::min(maxColumns, columns);
  while (columns % lanes != 0)
    --lanes;
  int64_t bits = sumElement.getIntOrFloatBitWidth();
  int64_t most = std::max<int64_t>(1, std::min(maxRows, maxBlock * 32 / bits / lanes));
  Type laneType = pieceType(sumElement, lanes);
  auto extend = [&](Value value) -> Value {
    return element == sumElement ? value : arith::ExtFOp::create(b, laneType, value).getResult();
  };
  /// A block of `height` rows of the result.
  auto block = [&](Value matrix, Value row, Value column, int64_t height) -> LogicalResult {
    ScopeGuard scope(*this);
    SmallVector<Value> places, sums, lhsStarts;
    for (int64_t k = 0; k < height; ++k) {
      Value at = add(row, i64(k));
      places.push_back(add(add(mul(matrix, rows * columns), mul(at, columns)), column));
      auto init = piece(op.getAcc(), places.back(), lanes);
      if (failed(init))
        return failure();
      sums.push_back(extend(*init));
      lhsStarts.push_back(add(mul(matrix, rows * depth), mul(at, depth)));
    }
    b.setLoc(op.getLoc());
    Value rhsStart = add(mul(matrix, depth * columns), column);
    auto steps = scf::ForOp::create(b, i64(0), i64(depth), i64(1), sums);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(steps.getBody());
      Value step = steps.getInductionVar();
      Value right = loadPiece(sumElement, operands[1], add(rhsStart, mul(step, columns)), lanes);
      SmallVector<Value> next;
      for (int64_t k = 0; k < height; ++k) {
        Value left = splat(loadPiece(sumElement, operands[0], add(lhsStarts[k], step), 1), lanes);
        Value sum = steps.getRegionIterArg(k);
        next.push_back(isFloat ? math::FmaOp::create(b, left, right, sum).getResult()
                               : arith::AddIOp::create(b, sum, arith::MulIOp::create(b, left, right)).getResult());
      }
      scf::YieldOp::create(b, next);
    }
    for (auto [place, sum] : llvm::zip_equal(places, steps.getResults()))
      storePiece(element == sumElement ? sum : arith::TruncFOp::create(b, pieceType(element, lanes), sum).getResult(),
                 result, place);
    return success();
  };
  LogicalResult done = loop(count, 1, [&](Value matrix) {
    return loop(columns, lanes, [&](Value column) -> LogicalResult {
      int64_t whole = rows / most * most;
      if (whole && failed(loop(whole, most, [&](Value row) { return block(matrix, row, column, most); })))
        return failure();
      return whole < rows ? block(matrix, i64(whole), column, rows - whole) : success();
    });
  });
  if (failed(done))
    return failure();
  scratchOf[op.getResult()] = result;
  return isLong(type) ? success() : makeShort(op.getResult());
}
