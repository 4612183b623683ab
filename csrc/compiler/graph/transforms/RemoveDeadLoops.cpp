#include "compiler/graph/transforms/Passes.h"

using namespace mlir;
using namespace mlir::graph;

namespace mlir::graph {
#define GEN_PASS_DEF_REMOVEDEADLOOPS
#include "compiler/graph/transforms/Passes.h.inc"
} // namespace mlir::graph

void mlir::graph::removeDeadLoops(FuncOp func) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(func.getBody().front()))) {
    auto loops = dyn_cast<LoopsOp>(op);
    if (op.use_empty() && (isa<AliasOp>(op) || (loops && loops.getDests().empty())))
      op.erase();
  }
}

namespace {
struct RemoveDeadLoops : public graph::impl::RemoveDeadLoopsBase<RemoveDeadLoops> {
  void runOnOperation() override { removeDeadLoops(getOperation()); }
};
} // namespace
