// Elements in memory.
#include "compiler/codegen/common/RowLowering.h"

using namespace mlir;
using namespace torch_tile::codegen;

Type RowLowering::storageOf(Type element) {
  if (isa<IndexType, tile::PtrType>(element))
    return IntegerType::get(element.getContext(), 64);
  unsigned width = element.getIntOrFloatBitWidth();
  if (width == 1)
    return IntegerType::get(element.getContext(), 8);
  if (isa<FloatType>(element) && width < 32)
    return IntegerType::get(element.getContext(), width);
  return element;
}

int64_t RowLowering::bytesOf(Type storage) { return getElementTypeOrSelf(storage).getIntOrFloatBitWidth() / 8; }

Value RowLowering::toStorage(Value value) {
  Type element = getElementTypeOrSelf(value.getType());
  Type storage = storageOf(element);
  if (storage == element)
    return value;
  Type type = withLanes(storage, lanesOf(value.getType()));
  if (element.isInteger(1))
    return arith::ExtUIOp::create(b, type, value);
  return arith::BitcastOp::create(b, type, value);
}

Value RowLowering::fromStorage(Value stored, Type element) {
  element = elementOf(element);
  if (getElementTypeOrSelf(stored.getType()) == element)
    return stored;
  if (element.isInteger(1))
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, stored, zero(stored.getType()));
  return arith::BitcastOp::create(b, withLanes(element, lanesOf(stored.getType())), stored);
}

Value RowLowering::elementPtr(Value base, Type storage, Value index) {
  // Not inbounds: a program past the end may form an address that it does not use.
  if (std::optional<int64_t> known = constantOf(index)) {
    if (*known == 0)
      return base;
    if (llvm::isInt<LLVM::kGEPConstantBitWidth>(*known))
      return LLVM::GEPOp::create(b, ptrType, storage, base, ArrayRef<LLVM::GEPArg>{int32_t(*known)});
  }
  return LLVM::GEPOp::create(b, ptrType, storage, base, ArrayRef<LLVM::GEPArg>{index});
}

Value RowLowering::loadElements(Type type, Value ptr) {
  return LLVM::LoadOp::create(b, type, ptr, unsigned(bytesOf(type)));
}

void RowLowering::storeElements(Value value, Value ptr) {
  LLVM::StoreOp::create(b, value, ptr, unsigned(bytesOf(value.getType())));
}

Value RowLowering::guardedLoad(Type type, Value ptr, Value condition, Value other) {
  if (!other)
    other = zero(type);
  auto branch = scf::IfOp::create(b, TypeRange{type}, condition, /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(b, loadElements(type, ptr));
  b.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(b, other);
  return branch.getResult(0);
}

void RowLowering::guardedStore(Value condition, function_ref<void()> store) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  store();
}
