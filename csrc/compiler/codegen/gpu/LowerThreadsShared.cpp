// Where shared memory lies: declared by the code up to 48 KB, provided by the launch beyond.
#include "compiler/codegen/gpu/ThreadLowering.h"

using namespace mlir;
using namespace torch_tile::codegen;

/// What a kernel may declare on every architecture. More of it has to be asked for by each launch.
static constexpr int64_t maxDeclaredBytes = 48 * 1024;
static constexpr int64_t sharedAlignment = 16;
/// Of operands whose words are permuted by their address.
static constexpr int64_t matrixAlignment = 1024;

static int64_t heldBytesOf(tile::KernelOp kernel) {
  auto bytes = kernel->getAttrOfType<IntegerAttr>("tile.held_bytes");
  return bytes ? bytes.getInt() : 0;
}

/// The sizes are set by placeShared: lowering the ops finds them.
void ThreadLowering::declareShared() {
  auto declare = [&](StringRef suffix, int64_t size, LLVM::Linkage linkage) {
    return LLVM::GlobalOp::create(b, LLVM::LLVMArrayType::get(b.getI8Type(), size), /*isConstant=*/false, linkage,
                                  symbol + suffix.str(), Attribute(), sharedAlignment, /*addrSpace=*/3);
  };
  shared = declare("_shared", 1, LLVM::Linkage::Internal);
  if (heldBytesOf(kernel) > 0)
    held = declare("_held", 0, LLVM::Linkage::External);
}

void ThreadLowering::useShared(int64_t bytes) {
  sharedBytes = std::max(sharedBytes, bytes);
  if (pipelinedDepth > 0)
    pipelinedBytes = std::max(pipelinedBytes, bytes);
}

void ThreadLowering::awaitReaders() {
  if (hasSharedReaders || (hasStagedReaders && pipelinedDepth == 0))
    barrier();
}

LogicalResult ThreadLowering::placeShared(Value start) {
  if (stagedBytes > 0) {
    int64_t first = llvm::alignTo(pipelinedBytes, matrixAlignment);
    stagedStart.setValueAttr(b.getI32IntegerAttr((int32_t)first));
    sharedBytes = std::max(sharedBytes, first + stagedBytes);
  }
  if (stagedBytes > 0 || options.hasWarpGroups())
    shared.setAlignment(matrixAlignment);
  int64_t ownBytes = sharedBytes * programsPerBlock;
  int64_t heldBytes = llvm::alignTo(heldBytesOf(kernel), sharedAlignment);
  if (heldBytes + ownBytes > options.blockSharedBytes())
    return kernel.emitOpError("out of resources: shared memory, required ")
           << heldBytes + ownBytes << " bytes, limit " << options.blockSharedBytes() << " bytes of a block on "
           << options.architecture << "; use smaller block sizes or a lower num_stages";
  launchBytes = heldBytes;
  if (ownBytes == 0) {
    if (programsPerBlock > 1)
      sharedBase.getDefiningOp()->erase();
    start.getDefiningOp()->erase();
    shared.erase();
    return success();
  }
  if (sharedStride)
    sharedStride.setValueAttr(b.getI32IntegerAttr((int32_t)sharedBytes));
  if (ownBytes <= maxDeclaredBytes) {
    shared.setGlobalType(LLVM::LLVMArrayType::get(b.getI8Type(), ownBytes));
    return success();
  }
  launchBytes += ownBytes;
  if (!held) {
    shared.setGlobalType(LLVM::LLVMArrayType::get(b.getI8Type(), 0));
    shared.setLinkage(LLVM::Linkage::External);
    return success();
  }
  // All memory of the launch begins at the same address: what threads exchange follows the rows that they hold.
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfterValue(start);
  Value first = LLVM::AddressOfOp::create(b, sharedPtrType, held.getSymName());
  Value own = LLVM::GEPOp::create(b, sharedPtrType, b.getI8Type(), first, ArrayRef<LLVM::GEPArg>{int32_t(heldBytes)});
  start.replaceAllUsesWith(own);
  start.getDefiningOp()->erase();
  shared.erase();
  return success();
}
