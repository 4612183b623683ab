// The stages of a kernel: what is reduced first, and what then reads the results.
#include "compiler/tile/build/KernelEmitter.h"

#include "compiler/fusion/Combiner.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/tile/build/OnlineSum.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;

namespace torch_tile::tile_build {

/// Points of a reduced axis, and their operations, that are written one after the other.
static constexpr int64_t fewPoints = 4, fewPointsWork = 64;

void KernelEmitter::emitStages() {
  if (!tileEdges.empty() && !validLanes && !skippedLanes)
    return emitBetweenEdges(0);
  SmallVector<Operation *> masks;
  Value hold = hasReducedAxes() ? masksHold(masks) : Value();
  if (!hold)
    return emitEachStage();
  emitIf(
      hold, {},
      [&] {
        for (Operation *mask : masks)
          decided[mask] = true;
        emitEachStage();
        decided.clear();
        return ValueList();
      },
      [&] {
        emitEachStage();
        return ValueList();
      });
}

void KernelEmitter::emitEachStage() {
  ScopeGuard scope(*this);
  for (int stage = 0; stage < loops.numStages; ++stage) {
    currentStage = stage;
    emitParallelMembers(/*isStored=*/true);
    if (hasReducedAxes())
      emitReducedStage(stage);
  }
}

/// What lives on the parallel axes alone comes before the stage's loop.
void KernelEmitter::emitParallelMembers(bool isStored) {
  for (const FusedMember &member : loops.members) {
    if (member.stage != currentStage || (member.isFull && hasReducedAxes()))
      continue;
    LoopsOp op = member.op;
    if (op.getWriteAt()) {
      emitOrdered(member, initialOf(op));
      continue;
    }
    std::optional<ColumnGuard> column;
    if (hasColumns())
      column.emplace(*this);
    // A reduction over no axes is what its body says.
    for (auto [result, value] : llvm::zip(op.getOutputs(), emitBody(member))) {
      scopes.back().values[result] = value;
      if (isStored && escapes(result))
        store(value, result);
    }
  }
}

/// What the only tile of a reduction gave, and the identities that a loop would have begun with.
void KernelEmitter::addIdentities(LoopsOp op, ValueList &values) {
  for (auto [k, value] : llvm::enumerate(values)) {
    if (!fusion::isFloatSum(op, k))
      continue;
    Value identity = arith::ConstantOp::create(builder, cast<TypedAttr>(op.getInitsAttr()[k]));
    if (auto tile = dyn_cast<RankedTensorType>(value.getType()))
      identity = toTile(builder, identity, tile.getShape());
    value = arith::AddFOp::create(builder, identity, value);
  }
}

/// The reductions of a stage, and what is stored in its loop, with what they begin from.
SmallVector<KernelEmitter::Reduction> KernelEmitter::reductionsOf(int stage, ValueList &initial) {
  SmallVector<Reduction> items;
  for (const FusedMember &member : loops.members) {
    LoopsOp op = member.op;
    if (!member.isFull || member.stage != stage || finished.contains(&member))
      continue;
    if (op.isReduction() || op.getWriteAt()) {
      items.push_back({&member, kindsOf(op)});
      initial.append(initialOf(op));
      if (items.back().kinds.empty())
        continue;
      auto own = MutableArrayRef(initial).take_back(items.back().kinds.size());
      for (auto [kind, value, init] : llvm::zip(items.back().kinds, own, op.getInitsAttr()))
        value = initialOf(kind, cast<TypedAttr>(init), value);
    } else if (llvm::any_of(op.getOutputs(), [&](Value v) { return escapes(v); })) {
      items.push_back({&member, {}});
    }
  }
  return items;
}

/// One point of the reduced axes (or one tile of points): stores what leaves the kernel, and what `carried` becomes.
/// `hasIdentity` is set where lanes past the end contribute the identity.
KernelEmitter::ValueList KernelEmitter::emitPoint(ArrayRef<Reduction> items, const SumBlocks &blocks,
                                                  ValueRange carried, bool &hasIdentity) {
  bool isOnly = isOnlyTile();
  ValueList next;
  for (const Reduction &item : items) {
    LoopsOp op = item.member->op;
    if (op.getWriteAt()) {
      next.append(emitOrdered(*item.member, carried.slice(next.size(), op.isScan() ? op.getNumResults() : 0)));
      continue;
    }
    if (!op.isReduction()) {
      storeResults(op);
      continue;
    }
    ValueList values = emitBody(*item.member);
    for (auto [value, init, kind] : llvm::zip(values, op.getInitsAttr(), item.kinds)) {
      bool isPartial = (isVectorReduced() && isPartialTile() && !dropsLanesAtEnd()) || (isRowReduced() && validRows);
      if (kind == Carried::Uniform && !isPartial)
        continue;
      value = toTile(builder, value, tileShape());
      Value identity = arith::ConstantOp::create(builder, cast<TypedAttr>(init));
      if (kind == Carried::Narrow)
        value = reuse(arith::TruncIOp::create(builder, tileOf(builder.getI32Type()), value));
      if (!isPartial)
        continue;
      // Lanes past the end contribute the identity.
      hasIdentity = true;
      identity = initialOf(kind, cast<TypedAttr>(init), identity);
      Value rest = toTile(builder, identity, tileShape());
      value = arith::SelectOp::create(builder, gatherMask(), value, rest);
    }
    ValueRange accumulated = carried.slice(next.size(), values.size());
    // Nothing came before: what is combined with the identity stays as it is.
    bool isFirst = options.isGpu && blocks.isInitial(accumulated, next.size());
    if (foldsRowsAtOnce()) {
      for (Value &value : values)
        value = toTile(builder, value, tileShape());
      values = fold(op, std::move(values), /*axis=*/0);
      isInRowLoop = false; // what is combined has no rows any more
      next.append(combine(op.getCombine(), accumulated, values, tileShape(), item.kinds));
      isInRowLoop = true;
      continue;
    }
    if (isOnly || isFirst)
      for (auto [value, kind] : llvm::zip(values, item.kinds))
        next.push_back(kind == Carried::Uniform ? value : toTile(builder, value, tileShape()));
    else
      next.append(combine(op.getCombine(), accumulated, values, tileShape(), item.kinds));
  }
  return next;
}

/// The only reduction of a stage, if nothing else in its loop depends on the order of points; else null.
const FusedMember *KernelEmitter::onlyReductionOf(ArrayRef<Reduction> items) {
  const FusedMember *only = nullptr;
  for (const Reduction &item : items) {
    LoopsOp op = item.member->op;
    if (op.getWriteAt() || (op.isReduction() && only))
      return nullptr;
    if (op.isReduction())
      only = item.member;
  }
  return only;
}

/// Of a pointwise member in the loop of a reduction, what leaves the kernel.
void KernelEmitter::storeResults(LoopsOp op) {
  for (Value result : op.getOutputs())
    if (escapes(result))
      store(valueOf(result), result);
}

/// Of what tiles gave, lanes past the end of the vector axis become the identity.
void KernelEmitter::dropLanes(LoopsOp op, ArrayRef<Carried> kinds, ValueList &values) {
  isInRowLoop = true;
  validLanes = exprs.emit(loops.axes[schedule.vectorAxis].extent, {});
  for (auto [value, init, kind] : llvm::zip(values, op.getInitsAttr(), kinds)) {
    Value identity = arith::ConstantOp::create(builder, cast<TypedAttr>(init));
    identity = toTile(builder, initialOf(kind, cast<TypedAttr>(init), identity), tileShape());
    value = arith::SelectOp::create(builder, gatherMask(), toTile(builder, value, tileShape()), identity);
  }
  validLanes = {};
  isInRowLoop = false;
}

void KernelEmitter::emitReducedStage(int stage) {
  ValueList initial;
  SmallVector<Reduction> items = reductionsOf(stage, initial);
  if (items.empty())
    return;
  if (schedule.isOnline)
    if (const FusedMember *maximum = onlyReductionOf(items))
      if (const FusedMember *sum = onlineSumOf(loops, *maximum))
        return emitOnline(*maximum, *sum, items);

  bool hasIdentity = !isOnlyTile();
  ValueList folded;
  if (isStreamed()) {
    folded = loadStreamed(streamedLevels - 1, initial);
  } else {
    SumBlocks blocks(*this, items, initial);
    folded =
        emitReducedAxes(0, initial, [&](ValueRange carried) { return emitPoint(items, blocks, carried, hasIdentity); });
  }

  unsigned next = 0;
  for (const Reduction &item : items) {
    LoopsOp op = item.member->op;
    if (op.isScan())
      next += op.getNumResults();
    if (!op.isReduction())
      continue;
    ValueList values(ArrayRef<Value>(folded).slice(next, op.getNumResults()));
    next += op.getNumResults();
    if (dropsLanesAtEnd()) {
      dropLanes(op, item.kinds, values);
      hasIdentity = true;
    }
    if (isVectorReduced() || (isRowReduced() && !foldsRowsAtOnce())) {
      for (Value &value : values)
        value = toTile(builder, value, accumulatorShape());
      values = fold(op, std::move(values), /*axis=*/foldedAxis());
      if (isVectorReduced() && isRowReduced())
        values = fold(op, std::move(values), /*axis=*/0);
    }
    if (!hasIdentity)
      addIdentities(op, values);
    for (auto [result, value, kind] : llvm::zip(op.getOutputs(), values, item.kinds)) {
      if (kind == Carried::Narrow) {
        auto tile = dyn_cast<RankedTensorType>(value.getType());
        Type wide = builder.getI64Type();
        value = arith::ExtSIOp::create(builder, tile ? Type(tile.clone(wide)) : wide, value);
      }
      scopes.back().values[result] = value;
      std::optional<ColumnGuard> column;
      if (hasColumns())
        column.emplace(*this);
      if (escapes(result))
        store(value, result);
    }
  }
}

KernelEmitter::ColumnGuard::ColumnGuard(KernelEmitter &emitter)
    : emitter(emitter), schedule(emitter.schedule), validLanes(emitter.validLanes), validRows(emitter.validRows) {
  emitter.schedule.vectorAxis = schedule.rowAxis;
  emitter.schedule.lanes = schedule.rows;
  emitter.schedule.rowAxis = -1;
  emitter.schedule.rows = 1;
  emitter.validLanes = validRows;
  emitter.validRows = {};
}

KernelEmitter::ColumnGuard::~ColumnGuard() {
  emitter.schedule = schedule;
  emitter.validLanes = validLanes;
  emitter.validRows = validRows;
}

/// One lane for each row, as all lanes of the row.
Value KernelEmitter::spreadColumn(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!hasColumns() || !type || type.getRank() != 1)
    return value;
  auto column = RankedTensorType::get({schedule.rows, 1}, type.getElementType());
  value = reuse(tile::ExpandDimsOp::create(builder, column, value, builder.getI64IntegerAttr(1)));
  return reuse(tile::BroadcastOp::create(builder, RankedTensorType::get(tileShape(), type.getElementType()), value));
}

