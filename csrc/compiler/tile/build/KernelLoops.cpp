// Control flow of a kernel: loops over an axis in whole tiles and what is left, branches, and combiners.
#include "compiler/tile/build/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::Axis;

namespace torch_tile::tile_build {

/// Whether the last tile along an axis may be moved back so that it is whole: its first elements are computed twice, to
/// the same values. Half the code, and no masks. Not where a kernel reads what it overwrites, nor, which the caller
/// knows, where elements are added up.
bool KernelEmitter::mayOverlap(int axis, int64_t size) const {
  const Axis &along = loops.axes[axis];
  if (options.isGpu || loops.isOrdered() || loops.facts().range(along.extent).min < size ||
      loops.facts().divides(loops.sizes().constant(size), along.extent) == Proof::Yes)
    return false;
  return llvm::none_of(loops.members, [](const FusedMember &member) {
    LoopsOp op = member.op;
    return !op.getDests().empty() ||
           llvm::any_of(*op.bodyBlock(), [](Operation &inner) { return isa<UniformOp>(inner); });
  });
}

/// The first index of a tile that ends at `high` at the latest.
Value KernelEmitter::movedInside(Value index, Value high, int64_t size) {
  Value latest = reuse(arith::SubIOp::create(builder, high, exprs.constant(size)));
  return reuse(arith::MinSIOp::create(builder, index, latest));
}

/// [low, high) in whole tiles, then what is left as one partial tile.
KernelEmitter::ValueList KernelEmitter::emitVectorLoop(Value low, Value high, bool alwaysFull, ValueRange carried,
                                                       BodyFn body) {
  auto constantOf = [](Value value) -> std::optional<int64_t> {
    if (auto constant = value.getDefiningOp<arith::ConstantOp>())
      return cast<IntegerAttr>(constant.getValue()).getInt();
    return std::nullopt;
  };
  auto full = [&](Value index, ValueRange inner) {
    bindings[vectorName()] = index;
    ScopeGuard scope(*this);
    return body(inner);
  };
  auto partial = [&](Value index, ValueRange inner) {
    bindings[vectorName()] = index;
    std::optional<int64_t> end = constantOf(high), begin = constantOf(index);
    validLanes = end && begin ? exprs.constant(*end - *begin) : arith::SubIOp::create(builder, high, index).getResult();
    ScopeGuard scope(*this);
    ValueList result = body(inner);
    validLanes = {};
    return result;
  };
  std::optional<int64_t> first = constantOf(low), last = constantOf(high);
  // One tile is no loop: what it makes is there for the stages that follow.
  bool isSingle = first && last ? *last > *first && *last - *first <= schedule.lanes
                                : schedule.block == schedule.lanes && options.isGpu && !isVectorReduced();
  if (isSingle) {
    bindings[vectorName()] = low;
    bool isWhole = first && last ? *last - *first == schedule.lanes : alwaysFull;
    if (isWhole)
      return body(carried);
    // Accesses take the short way by themselves where all lanes are valid.
    Value left = first && last && !options.isGpu ? exprs.constant(*last - *first)
                                                 : reuse(arith::SubIOp::create(builder, high, low));
    auto partial = [&] {
      validLanes = left;
      ValueList result = body(carried);
      validLanes = {};
      return result;
    };
    if (!carried.empty() || !hasTwoVersions() || isNeverFull(schedule.vectorAxis, schedule.lanes))
      return partial();
    Value isFull = arith::CmpIOp::create(builder, arith::CmpIPredicate::sge, left, exprs.constant(schedule.lanes));
    return emitIf(isFull, {}, [&] { return body({}); }, partial);
  }
  bool isInside = first && last ? *last - *first >= schedule.lanes : segmentEnds.empty();
  if (carried.empty() && !alwaysFull && isInside && mayOverlap(schedule.vectorAxis, schedule.lanes)) {
    if (schedule.block == schedule.lanes)
      return full(movedInside(low, high, schedule.lanes), {});
    return emitFor(low, high, schedule.lanes, {},
                   [&](Value index, ValueRange) { return full(movedInside(index, high, schedule.lanes), {}); });
  }
  int64_t unroll = isVectorReduced() && options.isGpu ? schedule.unroll : 1;
  int64_t step = schedule.lanes * unroll;
  auto group = [&](Value index, ValueRange inner) {
    return emitSteps(unroll, inner, [&](int64_t k, ValueRange before) {
      return full(reuse(arith::AddIOp::create(builder, index, exprs.constant(k * schedule.lanes))), before);
    });
  };
  // Of a parallel axis nothing is carried.
  auto loop = [&](Value from, Value to, int64_t by, ValueRange values, LoopFn each) {
    return emitReducedFor(from, to, by, loops.axes[schedule.vectorAxis].extent, by / schedule.lanes, values, each);
  };
  if (first && last) {
    int64_t length = *last - *first, grouped = unroll > 1 ? length / step * step : 0;
    int64_t whole = length / schedule.lanes * schedule.lanes;
    ValueList values(carried);
    if (grouped > 0)
      values = loop(low, exprs.constant(*first + grouped), step, values, group);
    if (unroll > 1) {
      int64_t rest = (int64_t)llvm::divideCeil(length - grouped, schedule.lanes);
      return emitSteps(rest, values, [&](int64_t k, ValueRange before) {
        int64_t at = grouped + k * schedule.lanes;
        Value index = exprs.constant(*first + at);
        return at < whole ? full(index, before) : partial(index, before);
      });
    }
    if (whole - grouped == schedule.lanes)
      values = full(exprs.constant(*first + grouped), values);
    else if (whole > grouped)
      values = loop(exprs.constant(*first + grouped), exprs.constant(*first + whole), schedule.lanes, values, full);
    if (*first + whole < *last)
      values = partial(exprs.constant(*first + whole), values);
    return values;
  }
  ValueList values(carried);
  if (unroll > 1) {
    Value length = arith::SubIOp::create(builder, high, low);
    Value grouped =
        arith::SubIOp::create(builder, length, arith::RemUIOp::create(builder, length, exprs.constant(step)));
    Value middle = arith::AddIOp::create(builder, low, grouped);
    values = loop(low, middle, step, values, group);
    low = middle;
  }
  if (alwaysFull)
    return loop(low, high, schedule.lanes, values, full);
  Value length = arith::SubIOp::create(builder, high, low);
  Value whole =
      arith::SubIOp::create(builder, length, arith::RemUIOp::create(builder, length, exprs.constant(schedule.lanes)));
  Value middle = arith::AddIOp::create(builder, low, whole);
  values = loop(low, middle, schedule.lanes, values, full);
  Value isLeft = arith::CmpIOp::create(builder, arith::CmpIPredicate::slt, middle, high);
  SmallVector<Type> types = llvm::to_vector(ValueRange(values).getTypes());
  return emitIf(isLeft, types, [&] { return partial(middle, values); }, [&] { return values; });
}

KernelEmitter::ValueList KernelEmitter::emitFor(Value low, Value high, int64_t step, ValueRange carried, LoopFn body) {
  auto loop = scf::ForOp::create(builder, low, high, exprs.constant(step), carried);
  OpBuilder::InsertionGuard guard(builder);
  Block *block = loop.getBody();
  if (carried.empty())
    builder.setInsertionPoint(block->getTerminator());
  else
    builder.setInsertionPointToEnd(block);
  ScopeGuard scope(*this);
  ValueList values = body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!carried.empty())
    scf::YieldOp::create(builder, values);
  return ValueList(loop.getResults());
}

