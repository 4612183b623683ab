// Types, values, structured control flow.
#include "compiler/codegen/common/RowLowering.h"

#include "compiler/codegen/common/Philox.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace torch_tile::codegen;

RowLowering::RowLowering(tile::KernelOp kernel)
    : kernel(kernel), b(kernel.getLoc(), kernel.getContext()),
      ptrType(LLVM::LLVMPointerType::get(kernel.getContext())) {}

//===-- types -----------------------------------------------------------------------------------------------------===//

int64_t RowLowering::lanesOf(Type type) const {
  auto tile = dyn_cast<ShapedType>(type);
  return tile && tile.getRank() > 0 ? tile.getShape().back() : 1;
}

int64_t RowLowering::numRowsOf(Type type) const {
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile && tile.getRank() > 0 ? tile.getNumElements() / tile.getShape().back() : 1;
}

Type RowLowering::elementOf(Type type) {
  Type element = getElementTypeOrSelf(type);
  return isa<IndexType, tile::PtrType>(element) ? IntegerType::get(type.getContext(), 64) : element;
}

Type RowLowering::withLanes(Type element, int64_t lanes) {
  return lanes == 1 ? element : VectorType::get({lanes}, element);
}

Type RowLowering::rowTypeOf(Type type) const {
  if (isa<tile::PtrType>(type))
    return LLVM::LLVMPointerType::get(type.getContext());
  return withLanes(elementOf(type), lanesOf(type));
}

void RowLowering::appendRowTypes(Type type, SmallVectorImpl<Type> &types) const {
  types.append(numRowsOf(type), rowTypeOf(type));
}

static bool isSupportedElement(Type element) {
  if (auto integer = dyn_cast<IntegerType>(element))
    return integer.isSignless() && llvm::is_contained({1u, 8u, 16u, 32u, 64u}, integer.getWidth());
  return isa<IndexType, Float16Type, BFloat16Type, Float32Type, Float64Type, Float8E4M3FNType, Float8E5M2Type,
             Float8E4M3FNUZType, Float8E5M2FNUZType>(element);
}

/// Code generation ends the process on a type it does not know, so every type is checked before.
LogicalResult RowLowering::verifyTypes(StringRef target,
                                       function_ref<LogicalResult(Operation *, RankedTensorType)> verifyTile) {
  auto verify = [&](Operation *op, Type type) -> LogicalResult {
    if (auto ptr = dyn_cast<tile::PtrType>(type))
      type = ptr.getElementType();
    auto tile = dyn_cast<RankedTensorType>(type);
    Type element = tile ? tile.getElementType() : type;
    if (auto ptr = dyn_cast<tile::PtrType>(element))
      element = ptr.getElementType();
    // A pointer to pointers holds addresses.
    if (!isa<tile::PtrType>(element) && !isSupportedElement(element))
      return op->emitOpError("expected a type that ") << target << " code can hold, got " << type;
    if (!tile)
      return success();
    if (tile.getNumElements() == 0)
      return op->emitOpError("expected a tile with elements, got ") << type;
    return verifyTile(op, tile);
  };
  for (Type type : kernel.getArgumentTypes())
    if (isa<ShapedType>(type))
      return kernel.emitOpError("expected pointers and scalars as arguments, got ") << type;
  WalkResult result = kernel.getBody().walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (failed(verify(op, type)))
        return WalkResult::interrupt();
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Type type : block.getArgumentTypes())
          if (failed(verify(op, type)))
            return WalkResult::interrupt();
    return WalkResult::advance();
  });
  for (Type type : kernel.getArgumentTypes())
    if (failed(verify(kernel, type)))
      return failure();
  if (!result.wasInterrupted() && !kernel.getBody().hasOneBlock())
    return kernel.emitOpError("expected one block");
  return failure(result.wasInterrupted());
}

//===-- values ----------------------------------------------------------------------------------------------------===//

void RowLowering::appendRows(ValueRange operands, SmallVectorImpl<Value> &flat) {
  for (Value operand : operands)
    llvm::append_range(flat, rows(operand));
}

void RowLowering::setFromFlat(Value value, ValueRange &flat) {
  int64_t numRows = numRowsOf(value.getType());
  set(value, Rows(flat.take_front(numRows)));
  flat = flat.drop_front(numRows);
}

