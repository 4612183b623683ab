#include "compiler/codegen/gpu/EmitPtx.h"

#include "compiler/codegen/gpu/MoveLoadsAhead.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/InferAlignment.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/Scalarizer.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

using namespace llvm;

/// What a kernel only reads does not change while it runs: stores between two loads of it leave one load. Instructions
/// written as text are like any other: one is enough for one value, and stores move across them.
static void markPure(Function &function) {
  for (Instruction &instruction : instructions(function)) {
    if (auto *call = dyn_cast<CallInst>(&instruction)) {
      auto *text = dyn_cast<InlineAsm>(call->getCalledOperand());
      if (text && !text->hasSideEffects()) {
        call->setDoesNotAccessMemory();
        call->addFnAttr(Attribute::WillReturn);
      }
      continue;
    }
    auto *load = dyn_cast<LoadInst>(&instruction);
    if (!load || load->isVolatile())
      continue;
    auto *argument = dyn_cast<Argument>(getUnderlyingObject(load->getPointerOperand(), /*MaxLookup=*/0));
    if (argument && argument->hasNoAliasAttr() && argument->onlyReadsMemory())
      load->setMetadata(LLVMContext::MD_invariant_load, MDNode::get(function.getContext(), {}));
  }
}

/// The assembler takes the result of abs.s16 for a number of at most 15 bits, also where -32768 stays what it is, and a
/// remainder of it then has another sign (seen with CUDA 13.0). Of 32 bits, -32768 is what the lower half says. After
/// LLVM's simplifications, which would undo it.
static void widenShortMagnitudes(Function &function) {
  for (Instruction &instruction : make_early_inc_range(instructions(function))) {
    auto *call = dyn_cast<IntrinsicInst>(&instruction);
    if (!call || call->getIntrinsicID() != Intrinsic::abs || !call->getType()->isIntegerTy(16))
      continue;
    IRBuilder<> builder(call);
    Value *wide = builder.CreateSExt(call->getArgOperand(0), builder.getInt32Ty());
    wide = builder.CreateBinaryIntrinsic(Intrinsic::abs, wide, builder.getFalse());
    call->replaceAllUsesWith(builder.CreateTrunc(wide, call->getType()));
    call->eraseFromParent();
  }
}

/// Vectors have told what lies side by side in memory; arithmetic on them is done element by element.
static void optimize(Module &module, TargetMachine &machine) {
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager sccs;
  ModuleAnalysisManager modules;
  PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);

  FunctionPassManager passes;
  passes.addPass(ScalarizerPass());
  passes.addPass(EarlyCSEPass());
  passes.addPass(InstCombinePass(InstCombineOptions().setMaxIterations(1).setVerifyFixpoint(false)));
  passes.addPass(createFunctionToLoopPassAdaptor(LICMPass(LICMOptions()), /*UseMemorySSA=*/true));
  passes.addPass(SimplifyCFGPass());
  passes.addPass(EarlyCSEPass());
  passes.addPass(InferAlignmentPass()); // neighbours become words only where they say how they are aligned
  for (Function &function : module)
    if (!function.isDeclaration()) {
      markPure(function);
      passes.run(function, functions);
      torch_tile::codegen::moveLoadsAhead(function);
      widenShortMagnitudes(function);
    }
}

namespace {
/// LLVM's passes for code generation, without its strength reduction of loops if asked.
class CodegenPasses : public legacy::PassManager {
public:
  explicit CodegenPasses(bool keepsInductions) : keepsInductions(keepsInductions) {}
  void add(Pass *pass) override {
    static const AnalysisID reduction = std::unique_ptr<Pass>(createLoopStrengthReducePass())->getPassID();
    if (keepsInductions && pass->getPassID() == reduction)
      delete pass;
    else
      legacy::PassManager::add(pass);
  }

private:
  bool keepsInductions;
};
} // namespace

/// ptxas (12.6 to 13.0) makes of a - b, where a is the high half of a product of 32 bits and both are widened to 64,
/// one instruction that adds -b to the product, and takes its carry for the borrow: where b is 0 the difference is too
/// small by 2^32. Products whose high half is widened are written as products of 64 bits, which ptxas leaves alone.
static std::string withWideProducts(StringRef ptx) {
  static constexpr StringLiteral product = "\tmul.hi.u32 \t", widening = "\tcvt.u64.u32 \t";
  StringSet<> widened;
  SmallVector<StringRef, 0> lines;
  ptx.split(lines, '\n');
  for (StringRef line : lines)
    if (line.consume_front(widening))
      widened.insert(line.split(", ").second.drop_back()); // without the semicolon
  std::string text;
  raw_string_ostream stream(text);
  for (auto [number, line] : enumerate(lines)) {
    stream << (number == 0 ? "" : "\n");
    StringRef operands = line;
    if (!operands.consume_front(product) || !widened.contains(operands.split(", ").first)) {
      stream << line;
      continue;
    }
    auto [result, factors] = operands.split(", ");
    stream << "\t{ .reg .b32 %low; .reg .b64 %wide; mul.wide.u32 \t%wide, " << factors << " mov.b64 \t{%low, " << result
           << "}, %wide; }";
  }
  return text;
}

mlir::FailureOr<std::string> torch_tile::codegen::emitPtx(mlir::ModuleOp module, TargetMachine &machine,
                                                          const EmitPtxOptions &options) {
  auto stepDone = [&](const char *step) {
    if (options.onStepDone)
      options.onStepDone(step);
  };
  LLVMContext context;
  std::unique_ptr<Module> translated =
      mlir::translateModuleToLLVMIR(module, context, "kernel", /*disableVerification=*/true);
  if (!translated)
    return module.emitError("translation to LLVM IR failed"), mlir::failure();
  translated->setDataLayout(machine.createDataLayout());
  translated->setTargetTriple(machine.getTargetTriple());
  // A malformed module would end the process in code generation; the verifier costs little beside it.
  std::string problem;
  raw_string_ostream problemStream(problem);
  if (verifyModule(*translated, &problemStream))
    return module.emitError("LLVM's verifier refused the module: ") << problem, mlir::failure();
  stepDone("translate");
  optimize(*translated, machine);
  stepDone("optimize");
  if (options.dumpIr) {
    std::string text;
    raw_string_ostream stream(text);
    translated->print(stream, nullptr);
    options.dumpIr(std::move(text));
  }
  stepDone("dump");
  SmallString<0> ptx;
  raw_svector_ostream stream(ptx);
  CodegenPasses passes(options.keepsInductions);
  if (machine.addPassesToEmitFile(passes, stream, nullptr, CodeGenFileType::AssemblyFile, /*DisableVerify=*/true))
    return module.emitError("the target cannot emit PTX"), mlir::failure();
  passes.run(*translated);
  stepDone("emit");
  return withWideProducts(ptx);
}
