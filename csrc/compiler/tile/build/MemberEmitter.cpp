// Bodies of loops as tile operations.
#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/graph/ir/Marks.h"
#include "compiler/tile/build/AxisEdges.h"
#include "compiler/tile/build/KernelEmitter.h"
#include "compiler/tile/ir/Marks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::strideAlong;
using torch_tile::fusion::withoutAxis;

namespace torch_tile::tile_build {

static std::optional<bool> constantBool(Value value) {
  if (APInt constant; matchPattern(value, m_ConstantInt(&constant)) && constant.getBitWidth() == 1)
    return constant.isOne();
  return std::nullopt;
}

static bool isTile(Value value) { return isa<RankedTensorType>(value.getType()); }

Value KernelEmitter::reuse(Operation *op) {
  llvm::hash_code hash =
      OperationEquivalence::computeHash(op, OperationEquivalence::directHashValue,
                                        OperationEquivalence::ignoreHashValue, OperationEquivalence::IgnoreLocations);
  unsigned key = (unsigned)(size_t)hash;
  for (Scope &scope : scopes)
    if (auto it = scope.ops.find(key); it != scope.ops.end())
      for (Operation *other : it->second)
        if (OperationEquivalence::isEquivalentTo(op, other, OperationEquivalence::exactValueMatch, nullptr,
                                                 OperationEquivalence::IgnoreLocations)) {
          op->erase();
          return other->getResult(0);
        }
  scopes.back().ops[key].push_back(op);
  return op->getResult(0);
}

/// Lanes and rows inside the domain, as a mask.
Value KernelEmitter::gatherMask() {
  Type i32 = builder.getI32Type();
  auto inside = [&](Value position, Value count) {
    Value valid = reuse(arith::TruncIOp::create(builder, i32, count));
    valid = reuse(tile::SplatOp::create(builder, position.getType(), valid));
    return reuse(arith::CmpIOp::create(builder, arith::CmpIPredicate::slt, position, valid));
  };
  if (!hasRows()) {
    Value begin = skippedMask(), end;
    if (validLanes)
      end = inside(reuse(tile::IotaOp::create(builder, RankedTensorType::get(tileShape(), i32))), validLanes);
    return begin && end ? reuse(arith::AndIOp::create(builder, begin, end)) : begin ? begin : end;
  }
  auto [row, lane] = tilePositions();
  Value mask = validLanes ? inside(lane, validLanes) : Value();
  if (!validRows)
    return mask;
  Value rowMask = inside(row, validRows);
  return mask ? reuse(arith::AndIOp::create(builder, mask, rowMask)) : rowMask;
}

/// Row and lane of each element of a tile with two axes (i32).
std::pair<Value, Value> KernelEmitter::tilePositions() {
  Type i32 = builder.getI32Type();
  Value flat = reuse(tile::IotaOp::create(builder, RankedTensorType::get({schedule.rows * schedule.lanes}, i32)));
  auto type = RankedTensorType::get(tileShape(), i32);
  flat = reuse(tile::ReshapeOp::create(builder, type, flat));
  Value lanes = reuse(arith::ConstantOp::create(builder, builder.getI32IntegerAttr((int32_t)schedule.lanes)));
  lanes = reuse(tile::SplatOp::create(builder, type, lanes));
  return {reuse(arith::DivUIOp::create(builder, flat, lanes)), reuse(arith::RemUIOp::create(builder, flat, lanes))};
}

/// Axes with those of the tile as tiles of indices.
ExprEmitter::Bindings KernelEmitter::tileBindings() {
  ExprEmitter::Bindings result = bindings;
  if (schedule.vectorAxis < 0)
    return result;
  auto type = RankedTensorType::get(tileShape(), builder.getI64Type());
  auto shifted = [&](Value position, StringRef name) {
    Value first = reuse(tile::SplatOp::create(builder, type, bindings[name]));
    result[name] = reuse(arith::AddIOp::create(builder, first, position));
  };
  if (!hasRows()) {
    shifted(reuse(tile::IotaOp::create(builder, type)), vectorName());
    return result;
  }
  auto [row, lane] = tilePositions();
  shifted(reuse(arith::ExtUIOp::create(builder, type, row)), rowName());
  shifted(reuse(arith::ExtUIOp::create(builder, type, lane)), vectorName());
  return result;
}

bool KernelEmitter::isLinear(SizeExpr offset) const {
  if (schedule.vectorAxis >= 0 && !strideAlong(loops.sizes(), offset, vectorName()))
    return false;
  return !hasRows() || strideAlong(loops.sizes(), offset, rowName());
}

KernelEmitter::ValueList KernelEmitter::emitBody(const FusedMember &member, ValueList *scalars, Value *writeMask) {
  DenseMap<Value, Value> mapping;
  auto lookup = [&](Value value) { return mapping.lookup(value); };
  LoopsOp op = member.op;
  for (Operation &inner : op.bodyBlock()->without_terminator()) {
    if (auto write = dyn_cast<WriteAtOp>(inner)) {
      llvm::append_range(*scalars, llvm::map_range(write.getScalars(), lookup));
      *writeMask = write.getMask() ? lookup(write.getMask()) : Value();
      continue;
    }
    Value value;
    if (auto load = dyn_cast<LoadOp>(inner)) {
      value = emitLoad(load, lookup);
    } else if (auto index = dyn_cast<IndexOp>(inner)) {
      SizeExpr expr = loops.exprOf(index);
      ExprEmitter::Bindings values = isAlongTile(expr) ? tileBindings() : bindings;
      for (auto [k, scalar] : llvm::enumerate(index.getScalars()))
        values["x" + std::to_string(k)] = lookup(scalar);
      value = exprs.emit(expr, values);
    } else if (auto check = dyn_cast<CheckIndexOp>(inner)) {
      Value position = lookup(check.getIndex());
      Value mask = check.getMask() ? lookup(check.getMask()) : Value();
      if (mask && isTile(mask) != isTile(position)) {
        mask = toTile(builder, mask, tileShape());
        position = toTile(builder, position, tileShape());
      }
      Value valid = isTile(position) ? validLanes : Value();
      if (isTile(position) && hasRows()) { // `valid` counts along the first axis alone
        valid = {};
        if (Value inside = validLanes || validRows ? gatherMask() : Value())
          mask = mask ? reuse(arith::AndIOp::create(builder, mask, inside)) : inside;
      } else if (Value inside = isTile(position) ? skippedMask() : Value()) {
        mask = mask ? reuse(arith::AndIOp::create(builder, mask, inside)) : inside;
      }
      Value size = exprs.emit(check.getSize().getValue(), {});
      // Checks of 32-bit indices take half the registers.
      APInt known;
      Type type = position.getType();
      auto widened = position.getDefiningOp<arith::ExtSIOp>();
      if (widened && getElementTypeOrSelf(widened.getIn()).isInteger(32) && matchPattern(size, m_ConstantInt(&known)) &&
          known.sle(INT32_MAX))
        position = widened.getIn();
      OpBuilder &at = builder;
      value = reuse(tile::CheckIndexOp::create(at, check.getLoc(), position.getType(), position, size, valid, mask,
                                               check.getWrapAttr(), /*line=*/builder.getI64IntegerAttr(0),
                                               check.getDivisionAttr()));
      if (value.getType() != type)
        value = reuse(arith::ExtSIOp::create(builder, type, value));
    } else if (auto uniform = dyn_cast<UniformOp>(inner)) {
      Value counter = lookup(uniform.getCounter());
      Type type = isTile(counter) ? tileOf(builder.getF32Type()) : (Type)builder.getF32Type();
      value = reuse(tile::UniformOp::create(builder, type, lookup(uniform.getSeed()), counter, uniform.getSaltAttr()));
    } else {
      value = emitGeneric(inner, lookup);
    }
    mapping[inner.getResult(0)] = value;
  }
  ValueList values;
  for (Value value : op.bodyBlock()->getTerminator()->getOperands())
    values.push_back(lookup(value));
  return values;
}

/// What the graph says of an operation, as tiles say it.
void KernelEmitter::passMarks(Operation *op) {
  for (auto [ofGraph, ofTile] : {std::pair(graph::kAtMostZero, tile::kAtMostZero), {graph::kWeight, tile::kWeight}})
    if (op->removeDiscardableAttr(ofGraph))
      op->setDiscardableAttr(ofTile, builder.getUnitAttr());
}

/// Arithmetic: scalar on scalars, tile-wise as soon as one operand is a tile.
Value KernelEmitter::emitGeneric(Operation &op, llvm::function_ref<Value(Value)> lookup) {
  if (auto it = decided.find(&op); it != decided.end())
    return reuse(arith::ConstantOp::create(builder, builder.getBoolAttr(it->second)));
  // What a constant decides, whatever the other lanes are.
  if (isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op))
    for (unsigned k = 0; k < 2; ++k)
      if (std::optional<bool> known = constantBool(lookup(op.getOperand(k)))) {
        Value other = lookup(op.getOperand(1 - k));
        if (isa<arith::AndIOp>(op))
          return *known ? other : lookup(op.getOperand(k));
        if (isa<arith::OrIOp>(op))
          return *known ? lookup(op.getOperand(k)) : other;
        if (!*known)
          return other;
      }
  std::optional<bool> choice =
      op.getNumOperands() == 3 && isa<arith::SelectOp>(op) ? constantBool(lookup(op.getOperand(0))) : std::nullopt;
  if (choice)
    return lookup(op.getOperand(*choice ? 1 : 2));
  IRMapping mapping;
  bool any = llvm::any_of(op.getOperands(), [&](Value v) { return isTile(lookup(v)); });
  SizeExpr bound = loops.boundOf(&op);
  int bounded = bound ? boundOperand(cast<arith::CmpIOp>(op)) : -1;
  for (auto [k, operand] : llvm::enumerate(op.getOperands())) {
    Value value = (int)k == bounded ? exprs.emit(bound, {}) : lookup(operand);
    mapping.map(operand, any ? toTile(builder, value, tileShape()) : value);
  }
  Operation *copy = builder.clone(op, mapping);
  copy->setLoc(builder.getLoc());
  passMarks(copy);
  if (any)
    copy->getResult(0).setType(tileOf(op.getResult(0).getType()));
  if (auto select = dyn_cast<arith::SelectOp>(copy)) // of what is carried in fewer bits
    select.getResult().setType(select.getTrueValue().getType());
  // What constant indices decide: comparisons for masks.
  if (SmallVector<Value, 1> folded; !any && isa<arith::CmpIOp, arith::XOrIOp, arith::AndIOp, arith::OrIOp>(copy) &&
                                    succeeded(builder.tryFold(copy, folded)) && !folded.empty()) {
    copy->erase();
    return folded.front();
  }
  return reuse(copy);
}

