// Products by instructions of four warps, which read operands from shared memory and run beside other code (wgmma).
#include "compiler/codegen/gpu/ThreadLowering.h"
#include "compiler/codegen/gpu/WarpShare.h"
#include "compiler/tile/ir/MatrixInstructions.h"

#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace torch_tile::codegen;

/// Of an instruction: bytes of the depth, and most columns.
static constexpr int64_t stepBytes = 32, mostColumns = 256;
static constexpr int64_t groupThreads = 128;

//===-- descriptors of operands ---------------------------------------------------------------------------------===//

/// Where an operand lies, as instructions take it: 14 bits of its address, distances, and how words are permuted; all
/// in units of 16 bytes. Of blocks that begin elsewhere the address alone differs.
struct ThreadLowering::OperandDescriptor {
  Value base; // i64
  int64_t rows, panel, elementBytes;
  /// Whether neighbours in memory are neighbours along the depth.
  bool isDepthAlongRow;

  /// `groupOuter`: the first row (left) or column (right) of this group of warps; null for 0.
  OperandDescriptor(ThreadLowering &lowering, const SharedMatrix &matrix, bool isLeft, Value groupOuter)
      : rows(matrix.rows), panel(matrix.panelBytes()), elementBytes(matrix.elementBytes()),
        isDepthAlongRow(isLeft != matrix.isTransposed) {
    ImplicitLocOpBuilder &b = lowering.b;
    Value address = LLVM::PtrToIntOp::create(b, b.getI32Type(), matrix.base);
    if (groupOuter) {
      Value offset = isDepthAlongRow ? arith::MulIOp::create(b, groupOuter, lowering.i32(panel)).getResult()
                                     : arith::MulIOp::create(b, groupOuter, lowering.i32(elementBytes * rows));
      address = arith::AddIOp::create(b, address, offset);
    }
    address = arith::ShRUIOp::create(b, address, lowering.i32(4));
    address = arith::AndIOp::create(b, address, lowering.i32((1 << 14) - 1));
    base = arith::ExtUIOp::create(b, b.getI64Type(), address);
    int64_t swizzle = panel == 128 ? 1 : panel == 64 ? 2 : 3;
    // From eight rows to the next eight; from a panel to the next, where an instruction reads several.
    int64_t nextEight = 8 * panel, nextPanel = isDepthAlongRow ? 16 : rows * panel;
    int64_t bits = (nextPanel >> 4) << 16 | (nextEight >> 4) << 32 | swizzle << 62;
    base = arith::OrIOp::create(b, base, lowering.i64(bits));
  }

  /// Of the block that begins with these elements of rows (left) or columns (right), and of the depth.
  Value at(ThreadLowering &lowering, int64_t outer, int64_t depth) const {
    int64_t row = isDepthAlongRow ? outer : depth, columnByte = (isDepthAlongRow ? depth : outer) * elementBytes;
    int64_t offset = (columnByte / panel * rows + row) * panel + columnByte % panel;
    return offset == 0 ? base : arith::AddIOp::create(lowering.b, base, lowering.i64(offset >> 4)).getResult();
  }
};

//===-- instructions --------------------------------------------------------------------------------------------===//

/// Assembly whose results have the type of `values`: it replaces them, or only writes results if `isFresh`. It has
/// other operands beside them.
static SmallVector<Value> replaceBy(ImplicitLocOpBuilder &b, ArrayRef<Value> values, ArrayRef<Value> others,
                                    StringRef assembly, bool isFresh = false) {
  Type type = values[0].getType();
  std::string letter = isa<FloatType>(type) ? "=f" : "=r", constraints;
  SmallVector<Value> operands;
  for (size_t k = 0; k < values.size(); ++k)
    constraints += letter + ",";
  for (size_t k = 0; k < values.size() && !isFresh; ++k) {
    constraints += std::to_string(k) + ",";
    operands.push_back(values[k]);
  }
  for (Value other : others) {
    constraints += other.getType().isInteger(64) ? "l," : "r,";
    operands.push_back(other);
  }
  constraints += "~{memory}";
  Type all = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(values.size(), type));
  Value result =
      LLVM::InlineAsmOp::create(b, all, operands, assembly, constraints, /*has_side_effects=*/true,
                                /*is_align_stack=*/false, LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr())
          .getResult(0);
  SmallVector<Value> replaced;
  for (size_t k = 0; k < values.size(); ++k)
    replaced.push_back(LLVM::ExtractValueOp::create(b, result, ArrayRef<int64_t>(k)));
  return replaced;
}

