// Passes over graph.func. Each is also a plain function, for callers without a pass manager.
#pragma once

#include "compiler/graph/ir/GraphDialect.h"
#include "support/ExprBudget.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Pass/Pass.h"

namespace mlir::graph {

#define GEN_PASS_DECL
#include "compiler/graph/transforms/Passes.h.inc"

void simplifyGraph(FuncOp func);
LogicalResult decomposeComposites(FuncOp func);

/// The defaults are ATen's ways on a CPU.
struct LoweringOptions {
  uint32_t maxIndexNodes = torch_tile::defaultIndexNodes;
  /// Running sums of f32 are carried in f64.
  bool widensScans = true;
  /// Of the points of a scatter that name one element, the last stays. Otherwise any of them does, and all points are
  /// parallel.
  bool ordersWrites = true;
};

/// Reports what it cannot lower at the op's location, with a text that starts with "unsupported: ".
LogicalResult lowerToLoops(FuncOp func, const LoweringOptions &options = {});
void removeDeadLoops(FuncOp func);

/// All of the above in order: named ops in, graph.loops out.
LogicalResult runGraphPipeline(FuncOp func, const LoweringOptions &options = {});

#define GEN_PASS_REGISTRATION
#include "compiler/graph/transforms/Passes.h.inc"

} // namespace mlir::graph
