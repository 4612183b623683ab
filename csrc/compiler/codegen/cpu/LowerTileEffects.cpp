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
  bool isFloat = isa<FloatType>(element), isExchange = op.getKind() == tile::AtomicKind::Exchange;
  bool isSmallFloat = isFloat && element.getIntOrFloatBitWidth() < 32 && !isExchange;
  Value old = guarded(element, op.getMask() ? scalar(op.getMask()) : Value(), [&]() -> Value {
    Value ptr = elementPtr(base, storage, offset);
    if (!isSmallFloat) {
      bool isBits = storage != element;
      Value operand = isBits ? toStorage(value) : value;
      Value before = LLVM::AtomicRMWOp::create(b, atomicBinary(op.getKind(), isFloat && !isBits), ptr, operand,
                                               LLVM::AtomicOrdering::acq_rel);
      return isBits ? fromStorage(before, element) : before;
    }
    // Small floats are added in f32 and rounded: try until nobody came in between.
    Value first = loadElements(storage, ptr);
    auto loop = scf::WhileOp::create(b, TypeRange{storage}, ValueRange{first});
    OpBuilder::InsertionGuard guard(b);
    Block *before = b.createBlock(&loop.getBefore(), {}, {storage}, {b.getLoc()});
    Value seen = before->getArgument(0);
    Value left = convertFloat(fromStorage(seen, element), b.getF32Type()), right = convertFloat(value, b.getF32Type());
    Value sum = op.getKind() == tile::AtomicKind::Add   ? arith::AddFOp::create(b, left, right).getResult()
                : op.getKind() == tile::AtomicKind::Max ? arith::MaxNumFOp::create(b, left, right).getResult()
                                                        : arith::MinNumFOp::create(b, left, right).getResult();
    Value wanted = toStorage(convertFloat(sum, element));
    Value pair = LLVM::AtomicCmpXchgOp::create(b, ptr, seen, wanted, LLVM::AtomicOrdering::acq_rel,
                                               LLVM::AtomicOrdering::acquire);
    Value found = LLVM::ExtractValueOp::create(b, pair, 0), isDone = LLVM::ExtractValueOp::create(b, pair, 1);
    scf::ConditionOp::create(b, arith::XOrIOp::create(b, isDone, constant(b.getI1Type(), 1)), ValueRange{found});
    Block *after = b.createBlock(&loop.getAfter(), {}, {storage}, {b.getLoc()});
    scf::YieldOp::create(b, after->getArguments());
    b.setInsertionPointAfter(loop);
    return fromStorage(loop.getResult(0), element);
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
  std::string format = "pid (%lld, %lld, %lld) idx (";
  SmallVector<Value> arguments(std::begin(programIds), std::end(programIds));
  unsigned rank = shape ? shape.size() : 0;
  for (unsigned axis = 0; axis < rank; ++axis) {
    std::string width = std::to_string(std::to_string(shape[axis] - 1).size());
    format += (axis ? ", %" : "%") + width + "lld";
    arguments.push_back(scalar(op.getValues()[axis]));
  }
  format += ")";
  for (char c : op.getPrefix())
    format += c == '%' ? "%%" : std::string(1, c);
  if (operandIndex && operandIndex.getInt() >= 0)
    format += "(operand " + std::to_string(operandIndex.getInt()) + ") ";
  ArrayRef<int32_t> isSigned = op.getIsSigned().value_or(ArrayRef<int32_t>());
  for (auto [index, value] : llvm::enumerate(op.getValues().drop_front(rank))) {
    if (failed(expectScalar(op, value.getType())))
      return failure();
    Value argument = scalar(value);
    Type type = argument.getType();
    bool isUnsigned = index < isSigned.size() && !isSigned[index];
    if (isa<LLVM::LLVMPointerType>(type)) {
      format += "%p";
    } else if (isa<FloatType>(type)) {
      argument = convertFloat(argument, b.getF64Type());
      format += op.getHex() ? "%a" : "%f";
    } else {
      unsigned width = type.getIntOrFloatBitWidth();
      format += op.getHex()                ? "0x%0" + std::to_string(std::max(1u, width / 4)) + "llx"
                : isUnsigned || width == 1 ? "%llu"
                                           : "%lld";
      argument = createIndexCast(argument, b.getI64Type(), /*isSigned=*/!isUnsigned && width > 1 && !op.getHex());
    }
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

void TileLowering::raise(Value condition, int32_t code, function_ref<void()> fillDetails) {
  guardedStore(condition, [&] {
    Value flag = LLVM::LoadOp::create(b, b.getI32Type(), errorFlag, /*alignment=*/4);
    guardedStore(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, flag, constant(b.getI32Type(), 0)), [&] {
      fillDetails();
      LLVM::StoreOp::create(b, constant(b.getI32Type(), code), errorFlag, /*alignment=*/4);
    });
  });
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
