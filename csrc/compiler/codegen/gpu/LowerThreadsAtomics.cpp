// Atomics: each element of a tile is updated by the one thread that owns it.
#include "compiler/codegen/gpu/ThreadLowering.h"

using namespace mlir;
using namespace torch_tile::codegen;

/// Programs on one device see each other's.
static constexpr llvm::StringLiteral deviceScope = "device";

/// `update` makes the update of one lane of a row through a pointer and returns what was there before, as it lies in
/// memory.
LogicalResult ThreadLowering::lowerAtomic(Operation *op, Value base, Value offsets, Value mask,
                                          function_ref<Value(Value, int64_t, int64_t)> update) {
  // An atomic may be how another program learns that what was written before is there: all threads have to be done.
  auto rmw = dyn_cast<tile::AtomicRmwOp>(op);
  if (!rmw || !rmw.getRelaxed()) {
    if (!pending.empty())
      barrier();
    pending.insert({op, /*isRepeated=*/false});
  }
  Value result = op->getResult(0);
  auto type = dyn_cast<RankedTensorType>(result.getType());
  Type element = elementOf(result.getType()), storage = storageOf(element);
  SmallVector<PointerPiece> parts = makePointerPieces(result.getType(), base, offsets, mask);
  bool hasCopies = !type;
  Rows olds;
  for (auto [piece, part] : llvm::enumerate(parts)) {
    Value owner = type ? isOwned(type, piece) : isFirstThread();
    hasCopies |= owner != nullptr;
    SmallVector<Value> scalars;
    for (auto [lane, ptr] : llvm::enumerate(part.lanes)) {
      Value condition = both(owner, part.mask ? extract(part.mask, lane) : Value());
      if (!condition) {
        scalars.push_back(update(ptr, piece, lane));
        continue;
      }
      auto branch = scf::IfOp::create(b, TypeRange{storage}, condition, /*addThenBlock=*/true, /*addElseBlock=*/true);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToEnd(branch.thenBlock());
      Value old = update(ptr, piece, lane);
      scf::YieldOp::create(b, old);
      b.setInsertionPointToEnd(branch.elseBlock());
      scf::YieldOp::create(b, zero(storage));
      scalars.push_back(branch.getResult(0));
    }
    olds.push_back(fromStorage(fromScalars(scalars), element));
  }
  if (!hasCopies || result.use_empty()) {
    set(result, std::move(olds));
    return success();
  }
  if (type) {
    auto spread = exchangeRows(op, olds, type, type, [](Value index) { return index; });
    if (failed(spread))
      return failure();
    set(result, std::move(*spread));
    return success();
  }
  SmallVector<Shared> shares;
  if (failed(reserveShared(op, storage, 1, /*isPadded=*/false, shares)))
    return failure();
  guardedStore(isFirstThread(), [&] { storeElements(toStorage(olds[0]), sharedPtr(shares[0], i32(0))); });
  barrier();
  set(result, {loadShared(shares[0], i32(0), element)});
  hasSharedReaders = true;
  return success();
}

/// Sums of neighbouring floats as one instruction, where nobody asks what was there before; false for others.
bool ThreadLowering::addNeighbours(tile::AtomicRmwOp op) {
  int64_t lanes = lanesOf(op.getType());
  bool isSum = op.getKind() == tile::AtomicKind::Add && op.getRelaxed() && elementOf(op.getType()).isF32();
  if (!options.hasVectorAtomics() || !isSum || !op.getResult().use_empty() || (lanes != 2 && lanes != 4) ||
      !areNeighbours(kernel, op.getBase(), op.getOffsets(), lanes))
    return false;
  SmallVector<PointerPiece> parts = makePointerPieces(op.getType(), op.getBase(), op.getOffsets(), op.getMask());
  if (!parts[0].isRow || (parts[0].mask && !parts[0].isWholeOrEmpty))
    return false;
  std::string assembly = "red.relaxed.gpu.global.add.v" + std::to_string(lanes) + ".f32 [$0], {", constraints = "l";
  for (int64_t lane = 0; lane < lanes; ++lane) {
    assembly += (lane ? ", $" : "$") + std::to_string(lane + 1);
    constraints += ",f";
  }
  const Rows values = rows(op.getValue());
  for (auto [piece, part] : llvm::enumerate(parts)) {
    auto update = [&, &part = part, piece = piece] {
      auto global = LLVM::LLVMPointerType::get(b.getContext(), 1);
      Value address = LLVM::AddrSpaceCastOp::create(b, global, part.lanes[0]);
      SmallVector<Value> operands{LLVM::PtrToIntOp::create(b, b.getI64Type(), address)};
      for (int64_t lane = 0; lane < lanes; ++lane)
        operands.push_back(extract(values[values.size() == 1 ? 0 : piece], lane));
      LLVM::InlineAsmOp::create(b, TypeRange(), operands, assembly + "};", constraints + ",~{memory}",
                                /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::TailCallKind::None,
                                LLVM::AsmDialectAttr(), ArrayAttr());
    };
    if (Value condition = both(isOwned(cast<RankedTensorType>(op.getType()), piece), part.isWhole))
      guardedStore(condition, update);
    else
      update();
  }
  return true;
}

LogicalResult ThreadLowering::lowerAtomicRmw(tile::AtomicRmwOp op) {
  if (isa<RankedTensorType>(op.getType()) && addNeighbours(op))
    return success();
  const Rows values = rows(op.getValue());
  auto update = [&](Value ptr, int64_t piece, int64_t lane) -> Value {
    return updateAtomically(op, ptr, extract(values[values.size() == 1 ? 0 : piece], lane), deviceScope);
  };
  return lowerAtomic(op, op.getBase(), op.getOffsets(), op.getMask(), update);
}

LogicalResult ThreadLowering::lowerAtomicCas(tile::AtomicCasOp op) {
  Type element = elementOf(op.getType());
  Type bits = b.getIntegerType(bytesOf(storageOf(element)) * 8);
  const Rows expected = rows(op.getExpected()), values = rows(op.getValue());
  auto toBits = [&](const Rows &list, int64_t piece, int64_t lane) -> Value {
    Value value = toStorage(extract(list[list.size() == 1 ? 0 : piece], lane));
    return value.getType() == bits ? value : arith::BitcastOp::create(b, bits, value).getResult();
  };
  auto update = [&](Value ptr, int64_t piece, int64_t lane) -> Value {
    Value pair =
        LLVM::AtomicCmpXchgOp::create(b, ptr, toBits(expected, piece, lane), toBits(values, piece, lane),
                                      LLVM::AtomicOrdering::acq_rel, LLVM::AtomicOrdering::acquire, deviceScope);
    Value found = LLVM::ExtractValueOp::create(b, pair, 0);
    Type storage = storageOf(element);
    return storage == bits ? found : arith::BitcastOp::create(b, storage, found).getResult();
  };
  return lowerAtomic(op, op.getBase(), op.getOffsets(), op.getMask(), update);
}
