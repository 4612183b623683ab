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
/// Reports what it cannot lower at the op's location, with a text that starts with "unsupported: ".
/// `widensScans`: running sums of f32 are carried in f64, as ATen's are on CPU.
LogicalResult lowerToLoops(FuncOp func, uint32_t maxIndexNodes = torch_tile::defaultIndexNodes,
                           bool widensScans = true);
void removeDeadLoops(FuncOp func);

/// All of the above in order: named ops in, graph.loops out.
LogicalResult runGraphPipeline(FuncOp func, uint32_t maxIndexNodes = torch_tile::defaultIndexNodes,
                               bool widensScans = true);

#define GEN_PASS_REGISTRATION
#include "compiler/graph/transforms/Passes.h.inc"

} // namespace mlir::graph
