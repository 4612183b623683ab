#include "compiler/analysis/Memory.h"
#include "compiler/fusion/Access.h"
#include "compiler/fusion/Fusion.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::fusion {
namespace {

/// Scatters write into a copy of their operand. The copy goes where nobody reads the operand afterwards, or where it is
/// a graph input that receives the result at the end anyway (a cache of keys and values).
class BufferReuse {
public:
  explicit BufferReuse(FuncOp func) : block(func.getBody().front()), sizes(GraphDialect::sizes(func.getContext())) {}

  void run() {
    for (auto [position, op] : llvm::enumerate(block)) {
      positions[&op] = position;
      op.walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (isa<GraphTensorType>(operand.getType()) && operand.getParentBlock() == &block)
            users[operand].push_back(&op);
      });
    }
    SmallVector<LoopsOp> copiesBack;
    for (Operation &op : block) {
      auto loops = dyn_cast<LoopsOp>(op);
      if (!loops || loops.getDests().size() != 1)
        continue;
      if (loops.getWriteAt())
        reuseOperand(loops);
      else
        copiesBack.push_back(loops);
    }
    for (LoopsOp op : copiesBack)
      reuseInput(op);
  }

private:
  /// The tensor of which `op` is a copy element by element, in the same layout; null if it is none.
  Value copiedBy(LoopsOp op) {
    Block &body = *op.bodyBlock();
    if (op.getNumResults() != 1 || op.isReduction() || op.getWriteAt() || !llvm::hasNItems(body, 2))
      return {};
    auto load = dyn_cast<LoadOp>(body.front());
    auto yielded = cast<YieldOp>(body.back()).getValues();
    if (!load || load.getMask() || !load.getScalars().empty() || yielded[0] != load.getResult() ||
        load.getSource().getType() != op.getResult(0).getType() || !readsOwnPoint(load, sizes))
      return {};
    return load.getSource();
  }

  /// Every op that may touch the memory of `value`, with the values through which it does.
  SmallVector<std::pair<Operation *, Value>> usersOf(Value value) {
    analysis::Values places = analysis::placesOf(value);
    SmallVector<std::pair<Operation *, Value>> result;
    for (auto &[operand, ops] : users)
      if (analysis::mayLieIn(operand, places))
        for (Operation *op : ops)
          if (!op->getBlock() || op->getBlock() == &block)
            result.push_back({op, operand});
    return result;
  }

  static bool isPlainReader(Operation *op) { return isa<ExternOp>(op) && analysis::writtenValues(op).empty(); }

  void erase(LoopsOp copy) {
    for (auto &[operand, ops] : users)
      llvm::erase(ops, copy.getOperation());
    copy.erase();
  }

  void useInstead(LoopsOp copy, Value buffer) {
    Value old = copy.getResult(0);
    old.replaceAllUsesWith(buffer);
    SmallVector<Operation *> moved = users.lookup(old);
    users.erase(old);
    llvm::append_range(users[buffer], moved);
    erase(copy);
  }

  /// scatter into a copy of a buffer that loops made and that is not needed any more.
  void reuseOperand(LoopsOp scatter) {
    auto copy = scatter.getDests()[0].getDefiningOp<LoopsOp>();
    Value source = copy && copy.getDests().empty() && copy->hasOneUse() ? copiedBy(copy) : Value();
    if (!source)
      return;
    Value place = analysis::placeOf(source);
    if (!place || !place.getDefiningOp<LoopsOp>() || !source.getDefiningOp<LoopsOp>())
      return;
    unsigned position = positions[scatter];
    for (auto [op, value] : usersOf(source))
      if (op != copy && !isa<AliasOp>(op) && (!(isa<LoopsOp>(op) || isPlainReader(op)) || positions[op] >= position))
        return;
    useInstead(copy, source);
  }

  /// copy_(input, scatter into ... into a copy of the input): the scatters write into the input.
  void reuseInput(LoopsOp back) {
    Value input = back.getDests()[0], result = copiedBy(back);
    if (!isa<BlockArgument>(input) || !result || result.getType() != input.getType())
      return;
    Value buffer = analysis::placeOf(result);
    auto copy = buffer ? buffer.getDefiningOp<LoopsOp>() : LoopsOp();
    if (!copy || result == buffer || !copy.getDests().empty() || copiedBy(copy) != input)
      return;
    // The first scatter writes into the copy, the others into each other's results.
    auto first = result.getDefiningOp<LoopsOp>();
    while (first && first.getWriteAt() && first.getDests()[0] != buffer)
      first = first.getDests()[0].getDefiningOp<LoopsOp>();
    if (!first || !first.getWriteAt() || !copy->hasOneUse())
      return;
    unsigned begin = positions[first], end = positions[back];
    for (auto [op, value] : usersOf(input)) {
      if (op == copy || op == back || isa<AliasOp>(op))
        continue;
      bool isBetween = positions[op] >= begin && positions[op] <= end;
      if (isBetween || analysis::mayLieIn(input, analysis::writtenPlaces(op)))
        return;
    }
    for (auto [op, value] : usersOf(buffer)) {
      if (!isa<LoopsOp, AliasOp>(op) && !isPlainReader(op))
        return;
    }
    useInstead(copy, input);
    useInstead(back, result);
  }

  Block &block;
  SizeContext &sizes;
  DenseMap<Operation *, unsigned> positions;
  /// Top-level ops by the tensors that they or their bodies touch.
  DenseMap<Value, SmallVector<Operation *>> users;
};

} // namespace

void reuseBuffers(FuncOp func) {
  bool anyScatter = llvm::any_of(func.getBody().front(), [](Operation &op) {
    auto loops = dyn_cast<LoopsOp>(op);
    return loops && loops.getWriteAt() && !loops.getDests().empty();
  });
  if (anyScatter)
    BufferReuse(func).run();
}

} // namespace torch_tile::fusion
