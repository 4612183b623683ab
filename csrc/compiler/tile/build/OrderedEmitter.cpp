// Scatters and scans: what writes at every point of axes whose order matters.
#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/tile/build/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::strideAlong;

namespace torch_tile::tile_build {

static constexpr int cheapWork = 8;

static bool isTile(Value value) { return isa<RankedTensorType>(value.getType()); }

/// A copy of a loops combiner as the region of a tile op, on elements of `types`, of which some may have fewer bits.
static void cloneCombiner(Region &from, Region &to, TypeRange types = {}) {
  IRMapping mapping;
  from.cloneInto(&to, mapping);
  for (auto [k, type] : llvm::enumerate(types))
    for (size_t side : {size_t(0), types.size()})
      to.front().getArgument(side + k).setType(getElementTypeOrSelf(type));
  for (auto choice : to.front().getOps<arith::SelectOp>())
    choice.getResult().setType(choice.getTrueValue().getType());
  Operation *yield = to.front().getTerminator();
  OpBuilder inside(yield);
  tile::YieldOp::create(inside, yield->getLoc(), yield->getOperands());
  yield->erase();
}

/// The atomic update by which a GPU's threads combine, if there is one.
static std::optional<tile::AtomicKind> atomicKindOf(Region &combine) {
  using tile::AtomicKind;
  if (combine.empty() || !llvm::hasSingleElement(combine.front().without_terminator()))
    return std::nullopt;
  return llvm::TypeSwitch<Operation *, std::optional<AtomicKind>>(&combine.front().front())
      .Case<arith::AddFOp, arith::AddIOp>([](Operation *) { return AtomicKind::Add; })
      .Case([](arith::MaximumFOp) { return AtomicKind::Maximum; })
      .Case([](arith::MinimumFOp) { return AtomicKind::Minimum; })
      .Case([](arith::MaxSIOp) { return AtomicKind::Max; })
      .Case([](arith::MinSIOp) { return AtomicKind::Min; })
      .Default([](Operation *) { return std::nullopt; });
}

/// Whether combining takes no longer than moving a value between scalars and lanes.
static bool isCheap(Region &combine) {
  int work = 0;
  for (Operation &op : combine.front())
    work += torch_tile::fusion::costOf(&op);
  return work <= cheapWork;
}

/// What the loops over the reduced axes carry at first. A scan along the lanes carries what its last lane has, in all
/// lanes, or as a scalar where combining takes long or lanes are those of threads.
KernelEmitter::ValueList KernelEmitter::initialOf(LoopsOp op) {
  ValueList initial;
  if (ArrayAttr inits = op.getInitsAttr())
    for (Attribute init : inits) {
      Value identity = arith::ConstantOp::create(builder, cast<TypedAttr>(init));
      bool isScalar = op.isScan() && isVectorReduced() && (options.isGpu || !isCheap(op.getCombine()));
      initial.push_back(isScalar ? identity : toTile(builder, identity, accumulatorShape()));
    }
  return initial;
}

/// Returns what the next point carries.
KernelEmitter::ValueList KernelEmitter::emitOrdered(const FusedMember &member, ValueRange carried) {
  LoopsOp op = member.op;
  ValueList scalars;
  Value mask;
  ValueList values = emitBody(member, &scalars, &mask);
  if (op.isScan())
    return emitScan(op, values, carried, mask);
  if (!mask || isTile(mask)) {
    emitScatter(op, values, scalars, mask);
    return {};
  }
  auto write = [&]() -> ValueList {
    emitScatter(op, values, scalars, {});
    return {};
  };
  emitIf(mask, {}, write, [] { return ValueList(); });
  return {};
}

KernelEmitter::ValueList KernelEmitter::emitScan(LoopsOp op, ValueRange values, ValueRange carried, Value mask) {
  ValueList tiles = llvm::map_to_vector(values, [&](Value value) { return toTile(builder, value, tileShape()); });
  ValueList folded, next;
  if (isVectorReduced()) {
    for (auto [tile, kind, init] : llvm::zip_equal(tiles, kindsOf(op), op.getInitsAttr())) {
      if (kind == Carried::Narrow)
        tile = reuse(arith::TruncIOp::create(builder, tileOf(builder.getI32Type()), tile));
      if (!options.isGpu || !isPartialTile())
        continue;
      // Lanes past the end hold the identity, so that the last one of a tile has what is carried.
      Value usual = arith::ConstantOp::create(builder, cast<TypedAttr>(init));
      Value identity = initialOf(kind, cast<TypedAttr>(init), usual);
      Value rest = toTile(builder, identity, tileShape());
      tile = arith::SelectOp::create(builder, gatherMask(), tile, rest);
    }
    auto scan =
        tile::ScanOp::create(builder, ValueRange(tiles).getTypes(), tiles, builder.getI64IntegerAttr(hasRows() ? 1 : 0),
                             /*reverse=*/UnitAttr());
    cloneCombiner(op.getCombine(), scan.getCombine(), ValueRange(tiles).getTypes());
    if (isOnlyTile()) {
      storeScanned(op, scan.getOutputs(), mask);
      return ValueList(carried);
    }
    // What is carried goes from tile to tile by one step each, apart from the work on tiles.
    Value last = validLanes && !options.isGpu
                     ? arith::SubIOp::create(builder, validLanes, exprs.constant(1)).getResult()
                     : exprs.constant(schedule.lanes - 1);
    ValueList ends;
    for (Value tile : scan.getOutputs())
      ends.push_back(
          tile::ExtractOp::create(builder, cast<RankedTensorType>(tile.getType()).getElementType(), tile, last));
    auto spread = [&](Value value) { return toTile(builder, value, tileShape()); };
    if (llvm::all_of(carried, isTile))
      ends = llvm::map_to_vector(ends, spread);
    next =
        combine(op.getCombine(), carried, ends, llvm::all_of(carried, isTile) ? tileShape() : SmallVector<int64_t>());
    ValueList before = llvm::map_to_vector(carried, spread);
    folded = combine(op.getCombine(), before, scan.getOutputs(), tileShape());
  } else {
    folded = combine(op.getCombine(), carried, tiles, tileShape());
    next = folded;
  }
  storeScanned(op, folded, mask);
  return next;
}

/// What a scan has folded up to each point, rounded to the results' types: it is stored, and pointwise members read it.
void KernelEmitter::storeScanned(LoopsOp op, ValueRange folded, Value mask) {
  for (auto [result, value] : llvm::zip(op.getOutputs(), folded)) {
    Type element = scalarType(cast<GraphTensorType>(result.getType()).getElementType());
    if (getElementTypeOrSelf(value) != element) {
      Type type = isTile(value) ? tileOf(element) : element;
      value = isa<FloatType>(element) ? arith::TruncFOp::create(builder, type, value).getResult()
                                      : arith::ExtSIOp::create(builder, type, value).getResult();
    }
    scopes.back().values[result] = value;
    if (!escapes(result))
      continue;
    auto write = [&, value = value, result = result]() -> ValueList {
      store(value, result, mask && isTile(mask) ? mask : Value());
      return {};
    };
    if (mask && !isTile(mask))
      emitIf(mask, {}, write, [] { return ValueList(); });
    else
      write();
  }
}

/// What the points of one iteration read, before the first of them writes: the loads are under way together.
void KernelEmitter::loadAhead(StringRef axis, Value index) {
  if (llvm::any_of(loops.members, [](const FusedMember &member) { return !LoopsOp(member.op).getDests().empty(); }))
    return;
  for (int64_t k = 0; k < schedule.unroll; ++k) {
    bindings[axis] = reuse(arith::AddIOp::create(builder, index, exprs.constant(k)));
    for (const FusedMember &member : loops.members)
      if (member.isFull && LoopsOp(member.op).isScan()) {
        ValueList scalars;
        Value mask;
        emitBody(member, &scalars, &mask);
      }
  }
}

/// What has been read so far is read anew from here on.
void KernelEmitter::forgetLoads() {
  for (Scope &scope : scopes)
    for (auto &[hash, ops] : scope.ops)
      llvm::erase_if(ops, [](Operation *op) { return isa<tile::LoadOp, tile::GatherOp>(op); });
}

/// Reads, combines and writes elements of the destination. Lanes that may meet are taken one after the other.
void KernelEmitter::emitScatter(LoopsOp op, ValueRange values, ValueRange scalars, Value mask) {
  for (auto [k, scalar] : llvm::enumerate(scalars))
    bindings["x" + std::to_string(k)] = scalar;
  llvm::scope_exit restore([&] {
    for (size_t k = 0; k < scalars.size(); ++k)
      bindings.erase("x" + std::to_string(k));
  });
  bool scalarsVary = llvm::any_of(scalars, isTile);
  std::optional<tile::AtomicKind> atomic =
      options.isGpu && op.isFreeScatter() ? atomicKindOf(op.getCombine()) : std::nullopt;
  bool isAtomic = atomic.has_value();
  for (auto [result, value] : llvm::zip(op.getOutputs(), values)) {
    SizeExpr offset = loops.offsetOf(result);
    Type element = scalarType(cast<GraphTensorType>(result.getType()).getElementType());
    std::optional<SizeExpr> stride =
        schedule.vectorAxis < 0 ? loops.sizes().constant(0) : strideAlong(loops.sizes(), offset, vectorName());
    // Nothing loads what is updated atomically.
    if (!isAtomic)
      forgetLoads();
    llvm::scope_exit forget([&] {
      if (!isAtomic)
        forgetLoads();
    });
    // Lanes side by side, or one element.
    bool isStructured = !isAtomic && !scalarsVary && stride &&
                        (schedule.vectorAxis < 0 || (!isVectorReduced() && !stride->isConstant(0)));
    if (isStructured) {
      if (mask || !op.getCombine().empty()) {
        Value held = structuredLoad(pointerOf(result), offset, element);
        ValueList combined{toTile(builder, value, tileShape())};
        if (!op.getCombine().empty())
          combined = combine(op.getCombine(), held, combined, tileShape());
        value = mask ? arith::SelectOp::create(builder, mask, combined[0], held).getResult() : combined[0];
      }
      store(value, result);
      continue;
    }
    auto [pointer, offsets] = placesOf(result, offset);
    Value active = mask;
    if (isPartialTile() || (hasRows() && validRows)) {
      Value inside = gatherMask();
      active = mask ? arith::AndIOp::create(builder, mask, inside).getResult() : inside;
    }
    if (isAtomic) {
      tile::AtomicRmwOp::create(builder, *atomic, toTile(builder, value, tileShape()), pointer, offsets, active,
                                /*relaxed=*/true);
      continue;
    }
    // Lanes along a parallel axis never meet: they are read and written as one.
    bool isParallel = !isVectorReduced() && !op.getCombine().empty();
    if (isParallel) {
      Value held = tile::GatherOp::create(builder, tileOf(element), pointer, offsets, active, Value());
      value = combine(op.getCombine(), held, toTile(builder, value, tileShape()), tileShape())[0];
    }
    auto scatter = tile::ScatterOp::create(builder, toTile(builder, value, tileShape()), pointer, offsets, active);
    if (!op.getCombine().empty() && !isParallel)
      cloneCombiner(op.getCombine(), scatter.getCombine());
  }
}

} // namespace torch_tile::tile_build
