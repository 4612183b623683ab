#include "compiler/graph/transforms/LoopNest.h"

#include "compiler/analysis/Memory.h"
#include "support/ExprBudget.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::Proof;
using torch_tile::SizeContext;
using torch_tile::SizeExpr;

bool mlir::graph::isVirtual(Operation *op) { return isa_and_present<FullOp, SizeValueOp, IotaOp>(op); }

//===-- Lowering ------------------------------------------------------------------------------------------------===//

void Lowering::declareAxes(char kind, ArrayRef<SizeExpr> extents) {
  SmallVector<SizeExpr> &known = declared[kind == 'r'];
  for (auto [k, extent] : llvm::enumerate(extents)) {
    if (k < known.size() && known[k] == extent)
      continue;
    facts.setExtent(std::string(1, kind) + std::to_string(k), extent);
    known.resize(std::max<size_t>(known.size(), k + 1));
    known[k] = extent;
  }
}

Value Lowering::baseOf(Value value) const {
  auto it = views.find(value);
  return it == views.end() ? value : it->second.base;
}

ViewMap Lowering::mapOf(Value value) {
  auto it = views.find(value);
  if (it != views.end())
    return it->second;
  ViewMap map{value, {}};
  for (auto [k, size] : llvm::enumerate(cast<GraphTensorType>(value.getType()).getSizes()))
    map.indices.push_back(size.isConstant(1) ? sizes.constant(0) : axisSymbol(sizes, 'i', k));
  return map;
}

static bool isDestination(Value value) {
  return llvm::any_of(value.getUses(), [](OpOperand &use) {
    auto copy = dyn_cast<CopyToOp>(use.getOwner());
    return copy && use.get() == copy.getDest();
  });
}

void Lowering::addView(OpBuilder &builder, Operation *view) {
  composeView(builder, view);
  // What is written has a tensor of its own in memory, through which it is read, too: so loops see that they read the
  // elements that they write.
  Value result = view->getResult(0);
  if (!isDestination(result))
    return;
  pin(builder, result);
  Value buffer = materialize(builder, result);
  if (!shareStorage(buffer, result))
    return; // lowerCopyTo refuses
  views.erase(result);
  result.replaceAllUsesWith(buffer);
}

void Lowering::composeView(OpBuilder &builder, Operation *view) {
  Value operand = view->getOperand(0);
  declareAxes('i', cast<GraphTensorType>(view->getResult(0).getType()).getSizes());
  SmallVector<SizeExpr> indices = viewIndices(view, facts);
  auto it = views.find(operand);
  if (it == views.end()) {
    views[view->getResult(0)] = {operand, std::move(indices)};
    return;
  }
  ViewMap composed{it->second.base, {}};
  for (SizeExpr e : it->second.indices)
    composed.indices.push_back(facts.simplify(substituteAxes(sizes, e, indices)));
  if (llvm::any_of(composed.indices, [&](SizeExpr e) { return treeSize(e) > options.maxIndexNodes; }))
    composed = {materialize(builder, operand), std::move(indices)};
  views[view->getResult(0)] = std::move(composed);
}

SizeExpr Lowering::offsetOf(const ViewMap &map) {
  auto base = cast<GraphTensorType>(map.base.getType());
  SmallVector<SizeExpr> origin(64, sizes.constant(0)); // more than torch has dimensions
  SizeExpr offset = sizes.constant(0);
  for (auto [index, stride, size] : llvm::zip(map.indices, base.getStrides(), base.getSizes())) {
    SizeExpr first = substituteAxes(sizes, index, origin);
    // An empty tensor has no elements; a division by its size has no value.
    if (first.isValid())
      offset = sizes.add(offset, sizes.mul(first, stride));
  }
  return facts.simplify(offset);
}

/// Whether the strides that a view claims are those its index map gives. Expressions with divisions that stay are taken
/// at the type's word: the strides are torch's.
bool Lowering::hasStridesOfView(const ViewMap &map, GraphTensorType type) {
  auto base = cast<GraphTensorType>(map.base.getType());
  declareAxes('i', type.getSizes());
  SizeExpr address = sizes.neg(offsetOf(map));
  for (auto [index, stride] : llvm::zip(map.indices, base.getStrides()))
    address = sizes.add(address, sizes.mul(index, stride));
  for (auto [k, size] : llvm::enumerate(type.getSizes()))
    if (!size.isConstant(1))
      address = sizes.sub(address, sizes.mul(axisSymbol(sizes, 'i', k), type.getStrides()[k]));
  SizeExpr difference = facts.simplify(address);
  if (!difference.isValid() || difference.isConstant(0) || llvm::is_contained(type.getSizes(), sizes.constant(0)))
    return true;
  for (const torch_tile::SizeTerm &term : SizeContext::terms(difference))
    for (const auto &[factor, power] : term.factors)
      if (SizeContext::asCall(factor))
        return true;
  return facts.equal(difference, sizes.constant(0)) == Proof::Yes;
}

