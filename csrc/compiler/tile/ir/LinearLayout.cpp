#include "compiler/tile/ir/LinearLayout.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tile;

//===-- the attribute -------------------------------------------------------------------------------------------===//

int64_t LinearAttr::getVector() const {
  int64_t vector = 1;
  for (int64_t move : getRegisters()) {
    if (move != vector)
      break;
    vector *= 2;
  }
  return vector;
}

int64_t LinearAttr::getPieceStart(int64_t piece) const {
  int64_t start = 0;
  for (int64_t move : getRegisters().drop_front(llvm::Log2_64(getVector()))) {
    start += piece % 2 ? move : 0;
    piece /= 2;
  }
  return start;
}

LogicalResult LinearAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> registers,
                                 ArrayRef<int64_t> threads) {
  int64_t seen = 0;
  for (int64_t move : llvm::concat<const int64_t>(registers, threads)) {
    if (move < 0 || (move && !llvm::isPowerOf2_64(move)) || (seen & move))
      return emitError() << "expected moves to be different powers of two, or 0, got " << move;
    seen |= move;
  }
  if (llvm::is_contained(registers, 0))
    return emitError() << "expected registers to hold different elements, got a move of 0";
  return success();
}

Attribute LinearAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> registers, threads;
  auto parseList = [&](StringRef name, SmallVector<int64_t> &list) -> ParseResult {
    if (parser.parseKeyword(name) || parser.parseEqual())
      return failure();
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                          [&] { return parser.parseInteger(list.emplace_back()); });
  };
  if (parser.parseLess() || parseList("registers", registers) || parser.parseComma() || parseList("threads", threads) ||
      parser.parseGreater())
    return {};
  function_ref<InFlightDiagnostic()> emitError;
  auto emit = [&] { return parser.emitError(parser.getNameLoc()); };
  emitError = emit;
  return getChecked(emitError, parser.getContext(), ArrayRef(registers), ArrayRef(threads));
}

void LinearAttr::print(AsmPrinter &printer) const {
  printer << "<registers = [" << getRegisters() << "], threads = [" << getThreads() << "]>";
}

//===-- axes ----------------------------------------------------------------------------------------------------===//

AxisMove tile::axisMove(int64_t move, ArrayRef<int64_t> shape) {
  int64_t stride = 1;
  for (int64_t axis = (int64_t)shape.size() - 1; axis >= 0 && move; stride *= shape[axis--])
    if (move < stride * shape[axis])
      return {axis, move / stride};
  return {-1, 0};
}

LinearAttr tile::sliceLayout(LinearAttr layout, ArrayRef<int64_t> shape, int64_t axis) {
  int64_t inner = 1;
  for (int64_t size : shape.drop_front(axis + 1))
    inner *= size;
  auto moved = [&](int64_t move) { return move < inner ? move : move / shape[axis]; };
  SmallVector<int64_t> registers, threads;
  for (int64_t move : layout.getRegisters())
    if (axisMove(move, shape).axis != axis)
      registers.push_back(moved(move));
  for (int64_t move : layout.getThreads())
    threads.push_back(axisMove(move, shape).axis == axis ? 0 : moved(move));
  return LinearAttr::get(layout.getContext(), registers, threads);
}

int64_t tile::lanesOfPiece(int64_t numElements, int64_t threads, int64_t most) {
  while (most > 1 && (numElements % most != 0 || most * threads > numElements))
    most /= 2;
  return most;
}

bool tile::areRowsInWarps(ArrayRef<int64_t> shape, int64_t threads, int64_t vector) {
  constexpr int64_t warpSize = 32;
  int64_t size = shape.back(), numElements = 1;
  for (int64_t each : shape)
    numElements *= each;
  if (threads == warpSize && size % (warpSize * vector) == 0)
    return true;
  return size % vector == 0 && llvm::isPowerOf2_64(size / vector) && size / vector <= warpSize &&
         numElements % (threads * vector) == 0;
}

//===-- matrix instructions -------------------------------------------------------------------------------------===//

LinearAttr tile::fragmentLayout(MLIRContext *context, const FragmentShape &shape, int64_t numThreads) {
  int64_t row = shape.columns; // one row on
  SmallVector<int64_t> registers = {1, 8 * row}, threads = {2, 4, row, 2 * row, 4 * row};
  int64_t ownColumns = shape.columns / shape.warpColumns;
  for (int64_t column = 8; column < ownColumns; column *= 2)
    registers.push_back(column);
  int64_t nextRow = 16, groupRows = shape.isWarpGroup ? 64 : 16;
  for (; nextRow < groupRows; nextRow *= 2)
    threads.push_back(nextRow * row);
  int64_t ownRows = shape.rows / (shape.warpRows / (groupRows / 16));
  for (; nextRow < ownRows; nextRow *= 2)
    registers.push_back(nextRow * row);
  for (; nextRow < shape.rows; nextRow *= 2)
    threads.push_back(nextRow * row);
  for (int64_t column = ownColumns; column < shape.columns; column *= 2)
    threads.push_back(column);
  while (int64_t(1) << threads.size() < numThreads)
    threads.push_back(0);
  return LinearAttr::get(context, registers, threads);
}

bool tile::isLeftFragment(LinearAttr layout, ArrayRef<int64_t> shape, LinearAttr results,
                          ArrayRef<int64_t> resultShape) {
  // All of a row's elements are in the four threads that hold the row.
  if (shape.size() != 2 || shape[0] != resultShape[0] || shape[1] < 16 ||
      layout.getThreads().size() != results.getThreads().size())
    return false;
  auto rowsOf = [](ArrayRef<int64_t> moves, ArrayRef<int64_t> tile) {
    SmallVector<int64_t> rows;
    for (int64_t move : moves)
      if (AxisMove along = axisMove(move, tile); along.axis == 0)
        rows.push_back(along.distance);
    return rows;
  };
  for (auto [k, moves] : llvm::enumerate(llvm::zip_equal(layout.getThreads(), results.getThreads()))) {
    AxisMove own = axisMove(std::get<0>(moves), shape), result = axisMove(std::get<1>(moves), resultShape);
    bool isColumn = k < 2;
    if (isColumn ? own.axis != 1 || own.distance != (int64_t(2) << k)
                 : own.axis == 1 || result.axis == 1 || own.distance != result.distance)
      return false;
  }
  ArrayRef<int64_t> registers = layout.getRegisters();
  return registers.size() >= 3 && registers[0] == 1 &&
         rowsOf(registers, shape) == rowsOf(results.getRegisters(), resultShape) &&
         axisMove(registers[1], shape).distance == 8 && axisMove(registers[1], shape).axis == 0 && registers[2] == 8;
}
