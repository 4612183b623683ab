// Operands of products in loops lie in shared memory before an iteration needs them: loads run iterations ahead, what
// does not change is stored once.
#include "compiler/codegen/gpu/ThreadLowering.h"
#include "compiler/tile/ir/LinearLayout.h"
#include "compiler/tile/ir/MatrixInstructions.h"
#include "compiler/tile/ir/MatrixOperands.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace torch_tile::codegen;

/// After so many bytes the permutation of words repeats itself.
static constexpr int64_t matrixAlignment = 1024;
/// Of what else moves through shared memory in such a loop, at most, at once.
static constexpr int64_t exchangedBytes = 32 * 1024;
/// Registers that a thread can have, that a block has, and that a thread needs for addresses and what it computes.
static constexpr int64_t mostRegisters = 255, blockRegisters = 64 * 1024, otherRegisters = 40;
/// What one copy to shared memory moves.
static constexpr int64_t leastCopyBytes = 4, mostCopyBytes = 16;

static RankedTensorType tileOf(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

static bool hasLinearLayout(Value value) {
  RankedTensorType type = tileOf(value);
  return type && isa_and_present<tile::LinearAttr>(type.getEncoding());
}

static int64_t bytesOf(RankedTensorType type) {
  Type element = type.getElementType();
  int64_t bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 64;
  return type.getNumElements() * std::max<int64_t>(1, bits / 8);
}

static int64_t stagedBytesOf(RankedTensorType type) { return llvm::alignTo(bytesOf(type), matrixAlignment); }

static bool isMatrixDot(Operation *op) {
  auto dot = dyn_cast<tile::DotOp>(op);
  return dot && hasLinearLayout(dot.getResult());
}

/// Whether a scalar is read, like the number of a block that tiles are then loaded from.
static bool isScalarLoad(Operation *op) {
  auto load = dyn_cast<tile::GatherOp>(op);
  return load && !tileOf(load.getResult()) && !load.getOffsets();
}

/// Whether products alone use a tile, as an operand that they read from shared memory.
static bool isOperandOnly(Value value, Block *block) {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto trans = dyn_cast<tile::TransOp>(user))
      return tile::storedOperand(trans) == value && isOperandOnly(trans.getResult(), block);
    return isMatrixDot(user) && user->getBlock() == block && use.getOperandNumber() < 2;
  });
}

/// Whether an op may move elements between threads, through shared memory.
static bool movesElements(Operation *op) {
  if (auto trans = dyn_cast<tile::TransOp>(op))
    return tile::storedOperand(trans) == trans.getResult() || !isOperandOnly(trans.getResult(), op->getBlock());
  if (isa<tile::ReduceOp, tile::BroadcastOp, tile::ExpandDimsOp>(op))
    return !hasLinearLayout(op->getOperand(0));
  return isa<tile::ConvertLayoutOp, tile::ReshapeOp, tile::ScanOp, tile::CatOp, tile::JoinOp, tile::SplitOp,
             tile::TakeOp, tile::HistogramOp, tile::ExtractOp, tile::AtomicRmwOp, tile::AtomicCasOp>(op);
}

