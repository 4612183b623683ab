// Compiles a loop over one vector op with LLVM's JIT, for tests that compare its results with a reference.
#pragma once

#include "compiler/codegen/common/ExpandMath.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/DialectConversion.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/DynamicLibrary.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace torch_tile::codegen {

using namespace mlir;

using Kernel = void (*)(const void *, const void *, void *, int64_t);

inline bool hasAvx512() {
  auto features = llvm::sys::getHostCPUFeatures();
  return features.lookup("avx512f");
}

inline bool loadSleef() {
  static bool loaded = [] {
    const char *path = std::getenv("TORCH_TILE_LIBTORCH_CPU");
    return path && !llvm::sys::DynamicLibrary::LoadLibraryPermanently(path);
  }();
  return loaded;
}

inline int64_t hostVectorBits() { return hasAvx512() ? 512 : 256; }

/// Sleef where it is loaded, else libm.
inline ExpandMathOptions hostOptions() {
  ExpandMathOptions options;
  options.hasSleef = loadSleef();
  options.vectorBits = int(hostVectorBits());
  return options;
}

class Jit {
public:
  Jit() {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    DialectRegistry registry;
    registry.insert<arith::ArithDialect, math::MathDialect, scf::SCFDialect, cf::ControlFlowDialect, LLVM::LLVMDialect,
                    vector::VectorDialect, ub::UBDialect>();
    registerBuiltinDialectTranslation(registry);
    registerLLVMDialectTranslation(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    auto machine = llvm::cantFail(llvm::orc::JITTargetMachineBuilder::detectHost());
    machine.setCodeGenOptLevel(llvm::CodeGenOptLevel::Less);
    targetMachine = llvm::cantFail(machine.createTargetMachine());
    jit = llvm::cantFail(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(machine).create());
    jit->getMainJITDylib().addGenerator(llvm::cantFail(
        llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(jit->getDataLayout().getGlobalPrefix())));
  }

  OwningOpRef<ModuleOp> parse(const std::string &text) { return parseSourceString<ModuleOp>(text, &context); }

  /// `lanes` 0 stands for scalars. `body` maps %x and %y (of `inputType`) to %r (of `outputType`).
  static std::string loopText(StringRef name, int64_t lanes, StringRef inputType, StringRef outputType,
                              const std::string &body) {
    auto shaped = [&](StringRef type) {
      return lanes ? "vector<" + std::to_string(lanes) + "x" + type.str() + ">" : type.str();
    };
    std::string in = shaped(inputType), out = shaped(outputType);
    std::string text = "llvm.func @" + name.str() + "(%in: !llvm.ptr, %in2: !llvm.ptr, %out: !llvm.ptr, %n: i64) {\n";
    text += "%zero = arith.constant 0 : i64\n%step = arith.constant " + std::to_string(lanes ? lanes : 1) + " : i64\n";
    text += "scf.for %i = %zero to %n step %step : i64 {\n";
    auto load = [&](const std::string &pointer, const std::string &result) {
      text += "%p" + result + " = llvm.getelementptr %" + pointer + "[%i] : (!llvm.ptr, i64) -> !llvm.ptr, " +
              memoryType(inputType) + "\n";
      text += "%raw" + result + " = llvm.load %p" + result + " {alignment = 1 : i64} : !llvm.ptr -> " +
              shaped(memoryType(inputType)) + "\n";
      text +=
          "%" + result + " = arith.bitcast %raw" + result + " : " + shaped(memoryType(inputType)) + " to " + in + "\n";
    };
    load("in", "x");
    load("in2", "y");
    text += body + "\n";
    text += "%bits = arith.bitcast %r : " + out + " to " + shaped(memoryType(outputType)) + "\n";
    text += "%po = llvm.getelementptr %out[%i] : (!llvm.ptr, i64) -> !llvm.ptr, " + memoryType(outputType) + "\n";
    text += "llvm.store %bits, %po {alignment = 1 : i64} : " + shaped(memoryType(outputType)) +
            ", !llvm.ptr\n}\nllvm.return\n}\n";
    return text;
  }

  Kernel compile(ModuleOp module, const std::string &name) {
    EXPECT_TRUE(succeeded(verify(module)));
    lower(module);
    auto llvmContext = std::make_unique<llvm::LLVMContext>();
    auto llvmModule = translateModuleToLLVMIR(module, *llvmContext);
    EXPECT_TRUE(llvmModule);
    llvmModule->setDataLayout(targetMachine->createDataLayout());
    llvmModule->setTargetTriple(targetMachine->getTargetTriple());
    for (llvm::Function &function : *llvmModule) {
      function.addFnAttr("target-cpu", targetMachine->getTargetCPU());
      function.addFnAttr("target-features", targetMachine->getTargetFeatureString());
      function.addFnAttr("prefer-vector-width", std::to_string(hostVectorBits()));
    }
    optimize(*llvmModule);
    llvm::cantFail(jit->addIRModule(llvm::orc::ThreadSafeModule(std::move(llvmModule), std::move(llvmContext))));
    return llvm::cantFail(jit->lookup(name)).toPtr<Kernel>();
  }

  Kernel compileLoop(int64_t lanes, StringRef inputType, StringRef outputType, const std::string &body,
                     const ExpandMathOptions &options = hostOptions()) {
    std::string name = "kernel" + std::to_string(counter++);
    OwningOpRef<ModuleOp> module = parse(loopText(name, lanes, inputType, outputType, body));
    EXPECT_TRUE(module);
    expandMath(*module, options);
    return compile(*module, name);
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};

private:
  static std::string memoryType(StringRef type) {
    return type.starts_with("f8") ? "i8" : type == "bf16" ? "i16" : type.str();
  }

  void lower(ModuleOp module) {
    RewritePatternSet structured(&context);
    populateSCFToControlFlowConversionPatterns(structured);
    ConversionTarget flat(context);
    flat.addIllegalDialect<scf::SCFDialect>();
    flat.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    EXPECT_TRUE(succeeded(applyPartialConversion(module, flat, std::move(structured))));
    LLVMTypeConverter converter(&context);
    RewritePatternSet patterns(&context);
    arith::populateArithToLLVMConversionPatterns(converter, patterns);
    cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
    populateMathToLLVMConversionPatterns(converter, patterns);
    populateVectorToLLVMConversionPatterns(converter, patterns);
    LLVMConversionTarget target(context);
    target.addLegalOp<ModuleOp>();
    EXPECT_TRUE(succeeded(applyPartialConversion(module, target, std::move(patterns))));
  }

  void optimize(llvm::Module &module) {
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager components;
    llvm::ModuleAnalysisManager modules;
    llvm::PassBuilder builder(targetMachine.get());
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(components);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, components, modules);
    llvm::ModulePassManager passes;
    llvm::cantFail(builder.parsePassPipeline(
        passes, "function(early-cse,instcombine<max-iterations=1;no-verify-fixpoint>,loop-mssa(licm),simplifycfg)"));
    passes.run(module, modules);
  }

  std::unique_ptr<llvm::TargetMachine> targetMachine;
  std::unique_ptr<llvm::orc::LLJIT> jit;
  int counter = 0;
};

inline Jit &jit() {
  static auto *instance = new Jit; // never destroyed: code may run until exit
  return *instance;
}

} // namespace torch_tile::codegen
