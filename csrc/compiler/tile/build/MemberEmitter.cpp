// Bodies of loops as tile operations.
#include "compiler/fusion/Access.h"
#include "compiler/fusion/FusionCost.h"
#include "compiler/tile/build/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace mlir::graph;
using torch_tile::fusion::strideAlong;
using torch_tile::fusion::withoutAxis;

namespace torch_tile::tile_build {

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

/// Lanes inside the domain, as a mask.
Value KernelEmitter::gatherMask() {
  auto indexType = RankedTensorType::get({schedule.lanes}, builder.getI32Type());
  Value iota = reuse(tile::IotaOp::create(builder, indexType));
  Value valid = reuse(arith::TruncIOp::create(builder, builder.getI32Type(), validLanes));
  valid = reuse(tile::SplatOp::create(builder, indexType, valid));
  return reuse(arith::CmpIOp::create(builder, arith::CmpIPredicate::slt, iota, valid));
}

/// Axes with the vector axis as a tile of indices.
ExprEmitter::Bindings KernelEmitter::tileBindings() {
  ExprEmitter::Bindings result = bindings;
  if (schedule.vectorAxis < 0)
    return result;
  auto type = RankedTensorType::get({schedule.lanes}, builder.getI64Type());
  Value iota = reuse(tile::IotaOp::create(builder, type));
  Value first = reuse(tile::SplatOp::create(builder, type, bindings[vectorName()]));
  result[vectorName()] = reuse(arith::AddIOp::create(builder, first, iota));
  return result;
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
      bool varies = schedule.vectorAxis >= 0 && expr.contains(vectorName());
      ExprEmitter::Bindings values = varies ? tileBindings() : bindings;
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
      value = reuse(tile::CheckIndexOp::create(
          builder, position.getType(), position, exprs.emit(check.getSize().getValue(), {}), valid, mask,
          check.getWrapAttr(), builder.getI64IntegerAttr(torch_tile::fusion::lineOf(check.getLoc())),
          check.getDivisionAttr()));
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

/// Arithmetic: scalar on scalars, tile-wise as soon as one operand is a tile.
Value KernelEmitter::emitGeneric(Operation &op, llvm::function_ref<Value(Value)> lookup) {
  // A value rounded to low precision only to be widened again keeps its bits.
  if (options.elideRounding && isa<arith::ExtFOp>(op))
    if (auto rounding = lookup(op.getOperand(0)).getDefiningOp<arith::TruncFOp>();
        rounding && !rounding->hasAttr(kKeepRounding) &&
        getElementTypeOrSelf(rounding.getIn()) == op.getResult(0).getType())
      return rounding.getIn();
  IRMapping mapping;
  bool any = llvm::any_of(op.getOperands(), [&](Value v) { return isTile(lookup(v)); });
  for (Value operand : op.getOperands())
    mapping.map(operand, any ? toTile(builder, lookup(operand), tileShape()) : lookup(operand));
  Operation *copy = builder.clone(op, mapping);
  copy->setLoc(builder.getLoc());
  if (any)
    copy->getResult(0).setType(tileOf(op.getResult(0).getType()));
  return reuse(copy);
}

//===-- loads ---------------------------------------------------------------------------------------------------===//

Value KernelEmitter::emitLoad(LoadOp load, llvm::function_ref<Value(Value)> lookup) {
  if (loops.producer(load.getSource())) {
    Value value = valueOf(load.getSource());
    if (!load.getMask())
      return value;
    Value mask = lookup(load.getMask()), other = lookup(load.getOther());
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
  if (!load.getMask())
    return emitMemory(load, offset, scalars, scalarsVary, {}, {});
  Value mask = lookup(load.getMask()), other = lookup(load.getOther());
  if (isTile(mask)) {
    return emitMemory(load, offset, scalars, scalarsVary, mask, other);
  }
  // One answer for all lanes: a branch.
  bool isScalar = !scalarsVary && isUniform(offset) && !isTile(other);
  Type type = isScalar ? load.getType() : tileOf(load.getType());
  auto shape = isScalar ? SmallVector<int64_t>() : tileShape();
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
  auto restore = llvm::make_scope_exit([&] {
    for (auto &entry : scalars)
      bindings.erase(entry.first());
  });
  bool isLinear = schedule.vectorAxis < 0 || strideAlong(loops.sizes(), offset, vectorName()).has_value();
  if (!scalarsVary && isLinear && !mask)
    return structuredLoad(pointer, offset, load.getType());
  // A mask over lanes that lie side by side.
  bool isContiguous =
      isLinear && schedule.vectorAxis >= 0 && strideAlong(loops.sizes(), offset, vectorName())->isConstant(1);
  if (!scalarsVary && isContiguous && schedule.rowAxis < 0) {
    Value value = structuredLoad(pointer, offset, load.getType(), mask);
    return other ? reuse(arith::SelectOp::create(builder, mask, value, toTile(builder, other, tileShape()))) : value;
  }

  // Every lane has an address of its own.
  ExprEmitter::Bindings tiles = tileBindings();
  Value offsets = toTile(builder, exprs.emit(offset, tiles), tileShape());
  if (validLanes) {
    Value inside = gatherMask();
    mask = mask ? reuse(arith::AndIOp::create(builder, mask, inside)) : inside;
  }
  if (other)
    other = isTile(other) ? other : toTile(builder, other, tileShape());
  return reuse(tile::GatherOp::create(builder, tileOf(load.getType()), pointer, offsets, mask, other));
}

Value KernelEmitter::structuredLoad(Value pointer, SizeExpr offset, Type elementType, Value mask) {
  SizeContext &sizes = loops.sizes();
  SizeExpr lane = sizes.constant(0), row = sizes.constant(0);
  if (schedule.vectorAxis >= 0)
    lane = *strideAlong(sizes, offset, vectorName());
  if (schedule.rowAxis >= 0)
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
  if (schedule.rowAxis < 0) {
    addStride(lane);
    ValueList valid;
    if (validLanes)
      valid.push_back(validLanes);
    return reuse(tile::LoadOp::create(builder, tileOf(elementType), pointer, base, strides,
                                      builder.getDenseI64ArrayAttr(staticStrides), valid, mask, Value()));
  }
  // Contiguous along the rows: read it that way round and turn it in registers.
  bool isTransposed = row.isConstant(1) && !lane.isConstant(0) && !lane.isConstant(1);
  ValueList valid;
  if (validLanes)
    valid = isTransposed ? ValueList{validLanes, validRows} : ValueList{validRows, validLanes};
  addStride(isTransposed ? lane : row);
  addStride(isTransposed ? row : lane);
  SmallVector<int64_t> shape = tileShape();
  if (isTransposed)
    std::swap(shape[0], shape[1]);
  Value value = reuse(tile::LoadOp::create(builder, RankedTensorType::get(shape, elementType), pointer, base, strides,
                                           builder.getDenseI64ArrayAttr(staticStrides), valid, mask, Value()));
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
                               cast<GraphTensorType>(result.getType()).getElementType());
  scopes.back().values[result] = value;
  return value;
}

void KernelEmitter::store(Value value, Value result) {
  SizeContext &sizes = loops.sizes();
  SizeExpr offset = loops.offsetOf(result);
  SizeExpr lane = schedule.vectorAxis >= 0 ? *strideAlong(sizes, offset, vectorName()) : sizes.constant(0);
  SizeExpr row = schedule.rowAxis >= 0 ? *strideAlong(sizes, offset, rowName()) : sizes.constant(0);
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
    if (schedule.rowAxis >= 0)
      addStride(row);
    addStride(lane);
    if (validLanes) {
      if (schedule.rowAxis >= 0)
        valid.push_back(validRows);
      valid.push_back(validLanes);
    }
  }
  tile::StoreOp::create(builder, value, pointerOf(result), base, strides, builder.getDenseI64ArrayAttr(staticStrides),
                        valid);
}

} // namespace torch_tile::tile_build
