#include "compiler/driver/Compile.h"

#include "artifact/Serialize.h"
#include "compiler/codegen/cpu/CompileKernel.h"
#include "compiler/driver/Frontend.h"
#include "compiler/driver/KernelCompiler.h"
#include "compiler/driver/KernelNames.h"
#include "compiler/driver/Plan.h"
#include "compiler/fusion/Fusion.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/tile/build/BuildKernels.h"
#include "compiler/tile/transforms/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace torch_tile;

namespace {
/// How far a module has come.
enum class Progress { Graph, Loops, Fusion, Tile };
} // namespace

static Progress progressOf(ModuleOp module) {
  Progress progress = Progress::Graph;
  module.walk([&](Operation *op) {
    if (isa<graph::LaunchOp>(op))
      progress = std::max(progress, Progress::Tile);
    else if (isa<graph::FusionOp>(op))
      progress = std::max(progress, Progress::Fusion);
    else if (isa<graph::LoopsOp>(op))
      progress = std::max(progress, Progress::Loops);
  });
  return progress;
}

/// What the module around a kernel for GPU says of its launches, as compileStandaloneKernel does from its options:
/// tile.wanted_threads, tile.max_registers, and what is known of the arguments.
static LogicalResult takeLaunchOptions(ModuleOp inner, tile::KernelOp kernel) {
  for (NamedAttribute attribute : inner->getDiscardableAttrs())
    if (attribute.getName().strref().starts_with("tile.") && attribute.getName() != multiplesAttrName)
      kernel->setAttr(attribute.getName(), attribute.getValue());
  auto multiples = inner->getAttrOfType<DenseI64ArrayAttr>(multiplesAttrName);
  return multiples ? specializeArguments(kernel, multiples) : success();
}

/// Kernels that came with the graph stand behind it, in modules of their own.
static LogicalResult takeGivenKernels(ModuleOp module, const CompileOptions &options) {
  constexpr StringLiteral distinct = "tile.noalias_args";
  for (ModuleOp inner : llvm::make_early_inc_range(module.getOps<ModuleOp>())) {
    for (tile::KernelOp kernel : llvm::make_early_inc_range(inner.getOps<tile::KernelOp>())) {
      kernel->moveBefore(module.getBody(), module.getBody()->end());
      if (std::optional<StringRef> name = inner.getSymName())
        kernel.setSymName(*name);
      if (inner->hasAttr(distinct))
        kernel->setAttr(distinct, UnitAttr::get(module.getContext()));
      if (options.gpu && failed(takeLaunchOptions(inner, kernel)))
        return failure();
    }
    inner.erase();
  }
  if (options.gpu)
    return success(); // layouts come later, for all kernels
  for (tile::KernelOp kernel : module.getOps<tile::KernelOp>())
    if (failed(prepareKernel(kernel, options.cpu)))
      return failure();
  return success();
}

/// Says which values take a kernel of their own because another one would grow too large, each reason once.
static void noteBudgets(ArrayRef<fusion::FusionDecision> decisions, std::string &notes) {
  struct Place {
    int line = 0;
    unsigned count = 0;
  };
  llvm::MapVector<StringRef, Place> places;
  for (const fusion::FusionDecision &decision : decisions)
    if (decision.isForBudget) {
      Place &place = places[decision.reason];
      place.line = place.count++ == 0 ? decision.producerLine : place.line;
    }
  for (auto &[reason, place] : places) {
    std::string values = place.count == 1 ? "a value stays" : std::to_string(place.count) + " values stay";
    notes += std::to_string(place.line) + " " + values + " in memory: " + reason.str() + "\n";
  }
}