//===-- loads ---------------------------------------------------------------------------------------------------===//

Value KernelEmitter::emitLoad(LoadOp load, llvm::function_ref<Value(Value)> lookup) {
  if (loops.producer(load.getSource())) {
    Value value = spreadColumn(valueOf(load.getSource()));
    if (!load.getMask())
      return value;
    Value mask = lookup(load.getMask()), other = lookup(load.getOther());
    if (std::optional<bool> isInside = constantBool(mask))
      return *isInside ? value : other;
    if (isTile(mask) || isTile(value) || isTile(other)) {
      mask = toTile(builder, mask, tileShape());
      value = toTile(builder, value, tileShape());
      other = toTile(builder, other, tileShape());
    }
    return reuse(arith::SelectOp::create(builder, mask, value, other));
  }
  ExprEmitter::Bindings scalars;
  bool scalarsVary = false;
  for (auto [k, scalar] : llvm::enumerate(load.getScalars())) {
    Value value = lookup(scalar);
    scalars["x" + std::to_string(k)] = value;
    scalarsVary |= isTile(value);
  }
  SizeExpr offset = loops.exprOf(load);
  if (segment)
    offset = inPart(loops, vectorName(), offset, segment->first, segment->second);
  if (!load.getMask())
    return emitMemory(load, offset, scalars, scalarsVary, {}, {});
  Value mask = lookup(load.getMask()), other = lookup(load.getOther());
  if (std::optional<bool> isInside = constantBool(mask))
    return *isInside ? emitMemory(load, offset, scalars, scalarsVary, {}, {}) : other;
  if (isTile(mask)) {
    return emitMemory(load, offset, scalars, scalarsVary, mask, other);
  }
  // One answer for all lanes: a branch.
  bool isScalar = !scalarsVary && isUniform(offset) && !isTile(other);
  Type type = isScalar ? load.getType() : tileOf(load.getType());
  auto shape = isScalar ? SmallVector<int64_t>() : tileShape();
  ++conditionDepth;
  llvm::scope_exit leave([&] { --conditionDepth; });
  return emitIf(
      mask, type,
      [&]() -> ValueList { return {toTile(builder, emitMemory(load, offset, scalars, scalarsVary, {}, {}), shape)}; },
      [&]() -> ValueList { return {toTile(builder, other, shape)}; })[0];
}

