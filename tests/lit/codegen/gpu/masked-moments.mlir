// Moments of rows that tiles do not divide: what is masked costs nothing until the loop ends.
// RUN: split-file %s %t
// RUN: tile-compile %t/both.mlir --target=sm_90 --emit=30-tile.mlir -o - | FileCheck %s --check-prefix=BOTH
// RUN: tile-compile %t/both.mlir --target=sm_90 --emit=60-kernel.ptx -o - | FileCheck %s --check-prefix=PTX
// RUN: tile-compile %t/unknown.mlir --target=sm_90 --emit=30-tile.mlir -o - | FileCheck %s --check-prefix=UNKNOWN

// Lanes past the end are dropped after the loop, which carries one count for all.
// BOTH: vector axis mr0 lanes 512 row axis r1 rows 8
// BOTH: scf.for {{.*}} -> (tensor<8x512xf32>, tensor<8x512xf32>, f32)
// BOTH-NOT: arith.select {{.*}} tensor<8x512xf32>
// BOTH: scf.yield
// BOTH-COUNT-3: arith.select {{.*}} : tensor<8x512xi1>, tensor<8x512xf32>
// BOTH: tile.reduce

// A weight is an approximate quotient.
// PTX-NOT: div.rn.f32 {{.*}}
// PTX: div.approx.f32

// Of a size that is not known, the last tile may be in a branch, so each lane has a count.
// UNKNOWN: scf.for {{.*}} -> (tensor<{{[0-9x]*}}xf32>, tensor<{{[0-9x]*}}xf32>, tensor<{{[0-9x]*}}xf32>)

//--- both.mlir
graph.func @graph(%0: !graph.tensor<[64, 300, 511, 6], bf16, [1, 384, 115200, 64]>) -> (!graph.tensor<[300], f32>)
    attributes {symbols = []} {
  %1 = graph.cast %0 : (!graph.tensor<[64, 300, 511, 6], bf16, [1, 384, 115200, 64]>) -> !graph.tensor<[64, 300, 511, 6], f32, [1, 384, 115200, 64]>
  %2:2 = graph.var_mean %1 {dims = array<i64: 0, 2, 3>, correction = 1.0 : f64} : (!graph.tensor<[64, 300, 511, 6], f32, [1, 384, 115200, 64]>) -> (!graph.tensor<[300], f32>, !graph.tensor<[300], f32>)
  graph.return %2#0 : !graph.tensor<[300], f32>
}

//--- unknown.mlir
graph.func @graph(%0: !graph.tensor<["s0", 1024], f32>) -> (!graph.tensor<[1024], f32>)
    attributes {symbols = [#graph.symbol<"s0", min = 2, max = 1000000, hint = 30001>]} {
  %1:2 = graph.var_mean %0 {dims = array<i64: 0>, correction = 1.0 : f64} : (!graph.tensor<["s0", 1024], f32>) -> (!graph.tensor<[1024], f32>, !graph.tensor<[1024], f32>)
  graph.return %1#0 : !graph.tensor<[1024], f32>
}
