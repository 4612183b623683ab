// Parameters and attributes of the kernel function, and its division into the programs of a block.
#include "compiler/codegen/gpu/CompileGpuKernel.h"
#include "compiler/codegen/gpu/ThreadLowering.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"

using namespace mlir;
using namespace torch_tile::codegen;

Value ThreadLowering::readRegister(StringRef name) {
  return LLVM::CallIntrinsicOp::create(b, b.getI32Type(), b.getStringAttr("llvm.nvvm.read.ptx.sreg." + name),
                                       ValueRange{})
      .getResult(0);
}

static bool hasOp(tile::KernelOp kernel, function_ref<bool(Operation *)> predicate) {
  return kernel.walk([&](Operation *op) { return predicate(op) ? WalkResult::interrupt() : WalkResult::advance(); })
      .wasInterrupted();
}

SmallVector<Type> ThreadLowering::parameterTypes() {
  SmallVector<Type> types;
  for (Type type : kernel.getArgumentTypes())
    types.push_back(isa<tile::PtrType>(type) ? Type(ptrType) : b.getI64Type());
  if (hasOp(kernel, [](Operation *op) { return isa<tile::ScratchOp>(op); }))
    types.append({ptrType, b.getI64Type()});
  if (programsPerBlock > 1)
    types.push_back(b.getI64Type());
  return types;
}

void ThreadLowering::lowerArguments() {
  unsigned next = 0;
  for (BlockArgument argument : kernel.getBody().front().getArguments()) {
    Value value = function.getArgument(next++);
    Type element = elementOf(argument.getType());
    if (!isa<tile::PtrType>(element) && element.getIntOrFloatBitWidth() < 64)
      value = arith::TruncIOp::create(b, b.getIntegerType(element.getIntOrFloatBitWidth()), value);
    if (isa<FloatType>(element))
      value = arith::BitcastOp::create(b, element, value);
    set(argument, {value});
  }
  if (hasOp(kernel, [](Operation *op) { return isa<tile::ScratchOp>(op); })) {
    Value all = function.getArgument(next), bytes = function.getArgument(next + 1);
    next += 2;
    auto wide = [&](StringRef name) -> Value { return arith::ExtUIOp::create(b, b.getI64Type(), readRegister(name)); };
    Value linear;
    if (programsPerBlock > 1) {
      linear = arith::ExtUIOp::create(b, b.getI64Type(), programId);
    } else {
      linear = wide("ctaid.z");
      for (StringRef axis : {"y", "x"}) {
        linear = arith::MulIOp::create(b, linear, wide(("nctaid." + axis).str()));
        linear = arith::AddIOp::create(b, linear, wide(("ctaid." + axis).str()));
      }
    }
    scratch = elementPtr(all, b.getI8Type(), arith::MulIOp::create(b, linear, bytes));
  }
}

void ThreadLowering::setFunctionAttributes() {
  function.setCConv(LLVM::CConv::PTX_Kernel);
  auto entry = [&](StringRef key, StringRef value) -> Attribute {
    return b.getArrayAttr({b.getStringAttr(key), b.getStringAttr(value)});
  };
  SmallVector<Attribute> attributes = {entry("nvvm.maxntid", std::to_string(numThreads * programsPerBlock)),
                                       b.getStringAttr("nounwind")};
  if (auto blocks = kernel->getAttrOfType<IntegerAttr>("tile.blocks_per_processor"))
    attributes.push_back(entry("nvvm.minctasm", std::to_string(blocks.getInt())));
  function.setPassthroughAttr(b.getArrayAttr(attributes));
  if (!kernel->hasAttr("tile.noalias_args"))
    return;
  // Neighbours that one thread accesses one after the other become words: LLVM needs to know where they begin.
  constexpr int64_t wordBytes = 16;
  for (artifact::AlignedArgument argument : alignedArguments(kernel))
    function.setArgAttr(argument.index, LLVM::LLVMDialect::getAlignAttrName(), b.getI64IntegerAttr(wordBytes));
  // What is never written can be read through the read-only cache.
  llvm::DenseSet<Value> written;
  bool isWrittenUnknown = false;
  kernel.walk([&](Operation *op) {
    if (!isWrite(op))
      return;
    Value root = rootOfPointers(baseOf(op));
    if (root && root.getDefiningOp<tile::ScratchOp>())
      return;
    isWrittenUnknown |= !root;
    written.insert(root);
  });
  for (BlockArgument argument : kernel.getBody().front().getArguments()) {
    if (!isa<tile::PtrType>(argument.getType()))
      continue;
    function.setArgAttr(argument.getArgNumber(), LLVM::LLVMDialect::getNoAliasAttrName(), b.getUnitAttr());
    if (!isWrittenUnknown && !written.contains(argument))
      function.setArgAttr(argument.getArgNumber(), LLVM::LLVMDialect::getReadonlyAttrName(), b.getUnitAttr());
  }
}

/// Warps become programs; those beyond the last one leave at once.
void ThreadLowering::splitBlock() {
  Value warp = arith::ShRUIOp::create(b, threadId, i32(5));
  threadId = arith::AndIOp::create(b, threadId, i32(31));
  Value first = arith::MulIOp::create(b, readRegister("ctaid.x"), i32(programsPerBlock));
  programId = arith::AddIOp::create(b, first, warp);
  sharedStride = LLVM::ConstantOp::create(b, b.getI32Type(), b.getI32IntegerAttr(0));
  Value offset = arith::MulIOp::create(b, warp, sharedStride);
  sharedBase = LLVM::GEPOp::create(b, sharedPtrType, b.getI8Type(), sharedBase, ArrayRef<LLVM::GEPArg>{offset});
  Value count = arith::TruncIOp::create(b, b.getI32Type(), function.getArgument(function.getNumArguments() - 1));
  Value isInside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, programId, count);
  Block *body = function.addBlock(), *exit = function.addBlock();
  cf::CondBranchOp::create(b, isInside, body, ValueRange(), exit, ValueRange());
  b.setInsertionPointToEnd(exit);
  LLVM::ReturnOp::create(b, ValueRange{});
  b.setInsertionPointToEnd(body);
}