void Lowering::pin(OpBuilder &builder, Value value) {
  Value base = baseOf(value);
  if (!isVirtual(base.getDefiningOp()))
    return;
  Value buffer = materialize(builder, base);
  base.replaceAllUsesWith(buffer);
  for (auto &[view, map] : views)
    if (map.base == base) {
      map.base = buffer;
      materialized.erase(view);
    }
}

bool Lowering::shareStorage(Value a, Value b) const {
  return torch_tile::analysis::mayShareMemory(baseOf(a), baseOf(b));
}

Value Lowering::copy(OpBuilder &builder, Location loc, Value value) {
  auto type = cast<GraphTensorType>(value.getType());
  auto dense = GraphTensorType::getContiguous(type.getContext(), type.getSizes(), type.getElementType());
  LoopNest nest(*this, builder, loc, TypeRange(dense), type.getSizes());
  return nest.yield(nest.load(value, nest.at())).getResult(0);
}

Value Lowering::materialize(OpBuilder &builder, Value value) {
  auto type = dyn_cast<GraphTensorType>(value.getType());
  auto it = views.find(value);
  bool isView = it != views.end();
  if (!type || (!isView && !isVirtual(value.getDefiningOp())))
    return value;
  Value &known = materialized[value];
  if (known)
    return known;
  Location loc = value.getLoc();
  Value buffer;
  if (isView && !isVirtual(it->second.base.getDefiningOp()) && hasStridesOfView(it->second, type)) {
    SizeExpr offset = offsetOf(it->second);
    if (it->second.base.getType() == type && offset.isConstant(0))
      return known = it->second.base;
    buffer = AliasOp::create(builder, loc, type, it->second.base, ExprAttr::get(type.getContext(), offset));
  } else {
    LoopNest nest(*this, builder, loc, TypeRange(type), type.getSizes());
    buffer = nest.yield(nest.load(value, nest.at())).getResult(0);
  }
  return materialized[value] = buffer;
}

//===-- LoopNest ------------------------------------------------------------------------------------------------===//

static LoopsOp createLoops(OpBuilder &builder, Location loc, TypeRange results, ArrayRef<SizeExpr> parallel,
                           ArrayRef<SizeExpr> reduced, Value dest) {
  SmallVector<Attribute> axes;
  auto add = [&](char kind, ArrayRef<SizeExpr> extents, bool isReduced) {
    for (auto [k, extent] : llvm::enumerate(extents))
      axes.push_back(
          AxisAttr::get(builder.getContext(), builder.getStringAttr(Twine(kind) + Twine(k)), extent, isReduced));
  };
  add('i', parallel, false);
  add('r', reduced, true);
  auto loops = LoopsOp::create(
      builder, loc, results, builder.getArrayAttr(axes), dest ? ValueRange(dest) : ValueRange(),
      dest ? builder.getDenseI64ArrayAttr({0}) : DenseI64ArrayAttr(), /*inits=*/ArrayAttr(), /*axis_map=*/ArrayAttr());
  loops.getBody().emplaceBlock();
  return loops;
}

LoopNest::LoopNest(Lowering &lowering, OpBuilder &builder, Location loc, TypeRange results, ArrayRef<SizeExpr> parallel,
                   ArrayRef<SizeExpr> reduced, Value dest)
    : lowering(lowering), op(createLoops(builder, loc, results, parallel, reduced, dest)),
      body(OpBuilder::atBlockEnd(op.bodyBlock())), scalarBuilder(body, loc) {
  parallelExtents.assign(parallel.begin(), parallel.end());
  for (SizeExpr extent : llvm::concat<const SizeExpr>(parallel, reduced))
    lowering.hasOverflow |= !extent.isValid();
  lowering.declareAxes('i', parallel);
  lowering.declareAxes('r', reduced);
  auto point = [&](char kind, ArrayRef<SizeExpr> extents, SmallVectorImpl<SizeExpr> &indices) {
    for (auto [k, extent] : llvm::enumerate(extents))
      indices.push_back(extent.isConstant(1) ? lowering.sizes.constant(0) : axisSymbol(lowering.sizes, kind, k));
  };
  point('i', parallel, parallelIndices);
  point('r', reduced, reducedIndices);
}

Value LoopNest::index(SizeExpr e, ValueRange dynamic) {
  e = lowering.facts.simplify(e);
  if (std::optional<int64_t> constant = e.constant())
    return scalarBuilder.intConstant(body.getI64Type(), *constant);
  return IndexOp::create(body, scalarBuilder.loc, body.getI64Type(), ExprAttr::get(body.getContext(), e), dynamic);
}