namespace {
class LoopPipeliner {
public:
  LoopPipeliner(tile::KernelOp kernel, scf::ForOp loop, const GpuOptions &options, int64_t numStages)
      : kernel(kernel), loop(loop), options(options), numStages(numStages), b(loop.getLoc(), loop) {}
  /// Bytes of staged memory that the loop takes; 0 if it stays as it is.
  int64_t run();

private:
  /// A load whose result goes to shared memory, or a tile from before the loop.
  struct Staged {
    Value value;
    int64_t offset = 0;
  };
  bool isPlain();
  bool canStage(tile::GatherOp load);
  bool addAddresses(Value value);
  bool addLoad(tile::GatherOp load);
  void findLoads();
  void findFixed();
  bool hasRegistersFor(ArrayRef<tile::DotOp> underWay);
  void findInFlight();
  int64_t otherBytes();
  bool placeAll();
  IRMapping cloneAddresses(Value position, ValueRange carried, Value isInside);
  SmallVector<Value> nextOf(IRMapping &mapping);
  struct Source {
    Value pointers, mask;
  };
  SmallVector<Source> sourcesOf(IRMapping &mapping);
  void stageLoads(ArrayRef<Source> sources, Value isInside, Value slot);
  Value isInside(Value position, int64_t ahead);
  /// Whether an iteration waits for the loads of the next one, at the barrier behind products of the one before. Loops
  /// with nothing between products lose by it: a product of 4096 took 404 us in place of 291 on an H100.
  bool waitsInside() const { return !awaited.empty(); }
  void completeProducts();
  void makePrologue();
  void makeLoop();
  void replaceLoads(Value slot);
  void replaceFixed();
  void eraseDead();
  Value constant(int64_t value) { return arith::ConstantOp::create(b, b.getI32IntegerAttr((int32_t)value)); }
  Value nextSlot(Value slot);

  tile::KernelOp kernel;
  scf::ForOp loop;
  const GpuOptions &options;
  int64_t numStages;
  ImplicitLocOpBuilder b;

  SmallVector<tile::GatherOp> loads;
  SmallVector<Staged> staged, fixed;
  llvm::SetVector<Operation *> addresses; // ops in the loop that the loads' addresses are made of
  llvm::SetVector<Value> carried;         // and values that it carries
  SmallVector<tile::DotOp> inFlight;
  /// The first product that is waited for where it stands, and with it all that were under way; null if none is.
  tile::DotOp waited;
  /// Arguments of the body that hold results under way until then.
  SmallVector<unsigned> awaited;
  int64_t ahead = 0, numSlots = 0, slotBytes = 0, totalBytes = 0;
  SmallVector<Value> aheadValues; // of `carried`, for the next iteration to be loaded
};
} // namespace

//===-- what can be staged --------------------------------------------------------------------------------------===//

/// Loads that run ahead pass by everything else in the loop.
bool LoopPipeliner::isPlain() {
  if (loop.getUnsignedCmp())
    return false;
  return !loop->walk([&](Operation *op) {
                bool isOrdered =
                    isWrite(op) || isa<tile::AssertOp, tile::PrintOp, tile::CheckIndexOp, tile::MapOp, scf::WhileOp,
                                       tile::HoldOp, tile::HeldOp, tile::StageOp, tile::StageValueOp>(op);
                return isOrdered ? WalkResult::interrupt() : WalkResult::advance();
              })
              .wasInterrupted();
}

bool LoopPipeliner::canStage(tile::GatherOp load) {
  auto type = tileOf(load.getResult());
  auto layout = type ? dyn_cast_if_present<tile::LayoutAttr>(type.getEncoding()) : tile::LayoutAttr();
  if (!layout || type.getRank() < 2 || load.getOffsets() || !tileOf(load.getBase()) || load->getUses().empty() ||
      !isOperandOnly(load.getResult(), load->getBlock()))
    return false;
  int64_t lanes = layout.getVector(), bytes = lanes * type.getElementTypeBitWidth() / 8;
  if (bytes < leastCopyBytes || bytes > mostCopyBytes || type.getShape().back() % lanes != 0)
    return false;
  Progression known = knownProgression(load.getBase(), lanes);
  if (known.step != 1 || known.multiple % bytes != 0)
    return false;
  if (load.getMask() && !isSameAlongPiece(load.getMask(), lanes))
    return false;
  Value other = load.getOther();
  if (auto splat = other ? other.getDefiningOp<tile::SplatOp>() : tile::SplatOp())
    other = splat.getSource();
  return !other || matchPattern(other, m_PosZeroFloat()) || matchPattern(other, m_Zero());
}

