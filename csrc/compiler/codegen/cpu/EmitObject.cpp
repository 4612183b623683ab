#include "compiler/codegen/cpu/EmitObject.h"

#include "compiler/codegen/cpu/Bf16Integers.h"
#include "compiler/codegen/cpu/KnownMasks.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/TargetParser/SubtargetFeature.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LowerExpectIntrinsic.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace llvm;
using namespace torch_tile::codegen;

/// The processor's features without SSE4a, whose instructions (`extrq`) have no VEX encoding. Beside AVX in use, some
/// processors take hundreds of cycles for an instruction of the older encoding.
static std::string usableFeatures(const TargetMachine &machine, const CpuOptions &cpu) {
  SubtargetFeatures features(cpu.features);
  if (machine.getTargetTriple().isX86())
    features.AddFeature("sse4a", false);
  return features.getString();
}

static void setAttributes(Module &module, const TargetMachine &machine, const CpuOptions &cpu,
                          const CpuFeatures &features) {
  module.setDataLayout(machine.createDataLayout());
  module.setTargetTriple(machine.getTargetTriple());
  std::string usable = usableFeatures(machine, cpu);
  for (Function &function : module) {
    function.setDoesNotThrow();
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", cpu.cpu);
    function.addFnAttr("target-features", usable);
    if (features.hasAvx512) {
      // LLVM prefers 256 bits on some processors, and widens to 512 only what is known to be that wide.
      function.addFnAttr("prefer-vector-width", "512");
      function.addFnAttr("min-legal-vector-width", "512");
    }
    function.setUWTableKind(UWTableKind::None);
    if (function.hasLocalLinkage()) // arithmetic on registers
      continue;
    function.addParamAttr(0, Attribute::ReadOnly);
    for (unsigned argument : {0u, 1u})
      function.addParamAttr(argument, Attribute::NoAlias);
  }
}

/// Pointers come out of an array, where `noalias` cannot be said, so each gets an alias scope of its own.
static void addAliasScopes(Function &function) {
  MapVector<const Value *, SmallVector<Instruction *>> accesses;
  for (BasicBlock &block : function)
    for (Instruction &instruction : block) {
      const Value *pointer = getLoadStorePointerOperand(&instruction);
      if (auto *intrinsic = dyn_cast<IntrinsicInst>(&instruction)) {
        if (intrinsic->getIntrinsicID() == Intrinsic::masked_load)
          pointer = intrinsic->getArgOperand(0);
        if (intrinsic->getIntrinsicID() == Intrinsic::masked_store)
          pointer = intrinsic->getArgOperand(1);
      }
      if (!pointer || !pointer->getType()->isPointerTy())
        continue;
      const Value *object = getUnderlyingObject(pointer, /*MaxLookup=*/0);
      if (isa<LoadInst>(object))
        accesses[object].push_back(&instruction);
    }
  if (accesses.size() < 2)
    return;
  MDBuilder builder(function.getContext());
  MDNode *domain = builder.createAnonymousAliasScopeDomain();
  SmallVector<Metadata *> scopes;
  for (size_t index = 0; index < accesses.size(); ++index)
    scopes.push_back(builder.createAnonymousAliasScope(domain));
  for (auto [index, entry] : enumerate(accesses)) {
    SmallVector<Metadata *> others(scopes);
    others.erase(others.begin() + index);
    MDNode *own = MDNode::get(function.getContext(), scopes[index]), *rest = MDNode::get(function.getContext(), others);
    for (Instruction *instruction : entry.second) {
      instruction->setMetadata(LLVMContext::MD_alias_scope, own);
      instruction->setMetadata(LLVMContext::MD_noalias, rest);
    }
  }
}

/// The vectors are as wide as they should be already, so the usual pipelines double compile time for nothing.
static void optimize(Module &module, TargetMachine &machine) {
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager sccs;
  ModuleAnalysisManager modules;
  PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);

  FunctionPassManager passes;
  passes.addPass(LowerExpectIntrinsicPass());
  passes.addPass(EarlyCSEPass());
  // One round finds nearly all; the second would only prove that it did.
  passes.addPass(InstCombinePass(InstCombineOptions().setMaxIterations(1).setVerifyFixpoint(false)));
  // After the rows have become plain values: what does not change from program to program leaves the loop.
  passes.addPass(createFunctionToLoopPassAdaptor(LICMPass(LICMOptions()), /*UseMemorySSA=*/true));
  passes.addPass(SimplifyCFGPass());
  for (Function &function : module)
    if (!function.isDeclaration())
      passes.run(function, functions);
}

