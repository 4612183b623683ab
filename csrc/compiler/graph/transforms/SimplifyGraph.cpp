#include "compiler/analysis/Memory.h"
#include "compiler/graph/ir/Marks.h"
#include "compiler/graph/transforms/Bounds.h"
#include "compiler/graph/transforms/LowerOps.h"
#include "compiler/graph/transforms/Passes.h"

#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mlir::graph;

namespace mlir::graph {
#define GEN_PASS_DEF_SIMPLIFYGRAPH
#include "compiler/graph/transforms/Passes.h.inc"
} // namespace mlir::graph

namespace {

/// Values whose memory somebody outside the pure ops sees: outputs, arguments of calls, what is written. A new tensor
/// among them may not become another one's memory.
class VisibleMemory {
public:
  explicit VisibleMemory(FuncOp func) {
    for (Operation &op : func.getBody().front()) {
      if (!isPure(&op) || isa<ReturnOp>(op))
        llvm::for_each(op.getOperands(), [&](Value operand) { add(operand); });
      for (Value place : torch_tile::analysis::writtenPlaces(&op))
        written.insert(place);
    }
  }
  bool contains(Value value) const { return values.contains(value); }
  /// After `from` was replaced by `to`.
  void replaced(Value from, Value to) {
    if (values.contains(from))
      add(to);
  }

  /// Whether the memory of a value changes at some point of the graph: then it matters when it is read.
  bool isEverWritten(Value value) const {
    return llvm::any_of(torch_tile::analysis::placesOf(value), [&](Value place) { return written.contains(place); });
  }

private:
  void add(Value value) {
    if (values.insert(value).second)
      llvm::for_each(torch_tile::analysis::viewedBy(value), [&](Value viewed) { add(viewed); });
  }
  DenseSet<Value> values, written;
};

struct OpEquivalence : public DenseMapInfo<Operation *> {
  static unsigned getHashValue(const Operation *op) {
    return OperationEquivalence::computeHash(const_cast<Operation *>(op), OperationEquivalence::directHashValue,
                                             OperationEquivalence::ignoreHashValue,
                                             OperationEquivalence::IgnoreLocations);
  }
  static bool isEqual(const Operation *a, const Operation *b) {
    if (a == b)
      return true;
    if (a == getTombstoneKey() || a == getEmptyKey() || b == getTombstoneKey() || b == getEmptyKey())
      return false;
    return OperationEquivalence::isEquivalentTo(const_cast<Operation *>(a), const_cast<Operation *>(b),
                                                OperationEquivalence::IgnoreLocations);
  }
};

} // namespace

/// Whether converting `from` to `to` loses nothing.
static bool isExactCast(Type from, Type to) {
  if (from == to)
    return true;
  auto fromFloat = dyn_cast<FloatType>(from), toFloat = dyn_cast<FloatType>(to);
  if (fromFloat && toFloat)
    return (from.isBF16() || from.isF16() || from.isF32()) &&
           to.getIntOrFloatBitWidth() > from.getIntOrFloatBitWidth() && (to.isF32() || to.isF64());
  if (!from.isIntOrFloat() || !to.isIntOrFloat() || fromFloat)
    return false;
  unsigned fromBits = from.getIntOrFloatBitWidth();
  bool fromUnsigned = from.isUnsignedInteger() || fromBits == 1;
  if (toFloat)
    return (to.isF32() || to.isF64()) && fromBits <= toFloat.getFPMantissaWidth();
  bool toUnsigned = to.isUnsignedInteger() || to.isInteger(1);
  return fromUnsigned ? to.getIntOrFloatBitWidth() > fromBits || (toUnsigned && to.getIntOrFloatBitWidth() == fromBits)
                      : !toUnsigned && to.getIntOrFloatBitWidth() > fromBits;
}

/// The number that every element of a value is, if it is written in the graph.
static std::optional<double> splatOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto full = dyn_cast<FullOp>(op)) {
      if (auto number = dyn_cast<FloatAttr>(full.getValueAttr()))
        return number.getValueAsDouble();
      auto number = cast<IntegerAttr>(full.getValueAttr());
      if (number.getType().isInteger(1))
        return number.getValue().getZExtValue();
      int64_t integer = number.getValue().getSExtValue();
      return std::abs(integer) < (int64_t(1) << 53) ? std::optional<double>(integer) : std::nullopt;
    }
    if (!isa<ExpandOp, ViewOp>(op))
      return std::nullopt;
    value = op->getOperand(0);
  }
  return std::nullopt;
}