/// Adds what `value` is made of in an iteration. False if it cannot be made before.
bool LoopPipeliner::addAddresses(Value value) {
  SmallVector<Value> open = {value};
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (auto argument = dyn_cast<BlockArgument>(next)) {
      if (argument.getOwner() == loop.getBody() && argument != loop.getInductionVar() && carried.insert(argument))
        open.push_back(loop.getTiedLoopYieldedValue(argument)->get());
      continue;
    }
    Operation *op = next.getDefiningOp();
    if (!loop->isProperAncestor(op))
      continue;
    if (op->getBlock() != loop.getBody() || op->getNumRegions() > 0 || (!isPure(op) && !isScalarLoad(op)))
      return false;
    if (addresses.insert(op))
      llvm::append_range(open, op->getOperands());
  }
  return true;
}

bool LoopPipeliner::addLoad(tile::GatherOp load) {
  auto oldAddresses = addresses;
  auto oldCarried = carried;
  if (addAddresses(load.getBase()) && (!load.getMask() || addAddresses(load.getMask())))
    return true;
  addresses = std::move(oldAddresses);
  carried = std::move(oldCarried);
  return false;
}

void LoopPipeliner::findLoads() {
  for (auto load : loop.getBody()->getOps<tile::GatherOp>())
    if (canStage(load) && addLoad(load)) {
      loads.push_back(load);
      staged.push_back({load.getResult()});
    }
}

/// Operands that are the same in all iterations.
void LoopPipeliner::findFixed() {
  for (auto dot : loop.getBody()->getOps<tile::DotOp>()) {
    if (!isMatrixDot(dot))
      continue;
    for (Value operand : {dot.getLhs(), dot.getRhs()}) {
      if (operand == dot.getLhs() && isLeftInRegisters(dot))
        continue;
      Value source = tile::storedOperand(operand);
      if (loop.isDefinedOutsideOfLoop(source) && !source.getDefiningOp<tile::StagedOp>() &&
          llvm::none_of(fixed, [&](const Staged &other) { return other.value == source; }))
        fixed.push_back({source});
    }
  }
}

/// Registers of 32 bits that a thread has of a tile.
static int64_t registersOf(Value value) {
  RankedTensorType type = tileOf(value);
  auto linear = type ? dyn_cast_if_present<tile::LinearAttr>(type.getEncoding()) : tile::LinearAttr();
  if (!linear)
    return 0;
  return ((int64_t)1 << linear.getRegisters().size()) * type.getElementTypeBitWidth() / 32;
}

/// Whether a thread has registers for left operands of products under way, beside all results of products and what the
/// loop carries. Without them the assembler spills, or waits for each instruction.
bool LoopPipeliner::hasRegistersFor(ArrayRef<tile::DotOp> underWay) {
  int64_t numThreads = kernel->getAttrOfType<IntegerAttr>("tile.threads").getInt(), used = otherRegisters;
  for (BlockArgument argument : loop.getRegionIterArgs())
    used += registersOf(argument);
  for (auto dot : loop.getBody()->getOps<tile::DotOp>())
    if (!llvm::is_contained(loop.getBody()->getTerminator()->getOperands(), dot.getResult()))
      used += registersOf(dot.getResult());
  for (tile::DotOp dot : underWay)
    used += isLeftInRegisters(dot) ? registersOf(dot.getLhs()) : 0;
  auto most = kernel->getAttrOfType<IntegerAttr>("tile.max_registers");
  return used <= std::min(most ? most.getInt() : mostRegisters, blockRegisters / numThreads);
}