Value KernelEmitter::emitMemory(LoadOp load, SizeExpr offset, const ExprEmitter::Bindings &scalars, bool scalarsVary,
                                Value mask, Value other) {
  Value pointer = pointerOf(load.getSource());
  for (auto &entry : scalars)
    bindings[entry.first()] = entry.second;
  llvm::scope_exit restore([&] {
    for (auto &entry : scalars)
      bindings.erase(entry.first());
  });
  bool isStructured = isLinear(offset);
  if (!scalarsVary && isStructured && !mask)
    return load.getScalars().empty() && isHeld(offset) ? heldLoad(load, offset)
                                                       : structuredLoad(pointer, offset, load.getType());
  // A mask over elements that lie side by side.
  auto isContiguousAlong = [&](StringRef name) { return strideAlong(loops.sizes(), offset, name)->isConstant(1); };
  bool isContiguous = isStructured && schedule.vectorAxis >= 0 &&
                      (isContiguousAlong(vectorName()) || (hasRows() && isContiguousAlong(rowName())));
  if (!scalarsVary && isContiguous) {
    Value value = structuredLoad(pointer, offset, load.getType(), mask, isOneOfSeveral(load));
    return other ? reuse(arith::SelectOp::create(builder, mask, value, toTile(builder, other, tileShape()))) : value;
  }

  return gatherElements(load, offset, scalarsVary, mask, other);
}

