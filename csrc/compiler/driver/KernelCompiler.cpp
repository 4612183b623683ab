#include "compiler/driver/KernelCompiler.h"

#include "compiler/codegen/cpu/CompileKernel.h"
#include "compiler/codegen/gpu/CompileGpuKernel.h"
#include "compiler/driver/Compile.h"
#include "compiler/driver/WorkerPool.h"
#include "support/FaultPoint.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"

#include <optional>

using namespace mlir;
using namespace torch_tile;

namespace {
/// One distinct kernel on its way through a worker.
struct Job {
  tile::KernelOp op;
  codegen::KernelText text;
  std::optional<codegen::CompiledKernel> result;
  codegen::KernelDumps dumps;
  codegen::KernelTiming timing;
  std::chrono::steady_clock::time_point begin;
  std::string error;
};
} // namespace

/// The calling worker's own context. Types and attributes live as long as their context, so it is renewed now and then.
static MLIRContext &workerContext() {
  constexpr int maxUses = 256;
  // A plain pointer: a worker ends after a fault alone (Guard.h), when its context must not be touched.
  static thread_local MLIRContext *context = nullptr;
  static thread_local int numUses = 0;
  if (!context || ++numUses > maxUses) {
    delete context;
    DialectRegistry registry;
    codegen::registerKernelDialects(registry);
    context = new MLIRContext(registry, MLIRContext::Threading::DISABLED);
    context->loadAllAvailableDialects();
    numUses = 1;
  }
  return *context;
}

/// Pointers that each launch has to align: of kernels that are built for graphs those that are accessed in words, of
/// others those that are known to be multiples.
static std::vector<artifact::AlignedArgument> alignedArguments(tile::KernelOp kernel) {
  std::vector<artifact::AlignedArgument> result = codegen::alignedArguments(kernel);
  auto multiples = kernel->getAttrOfType<DenseI64ArrayAttr>(multiplesAttrName);
  if (!multiples)
    return result;
  for (auto [index, type] : llvm::enumerate(kernel.getArgumentTypes()))
    if (isa<tile::PtrType>(type) && multiples[index] > 1)
      result.push_back({(uint32_t)index, /*isWritten=*/true});
  return result;
}

/// Tells the assembler of PTX how many registers a thread may have. The directive follows that of the block's size.
template <typename Text> static void limitRegisters(Text &ptx, int64_t count) {
  size_t place = StringRef(reinterpret_cast<const char *>(ptx.data()), ptx.size()).find("\n.maxntid ");
  if (place == StringRef::npos)
    return;
  const std::string directive = "\n.maxnreg " + std::to_string(count);
  ptx.insert(std::find(ptx.begin() + (ptrdiff_t)place + 1, ptx.end(), '\n'), directive.begin(), directive.end());
}

/// Kernels travel as text: what is compiled is exactly what was hashed, and no context is shared between threads.
static void runJob(Job &job, const std::string &name, const CompileOptions &options, bool hasDumps) {
  FaultPoints::reach("kernel");
  job.begin = std::chrono::steady_clock::now();
  MLIRContext &context = workerContext();
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && job.error.empty())
      job.error = diagnostic.str();
    return success();
  });
  auto module = parseSourceString<ModuleOp>(job.text.text, ParserConfig(&context));
  if (!module || module->getOps<tile::KernelOp>().empty()) {
    if (job.error.empty())
      job.error = "the kernel's text does not parse";
    return;
  }
  job.timing.name = name;
  tile::KernelOp kernel = *module->getOps<tile::KernelOp>().begin();
  codegen::KernelDumps *dumps = hasDumps ? &job.dumps : nullptr;
  auto compiled = options.gpu
                      ? codegen::compileGpuKernel(kernel, job.text, *options.gpu, dumps, &job.timing)
                      : codegen::compileKernel(kernel, job.text, options.cpu, options.timeBudget, dumps, &job.timing);
  if (succeeded(compiled)) {
    if (auto limit = kernel->getAttrOfType<IntegerAttr>(maxRegistersAttrName)) {
      limitRegisters(compiled->code, limit.getInt());
      limitRegisters(job.dumps.assembly, limit.getInt());
    }
    job.result = std::move(*compiled);
  }
  if (!job.result && job.error.empty())
    job.error = "code generation failed";
}

