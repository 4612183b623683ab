// Entry, argument loading, the loop over programs, and structured control flow.
#include "compiler/codegen/cpu/TileLowering.h"

#include "compiler/codegen/common/Philox.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace torch_tile::codegen;

/// More lanes than this make one op thousands of instructions; strip-mining comes before.
static constexpr int64_t maxLanes = 256;
static constexpr int64_t maxElements = 16384;

TileLowering::TileLowering(tile::KernelOp kernel, const CpuFeatures &features, StringRef symbol)
    : kernel(kernel), features(features), symbol(symbol), b(kernel.getLoc(), kernel.getContext()),
      ptrType(LLVM::LLVMPointerType::get(kernel.getContext())) {}

//===-- types ---------------------------------------------------------------------------------------------------===//

int64_t TileLowering::lanesOf(Type type) {
  auto tile = dyn_cast<ShapedType>(type);
  return tile && tile.getRank() > 0 ? tile.getShape().back() : 1;
}

int64_t TileLowering::numRowsOf(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile && tile.getRank() > 0 ? tile.getNumElements() / tile.getShape().back() : 1;
}

Type TileLowering::elementOf(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isIndex() ? IntegerType::get(type.getContext(), 64) : element;
}

Type TileLowering::withLanes(Type element, int64_t lanes) {
  return lanes == 1 ? element : VectorType::get({lanes}, element);
}

Type TileLowering::rowTypeOf(Type type) {
  if (isa<tile::PtrType>(type))
    return LLVM::LLVMPointerType::get(type.getContext());
  return withLanes(elementOf(type), lanesOf(type));
}

void TileLowering::appendRowTypes(Type type, SmallVectorImpl<Type> &types) {
  types.append(numRowsOf(type), rowTypeOf(type));
}

static bool isSupportedElement(Type element) {
  if (auto integer = dyn_cast<IntegerType>(element))
    return integer.isSignless() && llvm::is_contained({1u, 8u, 16u, 32u, 64u}, integer.getWidth());
  return isa<IndexType, Float16Type, BFloat16Type, Float32Type, Float64Type, Float8E4M3FNType, Float8E5M2Type>(element);
}

/// Code generation ends the process on a type it does not know, so every type is checked before.
LogicalResult TileLowering::verifyTypes() {
  auto verify = [](Operation *op, Type type) -> LogicalResult {
    if (auto ptr = dyn_cast<tile::PtrType>(type))
      type = ptr.getElementType();
    auto tile = dyn_cast<RankedTensorType>(type);
    if (!isSupportedElement(tile ? tile.getElementType() : type))
      return op->emitOpError("expected a type that CPU code can hold, got ") << type;
    if (!tile)
      return success();
    if (tile.getNumElements() == 0)
      return op->emitOpError("expected a tile with elements, got ") << type;
    if (lanesOf(type) > maxLanes || tile.getNumElements() > maxElements)
      return op->emitOpError("expected tiles of at most ")
             << maxLanes << " lanes and " << maxElements << " elements, got " << type;
    return success();
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

//===-- values --------------------------------------------------------------------------------------------------===//

void TileLowering::appendRows(ValueRange operands, SmallVectorImpl<Value> &flat) {
  for (Value operand : operands)
    llvm::append_range(flat, rows(operand));
}

void TileLowering::setFromFlat(Value value, ValueRange &flat) {
  int64_t numRows = numRowsOf(value.getType());
  set(value, Rows(flat.take_front(numRows)));
  flat = flat.drop_front(numRows);
}

Value TileLowering::constant(Type type, int64_t value) {
  auto element = cast<IntegerType>(getElementTypeOrSelf(type));
  TypedAttr attr =
      IntegerAttr::get(element, APInt(element.getWidth(), value, /*isSigned=*/true, /*implicitTrunc=*/true));
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, static_cast<Attribute>(attr));
  return arith::ConstantOp::create(b, attr);
}

Value TileLowering::zero(Type type) { return arith::ConstantOp::create(b, cast<TypedAttr>(b.getZeroAttr(type))); }

Value TileLowering::iota(Type type, int64_t step) {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector)
    return constant(type, 0);
  unsigned width = vector.getElementTypeBitWidth();
  SmallVector<APInt> lanes;
  for (int64_t lane = 0; lane < vector.getNumElements(); ++lane)
    lanes.push_back(APInt(width, lane * step, /*isSigned=*/true, /*implicitTrunc=*/true));
  return arith::ConstantOp::create(b, DenseElementsAttr::get(vector, lanes));
}