static std::string registerList(int64_t first, int64_t count) {
  std::string list = "{";
  for (int64_t k = 0; k < count; ++k)
    list += (k ? ", $" : "$") + std::to_string(first + k);
  return list + "}";
}

/// One instruction. `left`: four words, or a descriptor. `isFirst`: the sums are what it computes; it reads none.
static SmallVector<Value> multiply(ImplicitLocOpBuilder &b, Type element, ArrayRef<Value> sums, bool isFirst,
                                   ArrayRef<Value> left, Value right, bool isLeftTransposed, bool isRightTransposed) {
  auto count = (int64_t)sums.size(); // of registers: half as many as columns
  int64_t next = isFirst ? count : 2 * count;
  std::string columns = std::to_string(2 * count), text;
  std::string types = element.isF16()                  ? "k16.f32.f16.f16"
                      : element.isBF16()               ? "k16.f32.bf16.bf16"
                      : isa<Float8E4M3FNType>(element) ? "k32.f32.e4m3.e4m3"
                      : isa<Float8E5M2Type>(element)   ? "k32.f32.e5m2.e5m2"
                                                       : "k32.s32.s8.s8";
  text = std::string("{ .reg .pred adds; setp.") + (isFirst ? "ne" : "eq") +
         ".b32 adds, 0, 0; wgmma.mma_async.sync.aligned.m64n" + columns + types + " " + registerList(0, count) + ", ";
  bool isInRegisters = left.size() > 1;
  text += isInRegisters ? registerList(next, (int64_t)left.size()) : "$" + std::to_string(next);
  text += ", $" + std::to_string(next + (int64_t)left.size()) + ", adds";
  if (!element.isInteger())
    text += ", 1, 1";
  if (element.getIntOrFloatBitWidth() == 16) {
    if (!isInRegisters)
      text += isLeftTransposed ? ", 1" : ", 0";
    text += isRightTransposed ? ", 1" : ", 0";
  }
  SmallVector<Value> others(left);
  others.push_back(right);
  return replaceBy(b, sums, others, text + "; }", /*isFresh=*/isFirst);
}

static void callIntrinsic(ImplicitLocOpBuilder &b, StringRef name, ValueRange operands = {}) {
  LLVM::CallIntrinsicOp::create(b, b.getStringAttr(name), operands);
}

/// Waits for all products under way, whose results are `sums`.
static SmallVector<Value> awaitProducts(ImplicitLocOpBuilder &b, ArrayRef<Value> sums) {
  return replaceBy(b, sums, {}, "wgmma.wait_group.sync.aligned 0;");
}

void ThreadLowering::fenceStores() {
  if (!options.hasWarpGroups())
    return;
  LLVM::InlineAsmOp::create(b, TypeRange(), ValueRange(), "fence.proxy.async.shared::cta;", "~{memory}",
                            /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::TailCallKind::None,
                            LLVM::AsmDialectAttr(), ArrayAttr());
}

//===-- ops -----------------------------------------------------------------------------------------------------===//

/// All sums of a tile one by one, in the order of pieces.
static SmallVector<Value> scalarsOf(ArrayRef<Value> pieces, function_ref<Value(Value, int64_t)> extract) {
  SmallVector<Value> scalars;
  for (Value pair : pieces)
    scalars.append({extract(pair, 0), extract(pair, 1)});
  return scalars;
}

/// The number of the first thread of this warp, which the compiler knows to be the same in the warp. Loops do not
/// compute it: the assembler moves no shuffle out of one.
Value ThreadLowering::firstThreadOfWarp() {
  if (!warpFirst) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointAfterValue(threadId);
    warpFirst = LLVM::CallIntrinsicOp::create(b, b.getI32Type(), b.getStringAttr("llvm.nvvm.shfl.sync.idx.i32"),
                                              ValueRange{i32(-1), threadId, i32(0), i32(31)})
                    .getResult(0);
  }
  return warpFirst;
}

