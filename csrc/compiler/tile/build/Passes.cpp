#include "compiler/tile/build/Passes.h"

#include "compiler/tile/build/BuildKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace torch_tile::tile_build {

#define GEN_PASS_DEF_BUILDTILEKERNELS
#include "compiler/tile/build/Passes.h.inc"

namespace {

struct BuildTileKernelsPass : impl::BuildTileKernelsBase<BuildTileKernelsPass> {
  using impl::BuildTileKernelsBase<BuildTileKernelsPass>::BuildTileKernelsBase;
  void getDependentDialects(mlir::DialectRegistry &registry) const override {
    registry.insert<mlir::tile::TileDialect, mlir::arith::ArithDialect, mlir::scf::SCFDialect>();
  }
  void runOnOperation() override {
    for (auto func : llvm::make_early_inc_range(getOperation().getOps<mlir::graph::FuncOp>()))
      if (failed(buildTileKernels(getOperation(), func, {vectorBytes, isGpu},
                                  [](mlir::graph::FusionOp) { return std::string("kernel"); })))
        return signalPassFailure();
  }
};

} // namespace
} // namespace torch_tile::tile_build
