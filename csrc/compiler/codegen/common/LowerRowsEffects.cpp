// Atomic updates, and the text of printed values: of one element each, on all targets.
#include "compiler/codegen/common/RowLowering.h"

using namespace mlir;
using namespace torch_tile::codegen;

static LLVM::AtomicBinOp atomicBinary(tile::AtomicKind kind, bool isFloat) {
  using LLVM::AtomicBinOp;
  switch (kind) {
  case tile::AtomicKind::And:
    return AtomicBinOp::_and;
  case tile::AtomicKind::Or:
    return AtomicBinOp::_or;
  case tile::AtomicKind::Xor:
    return AtomicBinOp::_xor;
  case tile::AtomicKind::Add:
    return isFloat ? AtomicBinOp::fadd : AtomicBinOp::add;
  case tile::AtomicKind::Max:
    return isFloat ? AtomicBinOp::fmax : AtomicBinOp::max;
  case tile::AtomicKind::Min:
    return isFloat ? AtomicBinOp::fmin : AtomicBinOp::min;
  case tile::AtomicKind::UMax:
    return AtomicBinOp::umax;
  case tile::AtomicKind::UMin:
    return AtomicBinOp::umin;
  case tile::AtomicKind::Exchange:
    return AtomicBinOp::xchg;
  case tile::AtomicKind::Maximum: // which are updates of bits
  case tile::AtomicKind::Minimum:
    break;
  }
  llvm_unreachable("a kind of tile.atomic_rmw");
}

/// Floats of one sign have the order of their bits: as signed integers the positive ones, as unsigned integers in
/// reverse the negative ones. So a maximum is one update of integers, whatever memory holds.
Value RowLowering::updateExtremum(tile::AtomicRmwOp op, Value ptr, Value value, StringRef scope) {
  auto type = cast<FloatType>(value.getType());
  Type bits = b.getIntegerType(type.getWidth());
  bool isMaximum = op.getKind() == tile::AtomicKind::Maximum;
  auto nan = llvm::APFloat::getQNaN(type.getFloatSemantics(), /*Negative=*/!isMaximum);
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, value, value);
  Value extreme = arith::ConstantOp::create(b, IntegerAttr::get(bits, nan.bitcastToAPInt()));
  Value pattern = arith::SelectOp::create(b, isNan, extreme, arith::BitcastOp::create(b, bits, value));
  Value isNegative = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, pattern, constant(bits, 0));
  auto branch = scf::IfOp::create(b, TypeRange{bits}, isNegative, /*addThenBlock=*/true, /*addElseBlock=*/true);
  auto ordering = op.getRelaxed() ? LLVM::AtomicOrdering::monotonic : LLVM::AtomicOrdering::acq_rel;
  auto update = [&](Block *block, LLVM::AtomicBinOp kind) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(block);
    scf::YieldOp::create(b, LLVM::AtomicRMWOp::create(b, kind, ptr, pattern, ordering, scope).getResult());
  };
  update(branch.thenBlock(), isMaximum ? LLVM::AtomicBinOp::umin : LLVM::AtomicBinOp::umax);
  update(branch.elseBlock(), isMaximum ? LLVM::AtomicBinOp::max : LLVM::AtomicBinOp::min);
  return arith::BitcastOp::create(b, type, branch.getResult(0));
}

Value RowLowering::updateAtomically(tile::AtomicRmwOp op, Value ptr, Value value, StringRef scope) {
  Type element = elementOf(op.getType()), storage = storageOf(element);
  if (op.getKind() == tile::AtomicKind::Maximum || op.getKind() == tile::AtomicKind::Minimum)
    return updateExtremum(op, ptr, value, scope);
  bool isFloat = isa<FloatType>(element), isExchange = op.getKind() == tile::AtomicKind::Exchange;
  if (!isFloat || element.getIntOrFloatBitWidth() >= 32 || isExchange) {
    bool isBits = storage != element;
    auto ordering = op.getRelaxed() ? LLVM::AtomicOrdering::monotonic : LLVM::AtomicOrdering::acq_rel;
    return LLVM::AtomicRMWOp::create(b, atomicBinary(op.getKind(), isFloat && !isBits), ptr,
                                     isBits ? toStorage(value) : value, ordering, scope);
  }
  // Small floats are combined in f32 and rounded: try until no other write came between.
  Value first = loadElements(storage, ptr);
  auto loop = scf::WhileOp::create(b, TypeRange{storage}, ValueRange{first});
  OpBuilder::InsertionGuard guard(b);
  Block *before = b.createBlock(&loop.getBefore(), {}, {storage}, {b.getLoc()});
  Value seen = before->getArgument(0);
  Value left = convertFloat(fromStorage(seen, element), b.getF32Type()), right = convertFloat(value, b.getF32Type());
  Value combined = op.getKind() == tile::AtomicKind::Add   ? arith::AddFOp::create(b, left, right).getResult()
                   : op.getKind() == tile::AtomicKind::Max ? arith::MaxNumFOp::create(b, left, right).getResult()
                                                           : arith::MinNumFOp::create(b, left, right).getResult();
  Value wanted = toStorage(convertFloat(combined, element));
  Value pair = LLVM::AtomicCmpXchgOp::create(b, ptr, seen, wanted, LLVM::AtomicOrdering::acq_rel,
                                             LLVM::AtomicOrdering::acquire, scope);
  Value found = LLVM::ExtractValueOp::create(b, pair, 0), isDone = LLVM::ExtractValueOp::create(b, pair, 1);
  scf::ConditionOp::create(b, arith::XOrIOp::create(b, isDone, constant(b.getI1Type(), 1)), ValueRange{found});
  Block *after = b.createBlock(&loop.getAfter(), {}, {storage}, {b.getLoc()});
  scf::YieldOp::create(b, after->getArguments());
  return loop.getResult(0);
}

std::string RowLowering::printedPlace(ArrayRef<int64_t> shape, StringRef prefix, int64_t operand) {
  std::string format = "pid (%lld, %lld, %lld) idx (";
  for (auto [axis, size] : llvm::enumerate(shape)) {
    std::string width = std::to_string(std::to_string(size - 1).size());
    format += (axis ? ", %" : "%") + width + "lld";
  }
  format += ")";
  for (char c : prefix)
    format += c == '%' ? "%%" : std::string(1, c);
  if (operand >= 0)
    format += "(operand " + std::to_string(operand) + ") ";
  return format;
}

std::string RowLowering::printedValue(tile::PrintOp op, Value &value, bool isUnsigned) {
  Type type = value.getType();
  if (isa<LLVM::LLVMPointerType>(type))
    return "%p";
  if (isa<FloatType>(type)) {
    value = convertFloat(value, b.getF64Type());
    return op.getHex() ? "%a" : "%f";
  }
  unsigned width = type.getIntOrFloatBitWidth();
  value = createIndexCast(value, b.getI64Type(), /*isSigned=*/!isUnsigned && width > 1 && !op.getHex());
  if (op.getHex())
    return "0x%0" + std::to_string(std::max(1u, width / 4)) + "llx";
  return isUnsigned || width == 1 ? "%llu" : "%lld";
}
