#include "compiler/driver/Compile.h"
#include "compiler/driver/Frontend.h"
#include "compiler/tile/transforms/Passes.h"

using namespace mlir;
using namespace torch_tile;

Status torch_tile::compileTile(std::string_view text, const CompileOptions &options, const CompileHooks &hooks,
                               std::vector<codegen::CompiledKernel> &kernels) {
  Stages stages(hooks);
  MLIRContext context(makeRegistry(), MLIRContext::Threading::DISABLED);
  const char *stage = "parse";
  ErrorCollector errors(context, stage);
  OwningOpRef<ModuleOp> module = parseModule(text, context);
  if (!module)
    return errors.status(StatusKind::InvalidInput);
  auto list = llvm::to_vector(module->getOps<tile::KernelOp>());
  if (list.empty())
    return Status::invalidInput(stage, "expected a tile.kernel");
  stages.done("parse");
  stages.dump("30-tile.mlir", *module);
  if (options.gpu) {
    stage = "layout";
    for (tile::KernelOp kernel : list)
      if (failed(tile::assignLayouts(kernel)))
        return errors.status(StatusKind::Unsupported);
    stages.done("layout");
    stages.dump("35-layout.mlir", *module);
  } else {
    stage = "strip-mine";
    for (tile::KernelOp kernel : list)
      if (failed(tile::stripMine(kernel)))
        return errors.status(StatusKind::Unsupported);
    stages.done("strip-mine");
    stages.dump("35-strip-mine.mlir", *module);
  }
  stage = "codegen";
  FailureOr<CompiledKernels> compiled = compileKernels(list, options, hooks, stages);
  if (failed(compiled))
    return errors.status(StatusKind::Unsupported);
  stages.done("codegen");
  if (stages.hasDumps())
    stages.dump("timing.json", stages.timing());
  kernels = std::move(compiled->kernels);
  return Status::ok();
}