Value RowLowering::constant(Type type, int64_t value) {
  auto element = cast<IntegerType>(getElementTypeOrSelf(type));
  TypedAttr attr =
      IntegerAttr::get(element, APInt(element.getWidth(), value, /*isSigned=*/true, /*implicitTrunc=*/true));
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, static_cast<Attribute>(attr));
  return arith::ConstantOp::create(b, attr);
}

/// Floats of 8 bits are no type of LLVM: their lanes move as integers.
static bool isFloat8(Type type) {
  Type element = getElementTypeOrSelf(type);
  return isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8;
}

Value RowLowering::zero(Type type) { return arith::ConstantOp::create(b, cast<TypedAttr>(b.getZeroAttr(type))); }

Value RowLowering::iota(Type type, int64_t step) {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector)
    return constant(type, 0);
  unsigned width = vector.getElementTypeBitWidth();
  SmallVector<APInt> lanes;
  for (int64_t lane = 0; lane < vector.getNumElements(); ++lane)
    lanes.push_back(APInt(width, lane * step, /*isSigned=*/true, /*implicitTrunc=*/true));
  return arith::ConstantOp::create(b, DenseElementsAttr::get(vector, lanes));
}

Value RowLowering::broadcast(Value value, Type type) {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector || value.getType() == type)
    return value;
  Attribute attr;
  if (matchPattern(value, m_Constant(&attr)))
    return arith::ConstantOp::create(b, DenseElementsAttr::get(vector, attr));
  if (isFloat8(type))
    return fromStorage(broadcast(toStorage(value), vector.clone(storageOf(vector.getElementType()))),
                       vector.getElementType());
  Value undef = LLVM::PoisonOp::create(b, vector);
  Value inserted = LLVM::InsertElementOp::create(b, undef, value, constant(b.getI32Type(), 0));
  return shuffle(inserted, undef, SmallVector<int32_t>(vector.getNumElements(), 0));
}

Value RowLowering::extract(Value vector, int64_t lane) {
  if (!isa<VectorType>(vector.getType()))
    return vector;
  if (isFloat8(vector.getType()))
    return fromStorage(extract(toStorage(vector), lane), vector.getType());
  return LLVM::ExtractElementOp::create(b, vector, constant(b.getI32Type(), lane));
}

Value RowLowering::shuffle(Value first, Value second, ArrayRef<int32_t> mask) {
  if (isFloat8(first.getType()))
    return fromStorage(shuffle(toStorage(first), toStorage(second), mask), first.getType());
  return LLVM::ShuffleVectorOp::create(b, first, second, mask);
}

Value RowLowering::slice(Value vector, int64_t offset, int64_t size) {
  if (size == 1)
    return extract(vector, offset);
  if (size == lanesOf(vector.getType()))
    return vector;
  auto mask = llvm::to_vector(llvm::seq<int32_t>(offset, offset + size));
  return shuffle(vector, vector, mask);
}

Value RowLowering::fromScalars(ArrayRef<Value> scalars) {
  if (scalars.size() == 1)
    return scalars[0];
  if (isFloat8(scalars[0].getType())) {
    SmallVector<Value> stored;
    for (Value scalar : scalars)
      stored.push_back(toStorage(scalar));
    return fromStorage(fromScalars(stored), scalars[0].getType());
  }
  Value vector = LLVM::PoisonOp::create(b, withLanes(scalars[0].getType(), scalars.size()));
  for (auto [lane, scalar] : llvm::enumerate(scalars))
    vector = LLVM::InsertElementOp::create(b, vector, scalar, constant(b.getI32Type(), lane));
  return vector;
}

std::optional<int64_t> RowLowering::constantOf(Value value) {
  APInt constant;
  if (value && matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  return std::nullopt;
}

//===-- control flow ----------------------------------------------------------------------------------------------===//

LogicalResult RowLowering::lowerBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    b.setLoc(op.getLoc());
    if (failed(lowerOp(&op)))
      return failure();
  }
  return success();
}

