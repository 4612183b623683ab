#include "compiler/graph/transforms/Passes.h"

using namespace mlir;
using namespace mlir::graph;

namespace mlir::graph {
#define GEN_PASS_DEF_SIMPLIFYGRAPH
#include "compiler/graph/transforms/Passes.h.inc"
} // namespace mlir::graph

void mlir::graph::simplifyGraph(FuncOp) {}

namespace {
struct SimplifyGraph : public graph::impl::SimplifyGraphBase<SimplifyGraph> {
  void runOnOperation() override { simplifyGraph(getOperation()); }
};
} // namespace