Value TileLowering::broadcast(Value value, Type type) {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector || value.getType() == type)
    return value;
  Attribute attr;
  if (matchPattern(value, m_Constant(&attr)))
    return arith::ConstantOp::create(b, DenseElementsAttr::get(vector, attr));
  Value undef = LLVM::PoisonOp::create(b, vector);
  Value inserted = LLVM::InsertElementOp::create(b, undef, value, constant(b.getI32Type(), 0));
  return shuffle(inserted, undef, SmallVector<int32_t>(vector.getNumElements(), 0));
}

Value TileLowering::extract(Value vector, int64_t lane) {
  if (!isa<VectorType>(vector.getType()))
    return vector;
  return LLVM::ExtractElementOp::create(b, vector, constant(b.getI32Type(), lane));
}

Value TileLowering::shuffle(Value first, Value second, ArrayRef<int32_t> mask) {
  return LLVM::ShuffleVectorOp::create(b, first, second, mask);
}

Value TileLowering::slice(Value vector, int64_t offset, int64_t size) {
  if (size == 1)
    return extract(vector, offset);
  if (size == lanesOf(vector.getType()))
    return vector;
  auto mask = llvm::to_vector(llvm::seq<int32_t>(offset, offset + size));
  return shuffle(vector, vector, mask);
}

Value TileLowering::fromScalars(ArrayRef<Value> scalars) {
  if (scalars.size() == 1)
    return scalars[0];
  Value vector = LLVM::PoisonOp::create(b, withLanes(scalars[0].getType(), scalars.size()));
  for (auto [lane, scalar] : llvm::enumerate(scalars))
    vector = LLVM::InsertElementOp::create(b, vector, scalar, constant(b.getI32Type(), lane));
  return vector;
}

