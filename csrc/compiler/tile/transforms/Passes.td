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
  let options = [
    Option<"lanes", "lanes", "int64_t", "64", "lanes of a chunk">,
    Option<"vectorBits", "vector-bits", "int64_t", "512", "bits of a register of the target">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def DropTies : Pass<"tile-drop-ties", "::mlir::tile::KernelOp"> {
  let summary = "Ask no positions of equal elements where a loop meets them in order";
  let description = [{
    Before / after: better | (equal & position < best position)  ->  better,
    in a loop that carries the best element and its position.
    Of equal elements the one that was found first is the first.
    The search begins at the first position instead of at none.
    Where no element is better than the worst there is, all equal that.

    Needs:    positions that grow from iteration to iteration; elements that begin with the worst of their type.
    Keeps:    the fold of what lanes, threads and loops have found, where positions decide.
    Numerics: none.
    Why here: behind the building of kernels, whose loops walk in order.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def OrientAccesses : Pass<"tile-orient-accesses", "::mlir::tile::KernelOp"> {
  let summary = "Make consecutive elements of gathered tiles lie along the last axis";
  let description = [{
    Before / after: tile.gather of pointers that are consecutive along the first of two axes  ->
    tile.gather of the transposed pointers, and tile.trans of its result.
    Neighbouring lanes of a thread lie along the last axis. Only there are loads whole words.
    Pointers and masks are computed transposed from the start, in loops too. The data are transposed
    where they are used; products do that while they read.

    Needs:    pointers of two axes. Their distance along the first is one element, but for wraps.
              Along the second it is another.
    Keeps:    scatters with a region, atomics.
    Numerics: none.
    Why here: before layouts, which every tile of a shape shares.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def AssignLayouts : Pass<"tile-assign-layouts", "::mlir::tile::KernelOp"> {
  let summary = "Say how tiles lie over the threads of a GPU";
  let description = [{
    Before / after: tensor<1024xf32>  ->  tensor<1024xf32, #tile.layout<threads = 256, vector = 4>> and `tile.threads = 256` on the kernel.
    A program is one block of threads. The layout of a tile depends on its number of elements alone, so pointwise ops, reshapes and loops never move data between
    threads. A piece is as many neighbours as make 16 bytes of the widest element that the kernel loads or stores. `tile.threads` on the kernel, if present, is kept.

    Needs:    tiles that fit in registers: at most 64 elements a thread.
    Keeps:    values; only types change.
    Numerics: the layout decides in which order a reduction combines.
    Why here: last before code generation for GPU, in place of strip-mining.
  }];
  let options = [
    Option<"warpGroups", "warp-groups", "bool", "false", "the GPU has matrix instructions of four warps">,
    Option<"float8", "float8", "bool", "false", "the GPU has matrix instructions of 8-bit floats">
  ];
}

#endif