/// Products whose results the loop only carries may end an iteration later: if nothing but the product itself looks at
/// what is carried, or another product of that iteration, which is waited for, comes before all that does.
void LoopPipeliner::findInFlight() {
  if (!options.hasWarpGroups())
    return;
  auto isStaged = [&](Value operand) {
    Value source = tile::storedOperand(operand);
    auto isSource = [&](const Staged &part) { return part.value == source; };
    return llvm::any_of(staged, isSource) || llvm::any_of(fixed, isSource);
  };
  Block *body = loop.getBody();
  auto carriedBy = [&](tile::DotOp dot) -> BlockArgument {
    auto yield = dyn_cast_if_present<scf::YieldOp>(dot->hasOneUse() ? *dot->user_begin() : nullptr);
    if (!yield || yield->getBlock() != body)
      return {};
    return loop.getRegionIterArg(dot->getUses().begin()->getOperandNumber());
  };
  auto canLinger = [&](tile::DotOp dot) {
    return dot->hasAttr(tile::warpGroupAttrName) && (isStaged(dot.getLhs()) || isLeftInRegisters(dot)) &&
           isStaged(dot.getRhs()) && carriedBy(dot);
  };
  SmallVector<tile::DotOp> fromShared, others;
  for (auto dot : body->getOps<tile::DotOp>()) {
    bool addsAlone = canLinger(dot) && dot.getAcc() == carriedBy(dot) && carriedBy(dot).hasOneUse();
    if (addsAlone && !isLeftInRegisters(dot))
      fromShared.push_back(dot);
    else if (addsAlone || (waited && canLinger(dot)))
      others.push_back(dot);
    else if (!waited && dot->hasAttr(tile::warpGroupAttrName))
      waited = dot;
  }
  inFlight = fromShared;
  if (!hasRegistersFor(others))
    return;
  for (tile::DotOp dot : others) {
    BlockArgument sums = carriedBy(dot);
    auto isBehind = [&](Operation *user) { return waited->isBeforeInBlock(body->findAncestorOpInBlock(*user)); };
    bool addsAlone = dot.getAcc() == sums && sums.hasOneUse();
    if (!addsAlone && !llvm::all_of(sums.getUsers(), isBehind))
      continue;
    inFlight.push_back(dot);
    if (!addsAlone)
      awaited.push_back(sums.getArgNumber());
  }
}

//===-- where it lies -------------------------------------------------------------------------------------------===//

/// What other ops of the loop may take of shared memory.
int64_t LoopPipeliner::otherBytes() {
  int64_t most = 0;
  auto isPlaced = [&](Value operand) {
    Value source = tile::storedOperand(operand);
    auto isSource = [&](const Staged &part) { return part.value == source; };
    return llvm::any_of(staged, isSource) || llvm::any_of(fixed, isSource);
  };
  loop->walk([&](Operation *op) {
    int64_t bytes = 0;
    if (auto dot = dyn_cast<tile::DotOp>(op); dot && isMatrixDot(op)) {
      if (!isLeftInRegisters(dot) && !isPlaced(dot.getLhs()))
        bytes += stagedBytesOf(tileOf(dot.getLhs()));
      if (!isPlaced(dot.getRhs()))
        bytes += stagedBytesOf(tileOf(dot.getRhs()));
    } else if (isa<tile::DotOp>(op)) {
      bytes = 48 * 1024; // of products by single threads
    } else if (movesElements(op)) {
      for (Value operand : op->getOperands())
        if (RankedTensorType type = tileOf(operand))
          bytes += std::min(exchangedBytes, 2 * bytesOf(type));
    }
    most = std::max(most, bytes);
  });
  return llvm::alignTo(most, matrixAlignment);
}

/// As many iterations ahead as were asked for and there is room for.
bool LoopPipeliner::placeAll() {
  int64_t offset = 0;
  for (Staged &part : staged) {
    part.offset = offset;
    offset += stagedBytesOf(tileOf(part.value));
  }
  slotBytes = offset;
  int64_t fixedBytes = 0;
  for (const Staged &part : fixed)
    fixedBytes += stagedBytesOf(tileOf(part.value));
  int64_t limit = options.blockSharedBytes() - otherBytes() - fixedBytes;
  // One slot is read while the others are loaded, or wait.
  ahead = staged.empty() ? 0 : numStages - 1;
  while (ahead > 0 && (ahead + 1) * slotBytes > limit)
    --ahead;
  if (ahead == 0) {
    staged.clear();
    loads.clear();
    inFlight.clear();
    waited = {};
    awaited.clear();
    // Each product now places what was loaded.
    limit = options.blockSharedBytes() - otherBytes() - fixedBytes;
  }
  // With two slots, loads start behind the products of the iteration before, and must end in this one: those count
  // more.
  if (ahead == 1 && !awaited.empty()) {
    inFlight.clear();
    awaited.clear();
  }
  numSlots = ahead ? ahead + 1 : 0;
  offset = numSlots * slotBytes;
  if (offset > limit)
    fixed.clear();
  for (Staged &part : fixed) {
    part.offset = offset;
    offset += stagedBytesOf(tileOf(part.value));
  }
  totalBytes = offset;
  return totalBytes > 0;
}