LogicalResult RowLowering::lowerCommonOp(Operation *op, StringRef target) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return lowerFor(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return lowerIf(branch);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return lowerWhile(loop);
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return lowerConstant(constant);
  if (auto uniform = dyn_cast<tile::UniformOp>(op))
    return lowerUniform(uniform);
  if (isa<tile::PtrAddOp, tile::PtrToIntOp, tile::IntToPtrOp, tile::PtrCastOp>(op))
    return lowerPointer(op);
  if (auto splat = dyn_cast<tile::SplatOp>(op)) {
    Type type = splat.getType();
    Value source = scalar(splat.getSource());
    if (isa<LLVM::LLVMPointerType>(source.getType()))
      source = LLVM::PtrToIntOp::create(b, b.getI64Type(), source);
    set(splat.getResult(), Rows(numRowsOf(type), broadcast(source, rowTypeOf(type))));
    return success();
  }
  if (OpTrait::hasElementwiseMappableTraits(op))
    return lowerPointwise(op);
  return op->emitOpError("expected an op that the ") << target << " target lowers";
}

/// A scalar pointer is a pointer, a tile of pointers holds addresses as i64.
LogicalResult RowLowering::lowerPointer(Operation *op) {
  Value result = op->getResult(0), source = op->getOperand(0);
  bool isTile = isa<RankedTensorType>(result.getType());
  if (auto add = dyn_cast<tile::PtrAddOp>(op)) {
    Type storage = storageOf(cast<tile::PtrType>(getElementTypeOrSelf(add.getType())).getElementType());
    if (!isTile) {
      Value offset = createIndexCast(scalar(add.getOffset()), b.getI64Type(), /*isSigned=*/true);
      set(result, {elementPtr(scalar(source), storage, offset)});
      return success();
    }
    Rows list;
    for (auto [address, offset] : llvm::zip_equal(rows(source), rows(add.getOffset()))) {
      Value bytes = createIndexCast(offset, b.getI64Type(), /*isSigned=*/true);
      bytes = arith::MulIOp::create(b, bytes, constant(bytes.getType(), bytesOf(storage)));
      list.push_back(arith::AddIOp::create(b, address, bytes));
    }
    set(result, std::move(list));
    return success();
  }
  if (isTile || isa<tile::PtrCastOp>(op))
    set(result, Rows(rows(source)));
  else if (isa<tile::PtrToIntOp>(op))
    set(result, {LLVM::PtrToIntOp::create(b, b.getI64Type(), scalar(source)).getResult()});
  else
    set(result, {LLVM::IntToPtrOp::create(b, ptrType, scalar(source)).getResult()});
  return success();
}

LogicalResult RowLowering::lowerFor(scf::ForOp op) {
  SmallVector<Value> inits;
  appendRows(op.getInitArgs(), inits);
  auto loop = scf::ForOp::create(b, scalar(op.getLowerBound()), scalar(op.getUpperBound()), scalar(op.getStep()), inits,
                                 nullptr, op.getUnsignedCmp());
  set(op.getInductionVar(), {loop.getInductionVar()});
  ValueRange flat = loop.getRegionIterArgs();
  for (Value argument : op.getRegionIterArgs())
    setFromFlat(argument, flat);
  {
    OpBuilder::InsertionGuard guard(b);
    if (inits.empty())
      loop.getBody()->getTerminator()->erase();
    b.setInsertionPointToEnd(loop.getBody());
    if (failed(lowerBlock(*op.getBody())))
      return failure();
    SmallVector<Value> yielded;
    appendRows(op.getBody()->getTerminator()->getOperands(), yielded);
    scf::YieldOp::create(b, yielded);
  }
  ValueRange results = loop.getResults();
  for (Value result : op.getResults())
    setFromFlat(result, results);
  return success();
}

LogicalResult RowLowering::lowerIf(scf::IfOp op) {
  SmallVector<Type> types;
  for (Type type : op.getResultTypes())
    appendRowTypes(type, types);
  bool hasElse = !op.getElseRegion().empty();
  auto branch = scf::IfOp::create(b, types, scalar(op.getCondition()), /*addThenBlock=*/true, /*addElseBlock=*/hasElse);
  auto lowerBranch = [&](Region &source, Region &target) -> LogicalResult {
    OpBuilder::InsertionGuard guard(b);
    if (!target.front().empty())
      target.front().back().erase();
    b.setInsertionPointToEnd(&target.front());
    if (failed(lowerBlock(source.front())))
      return failure();
    SmallVector<Value> yielded;
    appendRows(source.front().getTerminator()->getOperands(), yielded);
    scf::YieldOp::create(b, yielded);
    return success();
  };
  if (failed(lowerBranch(op.getThenRegion(), branch.getThenRegion())))
    return failure();
  if (hasElse && failed(lowerBranch(op.getElseRegion(), branch.getElseRegion())))
    return failure();
  ValueRange results = branch.getResults();
  for (Value result : op.getResults())
    setFromFlat(result, results);
  return success();
}

