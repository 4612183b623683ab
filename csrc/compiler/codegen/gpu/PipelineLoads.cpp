// Operands of products in loops lie in shared memory before an iteration needs them: loads run iterations ahead, what
// does not change is stored once. LoopPlan.h says which.
#include "compiler/codegen/gpu/LoopPlan.h"
#include "compiler/tile/ir/MatrixOperands.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace torch_tile::codegen;

namespace {
class LoopPipeliner : LoopPlan {
public:
  LoopPipeliner(scf::ForOp loop, LoopPlan plan) : LoopPlan(std::move(plan)), loop(loop), b(loop.getLoc(), loop) {}
  void run();

private:
  IRMapping cloneAddresses(Value position, ValueRange carried, Value isInside);
  SmallVector<Value> nextOf(IRMapping &mapping);
  struct Source {
    Value pointers, mask;
  };
  SmallVector<Source> sourcesOf(IRMapping &mapping);
  void stageLoads(ArrayRef<Source> sources, Value isInside, Value slot);
  Value isInside(Value position, int64_t ahead);
  void completeProducts();
  void makePrologue();
  void makeLoop();
  void replaceLoads(Value slot);
  void replaceFixed();
  void eraseDead();
  Value constant(int64_t value) { return arith::ConstantOp::create(b, b.getI32IntegerAttr((int32_t)value)); }
  Value nextSlot(Value slot);

  scf::ForOp loop;
  ImplicitLocOpBuilder b;
  SmallVector<Value> aheadValues; // of `carried`, for the next iteration to be loaded
};
} // namespace

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
  SmallVector<Value> yielded(yield->getOperands());
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

void LoopPipeliner::run() {
  makePrologue();
  if (ahead > 0)
    makeLoop();
  loop->setAttr(pipelinedAttrName, b.getUnitAttr());
  replaceFixed();
  if (ahead > 0)
    eraseDead();
}

/// What is staged begins behind what other ops take, in all loops at the same place: bytes for those of any loop. More
/// of them leave less for what is staged, and operands without a place there are other bytes.
static int64_t findReservedBytes(tile::KernelOp kernel, ArrayRef<scf::ForOp> loops, const GpuOptions &options,
                                 int64_t numStages) {
  int64_t reserved = 0, before;
  do {
    before = reserved;
    for (scf::ForOp loop : loops) {
      LoopPlan plan = planLoop(kernel, loop, options, numStages, before);
      if (plan.totalBytes == 0)
        continue;
      loop->setAttr(pipelinedAttrName, UnitAttr::get(kernel.getContext())); // for loops around it
      reserved = std::max(reserved, plan.otherBytes);
    }
    for (scf::ForOp loop : loops)
      loop->removeAttr(pipelinedAttrName);
  } while (reserved > before);
  return reserved;
}

void torch_tile::codegen::pipelineLoads(tile::KernelOp kernel, const GpuOptions &options) {
  auto stages = kernel->getAttrOfType<IntegerAttr>(numStagesAttrName);
  if (kernel->hasAttr("tile.programs_per_block") || kernel->hasAttr("tile.held_bytes"))
    return;
  SmallVector<scf::ForOp> loops; // inner ones first
  kernel.walk([&](scf::ForOp loop) { loops.push_back(loop); });
  int64_t numStages = stages ? stages.getInt() : 1, stagedBytes = 0;
  int64_t reservedBytes = findReservedBytes(kernel, loops, options, numStages);
  for (scf::ForOp loop : loops) {
    LoopPlan plan = planLoop(kernel, loop, options, numStages, reservedBytes);
    stagedBytes = std::max(stagedBytes, plan.totalBytes);
    if (plan.totalBytes > 0)
      LoopPipeliner(loop, std::move(plan)).run();
  }
  if (stagedBytes > 0)
    kernel->setAttr(stagedBytesAttrName, IntegerAttr::get(IntegerType::get(kernel.getContext(), 64), stagedBytes));
}