//===-- the new loop --------------------------------------------------------------------------------------------===//

/// What the loads' addresses are made of, for an iteration at `position` with these carried values. Scalars are read
/// only if there is such an iteration.
IRMapping LoopPipeliner::cloneAddresses(Value position, ValueRange values, Value isInside) {
  IRMapping mapping;
  mapping.map(loop.getInductionVar(), position);
  for (auto [argument, value] : llvm::zip_equal(carried, values))
    mapping.map(argument, value);
  for (Operation &op : *loop.getBody()) {
    if (!addresses.contains(&op))
      continue;
    Operation *clone = b.clone(op, mapping);
    if (!isScalarLoad(clone))
      continue;
    auto load = cast<tile::GatherOp>(clone);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(load);
    Value mask = load.getMask();
    load.getMaskMutable().assign(mask ? arith::AndIOp::create(b, mask, isInside).getResult() : isInside);
  }
  return mapping;
}

SmallVector<Value> LoopPipeliner::nextOf(IRMapping &mapping) {
  SmallVector<Value> next;
  for (Value argument : carried)
    next.push_back(mapping.lookupOrDefault(loop.getTiedLoopYieldedValue(cast<BlockArgument>(argument))->get()));
  return next;
}

/// What the loads read, before they are replaced: pointers and masks.
SmallVector<LoopPipeliner::Source> LoopPipeliner::sourcesOf(IRMapping &mapping) {
  SmallVector<Source> sources;
  for (tile::GatherOp load : loads)
    sources.push_back(
        {mapping.lookupOrDefault(load.getBase()), load.getMask() ? mapping.lookupOrDefault(load.getMask()) : Value()});
  return sources;
}

void LoopPipeliner::stageLoads(ArrayRef<Source> sources, Value isInside, Value slot) {
  auto branch = scf::IfOp::create(b, TypeRange(), isInside, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    for (auto [source, part] : llvm::zip_equal(sources, staged))
      tile::StageOp::create(b, source.pointers, slot, source.mask, part.offset, slotBytes);
  }
  tile::StageCommitOp::create(b);
}

/// Whether there is an iteration so many after the one at `position`.
Value LoopPipeliner::isInside(Value position, int64_t iterations) {
  Type type = position.getType();
  Value left = arith::SubIOp::create(b, loop.getUpperBound(), position);
  Value distance = arith::ConstantOp::create(b, b.getIntegerAttr(type, iterations));
  distance = arith::MulIOp::create(b, loop.getStep(), distance);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, left, distance);
}

void LoopPipeliner::makePrologue() {
  b.setInsertionPoint(loop);
  tile::StageBeginOp::create(b);
  for (const Staged &part : fixed)
    tile::StageValueOp::create(b, part.value, part.offset);
  for (Value argument : carried)
    aheadValues.push_back(loop.getTiedLoopInit(cast<BlockArgument>(argument))->get());
  Value position = loop.getLowerBound();
  for (int64_t iteration = 0; iteration < ahead; ++iteration) {
    Value hasIteration = isInside(loop.getLowerBound(), iteration);
    IRMapping mapping = cloneAddresses(position, aheadValues, hasIteration);
    stageLoads(sourcesOf(mapping), hasIteration, constant(iteration));
    aheadValues = nextOf(mapping);
    position = arith::AddIOp::create(b, position, loop.getStep());
  }
  if (ahead == 0)
    tile::StageWaitOp::create(b, 0);
  else if (waitsInside())
    tile::StageWaitOp::create(b, ahead - 1);
}

Value LoopPipeliner::nextSlot(Value slot) {
  Value next = arith::AddIOp::create(b, slot, constant(1));
  Value isLast = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, next, constant(numSlots));
  return arith::SelectOp::create(b, isLast, constant(0), next);
}

