// Operands that loops load ahead of their use: copies to shared memory that threads do not wait for (cp.async).
#include "compiler/codegen/gpu/ThreadLowering.h"

using namespace mlir;
using namespace torch_tile::codegen;

Value ThreadLowering::stagedPtr(int64_t offset, Value slot, int64_t slotBytes) {
  Value place = i32(offset);
  if (slotBytes)
    place = addI32(arith::MulIOp::create(b, slot, i32(slotBytes)), offset);
  return LLVM::GEPOp::create(b, sharedPtrType, b.getI8Type(), stagedBase, ArrayRef<LLVM::GEPArg>{place});
}

/// One copy a piece. Where the mask is false nothing is read, and zeros are written.
LogicalResult ThreadLowering::lowerStage(tile::StageOp op) {
  orderAccess(op);
  auto type = cast<RankedTensorType>(op.getPointers().getType());
  auto pointee = cast<tile::PtrType>(type.getElementType()).getElementType();
  auto valueType = RankedTensorType::get(type.getShape(), pointee, type.getEncoding());
  SharedMatrix matrix = matrixOf(valueType, stagedPtr(op.getOffset(), scalar(op.getSlot()), op.getSlotBytes()));
  int64_t bytes = lanesOf(type) * matrix.elementBytes();
  // Whole words of 16 bytes go past the first cache.
  std::string name = "llvm.nvvm.cp.async." + std::string(bytes == 16 ? "cg" : "ca") + ".shared.global." +
                     std::to_string(bytes) + (op.getMask() ? ".s" : "");
  auto globalPtr = LLVM::LLVMPointerType::get(b.getContext(), /*addressSpace=*/1);
  for (auto [piece, part] : llvm::enumerate(makePointerPieces(type, op.getPointers(), {}, op.getMask()))) {
    auto copy = [&, piece = piece, &part = part] {
      Value offset = laneOffset(matrix, valueType, piece, 0);
      Value to = LLVM::GEPOp::create(b, sharedPtrType, b.getI8Type(), matrix.base, ArrayRef<LLVM::GEPArg>{offset});
      SmallVector<Value> operands = {to, LLVM::AddrSpaceCastOp::create(b, globalPtr, part.lanes[0])};
      if (op.getMask())
        operands.push_back(arith::SelectOp::create(b, part.isWhole, i32(bytes), i32(0)));
      LLVM::CallIntrinsicOp::create(b, b.getStringAttr(name), operands);
    };
    if (Value isOwner = isOwned(type, piece))
      guardedStore(isOwner, copy);
    else
      copy();
  }
  return success();
}

LogicalResult ThreadLowering::lowerStaging(Operation *op) {
  auto call = [&](StringRef name, ValueRange operands = {}) {
    LLVM::CallIntrinsicOp::create(b, b.getStringAttr(name), operands);
  };
  if (isa<tile::StageBeginOp>(op)) {
    if (hasSharedReaders || hasStagedReaders)
      barrier();
    return success();
  }
  if (auto stage = dyn_cast<tile::StageOp>(op))
    return lowerStage(stage);
  if (auto value = dyn_cast<tile::StageValueOp>(op)) {
    auto type = cast<RankedTensorType>(value.getValue().getType());
    storeMatrix(matrixOf(type, stagedPtr(value.getOffset(), {}, 0)), value.getValue());
    return success();
  }
  if (isa<tile::StageCommitOp>(op)) {
    call("llvm.nvvm.cp.async.commit.group");
    return success();
  }
  if (auto wait = dyn_cast<tile::StageWaitOp>(op)) {
    call("llvm.nvvm.cp.async.wait.group", i32(wait.getPending()));
    fenceStores();
    barrier();
    return success();
  }
  return lowerDotWait(cast<tile::DotWaitOp>(op));
}