Value KernelEmitter::structuredLoad(Value pointer, SizeExpr offset, Type elementType, Value mask, bool isOneOfSeveral) {
  SizeContext &sizes = loops.sizes();
  SizeExpr lane = sizes.constant(0), row = sizes.constant(0);
  if (schedule.vectorAxis >= 0)
    lane = *strideAlong(sizes, offset, vectorName());
  if (hasRows())
    row = *strideAlong(sizes, offset, rowName());
  Value base = exprs.emit(offset, bindings);
  if (lane.isConstant(0) && row.isConstant(0))
    return reuse(tile::LoadOp::create(builder, elementType, pointer, base, ValueRange(),
                                      builder.getDenseI64ArrayAttr({}), ValueRange(), Value(), Value()));

  SmallVector<Value> strides;
  SmallVector<int64_t> staticStrides;
  auto addStride = [&](SizeExpr stride) {
    if (std::optional<int64_t> value = stride.constant()) {
      staticStrides.push_back(*value);
    } else {
      staticStrides.push_back(ShapedType::kDynamic);
      strides.push_back(exprs.emit(stride, bindings));
    }
  };
  if (!hasRows()) {
    addStride(lane);
    ValueList valid;
    if (validLanes)
      valid.push_back(validLanes);
    // A piece of which a lane lies in the row is in the same word of memory as that lane: of the buffer.
    bool hasAlignedPieces = lane.isConstant(1) && isAlignedToo(offset);
    if (Value inside = mask || !hasAlignedPieces ? skippedMask() : Value())
      mask = mask ? reuse(arith::AndIOp::create(builder, mask, inside)) : inside;
    auto load = tile::LoadOp::create(builder, tileOf(elementType), pointer, base, strides,
                                     builder.getDenseI64ArrayAttr(staticStrides), valid, mask, Value());
    if (hasAlignedPieces)
      setMultiple(load);
    else if (isSurrounded && !mask && lane.isConstant(1))
      load->setAttr("tile.surrounded", builder.getUnitAttr());
    if (isOneOfSeveral)
      load->setAttr(tile::kOneOfSeveral, builder.getUnitAttr());
    return reuse(load);
  }
  // Contiguous along the rows: read it that way round and turn it in registers.
  bool isTransposed = row.isConstant(1) && !lane.isConstant(0) && !lane.isConstant(1);
  ValueList valid = validOfTile();
  if (isTransposed && !valid.empty())
    std::swap(valid[0], valid[1]);
  if (isTransposed && mask)
    mask = reuse(tile::TransOp::create(builder,
                                       RankedTensorType::get({schedule.lanes, schedule.rows}, builder.getI1Type()),
                                       mask, builder.getDenseI64ArrayAttr({1, 0})));
  addStride(isTransposed ? lane : row);
  addStride(isTransposed ? row : lane);
  SmallVector<int64_t> shape = tileShape();
  if (isTransposed)
    std::swap(shape[0], shape[1]);
  auto load = tile::LoadOp::create(builder, RankedTensorType::get(shape, elementType), pointer, base, strides,
                                   builder.getDenseI64ArrayAttr(staticStrides), valid, mask, Value());
  if (isOneOfSeveral)
    load->setAttr(tile::kOneOfSeveral, builder.getUnitAttr());
  Value value = reuse(load);
  if (isTransposed)
    value = reuse(tile::TransOp::create(builder, tileOf(elementType), value, builder.getDenseI64ArrayAttr({1, 0})));
  return value;
}