std::optional<int64_t> TileLowering::constantOf(Value value) {
  APInt constant;
  if (value && matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  return std::nullopt;
}

//===-- the function --------------------------------------------------------------------------------------------===//

/// Loads pointers and integers once, in the order of the kernel's arguments (artifact/KernelAbi.h).
void TileLowering::lowerArguments() {
  Value args = function.getArgument(0);
  auto field = [&](Value base, Type type, int64_t index) -> Value {
    Value address = LLVM::GEPOp::create(b, ptrType, type, base, ArrayRef<LLVM::GEPArg>{int32_t(index)},
                                        LLVM::GEPNoWrapFlags::inbounds);
    return LLVM::LoadOp::create(b, type, address, /*alignment=*/8, /*isVolatile=*/false, /*isNonTemporal=*/false,
                                /*isInvariant=*/true);
  };
  Value pointers, integers;
  int64_t numPointers = 0, numIntegers = 0;
  auto nextInteger = [&]() {
    if (!integers)
      integers = field(args, ptrType, 1);
    return field(integers, b.getI64Type(), numIntegers++);
  };
  for (BlockArgument argument : kernel.getBody().front().getArguments()) {
    Type type = argument.getType();
    if (isa<tile::PtrType>(type)) {
      if (!pointers)
        pointers = field(args, ptrType, 0);
      set(argument, {field(pointers, ptrType, numPointers++)});
      continue;
    }
    Value value = nextInteger();
    Type element = elementOf(type);
    unsigned width = element.getIntOrFloatBitWidth();
    if (width < 64)
      value = arith::TruncIOp::create(b, b.getIntegerType(width), value);
    if (isa<FloatType>(element))
      value = arith::BitcastOp::create(b, element, value);
    set(argument, {value});
  }
  // A kernel that asks for more than its linear index gets the grid's three sizes after its own integers.
  bool needsGrid = false;
  kernel.walk([&](Operation *op) {
    needsGrid |= isa<tile::NumProgramsOp>(op);
    if (auto id = dyn_cast<tile::ProgramIdOp>(op))
      needsGrid |= id.getAxis() != 0;
  });
  if (needsGrid)
    for (Value &size : gridSizes)
      size = nextInteger();
}

void TileLowering::lowerProgramIds(Value linear) {
  programIds[0] = linear;
  if (!gridSizes[0])
    return;
  programIds[0] = arith::RemUIOp::create(b, linear, gridSizes[0]);
  Value outer = arith::DivUIOp::create(b, linear, gridSizes[0]);
  programIds[1] = arith::RemUIOp::create(b, outer, gridSizes[1]);
  programIds[2] = arith::DivUIOp::create(b, outer, gridSizes[1]);
}

LogicalResult TileLowering::run(ModuleOp module) {
  if (failed(verifyTypes()))
    return failure();
  b.setInsertionPointToEnd(module.getBody());
  Type i32 = b.getI32Type(), i64Type = b.getI64Type();
  function =
      LLVM::LLVMFuncOp::create(b, symbol, LLVM::LLVMFunctionType::get(i32, {ptrType, ptrType, i64Type, i64Type}));
  Block *entry = function.addEntryBlock(b);
  Region &body = function.getBody();
  auto addBlock = [&](TypeRange types) {
    return b.createBlock(&body, body.end(), types, SmallVector<Location>(types.size(), b.getLoc()));
  };
  Block *header = addBlock({i64Type}), *program = addBlock({}), *exit = addBlock({i32});

  b.setInsertionPointToEnd(entry);
  lowerArguments();
  contextPtr = function.getArgument(1);
  Value ok = constant(i32, 0), failed = constant(i32, 1), one = i64(1);
  bool hasChecks = false, hasScratch = false;
  kernel.walk([&](Operation *op) {
    hasChecks |= isa<tile::CheckIndexOp>(op);
    hasScratch |= isa<tile::ScratchOp>(op);
  });
  if (hasScratch)
    scratch = LLVM::LoadOp::create(b, ptrType, contextPtr, /*alignment=*/8);
  if (hasChecks) {
    errorFlag = LLVM::AllocaOp::create(b, ptrType, i32, one, /*alignment=*/4);
    LLVM::StoreOp::create(b, ok, errorFlag, /*alignment=*/4);
  }
  entryEnd = LLVM::BrOp::create(b, ValueRange{function.getArgument(2)}, header);

  b.setInsertionPointToEnd(header);
  Value linear = header->getArgument(0);
  Value isInside = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, linear, function.getArgument(3));
  LLVM::CondBrOp::create(b, isInside, program, ValueRange{}, exit, ValueRange{ok});

  b.setInsertionPointToEnd(program);
  lowerProgramIds(linear);
  if (mlir::failed(lowerBlock(kernel.getBody().front())))
    return failure();
  Value next = arith::AddIOp::create(b, linear, one);
  if (hasChecks) {
    Value flag = LLVM::LoadOp::create(b, i32, errorFlag, /*alignment=*/4);
    Value isBad = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, flag, ok);
    LLVM::CondBrOp::create(b, isBad, exit, ValueRange{failed}, header, ValueRange{next}, std::make_pair(1u, 1000000u));
  } else {
    LLVM::BrOp::create(b, ValueRange{next}, header);
  }
  b.setInsertionPointToEnd(exit);
  LLVM::ReturnOp::create(b, exit->getArgument(0));
  return success();
}

//===-- blocks --------------------------------------------------------------------------------------------------===//