/// The operand that a pointwise op answers with, bit for bit, or null.
static Value neutralOperand(Operation *op, const VisibleMemory &visible) {
  if (op->getNumOperands() != 2 || !isa<AddOp, SubOp, MulOp, DivOp, PowOp>(op))
    return {};
  bool isFloat = isa<FloatType>(elementType(op->getResult(0)));
  bool isBool = elementType(op->getResult(0)).isInteger(1);
  auto isNeutral = [&](Value value, bool onTheRight) {
    std::optional<double> number = splatOf(value);
    if (!number || visible.isEverWritten(value))
      return false;
    if (isa<MulOp>(op) || (isa<DivOp, PowOp>(op) && onTheRight))
      return *number == 1;
    // x + -0.0 and x - 0.0 keep the sign of a zero, x + 0.0 does not.
    if (isa<AddOp>(op))
      return *number == 0 && (!isFloat || std::signbit(*number));
    return isa<SubOp>(op) && onTheRight && *number == 0 && (!isFloat || !std::signbit(*number)) && !isBool;
  };
  for (unsigned k : {0u, 1u})
    if (op->getOperand(k).getType() == op->getResult(0).getType() &&
        isNeutral(op->getOperand(1 - k), /*onTheRight=*/k == 0))
      return op->getOperand(k);
  return {};
}

/// A value that may stand for the op's result: same elements, same type.
static Value foldToOperand(Operation *op, const VisibleMemory &visible) {
  if (isa<CastOp>(op))
    return op->getOperand(0).getType() == op->getResult(0).getType() ? op->getOperand(0) : Value();
  return neutralOperand(op, visible);
}

static void simplify(Operation *op, VisibleMemory &visible) {
  if (auto cast = dyn_cast<CastOp>(op)) {
    // cast(cast(x)) is cast(x) if the first loses nothing.
    if (auto inner = cast.getX().getDefiningOp<CastOp>())
      if (!visible.isEverWritten(inner.getX()) && !visible.isEverWritten(inner) &&
          isExactCast(elementType(inner.getX()), elementType(cast.getX())))
        cast.setOperand(inner.getX());
  }
  Value result = op->getNumResults() == 1 ? op->getResult(0) : Value();
  if (!result)
    return;
  if (isa<ViewOp, ExpandOp>(op) && op->getOperand(0).getType() == result.getType()) {
    visible.replaced(result, op->getOperand(0));
    result.replaceAllUsesWith(op->getOperand(0));
    return;
  }
  // A copy may go only if it is unobservable.
  Value operand = foldToOperand(op, visible);
  if (operand && !visible.contains(result) && !visible.isEverWritten(operand))
    result.replaceAllUsesWith(operand);
}

void mlir::graph::simplifyGraph(FuncOp func) {
  Block &block = func.getBody().front();
  auto eraseUnused = [&] {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  };
  eraseUnused();
  VisibleMemory visible(func);
  // After a write an equal op may read other elements.
  bool isWritten = false;
  DenseSet<Operation *, OpEquivalence> known;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    isWritten |= !torch_tile::analysis::writtenValues(&op).empty();
    if (!isPure(&op) || op.getNumRegions() != 0)
      continue;
    simplify(&op, visible);
    if (auto exp = dyn_cast<ExpOp>(op); exp && !isWritten && isAtMostZero(exp.getX()))
      exp->setDiscardableAttr(kAtMostZero, UnitAttr::get(op.getContext()));
    if (isWritten || op.use_empty() ||
        llvm::any_of(op.getResults(), [&](Value result) { return visible.contains(result); }))
      continue;
    auto [it, isNew] = known.insert(&op);
    if (!isNew) {
      op.replaceAllUsesWith(*it);
      op.erase();
    }
  }
  eraseUnused();
}

namespace {
struct SimplifyGraph : public graph::impl::SimplifyGraphBase<SimplifyGraph> {
  void runOnOperation() override { simplifyGraph(getOperation()); }
};
} // namespace
