// Messages of the device: assertions that fail, and printing.
#include "compiler/codegen/gpu/ThreadLowering.h"

#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace torch_tile::codegen;

Value ThreadLowering::textConstant(StringRef text) {
  auto module = function->getParentOfType<ModuleOp>();
  std::string name = symbol + "_text" + std::to_string(llvm::xxh3_64bits(text));
  if (!module.lookupSymbol<LLVM::GlobalOp>(name)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(function);
    std::string bytes = text.str() + std::string(1, '\0');
    LLVM::GlobalOp::create(b, LLVM::LLVMArrayType::get(b.getI8Type(), bytes.size()), /*isConstant=*/true,
                           LLVM::Linkage::Internal, name, b.getStringAttr(bytes), /*alignment=*/1, /*addrSpace=*/1);
  }
  Value address = LLVM::AddressOfOp::create(b, LLVM::LLVMPointerType::get(b.getContext(), 1), name);
  return LLVM::AddrSpaceCastOp::create(b, ptrType, address);
}

/// PTX declares the function; the driver has it.
LLVM::LLVMFuncOp ThreadLowering::deviceFunction(StringRef name, Type result, ArrayRef<Type> parameters) {
  auto module = function->getParentOfType<ModuleOp>();
  if (auto found = module.lookupSymbol<LLVM::LLVMFuncOp>(name))
    return found;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(function);
  return LLVM::LLVMFuncOp::create(b, name, LLVM::LLVMFunctionType::get(result, parameters));
}

/// The device's assert: prints, ends the launch, and fails every later call into the driver.
void ThreadLowering::failAssertion(StringRef message) {
  Type i32Type = b.getI32Type();
  LLVM::LLVMFuncOp callee = deviceFunction(assertFunctionName, LLVM::LLVMVoidType::get(b.getContext()),
                                           {ptrType, ptrType, i32Type, ptrType, b.getI64Type()});
  Value arguments[] = {textConstant(message), textConstant("torch_tile"), i32(0), textConstant(symbol), i64(1)};
  LLVM::CallOp::create(b, callee, arguments);
}

LogicalResult ThreadLowering::lowerAssert(tile::AssertOp op) {
  for (Value condition : Rows(rows(op.getCondition()))) {
    Value failing = arith::XOrIOp::create(b, allLanes(op.getCondition(), condition), constant(b.getI1Type(), 1));
    guardedStore(failing, [&] { failAssertion(op.getMessage()); });
  }
  return success();
}

/// Each element in a line of its own, as on the CPU: `pid (0, 0, 0) idx (1, 2) prefix value`. A scalar is printed by
/// the first thread.
LogicalResult ThreadLowering::lowerPrint(tile::PrintOp op) {
  ArrayRef<int32_t> isSigned = op.getIsSigned().value_or(ArrayRef<int32_t>());
  for (auto [number, value] : llvm::enumerate(op.getValues())) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    bool isUnsigned = !isSigned.empty() && !isSigned[number];
    const Rows list = rows(value);
    for (auto [piece, row] : llvm::enumerate(list))
      for (int64_t lane = 0, lanes = lanesOf(row.getType()); lane < lanes; ++lane) {
        Value owner = type ? isOwned(type, piece) : isFirstThread();
        auto print = [&, piece = piece, row = row, number = number] {
          SmallVector<Value> position;
          if (type)
            position = coordinates(addI32(start(type, piece), lane), type.getShape());
          int64_t operand = op.getValues().size() == 1 ? -1 : int64_t(number);
          printElement(op, extract(row, lane), type ? type.getShape() : ArrayRef<int64_t>(), position, operand,
                       isUnsigned);
        };
        if (owner)
          guardedStore(owner, print);
        else
          print();
      }
  }
  return success();
}

void ThreadLowering::printElement(tile::PrintOp op, Value value, ArrayRef<int64_t> shape, ArrayRef<Value> position,
                                  int64_t operand, bool isUnsigned) {
  std::string format = printedPlace(shape, op.getPrefix(), operand);
  SmallVector<Value> arguments;
  for (StringRef axis : {"x", "y", "z"})
    arguments.push_back(arith::ExtUIOp::create(b, b.getI64Type(), readRegister(("ctaid." + axis).str())));
  for (Value place : position)
    arguments.push_back(arith::ExtUIOp::create(b, b.getI64Type(), place));
  format += printedValue(op, value, isUnsigned);
  if (isa<LLVM::LLVMPointerType>(value.getType()))
    value = LLVM::PtrToIntOp::create(b, b.getI64Type(), value);
  else if (isa<FloatType>(value.getType()))
    value = arith::BitcastOp::create(b, b.getI64Type(), value);
  arguments.push_back(value);
  // The arguments lie side by side in the thread's own memory.
  Value buffer;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&function.getBody().front());
    Value count = LLVM::ConstantOp::create(b, b.getI32Type(), b.getI32IntegerAttr((int32_t)arguments.size()));
    buffer = LLVM::AllocaOp::create(b, ptrType, b.getI64Type(), count, /*alignment=*/8);
  }
  for (auto [k, argument] : llvm::enumerate(arguments))
    storeElements(argument, elementPtr(buffer, b.getI64Type(), i64(k)));
  LLVM::LLVMFuncOp callee = deviceFunction(printFunctionName, b.getI32Type(), {ptrType, ptrType});
  LLVM::CallOp::create(b, callee, ValueRange{textConstant(format + "\n"), buffer});
}
