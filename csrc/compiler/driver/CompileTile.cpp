#include "artifact/StandaloneKernel.h"
#include "compiler/driver/Compile.h"
#include "compiler/driver/Frontend.h"
#include "compiler/tile/transforms/Passes.h"
#include "compiler/triton/ImportTriton.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace torch_tile;

/// Tile dialect, or Triton's IR, which is imported.
static OwningOpRef<ModuleOp> parseKernels(std::string_view text, MLIRContext &context, const char *&stage,
                                          bool pointersFirst) {
  if (!StringRef(text.data(), text.size()).contains("\"tt.func\""))
    return parseModule(text, context);
  context.loadDialect<tile::TileDialect>();
  OwningOpRef<ModuleOp> source = triton::parseGeneric(text, context);
  if (!source)
    return {};
  stage = "import";
  FailureOr<OwningOpRef<ModuleOp>> module = triton::importModule(*source, pointersFirst);
  return failed(module) ? OwningOpRef<ModuleOp>() : std::move(*module);
}

namespace {
/// A text, read; `module` is null if it was refused, and `errors` then say why.
struct KernelSource {
  explicit KernelSource(std::string_view text, bool pointersFirst = false)
      : module(parseKernels(text, context, stage, pointersFirst)) {}

  MLIRContext context{makeRegistry(), MLIRContext::Threading::DISABLED};
  const char *stage = "parse";
  ErrorCollector errors{context, stage};
  OwningOpRef<ModuleOp> module;
};
} // namespace

/// Rough: what an element costs in a loop of vectors, an atomic, and a product. Loops of unknown length count ten
/// times.
static double estimateCostNs(Region &region) {
  double cost = 0;
  for (Operation &op : region.getOps()) {
    double elements = 1, times = 1;
    for (Type type :
         llvm::concat<const Type>(SmallVector<Type>(op.getOperandTypes()), SmallVector<Type>(op.getResultTypes())))
      if (auto tile = dyn_cast<RankedTensorType>(type))
        elements = std::max<double>(elements, tile.getNumElements());
    if (auto dot = dyn_cast<tile::DotOp>(op))
      times = cast<RankedTensorType>(dot.getLhs().getType()).getShape().back() * 0.3;
    else if (isa<tile::AtomicRmwOp, tile::AtomicCasOp, tile::ScanOp>(op))
      times = 20;
    cost += elements * times * 0.05;
    if (isa<tile::ReduceOp, tile::ScanOp>(op))
      continue;
    for (Region &inner : op.getRegions())
      cost += estimateCostNs(inner) * (isa<scf::ForOp, scf::WhileOp>(op) ? 10 : 1);
  }
  return cost;
}

static constexpr llvm::StringLiteral costAttr = "tile.program_cost_ns";

LogicalResult torch_tile::prepareKernel(tile::KernelOp kernel, const codegen::CpuOptions &cpu) {
  auto cost = static_cast<int64_t>(std::min(1e12, estimateCostNs(kernel.getBody())));
  kernel->setAttr(costAttr, IntegerAttr::get(IntegerType::get(kernel.getContext(), 64), cost));
  return tile::stripMine(kernel, codegen::vectorBytes(cpu) * 8);
}

static Status compileKernelsOf(ModuleOp module, const CompileOptions &options, const CompileHooks &hooks,
                               Stages &stages, ErrorCollector &errors, const char *&stage, CompiledKernels &result) {
  auto list = llvm::to_vector(module.getOps<tile::KernelOp>());
  if (options.gpu) {
    stage = "layout";
    for (tile::KernelOp kernel : list) {
      tile::orientAccesses(kernel);
      if (failed(tile::assignLayouts(kernel, {options.gpu->hasWarpGroups(), options.gpu->hasFloat8()})))
        return errors.status(StatusKind::Unsupported);
    }
    stages.done("layout");
    stages.dump("35-layout.mlir", module);
  } else {
    stage = "strip-mine";
    for (tile::KernelOp kernel : list)
      if (failed(prepareKernel(kernel, options.cpu)))
        return errors.status(StatusKind::Unsupported);
    stages.done("strip-mine");
    stages.dump("35-strip-mine.mlir", module);
  }
  stage = "codegen";
  FailureOr<CompiledKernels> compiled = compileKernels(list, options, hooks, stages);
  if (failed(compiled))
    return errors.status(StatusKind::Unsupported);
  stages.done("codegen");
  if (stages.hasDumps())
    stages.dump("timing.json", stages.timing());
  result = std::move(*compiled);
  return Status::ok();
}

Status torch_tile::compileTile(std::string_view text, const CompileOptions &options, const CompileHooks &hooks,
                               std::vector<codegen::CompiledKernel> &kernels) {
  Stages stages(hooks);
  KernelSource source(text);
  auto &[context, stage, errors, module] = source;
  if (!module)
    return errors.status(StatusKind::InvalidInput);
  if (module->getOps<tile::KernelOp>().empty())
    return Status::invalidInput(stage, "expected a tile.kernel");
  stages.done("parse");
  stages.dump("30-tile.mlir", *module);
  CompiledKernels compiled;
  Status status = compileKernelsOf(*module, options, hooks, stages, errors, stage, compiled);
  kernels = std::move(compiled.kernels);
  return status;
}