Status torch_tile::compileGraph(std::string_view text, const CompileOptions &options, const CompileHooks &hooks,
                                std::vector<uint8_t> &artifactBytes) {
  Stages stages(hooks);
  stages.dump("10-graph.mlir", text);
  MLIRContext context(makeRegistry(), MLIRContext::Threading::DISABLED);
  const char *stage = "parse";
  ErrorCollector errors(context, stage);
  std::string notes;

  OwningOpRef<ModuleOp> module = parseModule(text, context);
  if (!module)
    return errors.status(StatusKind::InvalidInput);
  auto functions = llvm::to_vector(module->getOps<graph::FuncOp>());
  if (functions.empty())
    return Status::invalidInput(stage, "expected a graph.func, got none");
  Progress progress = progressOf(*module);
  if (progress < Progress::Tile && failed(takeGivenKernels(*module, options)))
    return errors.status(StatusKind::Unsupported);
  stages.done("parse");

  stage = "loops";
  if (progress < Progress::Loops) {
    graph::LoweringOptions lowering;
    lowering.maxIndexNodes = options.budget.indexNodes;
    lowering.widensScans = !options.gpu;
    lowering.ordersWrites = !options.gpu || options.deterministic;
    for (graph::FuncOp func : functions)
      if (failed(graph::runGraphPipeline(func, lowering)))
        return errors.status(StatusKind::Unsupported);
    stages.done("loops");
    stages.dump("15-loops.mlir", *module);
  }

  stage = "fusion";
  if (progress < Progress::Fusion) {
    std::vector<fusion::FusionDecision> decisions;
    fusion::FusionOptions fusionOptions;
    fusionOptions.enabled = options.fusion;
    fusionOptions.elideRoundings = !options.emulatePrecisionCasts;
    fusionOptions.budget = options.budget;
    if (options.gpu)
      fusionOptions.machine = fusion::Machine::gpu();
    for (graph::FuncOp func : functions)
      fusion::fuse(func, fusionOptions, decisions);
    noteBudgets(decisions, notes);
    stages.done("fusion");
    if (stages.hasDumps()) {
      stages.dump("20-fusion.mlir", *module);
      stages.dump("20-fusion.txt", fusion::print(decisions));
    }
  }

  stage = "tile";
  if (progress < Progress::Tile) {
    driver::KernelNames names(text);
    tile_build::BuildOptions build;
    build.isGpu = options.gpu.has_value();
    if (options.gpu) {
      build.schedules = options.schedules;
      build.sharedBytes = options.gpu->sharedBytes;
      build.hasVectorAtomics = options.gpu->hasVectorAtomics();
    }
    if (!options.gpu)
      build.vectorBytes = codegen::vectorBytes(options.cpu);
    for (graph::FuncOp func : functions) {
      if (failed(tile_build::buildTileKernels(*module, func, build,
                                              [&](graph::FusionOp fusion) { return names.of(fusion); })))
        return errors.status(StatusKind::Internal);
      build.schedules = {};
    }
    for (tile::KernelOp kernel : module->getOps<tile::KernelOp>())
      if (kernel->hasAttr("schedule")) // built here: lanes with masked positions are folded in the end
        tile::dropTies(kernel);
    stages.done("tile");
    stages.dump("30-tile.mlir", *module);
  }

  if (options.gpu) {
    stage = "layout";
    for (tile::KernelOp kernel : module->getOps<tile::KernelOp>()) {
      tile::orientAccesses(kernel);
      if (failed(tile::assignLayouts(kernel, {options.gpu->hasWarpGroups(), options.gpu->hasFloat8()})))
        return errors.status(StatusKind::Unsupported);
    }
    stages.done("layout");
    stages.dump("35-layout.mlir", *module);
  }

  stage = "codegen";
  FailureOr<CompiledKernels> compiled =
      compileKernels(llvm::to_vector(module->getOps<tile::KernelOp>()), options, hooks, stages);
  if (failed(compiled))
    return errors.status(StatusKind::Internal);
  for (const std::string &note : compiled->notes)
    notes += "0 " + note + "\n";
  stages.done("codegen");

  stage = "plan";
  artifact::Artifact artifact;
  artifact.compilerVersion = compilerVersion();
  const std::string target = options.gpu ? options.gpu->architecture : "cpu";
  artifact.target = target;
  for (codegen::CompiledKernel &kernel : compiled->kernels)
    artifact.kernels.push_back({std::move(kernel.name), std::move(kernel.symbol), target, kernel.numThreads,
                                kernel.programsPerBlock, kernel.sharedBytes, std::move(kernel.alignedArguments),
                                kernel.hash, std::move(kernel.code), std::move(kernel.externalSymbols)});
  // The first function is the program, the others are its bodies.
  llvm::StringMap<uint32_t> bodies;
  for (graph::FuncOp func : ArrayRef(functions).drop_front())
    bodies.try_emplace(func.getSymName(), bodies.size());
  artifact.bodies.resize(functions.size() - 1);
  auto kernelIndex = [&](StringRef name) { return compiled->indexOf.lookup(name); };
  auto bodyIndex = [&](StringRef name) {
    auto it = bodies.find(name);
    return it == bodies.end() ? std::nullopt : std::optional<uint32_t>(it->second);
  };
  for (auto [k, func] : llvm::enumerate(functions))
    if (failed(driver::planSteps(func, kernelIndex, bodyIndex, k ? artifact.bodies[k - 1] : artifact)))
      return errors.status(StatusKind::Internal);
  artifactBytes = artifact::serialize(artifact);
  stages.done("plan");
  if (stages.hasDumps()) {
    stages.dump("55-program.txt", artifact::print(artifact));
    stages.dump("timing.json", stages.timing());
  }
  return {StatusKind::Ok, "", notes, 0};
}
