#include "compiler/codegen/cpu/KnownMasks.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;
using namespace torch_tile::codegen;

namespace {
/// A masked load or store: its operands by name, and how many lanes a register has.
struct MaskedAccess {
  IntrinsicInst *op;
  bool isLoad;
  Value *pointer, *mask, *vector; // what is stored, or what masked lanes of a load hold
  unsigned lanes, perRegister;

  MaskedAccess(IntrinsicInst *op, int vectorBits)
      : op(op), isLoad(op->getIntrinsicID() == Intrinsic::masked_load), pointer(op->getArgOperand(isLoad ? 0 : 1)),
        mask(op->getArgOperand(isLoad ? 1 : 2)), vector(op->getArgOperand(isLoad ? 2 : 0)) {
    auto *type = cast<FixedVectorType>(vector->getType());
    lanes = type->getNumElements();
    perRegister = std::max(1u, unsigned(vectorBits) / type->getScalarSizeInBits());
  }
  KnownBits maskOf(unsigned first) const;
  bool hasKnownRegister() const;
  void separate();
};
} // namespace

/// What all lanes of a register have in common.
KnownBits MaskedAccess::maskOf(unsigned first) const {
  return computeKnownBits(mask, APInt::getBitsSet(lanes, first, first + perRegister), op->getDataLayout());
}

bool MaskedAccess::hasKnownRegister() const {
  if (isa<Constant>(mask) || lanes % perRegister != 0)
    return false;
  for (unsigned first = 0; first < lanes; first += perRegister)
    if (maskOf(first).isConstant())
      return true;
  return false;
}

void MaskedAccess::separate() {
  IRBuilder<> builder(op);
  Type *element = cast<VectorType>(vector->getType())->getElementType();
  Type *part = FixedVectorType::get(element, perRegister);
  Align alignment = op->getParamAlign(isLoad ? 0 : 1).valueOrOne();
  SmallVector<Value *> parts;
  for (unsigned first = 0; first < lanes; first += perRegister) {
    auto slice = [&](Value *value) {
      return builder.CreateShuffleVector(value, createSequentialMask(first, perRegister, /*NumUndefs=*/0));
    };
    KnownBits known = maskOf(first);
    bool isOff = known.isZero();
    if (isOff && isLoad)
      parts.push_back(slice(vector));
    if (isOff)
      continue;
    Value *ptr = builder.CreateConstGEP1_64(element, pointer, first);
    Align own = commonAlignment(alignment, uint64_t(first) * element->getScalarSizeInBits() / 8);
    Value *ownMask = known.isConstant() ? ConstantInt::getTrue(VectorType::get(builder.getInt1Ty(), perRegister, false))
                                        : slice(mask);
    CallInst *access = isLoad ? builder.CreateMaskedLoad(part, ptr, own, ownMask, slice(vector))
                              : builder.CreateMaskedStore(slice(vector), ptr, own, ownMask);
    access->copyMetadata(*op);
    if (isLoad)
      parts.push_back(access);
  }
  if (isLoad)
    op->replaceAllUsesWith(concatenateVectors(builder, parts));
  op->eraseFromParent();
}

/// The only lane of a constant mask; nothing where there are several, or none.
static std::optional<unsigned> onlyLane(const Value *mask) {
  auto *constant = dyn_cast<Constant>(mask);
  auto *type = dyn_cast<FixedVectorType>(mask->getType());
  std::optional<unsigned> lane;
  for (unsigned k = 0; constant && type && k < type->getNumElements(); ++k) {
    Constant *element = constant->getAggregateElement(k);
    if (!element || !(element->isOneValue() || element->isNullValue()) || (element->isOneValue() && lane))
      return std::nullopt;
    if (element->isOneValue())
      lane = k;
  }
  return lane;
}

void torch_tile::codegen::storeOnlyLanes(Function &function) {
  for (Instruction &instruction : make_early_inc_range(instructions(function))) {
    auto *op = dyn_cast<IntrinsicInst>(&instruction);
    if (!op || op->getIntrinsicID() != Intrinsic::masked_store)
      continue;
    std::optional<unsigned> lane = onlyLane(op->getArgOperand(2));
    if (!lane)
      continue;
    IRBuilder<> builder(op);
    Value *element = builder.CreateExtractElement(op->getArgOperand(0), *lane);
    Value *place = builder.CreateConstGEP1_64(element->getType(), op->getArgOperand(1), *lane);
    uint64_t bytes = element->getType()->getScalarSizeInBits() / 8;
    StoreInst *store = builder.CreateAlignedStore(
        element, place, commonAlignment(op->getParamAlign(1).valueOrOne(), *lane * std::max<uint64_t>(bytes, 1)));
    store->copyMetadata(*op);
    op->eraseFromParent();
  }
}

void torch_tile::codegen::separateKnownMasks(Function &function, int vectorBits) {
  SmallVector<MaskedAccess> found;
  for (BasicBlock &block : function)
    for (Instruction &instruction : block)
      if (auto *op = dyn_cast<IntrinsicInst>(&instruction);
          op && is_contained({Intrinsic::masked_load, Intrinsic::masked_store}, op->getIntrinsicID()))
        if (MaskedAccess access(op, vectorBits); access.hasKnownRegister())
          found.push_back(access);
  for (MaskedAccess &access : found)
    access.separate();
}
