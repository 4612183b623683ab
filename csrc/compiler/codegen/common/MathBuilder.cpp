#include "compiler/codegen/common/MathBuilder.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/bit.h"

#include <numeric>

using namespace mlir;

namespace torch_tile::codegen {

MathBuilder::MathBuilder(const ImplicitLocOpBuilder &builder, Value like) : ImplicitLocOpBuilder(builder) {
  setShape(like.getType());
}

MathBuilder::MathBuilder(Operation *op, const ExpandMathOptions &options)
    : ImplicitLocOpBuilder(op->getLoc(), op->getContext()), expandOptions(options) {}

void MathBuilder::setShape(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  lanes = vector ? vector.getDimSize(0) : -1;
  element = vector ? vector.getElementType() : type;
}

Type MathBuilder::shaped(Type elementType) const {
  return isVector() ? Type(VectorType::get({lanes}, elementType)) : elementType;
}

void MathBuilder::enterScope(Operation *op) {
  setInsertionPoint(op);
  setLoc(op->getLoc());
  setShape(op->getOperand(0).getType());
  // Constants go to the entry block of the innermost region that sees no values from outside.
  Region *region = op->getParentRegion();
  while (region->getParentRegion() && !region->getParentOp()->hasTrait<OpTrait::IsIsolatedFromAbove>())
    region = region->getParentRegion();
  Block *entry = &region->front();
  if (entry == scope)
    return;
  scope = entry;
  constants.clear();
  Operation *table = SymbolTable::getNearestSymbolTable(op);
  if (table != symbolTable) {
    symbolTable = table;
    declared.clear();
  }
}

Value MathBuilder::constant(Type type, uint64_t bitPattern, Attribute elementValue) {
  auto create = [&]() -> Value {
    TypedAttr attribute = cast<TypedAttr>(elementValue);
    if (auto vector = dyn_cast<VectorType>(type))
      attribute = cast<TypedAttr>(DenseElementsAttr::get(vector, elementValue));
    return arith::ConstantOp::create(*this, attribute);
  };
  if (!scope)
    return create();
  Value &entry = constants[{type, bitPattern}];
  if (!entry) {
    OpBuilder::InsertionGuard guard(*this);
    setInsertionPointToStart(scope);
    entry = create();
  }
  return entry;
}

Value MathBuilder::fp(double value) {
  uint64_t pattern = element.isF32() ? llvm::bit_cast<uint32_t>(float(value)) : llvm::bit_cast<uint64_t>(value);
  return constant(floatType(), pattern, getFloatAttr(element, value));
}

Value MathBuilder::bits(Type elementType, uint64_t value) {
  unsigned width = elementType.getIntOrFloatBitWidth();
  return constant(shaped(elementType), value,
                  IntegerAttr::get(elementType, APInt(width, value, false, /*implicitTrunc=*/true)));
}

Value MathBuilder::clampAbove(Value x, double limit) {
  Value bound = fp(limit);
  return select(less(bound, x), bound, x);
}

Value MathBuilder::clampBelow(Value x, double limit) {
  Value bound = fp(limit);
  return select(compare(arith::CmpFPredicate::OGT, bound, x), bound, x);
}

Value MathBuilder::polynomial(Value x, std::initializer_list<double> coefficients) {
  Value sum;
  for (double coefficient : coefficients)
    sum = sum ? fma(sum, x, fp(coefficient)) : fp(coefficient);
  return sum;
}

Value MathBuilder::callDeclared(StringRef name, Type type, ValueRange operands) {
  if (declared.insert(name).second && !SymbolTable::lookupSymbolIn(symbolTable, name)) {
    OpBuilder::InsertionGuard guard(*this);
    setInsertionPointToStart(&symbolTable->getRegion(0).front());
    auto functionType = LLVM::LLVMFunctionType::get(type, SmallVector<Type>(operands.size(), type));
    auto function = LLVM::LLVMFuncOp::create(*this, name, functionType);
    function.setNoUnwind(true);
    // Nobody reads errno of generated code, so equal calls may be merged and hoisted.
    SmallVector<LLVM::ModRefInfo> noAccess(6, LLVM::ModRefInfo::NoModRef);
    function.setMemoryEffectsAttr(LLVM::MemoryEffectsAttr::get(getContext(), noAccess));
  }
  return LLVM::CallOp::create(*this, TypeRange{type}, FlatSymbolRefAttr::get(getContext(), name), operands).getResult();
}

Value MathBuilder::callPerLane(StringRef name, ValueRange operands) {
  if (!isVector())
    return callDeclared(name, element, operands);
  SmallVector<Value> results;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    SmallVector<Value> scalars;
    for (Value operand : operands)
      scalars.push_back(vector::ExtractOp::create(*this, operand, lane));
    results.push_back(callDeclared(name, element, scalars));
  }
  return vector::FromElementsOp::create(*this, cast<VectorType>(floatType()), results);
}