static void writeDumps(ArrayRef<std::unique_ptr<Job>> jobs, bool isGpu, Stages &stages) {
  std::string llvmDialect, llvmIr, assembly;
  for (const auto &job : jobs) {
    std::string title = job->op.getSymName().str() + " = " + job->text.symbol + "\n";
    llvmDialect += "// " + title + job->dumps.llvmDialect + "\n";
    llvmIr += "; " + title + job->dumps.llvmIr + "\n";
    assembly += (isGpu ? "// " : "# ") + title + job->dumps.assembly + "\n";
  }
  stages.dump("40-llvm.mlir", llvmDialect);
  stages.dump("50-kernel.ll", llvmIr);
  stages.dump(isGpu ? "60-kernel.ptx" : "60-kernel.s", assembly);
}

FailureOr<CompiledKernels> torch_tile::compileKernels(ArrayRef<tile::KernelOp> kernels, const CompileOptions &options,
                                                      const CompileHooks &hooks, Stages &stages) {
  CompiledKernels result;
  llvm::StringMap<uint32_t> byHash;
  std::vector<std::unique_ptr<Job>> jobs; // stable addresses
  std::vector<uint32_t> jobKernels;
  for (tile::KernelOp kernel : kernels) {
    codegen::KernelText text = options.gpu ? codegen::describeGpuKernel(kernel, *options.gpu)
                                           : codegen::describeCpuKernel(kernel, options.cpu, options.timeBudget);
    std::string key(reinterpret_cast<const char *>(text.hash.bytes), sizeof(text.hash.bytes));
    auto [entry, isNew] = byHash.try_emplace(key, result.kernels.size());
    result.indexOf[kernel.getSymName()] = entry->second;
    if (!isNew)
      continue;
    codegen::CompiledKernel &described = result.kernels.emplace_back();
    described.name = kernel.getSymName().str();
    described.symbol = text.symbol;
    described.hash = text.hash;
    if (auto threads = kernel->getAttrOfType<IntegerAttr>("tile.threads"))
      described.numThreads = (uint32_t)threads.getInt();
    if (auto programs = kernel->getAttrOfType<IntegerAttr>("tile.programs_per_block")) {
      described.programsPerBlock = (uint32_t)programs.getInt();
      described.numThreads *= described.programsPerBlock;
    }
    if (options.gpu)
      described.alignedArguments = alignedArguments(kernel);
    if (hooks.lookupKernel && hooks.lookupKernel(text.hash))
      continue;
    auto job = std::make_unique<Job>();
    job->op = kernel;
    job->text = std::move(text);
    jobs.push_back(std::move(job));
    jobKernels.push_back(entry->second);
  }
  bool hasDumps = stages.hasDumps();
  std::vector<std::function<void()>> work;
  for (auto &job : jobs)
    work.push_back([job = job.get(), name = job->op.getSymName().str(), &options, hasDumps] {
      runJob(*job, name, options, hasDumps);
    });
  std::vector<std::string> fatal = runJobs(work, options.numThreads);

  bool hasFailed = false;
  for (auto [index, job] : llvm::enumerate(jobs)) {
    if (!fatal[index].empty() || !job->result) {
      const std::string &reason = fatal[index].empty() ? job->error : fatal[index];
      job->op.emitError("kernel '") << job->op.getSymName() << "' does not compile: " << reason;
      hasFailed = true;
      if (!fatal[index].empty())
        (void)job.release(); // it may be in any state
      continue;
    }
    stages.addKernel(job->timing.name, job->begin, std::move(job->timing.stepsMs));
    codegen::CompiledKernel &described = result.kernels[jobKernels[index]];
    if (int64_t size = job->result->unoptimizedSize)
      result.notes.push_back("kernel " + described.name + " is compiled without optimisation: " + std::to_string(size) +
                             " instructions would take longer than its budget");
    described.sharedBytes = job->result->sharedBytes;
    described.code = std::move(job->result->code);
    described.externalSymbols = std::move(job->result->externalSymbols);
  }
  if (hasFailed)
    return failure();
  if (hasDumps)
    writeDumps(jobs, options.gpu.has_value(), stages);
  return result;
}
