// Products of matrices: blocks of the result in registers, one step of the inner axis at a time.
#include "compiler/tile/transforms/StripMiner.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tile;

/// What registers hold of the result at once. A step of the inner axis needs as many registers more as a row has, and
/// at most one for an element of the left operand.
namespace {
struct RegisterBlock {
  int64_t rows, vectorsOfRow, vectors;
};
} // namespace

static RegisterBlock registerBlock(int64_t vectorBits) {
  // AVX-512 has 32 registers, the narrower sets of x86 have 16.
  return vectorBits >= 512 ? RegisterBlock{6, 4, 16} : RegisterBlock{6, 2, 12};
}

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
  Value operands[] = {op.getLhs(), op.getRhs()};
  for (Value &operand : operands) {
    Value wide = widen(b, operand, sumElement);
    auto scratch = inScratch(wide);
    if (failed(scratch))
      return failure();
    if (wide != operand)
      replaced.push_back(wide.getDefiningOp());
    operand = *scratch;
  }
  Value result = scratchFor(op.getResult());
  b.setInsertionPoint(op);
  RegisterBlock registers = registerBlock(vectorBits);
  int64_t perVector = std::max<int64_t>(1, vectorBits / sumElement.getIntOrFloatBitWidth());
  int64_t lanes = std::min(registers.vectorsOfRow * perVector, columns);
  while (columns % lanes != 0)
    --lanes;
  int64_t most = std::clamp<int64_t>(registers.vectors * perVector / lanes, 1, registers.rows);
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
      auto blocks = [&](int64_t first, int64_t count, int64_t height) -> LogicalResult {
        return loop(count, height, [&](Value row) { return block(matrix, add(row, i64(first)), column, height); });
      };
      // Few rows at the end would leave registers and multipliers idle, so the last two blocks share theirs.
      int64_t last = rows % most;
      if (last && rows > most && (most + last) % 2 == 0)
        last += most;
      int64_t whole = rows - last;
      if (whole && failed(blocks(0, whole, most)))
        return failure();
      return last ? blocks(whole, last, last > most ? last / 2 : last) : success();
    });
  });
  if (failed(done))
    return failure();
  scratchOf[op.getResult()] = result;
  return isLong(type) ? success() : makeShort(op.getResult());
}
