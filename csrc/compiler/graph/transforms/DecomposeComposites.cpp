#include "compiler/graph/transforms/Passes.h"

using namespace mlir;
using namespace mlir::graph;

namespace mlir::graph {
#define GEN_PASS_DEF_DECOMPOSECOMPOSITES
#include "compiler/graph/transforms/Passes.h.inc"
} // namespace mlir::graph

LogicalResult mlir::graph::decomposeComposites(FuncOp) { return success(); }

namespace {
struct DecomposeComposites : public graph::impl::DecomposeCompositesBase<DecomposeComposites> {
  void runOnOperation() override {
    if (failed(decomposeComposites(getOperation())))
      signalPassFailure();
  }
};
} // namespace
