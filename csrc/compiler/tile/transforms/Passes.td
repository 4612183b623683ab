#ifndef TORCH_TILE_TILE_PASSES_TD
#define TORCH_TILE_TILE_PASSES_TD

include "mlir/Pass/PassBase.td"

def StripMine : Pass<"tile-strip-mine", "::mlir::tile::KernelOp"> {
  let summary = "Make loops of tiles too long for registers";
  let description = [{
    Before / after: exp and store of tensor<32768xf32>  ->  scf.for over 512 times tensor<64xf32>.
    Each store, scatter, reduction and index check becomes a loop that computes what it needs. What several of them need is computed again where that is cheap, and
    kept in tile.scratch where it is not, or where a store in between may have changed what was loaded. `tile.scratch_bytes` on the kernel says how much.

    Needs:    one-axis tiles; no such tile is carried by a loop or branch.
    Keeps:    kernels without long tiles, untouched.
    Numerics: a reduction combines chunks lane by lane, then the lanes: the order depends on the shape alone.
    Why here: last before code generation, so that everything before sees whole tiles.
  }];
  let options = [Option<"lanes", "lanes", "int64_t", "64", "lanes of a chunk">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

#endif
