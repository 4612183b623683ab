#include "compiler/analysis/Memory.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::analysis {

static bool isTensor(Value value) { return isa<GraphTensorType>(value.getType()); }

static Values tensorsOf(ValueRange values) {
  return llvm::to_vector_of<Value, 2>(llvm::make_filter_range(values, isTensor));
}

static bool mayBeAnyOperand(Value value) {
  auto result = dyn_cast<OpResult>(value);
  if (!result)
    return false;
  auto call = dyn_cast<ExternOp>(result.getOwner());
  return isa<PyCallOp>(result.getOwner()) || (call && call.viewedOperand(result.getResultNumber()) == kAnyOperand);
}

Values viewedBy(Value value) {
  auto result = dyn_cast<OpResult>(value);
  if (!result || !isTensor(value))
    return {};
  Operation *op = result.getOwner();
  unsigned number = result.getResultNumber();
  if (mayBeAnyOperand(value))
    return tensorsOf(op->getOperands());
  if (isa<AssembleOp>(op))
    return tensorsOf(op->getOperands());
  if (op->hasTrait<ViewTrait>() || isa<AliasOp, CopyToOp>(op))
    return {op->getOperand(0)};
  return llvm::TypeSwitch<Operation *, Values>(op)
      .Case([&](ExternOp call) -> Values {
        int64_t operand = call.viewedOperand(number);
        return operand < 0 ? Values() : Values{call.getInputs()[operand]};
      })
      .Case([&](LoopsOp loops) -> Values {
        Value dest = loops.destOf(number);
        return dest ? Values{dest} : Values();
      })
      .Case([&](FusionOp fusion) {
        return viewedBy(cast<YieldOp>(fusion.getBody().front().getTerminator()).getValues()[number]);
      })
      .Case([&](LaunchOp launch) {
        int64_t input = launch.getWrites()[number];
        return input < 0 ? Values() : Values{launch.getInputs()[input]};
      })
      .Default([](Operation *) { return Values(); });
}

Values placesOf(Value value) {
  Values places, work{value};
  llvm::SmallPtrSet<Value, 8> seen;
  while (!work.empty()) {
    Value next = work.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    Values viewed = viewedBy(next);
    // Results of such a call may be each other's views as well.
    if (mayBeAnyOperand(next))
      next = next.getDefiningOp()->getResult(0);
    else if (!viewed.empty())
      next = {};
    if (next && !llvm::is_contained(places, next))
      places.push_back(next);
    work.append(viewed);
  }
  return places;
}

Value placeOf(Value value) {
  Values places = placesOf(value);
  return places.size() == 1 ? places.front() : Value();
}

bool mayLieIn(Value value, ArrayRef<Value> places) {
  return llvm::any_of(placesOf(value), [&](Value place) { return llvm::is_contained(places, place); });
}

bool mayShareMemory(Value a, Value b) { return mayLieIn(a, placesOf(b)); }

Values writtenValues(Operation *op) {
  return llvm::TypeSwitch<Operation *, Values>(op)
      .Case([](LoopsOp loops) { return llvm::to_vector_of<Value, 2>(loops.getDests()); })
      .Case([](ExternOp call) {
        Values written;
        for (int64_t k : call.getMutates().value_or(ArrayRef<int64_t>()))
          written.push_back(call.getInputs()[k]);
        return written;
      })
      .Case([](CopyToOp copy) { return Values{copy.getDest()}; })
      .Case([](PyCallOp call) { return tensorsOf(call.getInputs()); })
      .Case([](LaunchOp launch) {
        Values written;
        for (int64_t input : launch.getWrites())
          if (input >= 0)
            written.push_back(launch.getInputs()[input]);
        return written;
      })
      .Default([](Operation *) { return Values(); });
}

Values writtenPlaces(Operation *op) {
  Values places;
  for (Value value : writtenValues(op))
    for (Value place : placesOf(value))
      if (!llvm::is_contained(places, place))
        places.push_back(place);
  return places;
}

bool hasEffect(Operation *op) {
  auto call = dyn_cast<ExternOp>(op);
  return isa<CheckOp, PyCallOp>(op) || (call && (call.getMutates() || call.getEffect()));
}

} // namespace torch_tile::analysis
