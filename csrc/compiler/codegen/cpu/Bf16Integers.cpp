// Without instructions for bf16 LLVM takes choices and shuffles of it apart, and what one block loads and another uses,
// and puts each element through f32, by a function of compiler-rt that a process need not have. As integers they are
// what they are: moves of 16 bits.
#include "compiler/codegen/cpu/Bf16Integers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

static bool isBf16(Type *type) { return type->getScalarType()->isBFloatTy(); }

static Value *bitsOf(IRBuilderBase &builder, Value *value) {
  return builder.CreateBitCast(value, value->getType()->getWithNewType(builder.getInt16Ty()));
}

/// The same on integers; null for an instruction that does more than move elements.
static Value *moveBits(IRBuilderBase &builder, Instruction &instruction) {
  auto operand = [&](unsigned number) { return bitsOf(builder, instruction.getOperand(number)); };
  Type *integers = instruction.getType()->getWithNewType(builder.getInt16Ty());
  if (auto *load = dyn_cast<LoadInst>(&instruction)) {
    if (load->isAtomic())
      return nullptr;
    LoadInst *bits =
        builder.CreateAlignedLoad(integers, load->getPointerOperand(), load->getAlign(), load->isVolatile());
    bits->copyMetadata(*load);
    return bits;
  }
  if (auto *call = dyn_cast<IntrinsicInst>(&instruction); call && call->getIntrinsicID() == Intrinsic::masked_load) {
    CallInst *bits = builder.CreateMaskedLoad(integers, call->getArgOperand(0), call->getParamAlign(0).valueOrOne(),
                                              call->getArgOperand(1), operand(2));
    bits->copyMetadata(*call);
    return bits;
  }
  if (auto *select = dyn_cast<SelectInst>(&instruction))
    return builder.CreateSelect(select->getCondition(), operand(1), operand(2));
  if (auto *shuffle = dyn_cast<ShuffleVectorInst>(&instruction))
    return builder.CreateShuffleVector(operand(0), operand(1), shuffle->getShuffleMask());
  if (isa<InsertElementInst>(instruction))
    return builder.CreateInsertElement(operand(0), operand(1), instruction.getOperand(2));
  if (isa<ExtractElementInst>(instruction))
    return builder.CreateExtractElement(operand(0), instruction.getOperand(1));
  return nullptr;
}

/// Values that come from several blocks, changed after those that they come from.
static void movePhi(PHINode &phi) {
  IRBuilder<> builder(&phi);
  PHINode *bits = builder.CreatePHI(phi.getType()->getWithNewType(builder.getInt16Ty()), phi.getNumIncomingValues());
  for (auto [value, block] : zip(phi.incoming_values(), phi.blocks())) {
    IRBuilder<> before(block->getTerminator());
    bits->addIncoming(bitsOf(before, value.get()), block);
  }
  builder.SetInsertPoint(phi.getParent(), phi.getParent()->getFirstInsertionPt());
  phi.replaceAllUsesWith(builder.CreateBitCast(bits, phi.getType()));
  phi.eraseFromParent();
}

static void storeBits(Instruction &instruction) {
  IRBuilder<> builder(&instruction);
  if (auto *store = dyn_cast<StoreInst>(&instruction); store && !store->isAtomic()) {
    if (isBf16(store->getValueOperand()->getType()))
      store->setOperand(0, bitsOf(builder, store->getValueOperand()));
    return;
  }
  auto *call = dyn_cast<IntrinsicInst>(&instruction);
  if (!call || call->getIntrinsicID() != Intrinsic::masked_store || !isBf16(call->getArgOperand(0)->getType()))
    return;
  CallInst *bits = builder.CreateMaskedStore(bitsOf(builder, call->getArgOperand(0)), call->getArgOperand(1),
                                             call->getParamAlign(1).valueOrOne(), call->getArgOperand(2));
  bits->copyMetadata(*call);
  call->eraseFromParent();
}

/// Back and forth is nothing.
static void foldCasts(Function &function) {
  SmallSetVector<BitCastInst *, 16> casts, sources;
  for (Instruction &instruction : instructions(function)) {
    auto *cast = dyn_cast<BitCastInst>(&instruction);
    auto *source = cast ? dyn_cast<BitCastInst>(cast->getOperand(0)) : nullptr;
    if (!source || !isBf16(source->getType()) || source->getSrcTy() != cast->getType())
      continue;
    cast->replaceAllUsesWith(source->getOperand(0));
    casts.insert(cast);
    sources.insert(source);
  }
  for (BitCastInst *cast : casts)
    cast->eraseFromParent();
  for (BitCastInst *source : sources)
    if (source->use_empty())
      source->eraseFromParent();
}

void torch_tile::codegen::moveBf16AsIntegers(Function &function) {
  SmallVector<PHINode *> phis;
  for (Instruction &instruction : make_early_inc_range(instructions(function))) {
    if (!isBf16(instruction.getType())) {
      storeBits(instruction);
      continue;
    }
    if (auto *phi = dyn_cast<PHINode>(&instruction)) {
      phis.push_back(phi);
      continue;
    }
    IRBuilder<> builder(&instruction);
    Value *bits = moveBits(builder, instruction);
    if (!bits)
      continue;
    instruction.replaceAllUsesWith(builder.CreateBitCast(bits, instruction.getType()));
    instruction.eraseFromParent();
  }
  for (PHINode *phi : phis)
    movePhi(*phi);
  foldCasts(function);
}
