#ifndef TORCH_TILE_TILE_BUILD_PASSES_TD
#define TORCH_TILE_TILE_BUILD_PASSES_TD

include "mlir/Pass/PassBase.td"

def BuildTileKernels : Pass<"graph-build-tile-kernels", "::mlir::ModuleOp"> {
  let summary = "Turns each graph.fusion into a tile.kernel and a graph.launch";
  let description = [{
    Before / after: `graph.fusion {...}`  ->  `graph.launch @kernel(...)` and `tile.kernel @kernel`.
    Needs:    groups (graph-form-groups).
    Keeps:    everything else in the function.
    Numerics: fixes the order of reductions by tile shape; nothing else.
    Why here: last stage on the graph; code generation takes kernels.
  }];
  let options = [Option<"vectorBytes", "vector-bytes", "int64_t", "64", "bytes of the target's widest vector register">,
                 Option<"isGpu", "gpu", "bool", "false", "programs are blocks of threads">];
}

#endif
