#include "compiler/tile/build/HeldValues.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::tile_build {
namespace {

/// Values of bodies, where a load of what another member makes is that value.
class BodyValues {
public:
  Value operator()(Value value) const { return same.lookup_or(value, value); }
  void add(LoadOp load, const FusedMember &maker) {
    LoopsOp op = maker.op;
    unsigned number = cast<OpResult>(load.getSource()).getResultNumber();
    same[load.getResult()] = (*this)(op.bodyBlock()->getTerminator()->getOperand(number));
  }

private:
  DenseMap<Value, Value> same;
};

} // namespace

int lastFullStage(const FusedLoops &loops) {
  int last = 0;
  for (const FusedMember &member : loops.members)
    if (member.isFull)
      last = std::max(last, member.stage);
  return last;
}

llvm::SmallSetVector<Value, 4> heldBuffers(const FusedLoops &loops) {
  llvm::SmallSetVector<Value, 4> buffers;
  for (const FusedMember &member : loops.members) {
    if (!member.isFull || member.stage >= lastFullStage(loops))
      continue;
    LoopsOp op = member.op;
    for (Operation &inner : *op.bodyBlock())
      if (auto load = dyn_cast<LoadOp>(inner); load && !loops.producer(load.getSource()))
        buffers.insert(load.getSource());
  }
  return buffers;
}

int64_t numHandedOn(const FusedLoops &loops) {
  BodyValues valueOf;
  DenseSet<Value> late, early, handedOn; // late: made of what a reduction gives
  auto visit = [&](Operation &op) {
    auto isOneOf = [&](const DenseSet<Value> &values) {
      return llvm::any_of(op.getOperands(), [&](Value operand) { return values.contains(valueOf(operand)); });
    };
    bool isLate = isOneOf(late), isEarly = !isLate && isOneOf(early);
    if (isLate)
      for (Value operand : op.getOperands())
        if (early.contains(valueOf(operand)))
          handedOn.insert(valueOf(operand));
    for (Value result : op.getResults())
      if (isLate)
        late.insert(result);
      else if (isEarly)
        early.insert(result);
  };
  int last = lastFullStage(loops);
  for (const FusedMember &member : loops.members)
    for (Operation &inner : LoopsOp(member.op).bodyBlock()->without_terminator()) {
      auto load = dyn_cast<LoadOp>(inner);
      const FusedMember *maker = load ? loops.producer(load.getSource()) : nullptr;
      if (maker && (!maker->isFull || LoopsOp(maker->op).isReduction()))
        late.insert(load.getResult());
      else if (maker)
        valueOf.add(load, *maker);
      else if (load && member.isFull && member.stage < last)
        early.insert(load.getResult());
      else
        visit(inner);
    }
  return (int64_t)handedOn.size();
}

int64_t liveWords(const FusedLoops &loops) {
  auto words = [](Value value) -> int64_t {
    Type type = value.getType();
    return type.isIntOrFloat() ? llvm::divideCeil(type.getIntOrFloatBitWidth() / 8, 4) : 0;
  };
  BodyValues valueOf;
  DenseMap<Value, std::pair<int64_t, int64_t>> lives; // first and last position
  int64_t position = 0;
  for (const FusedMember &member : loops.members)
    for (Operation &op : *LoopsOp(member.op).bodyBlock()) {
      ++position;
      for (Value operand : op.getOperands())
        if (auto it = lives.find(valueOf(operand)); it != lives.end())
          it->second.second = position;
      auto load = dyn_cast<LoadOp>(op);
      if (const FusedMember *maker = load ? loops.producer(load.getSource()) : nullptr)
        valueOf.add(load, *maker);
      else if (!isa<arith::ConstantOp>(op))
        for (Value result : op.getResults())
          lives[result] = {load ? 0 : position, position};
    }
  SmallVector<int64_t> change(position + 2);
  for (auto &[value, life] : lives) {
    change[life.first] += words(value);
    change[life.second] -= words(value); // a result may lie where its last operand did
  }
  int64_t live = 0, most = 0;
  for (int64_t difference : change)
    most = std::max(most, live += difference);
  return most;
}

} // namespace torch_tile::tile_build