Status torch_tile::importTriton(std::string_view text, bool isEmbeddable, bool pointersFirst, std::string &tile) {
  KernelSource source(text, pointersFirst);
  auto &[context, stage, errors, module] = source;
  if (!module)
    return errors.status(StatusKind::InvalidInput);
  llvm::raw_string_ostream stream(tile);
  OpPrintingFlags flags;
  flags.enableDebugInfo(true);
  if (isEmbeddable)
    flags.useLocalScope();
  module->print(stream, flags);
  return Status::ok();
}

static std::string describeArguments(tile::KernelOp kernel) {
  std::string text;
  for (Type type : kernel.getArgumentTypes())
    text += isa<tile::PtrType>(type) ? 'p'
            : type.isF64()           ? 'd'
            : type.isF32()           ? 'f'
            : type.isF16()           ? 'h'
            : type.isBF16()          ? 'b'
                                     : 'i';
  return text;
}

LogicalResult torch_tile::specializeArguments(tile::KernelOp kernel, ArrayRef<int64_t> multiples) {
  if (multiples.size() != kernel.getArgumentTypes().size())
    return kernel.emitOpError("expected a number per argument in argument_multiples, got ") << multiples.size();
  SmallVector<int64_t> known;
  OpBuilder b(kernel.getContext());
  b.setInsertionPointToStart(&kernel.getBody().front());
  for (auto [argument, multiple] : llvm::zip_equal(kernel.getBody().front().getArguments(), multiples)) {
    bool isOne = multiple == 1 && isa<IntegerType>(argument.getType());
    known.push_back(multiple == 1 ? 0 : multiple);
    if (isOne)
      argument.replaceAllUsesWith(
          arith::ConstantOp::create(b, kernel.getLoc(), b.getIntegerAttr(argument.getType(), 1)));
  }
  kernel->setAttr(multiplesAttrName, b.getDenseI64ArrayAttr(known));
  return success();
}

Status torch_tile::compileStandaloneKernel(std::string_view text, const CompileOptions &options,
                                           const CompileHooks &hooks, std::vector<uint8_t> &bytes) {
  Stages stages(hooks);
  KernelSource source(text);
  auto &[context, stage, errors, module] = source;
  if (!module)
    return errors.status(StatusKind::InvalidInput);
  auto list = llvm::to_vector(module->getOps<tile::KernelOp>());
  if (list.size() != 1)
    return Status::invalidInput(stage, "expected one kernel, got " + std::to_string(list.size()));
  tile::KernelOp kernel = list[0];
  stages.done("parse");
  stages.dump("30-tile.mlir", *module);
  if (options.distinctArguments)
    kernel->setAttr("tile.noalias_args", UnitAttr::get(&context));
  if (options.gpu && options.programThreads > 0)
    kernel->setAttr(wantedThreadsAttrName, IntegerAttr::get(IntegerType::get(&context, 64), options.programThreads));

  if (options.gpu && options.fastArithmetic)
    kernel->setAttr("tile.fast_arithmetic", UnitAttr::get(&context));
  if (options.gpu && options.numStages > 1)
    kernel->setAttr("tile.num_stages", IntegerAttr::get(IntegerType::get(&context, 64), options.numStages));
  if (options.gpu && options.maxRegisters > 0)
    kernel->setAttr(maxRegistersAttrName, IntegerAttr::get(IntegerType::get(&context, 64), options.maxRegisters));

  if (options.gpu && !options.argumentMultiples.empty() &&
      failed(specializeArguments(kernel, options.argumentMultiples)))
    return errors.status(StatusKind::InvalidInput);

  artifact::StandaloneKernel standalone;
  standalone.arguments = describeArguments(kernel);
  CompiledKernels compiled;
  Status status = compileKernelsOf(*module, options, hooks, stages, errors, stage, compiled);
  if (!status.isOk())
    return status;
  if (auto cost = kernel->getAttrOfType<IntegerAttr>(costAttr))
    standalone.programCostNs = cost.getInt();
  if (auto scratch = kernel->getAttrOfType<IntegerAttr>("tile.scratch_bytes"))
    standalone.scratchBytes = scratch.getInt();
  standalone.needsGrid = codegen::needsGridSizes(kernel);
  codegen::CompiledKernel &code = compiled.kernels[0];
  standalone.kernel.name = std::move(code.name);
  standalone.kernel.symbol = std::move(code.symbol);
  standalone.kernel.target = options.gpu ? options.gpu->architecture : "cpu";
  standalone.kernel.numThreads = code.numThreads;
  standalone.kernel.programsPerBlock = code.programsPerBlock;
  standalone.kernel.sharedBytes = code.sharedBytes;
  standalone.kernel.alignedArguments = std::move(code.alignedArguments);
  standalone.kernel.hash = code.hash;
  standalone.kernel.code = std::move(code.code);
  standalone.kernel.externalSymbols = std::move(code.externalSymbols);
  bytes = artifact::serialize(standalone);
  return Status::ok();
}