/// Combines the partial results of tiles along one axis.
KernelEmitter::ValueList KernelEmitter::fold(LoopsOp op, ValueList values, int64_t axis) {
  SmallVector<Type> types;
  for (Value value : values) {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape.erase(shape.begin() + axis);
    types.push_back(shape.empty() ? type.getElementType() : RankedTensorType::get(shape, type.getElementType()));
  }
  auto reduce = tile::ReduceOp::create(builder, types, values, builder.getI64IntegerAttr(axis));
  IRMapping mapping;
  op.getCombine().cloneInto(&reduce.getCombine(), mapping);
  Block &block = reduce.getCombine().front();
  for (auto [k, argument] : llvm::enumerate(block.getArguments()))
    argument.setType(cast<RankedTensorType>(values[k % values.size()].getType()).getElementType());
  for (Operation &inner : block)
    passMarks(&inner);
  for (auto choice : block.getOps<arith::SelectOp>()) // of what is carried in fewer bits
    choice.getResult().setType(choice.getTrueValue().getType());
  Operation *yield = block.getTerminator();
  OpBuilder inside(yield);
  tile::YieldOp::create(inside, op.getLoc(), yield->getOperands());
  yield->erase();
  return spreadRows(ValueList(reduce.getResults()));
}

/// Results of rows side by side are held by all lanes of their row.
KernelEmitter::ValueList KernelEmitter::spreadRows(ValueList values) {
  if (schedule.rowAxis < 0 || isRowReduced() || !isVectorReduced() || hasColumns())
    return values;
  for (Value &value : values) {
    Type element = getElementTypeOrSelf(value.getType());
    auto column = RankedTensorType::get({schedule.rows, 1}, element);
    value = tile::ExpandDimsOp::create(builder, column, value, builder.getI64IntegerAttr(1));
    value = tile::BroadcastOp::create(builder, RankedTensorType::get(tileShape(), element), value);
  }
  return values;
}