/// Lanes [begin, begin + width) of `source`; lanes past its end repeat lane 0, a value the function sees anyway.
static Value sliceLanes(MathBuilder &b, Value source, int64_t begin, int64_t width) {
  int64_t size = cast<VectorType>(source.getType()).getDimSize(0);
  if (begin == 0 && width == size)
    return source;
  SmallVector<int64_t> mask;
  for (int64_t lane = begin; lane < begin + width; ++lane)
    mask.push_back(lane < size ? lane : 0);
  return vector::ShuffleOp::create(b, source, source, mask);
}

/// The first `lanes` lanes of `parts` one after the other, pairwise; an odd part is paired with itself.
static Value joinLanes(MathBuilder &b, SmallVector<Value> parts, int64_t lanes) {
  while (parts.size() > 1) {
    SmallVector<Value> joined;
    SmallVector<int64_t> mask(2 * cast<VectorType>(parts[0].getType()).getDimSize(0));
    std::iota(mask.begin(), mask.end(), 0);
    for (size_t i = 0; i < parts.size(); i += 2)
      joined.push_back(vector::ShuffleOp::create(b, parts[i], parts[i + 1 < parts.size() ? i + 1 : i], mask));
    parts = std::move(joined);
  }
  return sliceLanes(b, parts[0], 0, lanes);
}

Value MathBuilder::byRegister(int64_t width, ValueRange operands, llvm::function_ref<Value(ValueRange)> apply) {
  SmallVector<Value> parts;
  for (int64_t begin = 0; begin < lanes; begin += width) {
    SmallVector<Value> slices;
    for (Value operand : operands)
      slices.push_back(sliceLanes(*this, operand, begin, width));
    parts.push_back(apply(slices));
  }
  return joinLanes(*this, std::move(parts), lanes);
}

Value MathBuilder::callSleef(StringRef name, int64_t width, ValueRange operands) {
  auto registerType = VectorType::get({width}, element);
  if (!isVector()) {
    SmallVector<Value> splats;
    for (Value operand : operands)
      splats.push_back(vector::BroadcastOp::create(*this, registerType, operand));
    return vector::ExtractOp::create(*this, callDeclared(name, registerType, splats), int64_t(0));
  }
  return byRegister(width, operands, [&](ValueRange slices) { return callDeclared(name, registerType, slices); });
}

static Value callIntrinsic(MathBuilder &b, StringRef name, Type type, ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(b, type, b.getStringAttr(name), operands).getResults();
}

Value MathBuilder::truncPairsToHalf(Value x, Type half) {
  StringRef name = half.isBF16() ? "llvm.nvvm.ff2bf16x2.rn" : "llvm.nvvm.ff2f16x2.rn";
  return byRegister(2, x, [&](ValueRange parts) {
    Value low = vector::ExtractOp::create(*this, parts[0], int64_t(0));
    Value high = vector::ExtractOp::create(*this, parts[0], int64_t(1));
    return callIntrinsic(*this, name, VectorType::get({2}, half), {high, low});
  });
}