void LoopPipeliner::replaceLoads(Value slot) {
  for (auto [load, part] : llvm::zip_equal(loads, staged)) {
    b.setInsertionPoint(load);
    auto value = tile::StagedOp::create(b, load.getType(), slot, part.offset, slotBytes);
    load.getResult().replaceAllUsesWith(value);
    load.erase();
  }
}

/// Products read them where they lie; what else uses them has them in registers.
void LoopPipeliner::replaceFixed() {
  for (const Staged &part : fixed) {
    b.setInsertionPointToStart(loop.getBody());
    Value slot = constant(0);
    Value value = tile::StagedOp::create(b, part.value.getType(), slot, part.offset, 0);
    for (auto dot : loop.getBody()->getOps<tile::DotOp>()) {
      if (!isMatrixDot(dot))
        continue;
      for (OpOperand *operand : {&dot.getLhsMutable(), &dot.getRhsMutable()}) {
        if (operand == &dot.getLhsMutable() && isLeftInRegisters(dot))
          continue;
        if (operand->get() == part.value) {
          operand->set(value);
        } else if (tile::storedOperand(operand->get()) == part.value) {
          auto trans = operand->get().getDefiningOp<tile::TransOp>();
          b.setInsertionPoint(dot);
          operand->set(tile::TransOp::create(b, trans.getType(), value, trans.getPerm()));
        }
      }
    }
  }
}

/// Goes where the products of the iteration before are complete, and meets the other threads there.
void LoopPipeliner::completeProducts() {
  if (awaited.empty()) {
    b.setInsertionPoint(loop.getBody()->getTerminator());
    tile::StageBeginOp::create(b);
    return;
  }
  b.setInsertionPointAfter(waited);
  for (unsigned argument : awaited) {
    Value underWay = loop.getBody()->getArgument(argument);
    auto complete = tile::DotWaitOp::create(b, underWay);
    underWay.replaceAllUsesExcept(complete, complete);
  }
  tile::StageWaitOp::create(b, ahead - 2);
}

void LoopPipeliner::makeLoop() {
  scf::ForOp old = loop;
  auto numCarried = (int64_t)old.getInitArgs().size();
  SmallVector<Value> inits(old.getInitArgs());
  llvm::append_range(inits, aheadValues);
  inits.push_back(constant(0));                // the slot of this iteration
  inits.push_back(constant(ahead % numSlots)); // and of the one that is loaded
  auto made = scf::ForOp::create(b, old.getLowerBound(), old.getUpperBound(), old.getStep(), inits);
  made->setAttrs(old->getAttrs());
  Block *body = made.getBody();
  // Clones are made of the ops of the old body, so they come first.
  b.setInsertionPointToStart(body);
  ValueRange arguments = made.getRegionIterArgs();
  Value slot = arguments[inits.size() - 2], loaded = arguments.back();
  if (!waitsInside())
    tile::StageWaitOp::create(b, ahead - 1);
  Value position = arith::ConstantOp::create(b, b.getIntegerAttr(made.getInductionVar().getType(), ahead));
  position = arith::MulIOp::create(b, position, made.getStep());
  position = arith::AddIOp::create(b, position, made.getInductionVar());
  Value hasIteration = isInside(made.getInductionVar(), ahead);
  IRMapping mapping = cloneAddresses(position, arguments.slice(numCarried, carried.size()), hasIteration);
  SmallVector<Value> next = nextOf(mapping);
  SmallVector<Source> sources = sourcesOf(mapping);
  Operation *lastAddress = &body->back();

  Operation *yield = old.getBody()->getTerminator();
  body->getOperations().splice(body->end(), old.getBody()->getOperations());
  for (auto [from, to] : llvm::zip(old.getBody()->getArguments(), body->getArguments()))
    from.replaceAllUsesWith(to);
  loop = made;
  replaceLoads(slot);
  // The slot of the iteration before is loaded, when a barrier says that all threads have read it.
  b.setInsertionPointAfter(lastAddress);
  if (!inFlight.empty())
    completeProducts();
  stageLoads(sources, hasIteration, loaded);
  b.setInsertionPoint(yield);
  SmallVector<Value> yielded(yield->getOperands()); // after products were completed: a result may move to another place
  llvm::append_range(yielded, next);
  yielded.push_back(nextSlot(slot));
  yielded.push_back(nextSlot(loaded));
  scf::YieldOp::create(b, yielded);
  yield->erase();
  b.setInsertionPointAfter(made);
  for (int64_t k = 0; k < numCarried; ++k) {
    Value result = made.getResult(k);
    auto isYielded = [&](tile::DotOp dot) { return yielded[k] == dot.getResult(); };
    if (llvm::any_of(inFlight, isYielded))
      result = tile::DotWaitOp::create(b, result);
    old.getResult(k).replaceAllUsesWith(result);
  }
  for (tile::DotOp dot : inFlight)
    dot->setAttr(inFlightAttrName, b.getI64IntegerAttr((int64_t)inFlight.size()));
  old.erase();
}

