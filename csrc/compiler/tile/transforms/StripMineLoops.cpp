// Control flow that carries long tiles: what is carried is where they lie.
#include "compiler/tile/transforms/StripMiner.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tile;

/// Each carried tile has two places: one is read while the other is written, then they swap.
LogicalResult StripMiner::lowerFor(scf::ForOp op) {
  SmallVector<Value> inits;
  SmallVector<std::pair<Value, Value>> places; // of long arguments, by position; null for others
  SmallVector<unsigned> newIndex;
  for (Value init : op.getInitArgs()) {
    newIndex.push_back(inits.size());
    if (!isLong(init.getType())) {
      inits.push_back(init);
      continue;
    }
    Value first = i64(reserve(init.getType())), second = i64(reserve(init.getType()));
    if (failed(storeAll(init, scratchAt(first, init.getType()))))
      return failure();
    inits.push_back(first);
    inits.push_back(second);
  }
  b.setLoc(op.getLoc());
  auto loop =
      scf::ForOp::create(b, op.getLowerBound(), op.getUpperBound(), op.getStep(), inits, nullptr, op.getUnsignedCmp());
  Block *body = loop.getBody();
  if (inits.empty())
    body->getTerminator()->erase();
  body->getOperations().splice(body->end(), op.getBody()->getOperations());
  op.getInductionVar().replaceAllUsesWith(loop.getInductionVar());
  b.setInsertionPointToStart(body);
  Operation *yield = body->getTerminator();
  for (auto [index, argument] : llvm::enumerate(op.getRegionIterArgs())) {
    Value current = loop.getRegionIterArg(newIndex[index]);
    if (!isLong(argument.getType())) {
      argument.replaceAllUsesWith(current);
      continue;
    }
    scratchOf[argument] = scratchAt(current, argument.getType());
    Value next = scratchAt(loop.getRegionIterArg(newIndex[index] + 1), argument.getType());
    Value yielded = yield->getOperand(index);
    if (Operation *def = yielded.getDefiningOp(); def && def->getBlock() == body)
      preferred.try_emplace(yielded, next);
    places.emplace_back(argument, next);
  }
  auto finish = [&]() -> LogicalResult {
    SmallVector<Value> operands;
    unsigned nextPlace = 0;
    b.setInsertionPoint(yield);
    for (auto [index, yielded] : llvm::enumerate(llvm::to_vector(yield->getOperands()))) {
      if (!isLong(op.getRegionIterArgs()[index].getType())) {
        operands.push_back(yielded);
        continue;
      }
      Value next = places[nextPlace++].second;
      ScopeGuard scope(*this);
      if (scratchOf.lookup(yielded) != next && failed(storeAll(yielded, next)))
        return failure();
      preferred.erase(yielded);
      operands.push_back(loop.getRegionIterArg(newIndex[index] + 1));
      operands.push_back(loop.getRegionIterArg(newIndex[index]));
    }
    scf::YieldOp::create(b, yield->getLoc(), operands);
    yield->erase();
    return success();
  };
  {
    ScopeGuard scope(*this);
    if (failed(runBlock(*body, finish)))
      return failure();
  }
  b.setInsertionPointAfter(loop);
  for (auto [index, result] : llvm::enumerate(op.getResults())) {
    if (isLong(result.getType()))
      scratchOf[result] = scratchAt(loop.getResult(newIndex[index]), result.getType());
    else
      result.replaceAllUsesWith(loop.getResult(newIndex[index]));
  }
  return success();
}

LogicalResult StripMiner::lowerIf(scf::IfOp op) {
  SmallVector<Type> types;
  SmallVector<Value> places;
  for (Value result : op.getResults()) {
    places.push_back(isLong(result.getType()) ? scratchFor(result) : Value());
    if (!places.back())
      types.push_back(result.getType());
  }
  bool hasElse = !op.getElseRegion().empty();
  auto branch = scf::IfOp::create(b, types, op.getCondition(), /*addThenBlock=*/true, /*addElseBlock=*/hasElse);
  for (auto [from, to] : llvm::zip(op->getRegions(), branch->getRegions())) {
    if (from.empty())
      continue;
    Block &body = to.front();
    body.clear();
    body.getOperations().splice(body.end(), from.front().getOperations());
    Operation *yield = body.getTerminator();
    auto finish = [&]() -> LogicalResult {
      b.setInsertionPoint(yield);
      SmallVector<Value> operands;
      for (auto [yielded, place] : llvm::zip_equal(llvm::to_vector(yield->getOperands()), places)) {
        if (!place)
          operands.push_back(yielded);
        else if (ScopeGuard scope(*this); failed(storeAll(yielded, place)))
          return failure();
      }
      scf::YieldOp::create(b, yield->getLoc(), operands);
      yield->erase();
      return success();
    };
    ScopeGuard scope(*this);
    if (failed(runBlock(body, finish)))
      return failure();
  }
  unsigned next = 0;
  for (auto [result, place] : llvm::zip_equal(op.getResults(), places)) {
    if (place)
      scratchOf[result] = place;
    else
      result.replaceAllUsesWith(branch.getResult(next++));
  }
  return success();
}