LogicalResult ThreadLowering::lowerWarpGroupDot(tile::DotOp op, const DotOperands &operands) {
  auto lhs = cast<RankedTensorType>(op.getLhs().getType()), type = cast<RankedTensorType>(op.getType());
  tile::LinearAttr layout = linearLayoutOf(type);
  Type element = lhs.getElementType();
  int64_t step = stepBytes * 8 / element.getIntOrFloatBitWidth(), numSteps = lhs.getDimSize(1) / step;

  // Where the group's share begins.
  Value group, firstRow, firstColumn;
  for (auto [bit, move] : llvm::enumerate(layout.getThreads())) {
    tile::AxisMove along = tile::axisMove(move, type.getShape());
    if ((int64_t(1) << bit) < groupThreads || along.axis < 0)
      continue;
    if (!group)
      group = firstThreadOfWarp();
    Value set = arith::AndIOp::create(b, arith::ShRUIOp::create(b, group, i32(bit)), i32(1));
    Value distance = arith::MulIOp::create(b, set, i32(along.distance));
    Value &first = along.axis == 0 ? firstRow : firstColumn;
    first = first ? arith::AddIOp::create(b, first, distance).getResult() : distance;
  }
  WarpShare share = warpShareOf(layout, type.getShape());
  std::optional<OperandDescriptor> left;
  if (!operands.isLeftInRegisters)
    left.emplace(*this, operands.left, /*isLeft=*/true, firstRow);
  OperandDescriptor right(*this, operands.right, /*isLeft=*/false, firstColumn);

  auto numColumns = (int64_t)share.columns.size() * 8, columnsAtOnce = std::min(numColumns, mostColumns);
  SmallVector<Value> sums = scalarsOf(rows(op.getAcc()), [&](Value pair, int64_t k) { return extract(pair, k); });
  const Rows leftPieces = operands.isLeftInRegisters ? rows(op.getLhs()) : Rows();
  // Nothing may write the sums behind the fence: the assembler would wait for each instruction. Zeros need not be
  // written, other sums go through the fence. Those that are under way already lie where they are needed.
  bool isFromZero = matchPattern(op.getAcc(), m_PosZeroFloat()) || matchPattern(op.getAcc(), m_Zero());
  auto inFlight = op->getAttrOfType<IntegerAttr>(inFlightAttrName);
  if (isFromZero || isa<BlockArgument>(op.getAcc()))
    callIntrinsic(b, "llvm.nvvm.wgmma.fence.sync.aligned");
  else
    sums = replaceBy(b, sums, {}, "wgmma.fence.sync.aligned;");
  SmallVector<Value> results;
  for (auto [block, row] : llvm::enumerate(share.rows))
    for (int64_t column = 0; column < numColumns; column += columnsAtOnce) {
      // A thread holds half as many sums as there are columns.
      SmallVector<Value> part(ArrayRef<Value>(sums).slice(results.size(), columnsAtOnce / 2));
      for (int64_t k = 0; k < numSteps; ++k) {
        SmallVector<Value> words = left ? SmallVector<Value>{left->at(*this, row, k * step)}
                                        : leftFragment(leftPieces, (int64_t(block) * numSteps + k) * 4);
        Value rightWords = right.at(*this, column, k * step);
        part = multiply(b, element, part, /*isFirst=*/isFromZero && k == 0, words, rightWords,
                        left && !left->isDepthAlongRow, !right.isDepthAlongRow);
      }
      llvm::append_range(results, part);
    }
  callIntrinsic(b, "llvm.nvvm.wgmma.commit_group.sync.aligned");
  if (inFlight)
    // The loop's products of the iteration before are complete.
    callIntrinsic(b, "llvm.nvvm.wgmma.wait_group.sync.aligned", i64(inFlight.getInt()));
  else
    results = awaitProducts(b, results);
  Rows pairs;
  for (size_t k = 0; k < results.size(); k += 2)
    pairs.push_back(fromScalars(ArrayRef(results).slice(k, 2)));
  set(op.getResult(), std::move(pairs));
  return success();
}

LogicalResult ThreadLowering::lowerDotWait(tile::DotWaitOp op) {
  SmallVector<Value> sums = scalarsOf(rows(op.getSource()), [&](Value pair, int64_t k) { return extract(pair, k); });
  sums = awaitProducts(b, sums);
  hasStagedReaders = true; // the products of other threads may still read their operands
  Rows pairs;
  for (size_t k = 0; k < sums.size(); k += 2)
    pairs.push_back(fromScalars(ArrayRef(sums).slice(k, 2)));
  set(op.getResult(), std::move(pairs));
  return success();
}