/// Everything but the terminator, which belongs to the op that holds the block.
LogicalResult TileLowering::lowerBlock(Block &block) {
  masks.clear();
  for (Operation &op : block.without_terminator())
    if (failed(lowerOp(&op)))
      return failure();
  masks.clear();
  return success();
}

LogicalResult TileLowering::lowerOp(Operation *op) {
  b.setLoc(op->getLoc());
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return lowerLoad(load);
  if (auto store = dyn_cast<tile::StoreOp>(op))
    return lowerStore(store);
  if (auto gather = dyn_cast<tile::GatherOp>(op))
    return lowerGather(gather);
  if (auto scatter = dyn_cast<tile::ScatterOp>(op))
    return lowerScatter(scatter);
  if (auto check = dyn_cast<tile::CheckIndexOp>(op))
    return lowerCheckIndex(check);
  if (auto reduce = dyn_cast<tile::ReduceOp>(op))
    return lowerReduce(reduce);
  if (auto uniform = dyn_cast<tile::UniformOp>(op))
    return lowerUniform(uniform);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return lowerFor(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return lowerIf(branch);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return lowerWhile(loop);
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return lowerConstant(constant);
  if (auto id = dyn_cast<tile::ProgramIdOp>(op)) {
    set(id.getResult(), {createIndexCast(programIds[id.getAxis()], id.getType(), /*isSigned=*/true)});
    return success();
  }
  if (auto count = dyn_cast<tile::NumProgramsOp>(op)) {
    set(count.getResult(), {createIndexCast(gridSizes[count.getAxis()], count.getType(), /*isSigned=*/true)});
    return success();
  }
  if (auto add = dyn_cast<tile::PtrAddOp>(op)) {
    set(add.getResult(),
        {elementPtr(scalar(add.getBase()), storageOf(add.getType().getElementType()), scalar(add.getOffset()))});
    return success();
  }
  if (auto address = dyn_cast<tile::ScratchOp>(op)) {
    set(address.getResult(), {elementPtr(scratch, b.getI8Type(), scalar(address.getOffset()))});
    return success();
  }
  if (isa<tile::IotaOp, tile::SplatOp, tile::BroadcastOp, tile::ExpandDimsOp, tile::ReshapeOp, tile::TransOp>(op))
    return lowerShape(op);
  if (OpTrait::hasElementwiseMappableTraits(op))
    return lowerPointwise(op);
  return op->emitOpError("expected an op that the CPU target lowers");
}

LogicalResult TileLowering::lowerFor(scf::ForOp op) {
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

LogicalResult TileLowering::lowerIf(scf::IfOp op) {
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

LogicalResult TileLowering::lowerWhile(scf::WhileOp op) {
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

/// The upper 24 bits of the first random word, as torch's uniform float.
LogicalResult TileLowering::lowerUniform(tile::UniformOp op) {
  Rows result;
  Value seed = scalar(op.getSeed());
  auto split = [&](Value value) {
    Type half = withLanes(b.getI32Type(), lanesOf(value.getType()));
    Value low = arith::TruncIOp::create(b, half, value);
    Value high = arith::TruncIOp::create(b, half, arith::ShRUIOp::create(b, value, constant(value.getType(), 32)));
    return std::make_pair(low, high);
  };
  auto [keyLow, keyHigh] = split(seed);
  for (Value counter : rows(op.getCounter())) {
    auto [low, high] = split(counter);
    Type type = low.getType();
    Value salt = constant(type, int64_t(op.getSalt()));
    Value word = philox4x32(b, keyLow, keyHigh, {low, high, salt, constant(type, 0)})[0];
    Value mantissa = arith::ShRUIOp::create(b, word, constant(type, 8));
    Type floatType = withLanes(b.getF32Type(), lanesOf(type));
    Value number = arith::SIToFPOp::create(b, floatType, mantissa);
    Value scale = broadcast(arith::ConstantOp::create(b, b.getF32FloatAttr(0x1p-24f)), floatType);
    result.push_back(arith::MulFOp::create(b, number, scale));
  }
  set(op.getResult(), result);
  return success();
}