LogicalResult RowLowering::lowerWhile(scf::WhileOp op) {
  SmallVector<Type> types;
  for (Type type : op.getResultTypes())
    appendRowTypes(type, types);
  SmallVector<Value> inits;
  appendRows(op.getInits(), inits);
  auto loop = scf::WhileOp::create(b, types, inits);
  auto lowerRegion = [&](Region &source, Region &target) -> LogicalResult {
    SmallVector<Type> argumentTypes;
    for (Type type : source.front().getArgumentTypes())
      appendRowTypes(type, argumentTypes);
    OpBuilder::InsertionGuard guard(b);
    Block *block =
        b.createBlock(&target, target.end(), argumentTypes, SmallVector<Location>(argumentTypes.size(), b.getLoc()));
    ValueRange flat = block->getArguments();
    for (Value argument : source.front().getArguments())
      setFromFlat(argument, flat);
    if (failed(lowerBlock(source.front())))
      return failure();
    SmallVector<Value> operands;
    if (auto condition = dyn_cast<scf::ConditionOp>(source.front().getTerminator())) {
      appendRows(condition.getArgs(), operands);
      scf::ConditionOp::create(b, scalar(condition.getCondition()), operands);
    } else {
      appendRows(source.front().getTerminator()->getOperands(), operands);
      scf::YieldOp::create(b, operands);
    }
    return success();
  };
  if (failed(lowerRegion(op.getBefore(), loop.getBefore())) || failed(lowerRegion(op.getAfter(), loop.getAfter())))
    return failure();
  ValueRange results = loop.getResults();
  for (Value result : op.getResults())
    setFromFlat(result, results);
  return success();
}

LogicalResult RowLowering::lowerUniform(tile::UniformOp op) {
  Rows result;
  for (Value counter : rows(op.getCounter()))
    result.push_back(createUniform(op, scalar(op.getSeed()), counter));
  set(op.getResult(), result);
  return success();
}

/// The four random words of elements 4 * `quarter` and on.
SmallVector<Value, 4> RowLowering::randomWords(tile::UniformOp op, Value seed, Value quarter) {
  auto split = [&](Value value) {
    Type half = withLanes(b.getI32Type(), lanesOf(value.getType()));
    Value low = arith::TruncIOp::create(b, half, value);
    Value high = arith::TruncIOp::create(b, half, arith::ShRUIOp::create(b, value, constant(value.getType(), 32)));
    return std::make_pair(low, high);
  };
  auto [keyLow, keyHigh] = split(seed);
  auto [low, high] = split(quarter);
  Type type = low.getType();
  return philox4x32(b, keyLow, keyHigh, {low, high, constant(type, int64_t(op.getSalt())), constant(type, 0)});
}

/// Of four words the one that belongs to an element.
Value RowLowering::randomWordOf(tile::UniformOp op, Value seed, Value counter) {
  Type wide = counter.getType();
  SmallVector<Value, 4> words = randomWords(op, seed, arith::ShRUIOp::create(b, counter, constant(wide, 2)));
  Type type = words[0].getType();
  Value place = arith::AndIOp::create(b, arith::TruncIOp::create(b, type, counter), constant(type, 3));
  Value word = words[3];
  for (int64_t k = 2; k >= 0; --k) {
    Value isHere = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, place, constant(type, k));
    word = arith::SelectOp::create(b, isHere, words[k], word);
  }
  return word;
}

/// The upper 24 bits of a word, as torch's uniform float.
Value RowLowering::toUniform(Value word) {
  Type type = word.getType();
  Value mantissa = arith::ShRUIOp::create(b, word, constant(type, 8));
  Type floatType = withLanes(b.getF32Type(), lanesOf(type));
  Value number = arith::SIToFPOp::create(b, floatType, mantissa);
  Value scale = broadcast(arith::ConstantOp::create(b, b.getF32FloatAttr(0x1p-24f)), floatType);
  return arith::MulFOp::create(b, number, scale);
}

Value RowLowering::createUniform(tile::UniformOp op, Value seed, Value counter) {
  return toUniform(randomWordOf(op, seed, counter));
}