Value MathBuilder::truncPairsToFloat8(Value x, StringRef format) {
  std::string name = ("llvm.nvvm.ff.to." + format + "x2.rn").str();
  return byRegister(2, x, [&](ValueRange parts) {
    Value low = vector::ExtractOp::create(*this, parts[0], int64_t(0));
    Value high = vector::ExtractOp::create(*this, parts[0], int64_t(1));
    Value both = callIntrinsic(*this, name, getI16Type(), {high, low});
    return LLVM::BitcastOp::create(*this, VectorType::get({2}, getI8Type()), both).getResult();
  });
}

Value MathBuilder::extendPairsOfFloat8(Value x, StringRef format) {
  std::string name = ("llvm.nvvm." + format + "x2.to.f16x2.rn").str();
  return byRegister(2, x, [&](ValueRange parts) {
    Value both = LLVM::BitcastOp::create(*this, getI16Type(), parts[0]);
    return callIntrinsic(*this, name, VectorType::get({2}, getF16Type()), {both});
  });
}

//===-- instructions of x86 -------------------------------------------------------------------------------------===//

static Value scalarConstant(MathBuilder &b, Type type, int64_t value) {
  return arith::ConstantOp::create(b, b.getIntegerAttr(type, value));
}

Value MathBuilder::scaleByPower(Value x, Value n, Value kept) {
  int64_t width = element.isF64() ? 8 : 16;
  StringRef name = element.isF64() ? "llvm.x86.avx512.mask.scalef.pd.512" : "llvm.x86.avx512.mask.scalef.ps.512";
  Type maskType = getIntegerType(width);
  SmallVector<Value> operands{x, n};
  if (kept)
    operands.push_back(kept);
  return byRegister(width, operands, [&](ValueRange parts) {
    Type type = parts[0].getType();
    Value rounding = scalarConstant(*this, getI32Type(), 4); // that of the thread
    Value mask = kept ? Value(LLVM::BitcastOp::create(*this, maskType, parts[2])) : scalarConstant(*this, maskType, -1);
    Value others = kept ? Value(arith::ConstantOp::create(*this, getZeroAttr(type))) : parts[0];
    return callIntrinsic(*this, name, type, {parts[0], parts[1], others, mask, rounding});
  });
}

Value MathBuilder::truncToBF16ByInstruction(Value x) {
  auto bf16s = [&](int64_t count) { return VectorType::get({count}, getBF16Type()); };
  if (lanes == 16)
    return callIntrinsic(*this, "llvm.x86.avx512bf16.cvtneps2bf16.512", bf16s(16), x);
  // Two registers become one.
  SmallVector<Value> parts;
  for (int64_t begin = 0; begin < lanes; begin += 32) {
    Value low = sliceLanes(*this, x, begin, 16), high = sliceLanes(*this, x, begin + 16, 16);
    parts.push_back(callIntrinsic(*this, "llvm.x86.avx512bf16.cvtne2ps2bf16.512", bf16s(32), {high, low}));
  }
  return joinLanes(*this, std::move(parts), lanes);
}

Value MathBuilder::hasSubnormalOrNan(Value x) {
  constexpr int64_t classes = 0x01 | 0x20 | 0x80; // quiet NaN, subnormal, signalling NaN
  auto flags = VectorType::get({16}, getI1Type());
  Value any;
  for (int64_t begin = 0; begin < lanes; begin += 16) {
    Value part = callIntrinsic(*this, "llvm.x86.avx512.fpclass.ps.512", flags,
                               {sliceLanes(*this, x, begin, 16), scalarConstant(*this, getI32Type(), classes)});
    any = any ? orI(any, part) : part;
  }
  Value bits = LLVM::BitcastOp::create(*this, getI16Type(), any);
  return arith::CmpIOp::create(*this, arith::CmpIPredicate::ne, bits, scalarConstant(*this, getI16Type(), 0));
}

