#include "compiler/codegen/cpu/CpuTarget.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"

#include <mutex>

using namespace torch_tile::codegen;

CpuOptions CpuOptions::host() {
  CpuOptions options;
  options.cpu = llvm::sys::getHostCPUName().str();
  llvm::SubtargetFeatures features;
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    features.AddFeature(feature.getKey(), feature.getValue());
  options.features = features.getString();
  return options;
}

CpuOptions CpuOptions::named(const std::string &cpu) {
  CpuOptions options;
  options.cpu = cpu;
  return options;
}

static void initializeTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

llvm::Expected<llvm::TargetMachine *> torch_tile::codegen::getTargetMachine(const CpuOptions &options) {
  // Never destroyed: a thread that compiles ends after a fault alone, when what it had must not be touched.
  static thread_local auto *machines = new llvm::StringMap<std::unique_ptr<llvm::TargetMachine>>;
  std::unique_ptr<llvm::TargetMachine> &machine = (*machines)[options.cpu + "|" + options.features];
  if (machine)
    return machine.get();
  initializeTarget();
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return llvm::createStringError(error);
  // LLVM only warns about names it does not know and goes on with a generic processor.
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(target->createMCSubtargetInfo(triple, "", ""));
  if (!subtarget || !subtarget->isCPUStringValid(options.cpu))
    return llvm::createStringError("expected a processor that LLVM knows, got '" + options.cpu + "'");
  llvm::TargetOptions targetOptions;
  // a * b + c stays two roundings unless the IR says fma.
  targetOptions.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  machine.reset(target->createTargetMachine(triple, options.cpu, options.features, targetOptions, llvm::Reloc::PIC_,
                                            llvm::CodeModel::Small, llvm::CodeGenOptLevel::Less, /*JIT=*/true));
  if (!machine)
    return llvm::createStringError("no code generation for " + triple.str());
  return machine.get();
}

Processor torch_tile::codegen::describeProcessor(const std::string &cpu) {
  Processor result;
  initializeTarget();
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return result;
  std::unique_ptr<llvm::MCSubtargetInfo> generic(target->createMCSubtargetInfo(triple, "", ""));
  if (!generic)
    return result;
  for (const llvm::SubtargetSubTypeKV &processor : generic->getAllProcessorDescriptions())
    result.known.push_back(processor.Key);
  if (!generic->isCPUStringValid(cpu))
    return result;
  std::unique_ptr<llvm::MCSubtargetInfo> named(target->createMCSubtargetInfo(triple, cpu, ""));
  // The host's list holds instruction sets alone, none of LLVM's preferences.
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    if (!feature.getValue() && named->checkFeatures("+" + feature.getKey().str()))
      result.missing.push_back(feature.getKey().str());
  return result;
}

CpuFeatures torch_tile::codegen::queryFeatures(const llvm::TargetMachine &machine) {
  CpuFeatures features;
  if (machine.getTargetTriple().isAArch64()) {
    features.hasMaximum = true;
    return features;
  }
  auto has = [&](const char *name) { return machine.getMCSubtargetInfo()->checkFeatures(name); };
  features.hasAvx512 = has("+avx512f") && has("+avx512vl") && has("+avx512dq");
  features.hasBf16Conversion = features.hasAvx512 && has("+avx512bf16");
  features.hasMaskedWords = has("+avx");
  features.hasMaskedBytes = has("+avx512bw") && has("+avx512vl");
  features.hasGather = has("+avx2");
  features.hasFastGather = has("+fast-gather");
  features.hasScatter = features.hasAvx512;
  features.vectorBits = features.hasAvx512 ? 512 : has("+avx") ? 256 : 128;
  return features;
}
