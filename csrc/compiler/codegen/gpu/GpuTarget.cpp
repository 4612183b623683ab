#include "compiler/codegen/gpu/GpuTarget.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/MC/TargetRegistry.h"

#include <mutex>

// NVPTX is not among the targets that TargetSelect.h declares for the host.
extern "C" void LLVMInitializeNVPTXTargetInfo();
extern "C" void LLVMInitializeNVPTXTarget();
extern "C" void LLVMInitializeNVPTXTargetMC();
extern "C" void LLVMInitializeNVPTXAsmPrinter();

using namespace torch_tile::codegen;

static constexpr struct {
  const char *architecture, *features;
  int64_t sharedKilobytes;
} knownTargets[] = {
#define TILE_GPU_TARGET(architecture, ptxVersion, sharedKilobytes) {architecture, ptxVersion, sharedKilobytes},
#include "compiler/codegen/Targets.def"
};

std::optional<GpuOptions> GpuOptions::named(const std::string &architecture) {
  for (const auto &target : knownTargets)
    if (architecture == target.architecture)
      return GpuOptions{target.architecture, target.features, target.sharedKilobytes << 10};
  return std::nullopt;
}

std::string GpuOptions::knownNames() {
  std::string names;
  for (const auto &target : knownTargets)
    names += (names.empty() ? "" : ", ") + std::string(target.architecture);
  return names;
}

static void initializeTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

llvm::Expected<llvm::TargetMachine *> torch_tile::codegen::getGpuTargetMachine(const GpuOptions &options) {
  // Never destroyed: a thread that compiles ends after a fault alone, when what it had must not be touched.
  static thread_local auto *machines = new llvm::StringMap<std::unique_ptr<llvm::TargetMachine>>;
  std::unique_ptr<llvm::TargetMachine> &machine = (*machines)[options.architecture + "|" + options.features];
  if (machine)
    return machine.get();
  initializeTarget();
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return llvm::createStringError(error);
  llvm::TargetOptions targetOptions;
  // a * b + c stays two roundings unless the IR says fma.
  targetOptions.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  machine.reset(target->createTargetMachine(triple, options.architecture, options.features, targetOptions, std::nullopt,
                                            std::nullopt, llvm::CodeGenOptLevel::Default));
  if (!machine)
    return llvm::createStringError("no code generation for " + triple.str());
  return machine.get();
}