Value MathBuilder::instruction(StringRef text, ValueRange operands) {
  std::string constraints = "=f";
  for (size_t k = 0; k < operands.size(); ++k)
    constraints += ",f";
  auto emit = [&](ValueRange scalars) -> Value {
    return LLVM::InlineAsmOp::create(*this, TypeRange{element}, scalars, text, constraints, /*has_side_effects=*/false,
                                     /*is_align_stack=*/false, LLVM::TailCallKind::None, LLVM::AsmDialectAttr(),
                                     ArrayAttr())
        .getRes();
  };
  if (!isVector())
    return emit(operands);
  Value result = arith::ConstantOp::create(*this, getZeroAttr(floatType()));
  for (int64_t lane = 0; lane < lanes; ++lane) {
    SmallVector<Value> scalars;
    for (Value operand : operands)
      scalars.push_back(vector::ExtractOp::create(*this, operand, lane));
    result = vector::InsertOp::create(*this, emit(scalars), result, lane);
  }
  return result;
}

Value MathBuilder::callOutlined(StringRef stem, Value operand) {
  std::string name = ("tile_" + stem).str();
  Type f32 = getF32Type();
  if (!SymbolTable::lookupSymbolIn(symbolTable, name)) {
    InsertionGuard guard(*this);
    setInsertionPointToStart(&symbolTable->getRegion(0).front());
    auto function = LLVM::LLVMFuncOp::create(*this, name, LLVM::LLVMFunctionType::get(f32, {f32}));
    function.setLinkage(LLVM::Linkage::Internal);
    function.setPassthroughAttr(getArrayAttr({getStringAttr("noinline"), getStringAttr("nounwind")}));
    setInsertionPointToStart(function.addEntryBlock(*this));
    Value argument = function.getArgument(0);
    MathBuilder inside(*this, argument);
    inside.expandOptions = expandOptions;
    LLVM::ReturnOp::create(inside, callWide(inside, stem, argument));
  }
  return callPerLane(name, operand);
}

Value MathBuilder::callOutlinedByRegister(StringRef stem, Value operand,
                                          llvm::function_ref<Value(MathBuilder &, Value)> build) {
  int64_t width = expandOptions.vectorBits / element.getIntOrFloatBitWidth();
  std::string name = ("tile_" + stem + llvm::Twine(width)).str();
  auto type = VectorType::get({width}, element);
  if (!SymbolTable::lookupSymbolIn(symbolTable, name)) {
    InsertionGuard guard(*this);
    setInsertionPointToStart(&symbolTable->getRegion(0).front());
    auto function = LLVM::LLVMFuncOp::create(*this, name, LLVM::LLVMFunctionType::get(type, {type}));
    function.setLinkage(LLVM::Linkage::Internal);
    function.setPassthroughAttr(getArrayAttr({getStringAttr("noinline"), getStringAttr("nounwind")}));
    setInsertionPointToStart(function.addEntryBlock(*this));
    MathBuilder inside(*this, function.getArgument(0));
    inside.expandOptions = expandOptions;
    inside.symbolTable = symbolTable;
    LLVM::ReturnOp::create(inside, build(inside, function.getArgument(0)));
  }
  auto call = [&](ValueRange parts) -> Value {
    return LLVM::CallOp::create(*this, TypeRange{type}, FlatSymbolRefAttr::get(getContext(), name), parts).getResult();
  };
  if (isVector())
    return byRegister(width, operand, call);
  Value splat = vector::BroadcastOp::create(*this, type, operand);
  return vector::ExtractOp::create(*this, call(splat), int64_t(0));
}

Value MathBuilder::callLibrary(StringRef stem, StringRef ulpSuffix, ValueRange operands) {
  if (!expandOptions.hasLibrary)
    if (Value value = callWide(*this, stem, operands))
      return value;
  bool isF32 = element.isF32();
  llvm::SmallString<32> name;
  if (!expandOptions.hasSleef)
    return callPerLane((stem + (isF32 ? "f" : "")).toStringRef(name), operands);
  int64_t width = expandOptions.vectorBits / (isF32 ? 32 : 64);
  return callSleef(("Sleef_" + stem + (isF32 ? "f" : "d") + llvm::Twine(width) + "_" + ulpSuffix).toStringRef(name),
                   width, operands);
}

} // namespace torch_tile::codegen
