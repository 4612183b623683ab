#include "compiler/graph/transforms/Passes.h"

using namespace mlir;
using namespace mlir::graph;

LogicalResult mlir::graph::runGraphPipeline(FuncOp func, const LoweringOptions &options) {
  // Before decomposition: composites merge and die whole.
  simplifyGraph(func);
  if (failed(decomposeComposites(func)))
    return failure();
  // Again: decomposition repeats casts and sums that other ops have as well.
  simplifyGraph(func);
  if (failed(lowerToLoops(func, options)))
    return failure();
  removeDeadLoops(func);
  return success();
}
