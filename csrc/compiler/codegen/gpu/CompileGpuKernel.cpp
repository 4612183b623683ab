#include "compiler/codegen/gpu/CompileGpuKernel.h"

#include "artifact/LaunchNote.h"
#include "compiler/codegen/common/ConvertToLlvm.h"
#include "compiler/codegen/common/ExpandMath.h"
#include "compiler/codegen/gpu/EmitPtx.h"
#include "compiler/codegen/gpu/GpuTarget.h"
#include "compiler/codegen/gpu/ThreadLowering.h"

using namespace mlir;
using namespace torch_tile;
using namespace torch_tile::codegen;

KernelText codegen::describeGpuKernel(tile::KernelOp kernel, const GpuOptions &options) {
  return describeKernel(kernel, {options.architecture, options.features, TORCH_TILE_CODEGEN_FINGERPRINT});
}

/// There is no library to call on the device.
static LogicalResult verifyNoCalls(ModuleOp module) {
  WalkResult result = module.walk([&](LLVM::CallOp call) {
    auto callee = module.lookupSymbol<LLVM::LLVMFuncOp>(call.getCallee().value_or(""));
    if (call.getCallee() == assertFunctionName || call.getCallee() == printFunctionName ||
        (callee && !callee.isExternal()))
      return WalkResult::advance();
    call.emitError("unsupported on gpu: no inline form of '") << call.getCallee().value_or("?") << "'";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// Behind the number of threads, as a comment: how many blocks there may be room for. LaunchNote.h says what the
/// kinds of notes mean to who assembles it.
static void noteBlocks(std::string &ptx, std::string_view note, int64_t numBlocks) {
  size_t bound = ptx.find("\n.maxntid"), end = bound == std::string::npos ? bound : ptx.find('\n', bound + 1);
  if (end != std::string::npos)
    ptx.insert(end, "\n" + std::string(note) + std::to_string(numBlocks));
}

/// Blocks for which a multiprocessor has shared memory and threads.
static int64_t blocksWithRoom(int64_t sharedBytes, int64_t numThreads, const GpuOptions &options) {
  constexpr int64_t mostThreads = 2048, reservedBytes = 1024; // of a multiprocessor; of each block
  return std::min(mostThreads / numThreads, options.sharedBytes / (sharedBytes + reservedBytes));
}

FailureOr<CompiledKernel> codegen::compileGpuKernel(tile::KernelOp kernel, const KernelText &text,
                                                    const GpuOptions &options, KernelDumps *dumps,
                                                    KernelTiming *timing) {
  StepClock clock(timing);
  auto machine = getGpuTargetMachine(options);
  if (!machine)
    return kernel.emitError(llvm::toString(machine.takeError()));
  clock.done("target");
  OwningOpRef<ModuleOp> module = ModuleOp::create(kernel.getLoc());
  markApproximate(kernel);
  pipelineLoads(kernel, options);
  ThreadLowering lowering(kernel, text.symbol, options);
  if (failed(lowering.run(*module)))
    return failure();
  clock.done("lower");
  ExpandMathOptions mathOptions;
  mathOptions.hasSleef = mathOptions.hasLibrary = false;
  mathOptions.hasFloat8Conversion = options.hasFloat8();
  expandMath(*module, mathOptions);
  if (failed(verifyNoCalls(*module)))
    return failure();
  clock.done("expand-math");
  if (failed(convertToLlvm(*module)))
    return failure();
  clock.done("convert");
  EmitPtxOptions emit;
  auto staged = kernel->getAttrOfType<IntegerAttr>(stagedBytesAttrName);
  emit.keepsInductions = (bool)staged;
  emit.onStepDone = [&](const char *step) { clock.done(step); };
  if (dumps) {
    llvm::raw_string_ostream stream(dumps->llvmDialect);
    (*module)->print(stream);
    emit.dumpIr = [&](std::string ir) { dumps->llvmIr = std::move(ir); };
  }
  auto ptx = emitPtx(*module, **machine, emit);
  if (failed(ptx))
    return failure();
  if (auto blocks = kernel->getAttrOfType<IntegerAttr>("tile.launch_bound"))
    noteBlocks(*ptx, artifact::launchBoundNote, blocks.getInt());
  CompiledKernel result;
  result.sharedBytes = (uint32_t)lowering.launchSharedBytes();
  if ((staged || kernel->hasAttr("tile.takes_launch_bound")) && !kernel->hasAttr("tile.max_registers")) {
    int64_t sharedBytes = std::max<int64_t>(result.sharedBytes, staged ? staged.getInt() : 0);
    if (int64_t blocks = blocksWithRoom(sharedBytes, lowering.threadsOfBlock(), options); blocks > 1)
      noteBlocks(*ptx, staged ? artifact::roomNote : artifact::waitingNote, blocks);
  }
  *ptx += artifact::launchNote(result.sharedBytes);
  result.name = kernel.getSymName().str();
  result.symbol = text.symbol;
  result.hash = text.hash;
  result.code.assign(ptx->begin(), ptx->end());
  if (dumps)
    dumps->assembly = std::move(*ptx);
  return result;
}
