#include "compiler/codegen/gpu/MoveLoadsAhead.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace {

/// What is loaded and not used yet, in bytes of one thread: 32 registers, an eighth of what a thread may have.
constexpr uint64_t mostBytesAhead = 128;
/// Instructions that compute an address and move with a load.
constexpr unsigned longestAddress = 32;

class LoadMover {
public:
  explicit LoadMover(BasicBlock &block) : block(block) {}

  void run() {
    SmallVector<LoadInst *> loads;
    for (Instruction &instruction : block)
      if (auto *load = dyn_cast<LoadInst>(&instruction); load && isMovable(*load))
        loads.push_back(load);
    if (loads.size() < 2 || none_of(block, isBranchForAssembler))
      return;
    const DataLayout &layout = block.getModule()->getDataLayout();
    // Loads keep their order. Each goes where enough of those before it have been used.
    uint64_t waiting = 0;
    unsigned oldest = 0;
    Instruction *place = loads.front();
    for (auto [k, load] : enumerate(loads)) {
      waiting += layout.getTypeStoreSize(load->getType());
      while (oldest < k && waiting > mostBytesAhead) {
        waiting -= layout.getTypeStoreSize(loads[oldest]->getType());
        Instruction *use = firstUse(*loads[oldest++]);
        if (!use)
          continue; // in another block: it waits for good
        if (place->comesBefore(use))
          place = use;
      }
      if (load != place)
        move(*load, place);
    }
  }

private:
  static bool isMovable(const LoadInst &load) {
    return load.isSimple() && load.hasMetadata(LLVMContext::MD_invariant_load);
  }

  /// Divisions and roots that round as IEEE's do.
  static bool isBranchForAssembler(const Instruction &instruction) {
    auto *call = dyn_cast<IntrinsicInst>(&instruction);
    return instruction.getOpcode() == Instruction::FDiv || (call && call->getIntrinsicID() == Intrinsic::sqrt);
  }

  Instruction *firstUse(Instruction &value) {
    Instruction *first = nullptr;
    for (User *user : value.users())
      if (auto *use = dyn_cast<Instruction>(user);
          use && use->getParent() == &block && !isa<PHINode>(use) && (!first || use->comesBefore(first)))
        first = use;
    return first;
  }

  /// Moves `load` and what computes its address before `place`, if all of that comes after it and may move.
  void move(LoadInst &load, Instruction *place) {
    if (!place->comesBefore(&load))
      return;
    SmallSetVector<Instruction *, 16> moved;
    moved.insert(&load);
    for (unsigned k = 0; k < moved.size(); ++k)
      for (Value *operand : moved[k]->operands()) {
        auto *instruction = dyn_cast<Instruction>(operand);
        if (!instruction || instruction->getParent() != &block || instruction->comesBefore(place))
          continue;
        bool isPure = !isa<PHINode>(instruction) && !instruction->mayReadOrWriteMemory() &&
                      !instruction->mayHaveSideEffects() && !instruction->isTerminator();
        if (!isPure || instruction == place || moved.size() > longestAddress)
          return;
        moved.insert(instruction);
      }
    SmallVector<Instruction *> order = to_vector(moved);
    sort(order, [](Instruction *left, Instruction *right) { return left->comesBefore(right); });
    for (Instruction *instruction : order)
      instruction->moveBefore(place->getIterator());
  }

  BasicBlock &block;
};

} // namespace

void torch_tile::codegen::moveLoadsAhead(Function &function) {
  for (BasicBlock &block : function)
    LoadMover(block).run();
}