/// As in a for loop, each argument of the first region has two places that swap. The second region and the results get
/// to know where a tile lies, and both places of all.
LogicalResult StripMiner::lowerWhile(scf::WhileOp op) {
  SmallVector<Value> inits;
  SmallVector<Type> pairTypes;
  for (Value init : op.getInits())
    if (!isLong(init.getType()))
      inits.push_back(init);
  unsigned numShort = inits.size();
  for (Value init : op.getInits()) {
    if (!isLong(init.getType()))
      continue;
    Value first = i64(reserve(init.getType())), second = i64(reserve(init.getType()));
    if (failed(storeAll(init, scratchAt(first, init.getType()))))
      return failure();
    inits.push_back(first);
    inits.push_back(second);
    pairTypes.append(2, b.getI64Type());
  }
  auto placeTypes = [&](TypeRange types) {
    SmallVector<Type> list;
    for (Type type : types)
      list.push_back(isLong(type) ? b.getI64Type() : type);
    list.append(pairTypes);
    return list;
  };
  SmallVector<Type> afterTypes = placeTypes(op.getConditionOp().getArgs().getTypes());
  b.setLoc(op.getLoc());
  auto loop = scf::WhileOp::create(b, afterTypes, inits);
  auto addBlock = [&](Region &region, TypeRange types) {
    OpBuilder::InsertionGuard guard(b);
    return b.createBlock(&region, region.end(), types, SmallVector<Location>(types.size(), op.getLoc()));
  };
  Block *before = addBlock(loop.getBefore(), ValueRange(inits).getTypes()),
        *after = addBlock(loop.getAfter(), afterTypes);
  before->getOperations().splice(before->end(), op.getBeforeBody()->getOperations());
  after->getOperations().splice(after->end(), op.getAfterBody()->getOperations());
  b.setInsertionPointToStart(before);
  unsigned nextShort = 0, nextLong = numShort;
  DenseMap<Value, Value> placeOf; // of the first region's tiles
  for (Value argument : op.getBeforeArguments()) {
    if (!isLong(argument.getType())) {
      argument.replaceAllUsesWith(before->getArgument(nextShort++));
      continue;
    }
    placeOf[argument] = before->getArgument(nextLong);
    scratchOf[argument] = scratchAt(before->getArgument(nextLong), argument.getType());
    nextLong += 2;
  }
  auto condition = cast<scf::ConditionOp>(before->getTerminator());
  auto finishBefore = [&]() -> LogicalResult {
    b.setInsertionPoint(condition);
    SmallVector<Value> operands;
    for (Value forwarded : condition.getArgs()) {
      if (!isLong(forwarded.getType())) {
        operands.push_back(forwarded);
      } else if (Value place = placeOf.lookup(forwarded)) {
        operands.push_back(place);
      } else {
        Value offset = i64(reserve(forwarded.getType()));
        ScopeGuard scope(*this);
        if (failed(storeAll(forwarded, scratchAt(offset, forwarded.getType()))))
          return failure();
        operands.push_back(offset);
      }
    }
    llvm::append_range(operands, before->getArguments().drop_front(numShort));
    scf::ConditionOp::create(b, condition.getLoc(), condition.getCondition(), operands);
    condition.erase();
    return success();
  };
  {
    ScopeGuard scope(*this);
    if (failed(runBlock(*before, finishBefore)))
      return failure();
  }
  b.setInsertionPointToStart(after);
  for (auto [argument, made] : llvm::zip(op.getAfterArguments(), after->getArguments())) {
    if (isLong(argument.getType()))
      scratchOf[argument] = scratchAt(made, argument.getType());
    else
      argument.replaceAllUsesWith(made);
  }
  Operation *yield = after->getTerminator();
  auto finishAfter = [&]() -> LogicalResult {
    b.setInsertionPoint(yield);
    SmallVector<Value> operands, pairs;
    unsigned nextPair = op.getAfterArguments().size();
    for (Value yielded : llvm::to_vector(yield->getOperands())) {
      if (!isLong(yielded.getType())) {
        operands.push_back(yielded);
        continue;
      }
      Value current = after->getArgument(nextPair), next = after->getArgument(nextPair + 1);
      nextPair += 2;
      ScopeGuard scope(*this);
      if (failed(storeAll(yielded, scratchAt(next, yielded.getType()))))
        return failure();
      pairs.push_back(next);
      pairs.push_back(current);
    }
    llvm::append_range(operands, pairs);
    scf::YieldOp::create(b, yield->getLoc(), operands);
    yield->erase();
    return success();
  };
  {
    ScopeGuard scope(*this);
    if (failed(runBlock(*after, finishAfter)))
      return failure();
  }
  b.setInsertionPointAfter(loop);
  for (auto [result, made] : llvm::zip(op.getResults(), loop.getResults())) {
    if (isLong(result.getType()))
      scratchOf[result] = scratchAt(made, result.getType());
    else
      result.replaceAllUsesWith(made);
  }
  return success();
}

