// Runs any pass of ours on MLIR text.
#include "compiler/fusion/Passes.h"
#include "compiler/graph/ir/GraphDialect.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/tile/build/Passes.h"
#include "compiler/tile/ir/TileDialect.h"
#include "compiler/tile/transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  // Each folder with passes registers its own here, in the order of the pipeline.
  mlir::graph::registerGraphPasses();
  torch_tile::fusion::registerFusionPasses();
  torch_tile::tile_build::registerTileBuildPasses();
  mlir::tile::registerTilePasses();
  mlir::registerCanonicalizer();
  mlir::registerCSE();

  mlir::DialectRegistry registry;
  registry.insert<mlir::graph::GraphDialect, mlir::tile::TileDialect, mlir::arith::ArithDialect,
                  mlir::cf::ControlFlowDialect, mlir::LLVM::LLVMDialect, mlir::math::MathDialect, mlir::scf::SCFDialect,
                  mlir::ub::UBDialect, mlir::vector::VectorDialect>();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "torch-tile optimizer driver\n", registry));
}