/// Loops over the reduced axes from number `axis` on, the vector or row axis innermost.
KernelEmitter::ValueList KernelEmitter::emitReducedAxes(unsigned axis, ValueRange carried, BodyFn body) {
  auto next = [&](unsigned k) {
    while (k < loops.axes.size() &&
           (!loops.axes[k].reduced || (int)k == schedule.vectorAxis || (int)k == schedule.rowAxis))
      ++k;
    return k;
  };
  axis = next(axis);
  if (axis == loops.axes.size()) {
    if (isRowReduced() && isVectorReduced()) { // one tile holds the whole vector axis
      bindings[vectorName()] = exprs.constant(0);
      if (!isAlwaysFull())
        validLanes = exprs.emit(loops.axes[schedule.vectorAxis].extent, {});
      ValueList values = emitRowLoop(carried, body);
      validLanes = {};
      return values;
    }
    if (isRowReduced())
      return emitRowLoop(carried, body);
    if (schedule.isVectorInnermost)
      return emitVectorLoop(blockLow, blockHigh, isAlwaysFull(), carried, body);
    if (!isVectorReduced()) {
      ScopeGuard scope(*this);
      return body(carried);
    }
    if (isAligned())
      return emitAlignedRow(carried, body);
    const Axis &vector = loops.axes[schedule.vectorAxis];
    return emitSegments(exprs.constant(0), exprs.emit(vector.extent, {}), isAlwaysFull(), carried, body);
  }
  bool isInnermost = next(axis + 1) == loops.axes.size() && (!isVectorReduced() || isOneTile()) && !isRowReduced();
  if (isInnermost && schedule.unroll > 1)
    return emitUnrolled(loops.axes[axis], carried, body);
  // A few points without a loop: their indices are constants.
  std::optional<int64_t> length = loops.axes[axis].extent.constant();
  if (!options.isGpu && !loops.isOrdered() && length && *length <= fewPoints &&
      *length * (loops.work() + (int)loops.accesses().size()) <= fewPointsWork) {
    ValueList values(carried);
    for (int64_t k = 0; k < *length; ++k) {
      bindings[loops.axes[axis].name] = exprs.constant(k);
      ScopeGuard scope(*this);
      values = emitReducedAxes(axis + 1, values, body);
    }
    return values;
  }
  SizeExpr extent = loops.axes[axis].extent;
  return emitReducedFor(exprs.constant(0), exprs.emit(extent, {}), 1, extent, termsFrom(axis + 1), carried,
                        [&](Value index, ValueRange inner) {
                          bindings[loops.axes[axis].name] = index;
                          return emitReducedAxes(axis + 1, inner, body);
                        });
}