//===-- tiles that grow evenly
//----------------------------------------------------------------------------------------===//

/// The scalar that all elements of an integer tile are, made before `at`; null if they differ.
static Value scalarOf(OpBuilder &b, Value value, int depth = 0) {
  if (!isa<RankedTensorType>(value.getType()))
    return value;
  Operation *op = value.getDefiningOp();
  if (!op || depth > 8)
    return Value();
  if (auto splat = dyn_cast<SplatOp>(op))
    return splat.getSource();
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto elements = dyn_cast<SplatElementsAttr>(constant.getValue());
    return elements ? arith::ConstantOp::create(b, op->getLoc(), cast<TypedAttr>(elements.getSplatValue<Attribute>()))
                          .getResult()
                    : Value();
  }
  if (isa<BroadcastOp, ExpandDimsOp, ReshapeOp>(op))
    return scalarOf(b, op->getOperand(0), depth + 1);
  if (!isa<arith::AddIOp, arith::MulIOp, arith::SubIOp, arith::ExtSIOp>(op))
    return Value();
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    Value scalar = scalarOf(b, operand, depth + 1);
    if (!scalar)
      return Value();
    mapping.map(operand, scalar);
  }
  Operation *clone = b.clone(*op, mapping);
  clone->getResult(0).setType(getElementTypeOrSelf(value.getType()));
  return clone->getResult(0);
}

void mlir::tile::splitCarriedTiles(KernelOp kernel) {
  SmallVector<scf::ForOp> loops;
  kernel.walk([&](scf::ForOp loop) { loops.push_back(loop); });
  for (scf::ForOp loop : loops) {
    auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
    for (unsigned index = 0; index < loop.getNumRegionIterArgs(); ++index) {
      Value argument = loop.getRegionIterArg(index);
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      bool isPointer = type && isa<PtrType>(type.getElementType());
      if (!type || (!isPointer && !type.getElementType().isIntOrIndex()))
        continue;
      // The chain of additions from what is yielded back to the argument.
      SmallVector<Value> steps;
      Value value = yield.getOperand(index);
      while (value != argument) {
        Operation *op = value.getDefiningOp();
        if (!op || op->getBlock() != loop.getBody())
          break;
        if (auto move = dyn_cast<PtrAddOp>(op)) {
          steps.push_back(move.getOffset());
          value = move.getBase();
        } else if (isa<arith::AddIOp>(op)) {
          bool isRight = op->getOperand(0) == argument ||
                         !isa_and_nonnull<SplatOp, arith::ConstantOp>(op->getOperand(0).getDefiningOp());
          steps.push_back(op->getOperand(isRight ? 1 : 0));
          value = op->getOperand(isRight ? 0 : 1);
        } else {
          break;
        }
      }
      if (value != argument)
        continue;
      OpBuilder b(yield);
      Type element = isPointer ? b.getI64Type() : type.getElementType();
      SmallVector<Value> scalars;
      for (Value step : steps) {
        Value scalar = scalarOf(b, step);
        if (!scalar)
          break;
        if (isPointer && !scalar.getType().isInteger(64))
          scalar = arith::ExtSIOp::create(b, yield.getLoc(), element, scalar);
        scalars.push_back(scalar);
      }
      if (scalars.size() != steps.size())
        continue;
      Location loc = loop.getLoc();
      b.setInsertionPoint(loop);
      Value zero = arith::ConstantOp::create(b, loc, b.getIntegerAttr(element, 0)), init = loop.getInitArgs()[index];
      loop.getInitArgsMutable()[index].set(zero);
      argument.setType(element);
      loop.getResult(index).setType(element);
      auto rebuild = [&](Value count) -> Value {
        Value spread = SplatOp::create(b, loc, RankedTensorType::get(type.getShape(), element), count);
        if (isPointer)
          return PtrAddOp::create(b, loc, type, init, spread);
        return arith::AddIOp::create(b, loc, init, spread);
      };
      b.setInsertionPointToStart(loop.getBody());
      Value inside = rebuild(argument);
      argument.replaceUsesWithIf(inside, [&](OpOperand &use) {
        return use.getOwner() != inside.getDefiningOp() && !isa<SplatOp>(use.getOwner());
      });
      b.setInsertionPoint(yield);
      Value sum = argument;
      for (Value scalar : scalars)
        sum = arith::AddIOp::create(b, loc, sum, scalar);
      yield->setOperand(index, sum);
      b.setInsertionPointAfter(loop);
      Value after = rebuild(loop.getResult(index));
      loop.getResult(index).replaceUsesWithIf(after, [&](OpOperand &use) {
        return use.getOwner() != after.getDefiningOp() && !isa<SplatOp>(use.getOwner());
      });
    }
  }
}