/// What loads alone were made of is carried no more.
void LoopPipeliner::eraseDead() {
  llvm::SetVector<Value> live;
  auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
  auto addOperands = [&](Operation *op) {
    op->walk([&](Operation *inner) { live.insert(inner->operand_begin(), inner->operand_end()); });
  };
  for (Operation &op : loop.getBody()->without_terminator())
    if (!isMemoryEffectFree(&op) && !isa<tile::StagedOp>(op))
      addOperands(&op);
  for (auto [result, yielded] : llvm::zip_equal(loop.getResults(), yield.getOperands()))
    if (!result.use_empty())
      live.insert(yielded);
  for (size_t k = 0; k < live.size(); ++k) {
    Value value = live[k];
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (argument.getOwner() == loop.getBody() && argument != loop.getInductionVar())
        live.insert(loop.getTiedLoopYieldedValue(argument)->get());
    } else if (loop->isProperAncestor(value.getDefiningOp())) {
      addOperands(value.getDefiningOp());
    }
  }
  for (auto [argument, result] : llvm::zip_equal(loop.getRegionIterArgs(), loop.getResults()))
    if (result.use_empty() && !live.contains(argument))
      loop.getTiedLoopYieldedValue(argument)->set(argument);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*loop.getBody())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

int64_t LoopPipeliner::run() {
  bool hasInner = loop->walk([&](scf::ForOp inner) {
                        return inner->hasAttr(pipelinedAttrName) ? WalkResult::interrupt() : WalkResult::advance();
                      })
                      .wasInterrupted();
  auto dots = loop.getBody()->getOps<tile::DotOp>();
  if (hasInner || llvm::none_of(dots, [](tile::DotOp dot) { return isMatrixDot(dot); }))
    return 0;
  if (numStages > 1 && isPlain())
    findLoads();
  findFixed();
  findInFlight();
  if (!placeAll())
    return 0;
  makePrologue();
  if (ahead > 0)
    makeLoop();
  loop->setAttr(pipelinedAttrName, b.getUnitAttr());
  replaceFixed();
  if (ahead > 0)
    eraseDead();
  return totalBytes;
}

void torch_tile::codegen::pipelineLoads(tile::KernelOp kernel, const GpuOptions &options) {
  auto stages = kernel->getAttrOfType<IntegerAttr>(numStagesAttrName);
  if (kernel->hasAttr("tile.programs_per_block") || kernel->hasAttr("tile.held_bytes"))
    return;
  SmallVector<scf::ForOp> loops;
  kernel.walk([&](scf::ForOp loop) { loops.push_back(loop); });
  int64_t stagedBytes = 0;
  for (scf::ForOp loop : loops) // inner ones first
    stagedBytes = std::max(stagedBytes, LoopPipeliner(kernel, loop, options, stages ? stages.getInt() : 1).run());
  if (stagedBytes > 0)
    kernel->setAttr(stagedBytesAttrName, IntegerAttr::get(IntegerType::get(kernel.getContext(), 64), stagedBytes));
}
