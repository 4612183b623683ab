// Arguments that begin at multiples of 16 bytes: whose threads access neighbours, and whether they do.
#include "compiler/codegen/gpu/CompileGpuKernel.h"
#include "compiler/codegen/gpu/MemoryAccess.h"
#include "compiler/tile/ir/Marks.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace torch_tile::codegen;

bool torch_tile::codegen::isAlignedArgument(tile::KernelOp kernel, Value base) {
  auto argument = dyn_cast<BlockArgument>(base);
  auto unaligned = kernel->getAttrOfType<DenseI64ArrayAttr>(unalignedArgsAttrName);
  return argument && !(unaligned && llvm::is_contained(unaligned.asArrayRef(), (int64_t)argument.getArgNumber()));
}

bool torch_tile::codegen::areNeighbours(tile::KernelOp kernel, Value base, Value offsets, int64_t lanes) {
  if (lanes == 1 || !offsets || !isa<tile::PtrType>(base.getType()))
    return false;
  while (auto moved = base.getDefiningOp<tile::PtrAddOp>()) {
    if (knownMultiple(moved.getOffset()) % lanes != 0)
      return false;
    base = moved.getBase();
  }
  if (!isAlignedArgument(kernel, base))
    return false;
  Progression known = knownProgression(offsets, lanes);
  return known.step == 1 && known.multiple % lanes == 0;
}

namespace {
struct AccessByIndex {
  Value base, offsets;
  Type type;
};
} // namespace

/// Nulls for other operations.
static AccessByIndex accessByIndex(Operation *op) {
  if (auto gather = dyn_cast<tile::GatherOp>(op))
    return {gather.getBase(), gather.getOffsets(), gather.getType()};
  if (auto scatter = dyn_cast<tile::ScatterOp>(op))
    return {scatter.getBase(), scatter.getOffsets(), scatter.getValue().getType()};
  if (auto atomic = dyn_cast<tile::AtomicRmwOp>(op))
    return {atomic.getBase(), atomic.getOffsets(), atomic.getType()};
  return {};
}

/// Arguments of which threads access neighbouring elements: along the lanes, or in accesses that follow one another.
static llvm::SetVector<Value> accessedInPieces(tile::KernelOp kernel) {
  constexpr int64_t wordBytes = 16;
  constexpr size_t mostCompared = 16; // accesses of one argument and block, each with those before it
  llvm::SetVector<Value> bases;
  DenseMap<std::pair<Value, Block *>, SmallVector<Value>> offsets;
  kernel.walk([&](Operation *op) {
    if (auto [base, offsets, type] = accessByIndex(op);
        base && isa<RankedTensorType>(type) && areNeighbours(kernel, base, offsets, pieceLanes(type))) {
      while (auto moved = base.getDefiningOp<tile::PtrAddOp>())
        base = moved.getBase();
      bases.insert(base);
      return;
    }
    auto load = dyn_cast<tile::LoadOp>(op);
    auto store = dyn_cast<tile::StoreOp>(op);
    if (!load && !store)
      return;
    ArrayRef<int64_t> strides = load ? load.getStaticStrides() : store.getStaticStrides();
    Value base = load ? load.getBase() : store.getBase(), offset = load ? load.getOffset() : store.getOffset();
    if (!isAlignedArgument(kernel, base) || strides.empty() || bases.contains(base))
      return;
    SmallVector<Value> &before = offsets[{base, op->getBlock()}];
    Type element = cast<tile::PtrType>(base.getType()).getElementType();
    int64_t bytes = llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
    bool isNeighbour = llvm::any_of(before, [&](Value other) {
      std::optional<int64_t> distance = distanceBetween(other, offset);
      return distance && *distance != 0 && std::abs(*distance) * bytes < wordBytes;
    });
    if (strides.back() == 1 || isNeighbour)
      bases.insert(base);
    if (before.size() < mostCompared)
      before.push_back(offset);
  });
  return bases;
}

std::vector<torch_tile::artifact::AlignedArgument> torch_tile::codegen::alignedArguments(tile::KernelOp kernel) {
  std::vector<torch_tile::artifact::AlignedArgument> result;
  if (!kernel->hasAttr(alignedArgsAttrName))
    return result;
  for (Value base : accessedInPieces(kernel)) {
    auto isWritten = [](auto &&self, Value pointer) -> bool {
      return llvm::any_of(pointer.getUsers(), [&](Operation *user) {
        return isa<tile::PtrAddOp>(user) ? self(self, user->getResult(0)) : !isa<tile::LoadOp, tile::GatherOp>(user);
      });
    };
    result.push_back({cast<BlockArgument>(base).getArgNumber(), isWritten(isWritten, base)});
  }
  return result;
}

Value ThreadLowering::areArgumentsAligned() {
  if (argumentsAligned)
    return argumentsAligned;
  llvm::SetVector<Value> bases = accessedInPieces(kernel);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfterValue(alignmentAnchor);
  Value bits;
  for (Value base : bases) {
    Value address = LLVM::PtrToIntOp::create(b, b.getI64Type(), scalar(base));
    bits = bits ? arith::OrIOp::create(b, bits, address).getResult() : address;
  }
  Value low = bits ? arith::AndIOp::create(b, bits, i64(15)).getResult() : i64(0);
  return argumentsAligned = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, low, i64(0));
}
