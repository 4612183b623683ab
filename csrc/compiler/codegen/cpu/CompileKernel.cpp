#include "compiler/codegen/cpu/CompileKernel.h"

#include "compiler/codegen/common/ExpandMath.h"
#include "compiler/codegen/cpu/ConvertToLlvm.h"
#include "compiler/codegen/cpu/CpuTarget.h"
#include "compiler/codegen/cpu/EmitObject.h"
#include "compiler/codegen/cpu/TileLowering.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/BLAKE3.h"

#include <chrono>

using namespace mlir;
using namespace torch_tile;
using namespace torch_tile::codegen;

KernelText codegen::describeKernel(tile::KernelOp kernel, const CpuOptions &options) {
  KernelText result;
  OwningOpRef<tile::KernelOp> copy(cast<tile::KernelOp>(kernel->clone()));
  copy->setSymName("kernel");
  copy->removeLinesAttr();
  (*copy)->removeAttr("schedule"); // the choices it tells of are in the body
  llvm::raw_string_ostream stream(result.text);
  copy->print(stream, OpPrintingFlags().enableDebugInfo(false));

  llvm::BLAKE3 hasher;
  for (StringRef part : {StringRef(result.text), StringRef(options.cpu), StringRef(options.features),
                         StringRef(options.hasSleef ? "sleef" : ""), StringRef(TORCH_TILE_CODEGEN_FINGERPRINT),
                         StringRef(LLVM_VERSION_STRING)}) {
    hasher.update(part);
    hasher.update(ArrayRef<uint8_t>{0});
  }
  auto digest = hasher.final<32>();
  llvm::copy(digest, result.hash.bytes);
  result.symbol = "tile_" + llvm::toHex(ArrayRef<uint8_t>(digest).take_front(8), /*LowerCase=*/true);
  return result;
}

void codegen::registerKernelDialects(DialectRegistry &registry) {
  registry.insert<tile::TileDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect, cf::ControlFlowDialect,
                  LLVM::LLVMDialect, vector::VectorDialect, ub::UBDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

namespace {
class StepClock {
public:
  explicit StepClock(KernelTiming *timing) : timing(timing), last(Clock::now()) {}
  void done(const char *step) {
    if (!timing)
      return;
    auto now = Clock::now();
    timing->stepsMs.emplace_back(step, std::chrono::duration<double, std::milli>(now - last).count());
    last = now;
  }

private:
  using Clock = std::chrono::steady_clock;
  KernelTiming *timing;
  Clock::time_point last;
};
} // namespace

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
                                                 const CpuOptions &options, KernelDumps *dumps, KernelTiming *timing) {
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
  result.externalSymbols = undefinedSymbols(*code);
  result.code = std::move(*code);
  clock.done("finish");
  return result;
}
