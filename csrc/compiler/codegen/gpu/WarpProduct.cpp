#include "compiler/codegen/gpu/WarpProduct.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace torch_tile::codegen;
using tile::InputPrecision;

WarpProduct::WarpProduct(ImplicitLocOpBuilder &b, tile::DotOp dot)
    : b(b), element(cast<RankedTensorType>(dot.getLhs().getType()).getElementType()),
      precision(tile::inputPrecisionOf(dot)) {}

//===-- operands ------------------------------------------------------------------------------------------------===//

static Value integerConstant(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantOp::create(b, b.getI32IntegerAttr((int32_t)value));
}

/// To 11 bits, half away from zero. The other bits of the result are not defined; instructions ignore them.
Value WarpProduct::roundToTf32(Value value) {
  Value bits =
      LLVM::CallIntrinsicOp::create(b, b.getI32Type(), b.getStringAttr("llvm.nvvm.f2tf32.rna"), ValueRange{value})
          .getResult(0);
  return LLVM::BitcastOp::create(b, b.getF32Type(), bits);
}

Value WarpProduct::roundToBf16(Value value) {
  Value rounded = LLVM::FPTruncOp::create(b, b.getBF16Type(), value);
  return LLVM::FPExtOp::create(b, b.getF32Type(), rounded);
}

/// Two numbers that bf16 represents, as a register.
Value WarpProduct::pack(Value low, Value high) {
  Value bits = LLVM::CallIntrinsicOp::create(b, b.getI32Type(), b.getStringAttr("llvm.nvvm.prmt"),
                                             ValueRange{LLVM::BitcastOp::create(b, b.getI32Type(), low),
                                                        LLVM::BitcastOp::create(b, b.getI32Type(), high),
                                                        integerConstant(b, 0x7632)})
                   .getResult(0);
  return bits;
}

/// The terms of an f32, each the rest of those before it, rounded. If there are several, what stands for the first one
/// in products with smaller terms comes last: 0 for infinity, whose products with a term that is 0 would be NaN.
SmallVector<Value> WarpProduct::split(Value word) {
  int64_t numTerms = precision == InputPrecision::Tf32 ? 1 : precision == InputPrecision::Bf16x6 ? 3 : 2;
  Value rest = LLVM::BitcastOp::create(b, b.getF32Type(), word);
  if (numTerms == 1)
    return {roundToTf32(rest)};
  auto floatConstant = [&](float value) -> Value { return arith::ConstantOp::create(b, b.getF32FloatAttr(value)); };
  auto isInfinite = [&](Value value) -> Value {
    Value infinity = floatConstant(std::numeric_limits<float>::infinity());
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, LLVM::FAbsOp::create(b, value), infinity);
  };
  auto truncate = [&](Value value) -> Value {
    Value bits = LLVM::BitcastOp::create(b, b.getI32Type(), value);
    bits = arith::AndIOp::create(b, bits, integerConstant(b, isBf16() ? ~0xffff : ~0x1fff));
    return LLVM::BitcastOp::create(b, b.getF32Type(), bits);
  };
  // The largest numbers are not rounded up to infinity.
  Value first = isBf16() ? roundToBf16(rest) : truncate(roundToTf32(rest));
  first = arith::SelectOp::create(b, isInfinite(first), truncate(rest), first);
  Value isWhole = isInfinite(rest), zero = floatConstant(0);
  rest = arith::SelectOp::create(b, isWhole, zero, arith::SubFOp::create(b, rest, first));
  SmallVector<Value> terms = {first};
  for (int64_t k = 1; k < numTerms; ++k) {
    Value term = isBf16() ? roundToBf16(rest) : roundToTf32(rest);
    if (k + 1 < numTerms)
      rest = arith::SubFOp::create(b, rest, term);
    terms.push_back(term);
  }
  terms.push_back(arith::SelectOp::create(b, isWhole, zero, first));
  return terms;
}

