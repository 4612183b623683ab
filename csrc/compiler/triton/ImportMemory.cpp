// Pointers, loads and stores, atomics, messages.
#include "compiler/triton/TritonImporter.h"

using namespace mlir;
using namespace torch_tile::triton;

static Type elementOf(Type type) { return getElementTypeOrSelf(type); }

/// The same shape with another element type.
static Type withElement(Type type, Type element) {
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile ? Type(tile.clone(element)) : element;
}

std::optional<LogicalResult> TritonImporter::importMemory(Operation *op, StringRef name) {
  Type type = op->getNumResults() ? resultType(op) : Type();
  if (op->getNumResults() && !type)
    return LogicalResult(error(op) << name << " of type " << op->getResult(0).getType());
  if (name == "tt.addptr") {
    Value offset = operand(op, 1);
    Type element = elementOf(offset.getType());
    if (!element.isInteger(32) && !element.isInteger(64))
      offset = arith::ExtSIOp::create(b, withElement(offset.getType(), b.getI32Type()), offset);
    set(op, tile::PtrAddOp::create(b, type, operand(op, 0), offset));
    return success();
  }
  if (name == "tt.int_to_ptr") {
    set(op, tile::IntToPtrOp::create(b, type, operand(op, 0)));
    return success();
  }
  if (name == "tt.ptr_to_int") {
    set(op, tile::PtrToIntOp::create(b, type, operand(op, 0)));
    return success();
  }
  // Pointers lie in memory as addresses.
  auto asAddresses = [&](Value pointer) -> Value {
    return tile::PtrCastOp::create(
        b, withElement(pointer.getType(), tile::PtrType::get(b.getContext(), b.getI64Type())), pointer);
  };
  if (name == "tt.load") {
    auto groups = segments(op);
    Value pointer = groups[0][0], mask = groups.size() > 1 && !groups[1].empty() ? groups[1][0] : Value(),
          other = groups.size() > 2 && !groups[2].empty() ? groups[2][0] : Value();
    // Loads here may be joined and hoisted; threads on a CPU see what they wait for by atomics.
    if (pointersFirst && integer(op, "isVolatile"))
      return LogicalResult(error(op) << "a volatile load");
    auto boundary = dyn_cast_or_null<DenseI32ArrayAttr>(attribute(op, "boundaryCheck"));
    if (boundary && !boundary.empty())
      return LogicalResult(error(op) << "a load through a block pointer; use a tensor descriptor");
    if (isa<tile::PtrType>(elementOf(type))) {
      Type addresses = withElement(type, b.getI64Type());
      if (other)
        other = tile::PtrToIntOp::create(b, addresses, other);
      Value loaded = tile::GatherOp::create(b, addresses, asAddresses(pointer), Value(), mask, other);
      set(op, tile::IntToPtrOp::create(b, type, loaded));
      return success();
    }
    set(op, tile::GatherOp::create(b, type, pointer, Value(), mask, other));
    return success();
  }
  if (name == "tt.store") {
    auto groups = segments(op);
    Value pointer = groups[0][0], value = groups[1][0],
          mask = groups.size() > 2 && !groups[2].empty() ? groups[2][0] : Value();
    if (isa<tile::PtrType>(elementOf(value.getType()))) {
      value = tile::PtrToIntOp::create(b, withElement(value.getType(), b.getI64Type()), value);
      pointer = asAddresses(pointer);
    }
    tile::ScatterOp::create(b, value, pointer, Value(), mask);
    return success();
  }
  if (name == "tt.atomic_rmw") {
    using tile::AtomicKind;
    // and or xor add fadd max min umax umin xchg, from 1
    static constexpr AtomicKind kinds[] = {AtomicKind::And,  AtomicKind::Or,      AtomicKind::Xor, AtomicKind::Add,
                                           AtomicKind::Add,  AtomicKind::Max,     AtomicKind::Min, AtomicKind::UMax,
                                           AtomicKind::UMin, AtomicKind::Exchange};
    int64_t kind = integer(op, "atomic_rmw_op");
    if (kind < 1 || kind > (int64_t)std::size(kinds))
      return LogicalResult(error(op) << "an atomic update of kind " << kind);
    Value mask = op->getNumOperands() > 2 ? operand(op, 2) : Value();
    set(op, tile::AtomicRmwOp::create(b, type, kinds[kind - 1], operand(op, 1), operand(op, 0), Value(), mask));
    return success();
  }
  if (name == "tt.atomic_cas") {
    set(op, tile::AtomicCasOp::create(b, type, operand(op, 1), operand(op, 2), operand(op, 0), Value(), Value()));
    return success();
  }
  if (name == "tt.atomic_poll")
    return importAtomicPoll(op);
  if (name == "tt.print") {
    auto prefix = dyn_cast_or_null<StringAttr>(attribute(op, "prefix"));
    auto isSigned = dyn_cast_or_null<DenseI32ArrayAttr>(attribute(op, "isSigned"));
    tile::PrintOp::create(b, prefix ? prefix : b.getStringAttr(""), operands(op->getOperands()),
                          integer(op, "hex") ? b.getUnitAttr() : UnitAttr(), isSigned);
    return success();
  }
  if (name == "tt.assert") {
    auto message = dyn_cast_or_null<StringAttr>(attribute(op, "message"));
    std::string text = message ? message.getValue().str() : "";
    op->getLoc()->walk([&](Location part) {
      if (auto file = dyn_cast<FileLineColLoc>(part)) {
        text += " (" + file.getFilename().str() + ":" + std::to_string(file.getLine()) + ")";
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    tile::AssertOp::create(b, operand(op, 0), text);
    return success();
  }
  return std::nullopt;
}

/// Looks at memory until it holds a value. A look is an exchange of the value for itself. What is waited for may come
/// from another thread: programs that started run to their end. With a timeout, every look counts for a nanosecond and
/// takes longer than that, so none is given up too early.
LogicalResult TritonImporter::importAtomicPoll(Operation *op) {
  SmallVector<Value> values = operands(op->getOperands());
  if (isa<RankedTensorType>(values[0].getType()))
    return error(op) << "tt.atomic_poll of a tile of pointers";
  Value pointer = values[0], expected = values[1], timeout = values.size() > 2 ? values[2] : Value();
  Type i64 = b.getI64Type();
  Value zero = integerConstant(i64, 0), one = integerConstant(i64, 1);
  auto loop = scf::WhileOp::create(b, TypeRange{b.getI1Type(), i64}, ValueRange{zero});
  OpBuilder::InsertionGuard guard(b);
  Block *before = b.createBlock(&loop.getBefore(), {}, {i64}, {op->getLoc()});
  Value old = tile::AtomicCasOp::create(b, expected.getType(), expected, expected, pointer, Value(), Value());
  Value isThere = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, old, expected);
  Value goesOn = arith::XOrIOp::create(b, isThere, integerConstant(b.getI1Type(), 1));
  if (timeout)
    goesOn = arith::AndIOp::create(
        b, goesOn, arith::CmpIOp::create(b, arith::CmpIPredicate::ult, before->getArgument(0), timeout));
  Value next = arith::AddIOp::create(b, before->getArgument(0), one);
  scf::ConditionOp::create(b, goesOn, ValueRange{isThere, next});
  Block *after = b.createBlock(&loop.getAfter(), {}, {b.getI1Type(), i64}, {op->getLoc(), op->getLoc()});
  scf::YieldOp::create(b, ValueRange{after->getArgument(1)});
  set(op, loop.getResult(0));
  return success();
}