/// Several points in one iteration, one after the other; then what is left.
KernelEmitter::ValueList KernelEmitter::emitUnrolled(const Axis &axis, ValueRange carried, BodyFn body) {
  auto point = [&](Value index, ValueRange values) {
    bindings[axis.name] = index;
    ScopeGuard scope(*this);
    return emitReducedAxes(loops.axes.size(), values, body); // what is left are the lanes
  };
  std::optional<int64_t> known = axis.extent.constant();
  if (known && *known <= schedule.unroll) // no loop: what one stage has loaded is there for the next
    return emitSteps(*known, carried, [&](int64_t k, ValueRange before) { return point(exprs.constant(k), before); });
  Value extent = exprs.emit(axis.extent, {});
  Value left = reuse(arith::RemUIOp::create(builder, extent, exprs.constant(schedule.unroll)));
  Value whole = reuse(arith::SubIOp::create(builder, extent, left));
  auto group = [&](Value index, ValueRange inner) {
    if (loops.isScan())
      loadAhead(axis.name, index);
    return emitSteps(schedule.unroll, inner, [&](int64_t k, ValueRange before) {
      return point(reuse(arith::AddIOp::create(builder, index, exprs.constant(k))), before);
    });
  };
  ValueList values =
      emitReducedFor(exprs.constant(0), whole, schedule.unroll, axis.extent, schedule.unroll, carried, group);
  if (known)
    return emitSteps(*known % schedule.unroll, values, [&](int64_t k, ValueRange before) {
      return point(exprs.constant(*known / schedule.unroll * schedule.unroll + k), before);
    });
  return emitFor(whole, extent, 1, values, point);
}