Value LoopNest::loadVirtual(Operation *creation, ArrayRef<SizeExpr> at, ValueRange dynamic) {
  Type type = cast<GraphTensorType>(creation->getResult(0).getType()).getElementType();
  Type i64 = body.getI64Type();
  auto asNumber = [&](Attribute attribute, Type to) {
    if (auto expr = dyn_cast<ExprAttr>(attribute))
      return scalarBuilder.cast(index(expr.getValue()), i64, to);
    return scalarBuilder.constant(to, attribute);
  };
  return llvm::TypeSwitch<Operation *, Value>(creation)
      .Case([&](FullOp full) { return scalarBuilder.constant(type, full.getValueAttr()); })
      .Case([&](SizeValueOp value) { return scalarBuilder.cast(index(exprOf(value.getExprAttr())), i64, type); })
      .Case([&](IotaOp iota) {
        auto isInteger = [](Attribute attribute) { return isa<IntegerAttr, ExprAttr>(attribute); };
        if (isInteger(iota.getStartAttr()) && isInteger(iota.getStepAttr())) {
          SizeExpr value =
              lowering.sizes.add(exprOf(iota.getStartAttr()), lowering.sizes.mul(exprOf(iota.getStepAttr()), at[0]));
          return scalarBuilder.cast(index(value, dynamic), i64, type);
        }
        Type wide = computeType(type);
        Value scaled = scalarBuilder.make<arith::MulFOp>(scalarBuilder.cast(index(at[0], dynamic), i64, wide),
                                                         asNumber(iota.getStepAttr(), wide));
        return scalarBuilder.cast(scalarBuilder.make<arith::AddFOp>(asNumber(iota.getStartAttr(), wide), scaled), wide,
                                  type);
      });
}

Value LoopNest::load(Value tensor, ArrayRef<SizeExpr> at, ValueRange dynamic, Value mask, Value other) {
  Value base = lowering.baseOf(tensor);
  SmallVector<SizeExpr> indices(at);
  if (base != tensor) {
    SmallVector<SizeExpr> viewIndices = std::move(lowering.mapOf(tensor).indices);
    indices.clear();
    for (SizeExpr e : viewIndices)
      indices.push_back(substituteAxes(lowering.sizes, e, at));
  }
  for (SizeExpr &e : indices) {
    if (!e.isConstant() && !e.symbol())
      e = lowering.facts.simplify(e);
    lowering.hasOverflow |= !e.isValid();
  }
  if (isVirtual(base.getDefiningOp())) {
    Value value = loadVirtual(base.getDefiningOp(), indices, dynamic);
    return mask ? scalarBuilder.select(mask, value, other) : value;
  }
  Type type = scalarType(cast<GraphTensorType>(base.getType()).getElementType());
  return LoadOp::create(body, scalarBuilder.loc, type, base, exprArray(body.getContext(), indices), dynamic, mask,
                        other);
}

Value LoopNest::loadBroadcast(Value tensor) {
  return load(tensor, broadcastIndices(lowering.sizes, cast<GraphTensorType>(tensor.getType()).getSizes(),
                                       parallelIndices, parallelExtents));
}

/// Constants that folding left without a use.
static void eraseDeadScalars(Block &block) {
  for (Operation &each : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&each))
      each.erase();
}

LoopsOp LoopNest::yield(ValueRange values) {
  YieldOp::create(body, scalarBuilder.loc, values);
  eraseDeadScalars(*op.bodyBlock());
  return op;
}

LoopsOp LoopNest::reduce(ValueRange values, ArrayRef<Attribute> inits, Combine combine) {
  // Nothing to combine: the one value is the result.
  if (reducedIndices.empty())
    return yield(values);
  return yieldAndCombine(values, inits, combine);
}

void LoopNest::writeAt(ArrayRef<SizeExpr> indices, ValueRange dynamic, Value mask) {
  SmallVector<SizeExpr> simplified =
      llvm::map_to_vector(indices, [&](SizeExpr e) { return lowering.facts.simplify(e); });
  for (SizeExpr e : simplified)
    lowering.hasOverflow |= !e.isValid();
  WriteAtOp::create(body, scalarBuilder.loc, exprArray(body.getContext(), simplified), dynamic, mask);
}

LoopsOp LoopNest::accumulate(ValueRange values, Combine combine) { return yieldAndCombine(values, {}, combine); }

LoopsOp LoopNest::scan(ValueRange values, ArrayRef<Attribute> inits, Combine combine) {
  return yieldAndCombine(values, inits, combine);
}

LoopsOp LoopNest::yieldAndCombine(ValueRange values, ArrayRef<Attribute> inits, Combine combine) {
  YieldOp::create(body, scalarBuilder.loc, values);
  eraseDeadScalars(*op.bodyBlock());
  op.setInitsAttr(body.getArrayAttr(inits));
  Block &block = op.getCombine().emplaceBlock();
  for (int side = 0; side < 2; ++side)
    for (Value value : values)
      block.addArgument(value.getType(), scalarBuilder.loc);
  OpBuilder builder = OpBuilder::atBlockEnd(&block);
  ScalarBuilder combineScalars(builder, scalarBuilder.loc);
  SmallVector<Value> combined = combine(combineScalars, block.getArguments().take_front(values.size()),
                                        block.getArguments().drop_front(values.size()));
  YieldOp::create(builder, scalarBuilder.loc, combined);
  return op;
}