KernelEmitter::ValueList KernelEmitter::emitIf(Value condition, TypeRange types, llvm::function_ref<ValueList()> then,
                                               llvm::function_ref<ValueList()> otherwise) {
  auto branch = scf::IfOp::create(builder, types, condition, /*addThenBlock=*/true, /*addElseBlock=*/true);
  for (bool taken : {true, false}) {
    OpBuilder::InsertionGuard guard(builder);
    Block *block = taken ? branch.thenBlock() : branch.elseBlock();
    if (block->mightHaveTerminator())
      builder.setInsertionPoint(block->getTerminator());
    else
      builder.setInsertionPointToEnd(block);
    ScopeGuard scope(*this);
    ValueList values = taken ? then() : otherwise();
    if (!block->mightHaveTerminator())
      scf::YieldOp::create(builder, values);
  }
  return ValueList(branch.getResults());
}

KernelEmitter::ValueList KernelEmitter::combine(Region &region, ValueRange left, ValueRange right,
                                                ArrayRef<int64_t> shape, ArrayRef<Carried> kinds) {
  DenseMap<Value, Value> mapping;
  Block &block = region.front();
  for (auto [argument, value] : llvm::zip(block.getArguments().take_front(left.size()), left))
    mapping[argument] = value;
  for (auto [argument, value] : llvm::zip(block.getArguments().drop_front(left.size()), right))
    mapping[argument] = value;
  auto lookup = [&](Value value) { return mapping.lookup(value); };
  for (Operation &op : block.without_terminator())
    mapping[op.getResult(0)] = emitGeneric(op, lookup);
  ValueList values;
  for (auto [k, value] : llvm::enumerate(block.getTerminator()->getOperands())) {
    bool isUniform = k < kinds.size() && kinds[k] == Carried::Uniform;
    values.push_back(isUniform ? lookup(value) : toTile(builder, lookup(value), shape));
  }
  return values;
}

} // namespace torch_tile::tile_build
