// Entry, argument loading, the loop over programs, and what x86 cannot divide.
#include "compiler/codegen/common/Kernel.h"
#include "compiler/codegen/cpu/TileLowering.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace torch_tile::codegen;

/// More lanes than this make one op thousands of instructions; strip-mining comes before.
static constexpr int64_t maxLanes = 256;
static constexpr int64_t maxElements = 16384;

TileLowering::TileLowering(tile::KernelOp kernel, const CpuFeatures &features, StringRef symbol)
    : RowLowering(kernel), features(features), symbol(symbol) {}

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
  if (needsGridSizes(kernel))
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

LogicalResult TileLowering::run(ModuleOp target) {
  module = target;
  auto verifyTile = [&](Operation *op, RankedTensorType type) -> LogicalResult {
    if (lanesOf(type) > maxLanes || type.getNumElements() > maxElements)
      return op->emitOpError("expected tiles of at most ")
             << maxLanes << " lanes and " << maxElements << " elements, got " << type;
    return success();
  };
  if (failed(verifyTypes("CPU", verifyTile)))
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
  Value ok = constant(i32, 0), one = i64(1);
  bool hasChecks = false, hasScratch = false;
  kernel.walk([&](Operation *op) {
    checksIndices |= isa<tile::CheckIndexOp>(op);
    hasChecks |= isa<tile::CheckIndexOp, tile::AssertOp>(op);
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
    LLVM::CondBrOp::create(b, isBad, exit, ValueRange{flag}, header, ValueRange{next}, std::make_pair(1u, 1000000u));
  } else {
    LLVM::BrOp::create(b, ValueRange{next}, header);
  }
  b.setInsertionPointToEnd(exit);
  LLVM::ReturnOp::create(b, exit->getArgument(0));
  return success();
}

//===-- blocks --------------------------------------------------------------------------------------------------===//

LogicalResult TileLowering::lowerBlock(Block &block) {
  masks.clear();
  LogicalResult result = RowLowering::lowerBlock(block);
  masks.clear();
  return result;
}

static bool followsCheckedIndex(Value offset) {
  SetVector<Operation *> operations;
  BackwardSliceOptions options;
  options.inclusive = true;
  if (failed(getBackwardSlice(offset, &operations, options)))
    return true;
  return llvm::any_of(operations, llvm::IsaPred<tile::CheckIndexOp>);
}

LogicalResult TileLowering::lowerOp(Operation *op) {
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return lowerLoad(load);
  if (auto store = dyn_cast<tile::StoreOp>(op))
    return checksIndices && followsCheckedIndex(store.getOffset())
               ? writeUnlessFailed([&] { return lowerStore(store); })
               : lowerStore(store);
  if (auto gather = dyn_cast<tile::GatherOp>(op))
    return lowerGather(gather);
  if (auto scatter = dyn_cast<tile::ScatterOp>(op))
    return writeUnlessFailed([&] { return lowerScatter(scatter); });
  if (auto check = dyn_cast<tile::CheckIndexOp>(op))
    return lowerCheckIndex(check);
  if (auto reduce = dyn_cast<tile::ReduceOp>(op))
    return lowerReduce(reduce);
  if (auto scan = dyn_cast<tile::ScanOp>(op))
    return lowerScan(scan);
  if (auto extract = dyn_cast<tile::ExtractOp>(op))
    return lowerExtract(extract);
  if (auto atomic = dyn_cast<tile::AtomicRmwOp>(op))
    return lowerAtomicRmw(atomic);
  if (auto atomic = dyn_cast<tile::AtomicCasOp>(op))
    return lowerAtomicCas(atomic);
  if (auto print = dyn_cast<tile::PrintOp>(op))
    return lowerPrint(print);
  if (auto assertion = dyn_cast<tile::AssertOp>(op))
    return lowerAssert(assertion);
  if (auto id = dyn_cast<tile::ProgramIdOp>(op)) {
    set(id.getResult(), {createIndexCast(programIds[id.getAxis()], id.getType(), /*isSigned=*/true)});
    return success();
  }
  if (auto count = dyn_cast<tile::NumProgramsOp>(op)) {
    set(count.getResult(), {createIndexCast(gridSizes[count.getAxis()], count.getType(), /*isSigned=*/true)});
    return success();
  }
  if (auto address = dyn_cast<tile::ScratchOp>(op)) {
    set(address.getResult(), {elementPtr(scratch, b.getI8Type(), scalar(address.getOffset()))});
    return success();
  }
  if (isa<tile::IotaOp, tile::BroadcastOp, tile::ExpandDimsOp, tile::ReshapeOp, tile::TransOp, tile::JoinOp>(op))
    return lowerShape(op);
  if (auto partners = dyn_cast<tile::ShuffleXorOp>(op))
    return lowerShuffleXor(partners);
  if (auto interleave = dyn_cast<tile::InterleaveOp>(op))
    return lowerInterleave(interleave);
  return lowerCommonOp(op, "CPU");
}

//===-- integer division ------------------------------------------------------------------------------------------===//

/// A quotient of doubles is off by less than 2^-50 of itself, so what is left of the dividend, taken exactly modulo
/// 2^64, is less than |rhs| + 2^13, and a second, rounded quotient leaves less than |rhs|. If that has the wrong sign
/// the quotient moves by one. Neither rhs = 0 nor smallest / -1 comes here.
Value TileLowering::divideWide(bool isRemainder, Value lhs, Value rhs, std::optional<int64_t> divisor) {
  Type type = lhs.getType(), f64 = withLanes(b.getF64Type(), lanesOf(type));
  auto doubles = [&](double value) -> Value {
    return arith::ConstantOp::create(b, DenseElementsAttr::get(cast<VectorType>(f64), value));
  };
  auto toFloat = [&](Value value) -> Value { return arith::SIToFPOp::create(b, f64, value); };
  Value floatDivisor = divisor ? Value() : toFloat(rhs);
  auto quotientOf = [&](Value value) -> Value {
    return divisor ? arith::MulFOp::create(b, value, doubles(1.0 / double(*divisor))).getResult()
                   : arith::DivFOp::create(b, value, floatDivisor).getResult();
  };
  auto multiply = [&](Value value) -> Value { return arith::MulIOp::create(b, value, rhs); };
  // 2^63, which largest / 1 rounds to, does not convert.
  Value first = quotientOf(toFloat(lhs)), largest = doubles(0x1.fffffffffffffp+62);
  Value isSmaller = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, first, largest);
  first = arith::SelectOp::create(b, isSmaller, first, largest);
  Value quotient = arith::FPToSIOp::create(b, type, first);
  Value rest = arith::SubIOp::create(b, lhs, multiply(quotient));
  Value second = arith::FPToSIOp::create(b, type, math::RoundEvenOp::create(b, quotientOf(toFloat(rest))).getResult());
  quotient = arith::AddIOp::create(b, quotient, second);
  rest = arith::SubIOp::create(b, rest, multiply(second));

  // Towards zero the rest has the dividend's sign.
  Value none = constant(type, 0);
  auto isNegative = [&](Value value) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, value, none);
  };
  Value isWrong = arith::AndIOp::create(b, isNegative(arith::XOrIOp::create(b, rest, lhs)),
                                        arith::CmpIOp::create(b, arith::CmpIPredicate::ne, rest, none));
  Value isUp = isNegative(arith::XOrIOp::create(b, lhs, rhs));
  if (isRemainder) {
    Value moved = arith::SelectOp::create(b, isUp, arith::SubIOp::create(b, rest, rhs).getResult(),
                                          arith::AddIOp::create(b, rest, rhs).getResult());
    return arith::SelectOp::create(b, isWrong, moved, rest);
  }
  Value step = arith::SelectOp::create(b, isUp, constant(type, 1), constant(type, -1));
  return arith::SelectOp::create(b, isWrong, arith::AddIOp::create(b, quotient, step).getResult(), quotient);
}