//===-- values of members ---------------------------------------------------------------------------------------===//

/// The value of a member's result at the current point: what is in registers, what an earlier stage stored, or computed
/// anew.
Value KernelEmitter::valueOf(Value result) {
  for (Scope &scope : llvm::reverse(scopes))
    if (auto it = scope.values.find(result); it != scope.values.end())
      return it->second;
  const FusedMember *member = loops.producer(result);
  if (member->stage < currentStage && escapes(result))
    return loadBack(result);
  if (kept.contains(result) && kept.lookup(result).stage < currentStage)
    return loadKept(result);
  LoopsOp op = member->op;
  assert(!op.isReduction() && member->isFull && "values on the parallel axes are made before they are used");
  for (auto [other, value] : llvm::zip(op.getOutputs(), emitBody(*member))) {
    scopes.back().values[other] = value;
    if (isWorthKeeping(*member))
      keep(other, value);
  }
  return scopes.back().values.lookup(result);
}

Value KernelEmitter::loadBack(Value result) {
  Value value = structuredLoad(pointerOf(result), loops.offsetOf(result),
                               scalarType(cast<GraphTensorType>(result.getType()).getElementType()));
  scopes.back().values[result] = value;
  return value;
}

/// How many indices of each axis of a tile are valid; nothing where all are.
KernelEmitter::ValueList KernelEmitter::validOfTile() {
  if (!hasRows())
    return validLanes ? ValueList{validLanes} : ValueList();
  if (!validLanes && !validRows)
    return {};
  return {validRows ? validRows : exprs.constant(schedule.rows),
          validLanes ? validLanes : exprs.constant(schedule.lanes)};
}

void KernelEmitter::store(Value value, Value result, Value where) {
  SizeContext &sizes = loops.sizes();
  SizeExpr offset = loops.offsetOf(result);
  SizeExpr lane = schedule.vectorAxis >= 0 ? *strideAlong(sizes, offset, vectorName()) : sizes.constant(0);
  SizeExpr row = hasRows() ? *strideAlong(sizes, offset, rowName()) : sizes.constant(0);
  Value base = exprs.emit(offset, bindings);
  SmallVector<Value> strides, valid;
  SmallVector<int64_t> staticStrides;
  bool isScalar = !isTile(value) && lane.isConstant(0) && row.isConstant(0);
  if (!isScalar) {
    value = toTile(builder, value, tileShape());
    auto addStride = [&](SizeExpr stride) {
      std::optional<int64_t> constant = stride.constant();
      staticStrides.push_back(constant.value_or(ShapedType::kDynamic));
      if (!constant)
        strides.push_back(exprs.emit(stride, bindings));
    };
    valid = validOfTile();
    // Contiguous along the rows: turned before it is stored.
    if (hasRows() && row.isConstant(1) && !lane.isConstant(0) && !lane.isConstant(1)) {
      auto type = RankedTensorType::get({schedule.lanes, schedule.rows}, getElementTypeOrSelf(value.getType()));
      value = tile::TransOp::create(builder, type, value, builder.getDenseI64ArrayAttr({1, 0}));
      if (where)
        where = tile::TransOp::create(builder, type.clone(builder.getI1Type()), where,
                                      builder.getDenseI64ArrayAttr({1, 0}));
      std::swap(row, lane);
      if (!valid.empty())
        std::swap(valid[0], valid[1]);
    }
    if (hasRows())
      addStride(row);
    addStride(lane);
  }
  Value mask = isScalar || hasRows() ? Value() : skippedMask();
  if (where)
    mask = mask ? reuse(arith::AndIOp::create(builder, mask, where)) : where;
  auto made = tile::StoreOp::create(builder, value, pointerOf(result), base, strides,
                                    builder.getDenseI64ArrayAttr(staticStrides), valid, mask);
  if (!isScalar && lane.isConstant(1) && isAlignedToo(offset))
    setMultiple(made);
}

void KernelEmitter::setMultiple(Operation *access) {
  access->setAttr("tile.multiple", builder.getI64IntegerAttr(schedule.alignedLanes));
}

} // namespace torch_tile::tile_build
