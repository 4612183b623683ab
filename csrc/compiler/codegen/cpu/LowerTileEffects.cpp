// Atomics, printing and assertions: scalars only, strip-mining has made loops of tiles.
#include "artifact/KernelAbi.h"
#include "compiler/codegen/cpu/TileLowering.h"

using namespace mlir;
using namespace torch_tile::codegen;

Value TileLowering::guarded(Type type, Value mask, function_ref<Value()> body) {
  if (!mask)
    return body();
  auto branch = scf::IfOp::create(b, TypeRange{type}, mask, /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(b, body());
  b.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(b, zero(type));
  return branch.getResult(0);
}

static LogicalResult expectScalar(Operation *op, Type type) {
  if (isa<RankedTensorType>(type))
    return op->emitOpError("expected scalars by now, got ") << type;
  return success();
}

//===-- atomics
//-----------------------------------------------------------------------------------------------------===//

LogicalResult TileLowering::lowerAtomicRmw(tile::AtomicRmwOp op) {
  if (failed(expectScalar(op, op.getType())))
    return failure();
  Type element = elementOf(op.getType()), storage = storageOf(element);
  Value offset = op.getOffsets() ? createIndexCast(scalar(op.getOffsets()), b.getI64Type(), /*isSigned=*/true) : i64(0);
  Value value = scalar(op.getValue()), base = scalar(op.getBase());
  Value old = guarded(element, op.getMask() ? scalar(op.getMask()) : Value(), [&]() -> Value {
    return fromStorage(updateAtomically(op, elementPtr(base, storage, offset), value), element);
  });
  set(op.getResult(), {old});
  return success();
}

LogicalResult TileLowering::lowerAtomicCas(tile::AtomicCasOp op) {
  if (failed(expectScalar(op, op.getType())))
    return failure();
  Type element = elementOf(op.getType());
  Type bits = b.getIntegerType(std::max(8u, element.getIntOrFloatBitWidth()));
  auto toBits = [&](Value value) -> Value {
    if (element.isInteger(1))
      return arith::ExtUIOp::create(b, bits, value);
    return isa<FloatType>(element) ? arith::BitcastOp::create(b, bits, value).getResult() : value;
  };
  Value offset = op.getOffsets() ? createIndexCast(scalar(op.getOffsets()), b.getI64Type(), /*isSigned=*/true) : i64(0);
  Value expected = toBits(scalar(op.getExpected())), value = toBits(scalar(op.getValue())), base = scalar(op.getBase());
  Value old = guarded(element, op.getMask() ? scalar(op.getMask()) : Value(), [&]() -> Value {
    Value pair = LLVM::AtomicCmpXchgOp::create(b, elementPtr(base, bits, offset), expected, value,
                                               LLVM::AtomicOrdering::acq_rel, LLVM::AtomicOrdering::acquire);
    Value found = LLVM::ExtractValueOp::create(b, pair, 0);
    if (element.isInteger(1))
      return arith::TruncIOp::create(b, element, found);
    return isa<FloatType>(element) ? arith::BitcastOp::create(b, element, found).getResult() : found;
  });
  set(op.getResult(), {old});
  return success();
}

//===-- messages
//----------------------------------------------------------------------------------------------------===//

Value TileLowering::textConstant(StringRef text) {
  std::string name = "text_" + std::to_string(std::distance(module.getBody()->begin(), module.getBody()->end()));
  std::string bytes = text.str() + '\0';
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(b, LLVM::LLVMArrayType::get(b.getI8Type(), bytes.size()), /*isConstant=*/true,
                           LLVM::Linkage::Internal, name, b.getStringAttr(bytes));
  }
  return LLVM::AddressOfOp::create(b, ptrType, name);
}

/// One element and where it stands: `pid (0, 0, 0) idx (1, 2) prefix value`.
LogicalResult TileLowering::lowerPrint(tile::PrintOp op) {
  auto shape = op->getAttrOfType<DenseI64ArrayAttr>("tile.shape");
  auto operandIndex = op->getAttrOfType<IntegerAttr>("tile.operand");
  ArrayRef<int64_t> sizes = shape ? shape.asArrayRef() : ArrayRef<int64_t>();
  size_t rank = sizes.size();
  std::string format = printedPlace(sizes, op.getPrefix(), operandIndex ? operandIndex.getInt() : -1);
  SmallVector<Value> arguments(std::begin(programIds), std::end(programIds));
  for (Value place : op.getValues().take_front(rank))
    arguments.push_back(scalar(place));
  ArrayRef<int32_t> isSigned = op.getIsSigned().value_or(ArrayRef<int32_t>());
  for (auto [index, value] : llvm::enumerate(op.getValues().drop_front(rank))) {
    if (failed(expectScalar(op, value.getType())))
      return failure();
    Value argument = scalar(value);
    format += printedValue(op, argument, /*isUnsigned=*/index < isSigned.size() && !isSigned[index]);
    if (index + 1 < op.getValues().size() - rank)
      format += ", ";
    arguments.push_back(argument);
  }
  format += "\n";
  auto printfType = LLVM::LLVMFunctionType::get(b.getI32Type(), {ptrType}, /*isVarArg=*/true);
  if (!module.lookupSymbol("printf")) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    LLVM::LLVMFuncOp::create(b, "printf", printfType);
  }
  arguments.insert(arguments.begin(), textConstant(format));
  LLVM::CallOp::create(b, printfType, "printf", arguments);
  return success();
}

/// `condition`, laid out for the usual case.
static Value usually(ImplicitLocOpBuilder &b, Value condition, bool usual) {
  Value expected = arith::ConstantOp::create(b, b.getBoolAttr(usual));
  return LLVM::ExpectOp::create(b, b.getI1Type(), condition, expected);
}

void TileLowering::raise(Value condition, int32_t code, function_ref<void()> fillDetails) {
  guardedStore(usually(b, condition, false), [&] {
    Value flag = LLVM::LoadOp::create(b, b.getI32Type(), errorFlag, /*alignment=*/4);
    guardedStore(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, flag, constant(b.getI32Type(), 0)), [&] {
      fillDetails();
      LLVM::StoreOp::create(b, constant(b.getI32Type(), code), errorFlag, /*alignment=*/4);
    });
  });
}

LogicalResult TileLowering::writeUnlessFailed(function_ref<LogicalResult()> write) {
  if (!checksIndices)
    return write();
  Value flag = LLVM::LoadOp::create(b, b.getI32Type(), errorFlag, /*alignment=*/4);
  Value isUnset = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, flag, constant(b.getI32Type(), 0));
  LogicalResult done = success();
  masks.clear(); // those of a branch are of no use outside
  guardedStore(usually(b, isUnset, true), [&] { done = write(); });
  masks.clear();
  return done;
}

LogicalResult TileLowering::lowerAssert(tile::AssertOp op) {
  for (Value condition : rows(op.getCondition())) {
    Value failing = arith::XOrIOp::create(b, condition, constant(condition.getType(), 1));
    if (lanesOf(condition.getType()) > 1)
      failing = LLVM::vector_reduce_or::create(b, b.getI1Type(), failing);
    raise(failing, static_cast<int32_t>(KernelError::Assertion), [&] {
      Value address = LLVM::PtrToIntOp::create(b, b.getI64Type(), textConstant(op.getMessage()));
      storeElements(address, elementPtr(contextPtr, b.getI64Type(), i64(1)));
    });
  }
  return success();
}