/// x86 divides one lane at a time. Vectors up to 32 bits divide exactly in f64 (a quotient of 32-bit integers that is
/// not whole is further than half an ulp from the next whole number); signed 64 bits take two such steps where AVX-512
/// converts them. The rest goes lane by lane in a loop, which keeps code short.
Value TileLowering::createTruncDivision(bool isSigned, bool isRemainder, Value lhs, Value rhs) {
  Type type = lhs.getType();
  int64_t lanes = lanesOf(type);
  unsigned width = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  std::optional<APInt> divisor;
  APInt splat;
  if (matchPattern(rhs, m_ConstantInt(&splat)))
    divisor = splat;
  if (lanes == 1 || (divisor && (width <= 32 || divisor->isPowerOf2())))
    return RowLowering::createTruncDivision(isSigned, isRemainder, lhs, rhs);
  if (width <= 32) {
    auto toFloat = [&](Value value) -> Value {
      Type f64 = withLanes(b.getF64Type(), lanes);
      return isSigned ? arith::SIToFPOp::create(b, f64, value).getResult()
                      : arith::UIToFPOp::create(b, f64, value).getResult();
    };
    Value quotient = arith::DivFOp::create(b, toFloat(lhs), toFloat(rhs));
    quotient = isSigned ? arith::FPToSIOp::create(b, type, quotient).getResult()
                        : arith::FPToUIOp::create(b, type, quotient).getResult();
    if (!isRemainder)
      return quotient;
    return arith::SubIOp::create(b, lhs, arith::MulIOp::create(b, quotient, rhs));
  }
  if (isSigned && features.hasAvx512)
    return divideWide(isRemainder, lhs, rhs, divisor ? std::optional(divisor->getSExtValue()) : std::nullopt);
  Value left = spill(lhs), right = spill(rhs), slot = stackSlot(type);
  Type element = getElementTypeOrSelf(type);
  laneLoop(i64(lanes), [&](Value lane) {
    Value value =
        RowLowering::createTruncDivision(isSigned, isRemainder, loadElements(element, elementPtr(left, element, lane)),
                                         loadElements(element, elementPtr(right, element, lane)));
    storeElements(value, elementPtr(slot, element, lane));
  });
  return loadElements(type, slot);
}