/// The reduced row axis in tiles of rows.
KernelEmitter::ValueList KernelEmitter::emitRowLoop(ValueRange carried, BodyFn body) {
  const Axis &axis = loops.axes[schedule.rowAxis];
  Value extent = exprs.emit(axis.extent, {});
  isInRowLoop = true;
  auto tile = [&](Value index, ValueRange values) {
    bindings[axis.name] = index;
    ScopeGuard scope(*this);
    return body(values);
  };
  auto partial = [&](Value index, ValueRange values) {
    validRows = reuse(arith::SubIOp::create(builder, extent, index));
    ValueList result = tile(index, values);
    validRows = {};
    return result;
  };
  int64_t step = schedule.rows * schedule.unroll;
  std::optional<int64_t> known = axis.extent.constant();
  Value whole = known ? exprs.constant(*known / step * step) : Value();
  if (!known) {
    Value left = reuse(arith::RemUIOp::create(builder, extent, exprs.constant(step)));
    whole = reuse(arith::SubIOp::create(builder, extent, left));
  }
  auto group = [&](Value index, ValueRange inner) {
    return emitSteps(schedule.unroll, inner, [&](int64_t k, ValueRange before) {
      return tile(reuse(arith::AddIOp::create(builder, index, exprs.constant(k * schedule.rows))), before);
    });
  };
  ValueList values = emitReducedFor(exprs.constant(0), whole, step, axis.extent, schedule.unroll, carried, group);
  bool isExact = loops.facts().divides(loops.sizes().constant(step), axis.extent) == Proof::Yes;
  if (!isExact && known && options.isGpu) { // straight code: all loads are under way together
    int64_t first = *known / step * step, rest = *known - first;
    values = emitSteps(llvm::divideCeil(rest, schedule.rows), values, [&](int64_t k, ValueRange before) {
      int64_t at = first + k * schedule.rows;
      return (at + schedule.rows <= *known ? ValueList(tile(exprs.constant(at), before))
                                           : partial(exprs.constant(at), before));
    });
  } else if (!isExact) {
    values = emitFor(whole, extent, schedule.rows, values, partial);
  }
  isInRowLoop = false;
  return values;
}

} // namespace torch_tile::tile_build
