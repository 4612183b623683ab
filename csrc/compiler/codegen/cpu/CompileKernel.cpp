#include "compiler/codegen/cpu/CompileKernel.h"

#include "compiler/codegen/common/ConvertToLlvm.h"
#include "compiler/codegen/common/ExpandMath.h"
#include "compiler/codegen/cpu/CpuTarget.h"
#include "compiler/codegen/cpu/EmitObject.h"
#include "compiler/codegen/cpu/TileLowering.h"

using namespace mlir;
using namespace torch_tile;
using namespace torch_tile::codegen;

KernelText codegen::describeCpuKernel(tile::KernelOp kernel, const CpuOptions &options, TimeBudget budget) {
  // Another budget may give other code for the same kernel.
  std::string unusual = budget.ms == TimeBudget::usualMs ? "" : std::to_string(budget.ms);
  return describeKernel(kernel, {options.cpu, options.features, options.hasSleef ? "sleef" : "", unusual,
                                 TORCH_TILE_CODEGEN_FINGERPRINT});
}

/// tile.kernel -> LLVM dialect in a new module.
static FailureOr<OwningOpRef<ModuleOp>> lowerToLlvmDialect(tile::KernelOp kernel, StringRef symbol,
                                                           const CpuOptions &options, const CpuFeatures &features,
                                                           StepClock &clock) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(kernel.getLoc());
  if (failed(TileLowering(kernel, features, symbol).run(*module)))
    return failure();
  clock.done("lower");
  ExpandMathOptions mathOptions;
  mathOptions.hasSleef = options.hasSleef && features.vectorBits >= 256;
  mathOptions.vectorBits = features.vectorBits;
  mathOptions.hasAvx512 = features.hasAvx512;
  mathOptions.hasBf16Conversion = features.hasBf16Conversion;
  expandMath(*module, mathOptions);
  clock.done("expand-math");
  if (failed(convertToLlvm(*module)))
    return failure();
  clock.done("convert");
  return module;
}

int codegen::vectorBytes(const CpuOptions &options) {
  auto machine = getTargetMachine(options);
  if (machine)
    return queryFeatures(**machine).vectorBits / 8;
  llvm::consumeError(machine.takeError()); // compiling says what is wrong
  return 16;
}

OwningOpRef<ModuleOp> codegen::lowerKernel(tile::KernelOp kernel, StringRef symbol, const CpuOptions &options) {
  auto machine = getTargetMachine(options);
  if (!machine) {
    kernel.emitError(llvm::toString(machine.takeError()));
    return {};
  }
  StepClock clock(nullptr);
  auto module = lowerToLlvmDialect(kernel, symbol, options, queryFeatures(**machine), clock);
  return failed(module) ? OwningOpRef<ModuleOp>() : std::move(*module);
}

FailureOr<CompiledKernel> codegen::compileKernel(tile::KernelOp kernel, const KernelText &text,
                                                 const CpuOptions &options, TimeBudget budget, KernelDumps *dumps,
                                                 KernelTiming *timing) {
  StepClock clock(timing);
  auto machine = getTargetMachine(options);
  if (!machine)
    return kernel.emitError(llvm::toString(machine.takeError()));
  CpuFeatures features = queryFeatures(**machine);
  clock.done("target");
  auto module = lowerToLlvmDialect(kernel, text.symbol, options, features, clock);
  if (failed(module))
    return failure();
  EmitOptions emit;
  int64_t numInstructions = 0;
  (*module)->walk([&](Operation *) { ++numInstructions; });
  emit.isOptimized = numInstructions <= budget.maxInstructions();
  emit.hasDisjointArguments = kernel->hasAttr("tile.noalias_args");
  emit.onStepDone = [&](const char *step) { clock.done(step); };
  if (dumps) {
    llvm::raw_string_ostream stream(dumps->llvmDialect);
    (*module)->print(stream);
    emit.dumpIr = [&](std::string ir) { dumps->llvmIr = std::move(ir); };
    emit.dumpAssembly = [&](std::string assembly) { dumps->assembly = std::move(assembly); };
  }
  auto code = emitObject(**module, **machine, options, features, emit);
  if (failed(code))
    return failure();
  CompiledKernel result;
  result.name = kernel.getSymName().str();
  result.symbol = text.symbol;
  result.hash = text.hash;
  result.unoptimizedSize = emit.isOptimized ? 0 : numInstructions;
  result.externalSymbols = undefinedSymbols(*code);
  result.code = std::move(*code);
  clock.done("finish");
  return result;
}