template <typename Buffer>
static bool emitFile(Module &module, TargetMachine &machine, bool isOptimized, CodeGenFileType type, Buffer &buffer) {
  raw_svector_ostream stream(buffer);
  CodeGenOptLevel usual = machine.getOptLevel();
  TargetOptions usualOptions = machine.Options;
  // LLVM turns its fast instruction selection on at level 0, and leaves it on for all that the machine emits later.
  llvm::scope_exit restore([&] {
    machine.setOptLevel(usual);
    machine.Options = usualOptions;
  });
  if (!isOptimized)
    machine.setOptLevel(CodeGenOptLevel::None);
  legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true))
    return false;
  passes.run(module);
  return true;
}

mlir::FailureOr<std::vector<uint8_t>> torch_tile::codegen::emitObject(mlir::ModuleOp module, TargetMachine &machine,
                                                                      const CpuOptions &cpu,
                                                                      const CpuFeatures &features,
                                                                      const EmitOptions &options) {
  auto stepDone = [&](const char *step) {
    if (options.onStepDone)
      options.onStepDone(step);
  };
  LLVMContext context;
  std::unique_ptr<Module> translated =
      mlir::translateModuleToLLVMIR(module, context, "kernel", /*disableVerification=*/true);
  if (!translated)
    return module.emitError("translation to LLVM IR failed"), mlir::failure();
  setAttributes(*translated, machine, cpu, features);
  if (options.hasDisjointArguments)
    for (Function &function : *translated)
      addAliasScopes(function);
  // A malformed module would end the process in code generation; the verifier costs little beside it.
  std::string problem;
  raw_string_ostream problemStream(problem);
  if (verifyModule(*translated, &problemStream))
    return module.emitError("LLVM's verifier refused the module: ") << problem, mlir::failure();
  stepDone("translate");
  if (options.isOptimized)
    optimize(*translated, machine);
  for (Function &function : *translated) {
    separateKnownMasks(function, features.vectorBits);
    storeOnlyLanes(function);
  }
  if (!features.hasBf16Conversion)
    for (Function &function : *translated)
      moveBf16AsIntegers(function);
  stepDone("optimize");
  if (options.dumpIr) {
    std::string text;
    raw_string_ostream stream(text);
    translated->print(stream, nullptr);
    options.dumpIr(std::move(text));
  }
  if (options.dumpAssembly) {
    // Code generation changes the module, so the listing comes from a copy.
    SmallString<0> text;
    if (emitFile(*CloneModule(*translated), machine, options.isOptimized, CodeGenFileType::AssemblyFile, text))
      options.dumpAssembly(text.str().str());
  }
  stepDone("dump");
  SmallVector<char, 0> object;
  if (!emitFile(*translated, machine, options.isOptimized, CodeGenFileType::ObjectFile, object))
    return module.emitError("the target cannot emit object files"), mlir::failure();
  stepDone("emit");
  return std::vector<uint8_t>(object.begin(), object.end());
}

std::vector<std::string> torch_tile::codegen::undefinedSymbols(const std::vector<uint8_t> &object) {
  std::vector<std::string> names;
  StringRef bytes(reinterpret_cast<const char *>(object.data()), object.size());
  auto file = object::ObjectFile::createObjectFile(MemoryBufferRef(bytes, "kernel"));
  if (!file) {
    consumeError(file.takeError());
    return names;
  }
  for (const object::SymbolRef &symbol : (*file)->symbols()) {
    Expected<uint32_t> flags = symbol.getFlags();
    Expected<StringRef> name = symbol.getName();
    if (flags && name && (*flags & object::SymbolRef::SF_Undefined) && !name->empty())
      names.push_back(name->str());
    if (!flags)
      consumeError(flags.takeError());
    if (!name)
      consumeError(name.takeError());
  }
  llvm::sort(names);
  return names;
}