WarpProduct::Terms WarpProduct::termsOf(ArrayRef<Registers> reads, bool isLeft) {
  if (!element.isF32())
    return {reads[0]};
  SmallVector<SmallVector<SmallVector<Value>>> all; // by read, register, term
  for (const Registers &read : reads) {
    all.emplace_back();
    for (Value word : read)
      all.back().push_back(split(word));
  }
  Terms terms(all[0][0].size());
  for (auto [k, term] : llvm::enumerate(terms)) {
    if (!isBf16()) {
      for (const auto &parts : all[0])
        term.push_back(LLVM::BitcastOp::create(b, b.getI32Type(), parts[k]));
      continue;
    }
    // An instruction takes neighbours along the depth. Which numbers of the depth these are does not matter, as long as
    // both operands agree: a thread gives those that it has of both halves of a read.
    auto packed = [&](size_t read, size_t first, size_t second) {
      return pack(all[read][first][k], all[read][second][k]);
    };
    if (isLeft)
      term = {packed(0, 0, 2), packed(0, 1, 3), packed(1, 0, 2), packed(1, 1, 3)};
    else
      term = {packed(0, 0, 1), packed(1, 0, 1), packed(0, 2, 3), packed(1, 2, 3)};
  }
  return terms;
}

//===-- instructions --------------------------------------------------------------------------------------------===//

/// The instruction of LLVM; empty if there is none.
static StringRef intrinsicOf(Type element, bool isSplitToBf16) {
  if (element.isF16())
    return "llvm.nvvm.mma.m16n8k16.row.col.f32.f32";
  if (element.isBF16() || isSplitToBf16)
    return "llvm.nvvm.mma.m16n8k16.row.col.bf16";
  if (element.isF32())
    return "llvm.nvvm.mma.m16n8k8.row.col.tf32";
  if (element.isF64())
    return "llvm.nvvm.mma.m8n8k4.row.col.f64";
  return element.isInteger(8) ? "llvm.nvvm.mma.m16n8k32.row.col.s8" : "";
}

/// Assembly of an instruction that LLVM has no name for.
static std::string assemblyOf(Type element) {
  std::string type = isa<Float8E4M3FNType>(element) ? "e4m3" : "e5m2";
  return "mma.sync.aligned.m16n8k32.row.col.f32." + type + "." + type +
         ".f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};";
}

/// One instruction.
void WarpProduct::call(ArrayRef<Value> left, ArrayRef<Value> right, SmallVectorImpl<Value> &sums) {
  SmallVector<Value> operands;
  auto half = VectorType::get({2}, b.getF16Type());
  for (Value word : llvm::concat<const Value>(left, right))
    operands.push_back(element.isF16() ? LLVM::BitcastOp::create(b, half, word).getResult() : word);
  llvm::append_range(operands, sums);
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(sums.size(), sums[0].getType()));
  Value all;
  if (StringRef name = intrinsicOf(element, isBf16()); !name.empty())
    all = LLVM::CallIntrinsicOp::create(b, type, b.getStringAttr(name), operands).getResult(0);
  else
    all = LLVM::InlineAsmOp::create(b, type, operands, assemblyOf(element), "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f",
                                    /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::TailCallKind::None,
                                    LLVM::AsmDialectAttr(), ArrayAttr())
              .getResult(0);
  for (auto [k, sum] : llvm::enumerate(sums))
    sum = LLVM::ExtractValueOp::create(b, all, ArrayRef<int64_t>{(int64_t)k});
}

void WarpProduct::multiply(const Terms &left, const Terms &right, int64_t eight, SmallVectorImpl<Value> &sums) {
  auto columns = [&](const Registers &registers) {
    size_t count = registers.size() / 2;
    return ArrayRef<Value>(registers).slice(count * eight, count);
  };
  if (element.isF64()) { // an instruction has 8 rows
    for (int64_t half = 0; half < 2; ++half) {
      SmallVector<Value> two(ArrayRef<Value>(sums).slice(2 * half, 2));
      call(left[0][half], right[0][eight], two);
      llvm::copy(two, sums.begin() + 2 * half);
    }
    return;
  }
  // Of n terms the products of those that together count n - 1 at most; small ones are added first.
  auto last = (int64_t)left.size() - 2;
  auto inProduct = [&](const Terms &terms, int64_t k) -> const Registers & { return k ? terms[k] : terms.back(); };
  for (int64_t order = last; order > 0; --order)
    for (int64_t k = order; k >= 0; --k)
      call(inProduct(left, k), columns(inProduct(right, order - k)), sums);
  call(left[0], columns(right[0]), sums);
}
