#include "compiler/codegen/common/Kernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/BLAKE3.h"

using namespace mlir;
using namespace torch_tile;
using namespace torch_tile::codegen;

KernelText codegen::describeKernel(tile::KernelOp kernel, ArrayRef<StringRef> key) {
  KernelText result;
  OwningOpRef<tile::KernelOp> copy(cast<tile::KernelOp>(kernel->clone()));
  copy->setSymName("kernel");
  copy->removeLinesAttr();
  (*copy)->removeAttr("schedule"); // the choices it tells of are in the body
  llvm::raw_string_ostream stream(result.text);
  copy->print(stream, OpPrintingFlags().enableDebugInfo(false));

  llvm::BLAKE3 hasher;
  auto update = [&](StringRef part) {
    hasher.update(part);
    hasher.update(ArrayRef<uint8_t>{0});
  };
  update(result.text);
  llvm::for_each(key, update);
  update(LLVM_VERSION_STRING);
  auto digest = hasher.final<32>();
  llvm::copy(digest, result.hash.bytes);
  result.symbol = "tile_" + llvm::toHex(ArrayRef<uint8_t>(digest).take_front(8), /*LowerCase=*/true);
  return result;
}

bool codegen::needsGridSizes(tile::KernelOp kernel) {
  return kernel
      ->walk([](Operation *op) {
        auto id = dyn_cast<tile::ProgramIdOp>(op);
        return isa<tile::NumProgramsOp, tile::PrintOp>(op) || (id && id.getAxis() != 0) ? WalkResult::interrupt()
                                                                                        : WalkResult::advance();
      })
      .wasInterrupted();
}

void StepClock::done(const char *step) {
  if (!timing)
    return;
  auto now = Clock::now();
  timing->stepsMs.emplace_back(step, std::chrono::duration<double, std::milli>(now - last).count());
  last = now;
}

void codegen::registerKernelDialects(DialectRegistry &registry) {
  registry.insert<tile::TileDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect, cf::ControlFlowDialect,
                  LLVM::LLVMDialect, vector::VectorDialect, ub::UBDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}
