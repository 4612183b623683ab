// How rows become programs: held, side by side, in one pass; and what reductions carry.
// RUN: split-file %s %t
// RUN: tile-compile %t/short.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=SHORT
// RUN: tile-compile %t/held.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=HELD
// RUN: tile-compile %t/online.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=ONLINE
// RUN: tile-compile %t/online.mlir --target=sm_90 --emit=artifact -o %t/artifact
// RUN: tile-compile %t/shared.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=SHARED
// RUN: tile-compile %t/norm.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=NORM
// RUN: tile-compile %t/again.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=AGAIN
// RUN: tile-compile %t/argmax.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=ARGMAX
// RUN: tile-compile %t/steps.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=STEPS
// RUN: tile-compile %t/moments.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=MOMENTS

// Rows of 64 side by side, each in one warp; one thread of a row stores its result.
// SHORT: row axis i0 rows [[ROWS:[0-9]+]]
// SHORT: tile.load {{.*}} strides [64, 1] {{.*}} -> tensor<[[ROWS]]x64xf32>
// SHORT: tile.reduce({{.*}}) axis 1
// SHORT: tile.broadcast {{.*}} tensor<[[ROWS]]x1xf32> -> tensor<[[ROWS]]x64xf32>
// SHORT: tile.store {{.*}} strides [1, 0]

// One warp holds a row of 768 in bfloat16: no loop, no mask, one load.
// HELD: lanes 768 threads 32
// HELD-COUNT-1: tensor<768xbf16>
// HELD-NOT: scf.for
// HELD-NOT: valid
// HELD: tile.return

// Maximum and sum in one pass over the row, one pair for each thread; the rest of the row is one more group, of which the
// last tile is partial; then pairs of threads.
// ONLINE: online
// ONLINE: scf.for {{.*}} -> (tensor<128xf32>, tensor<128xf32>)
// ONLINE: arith.maximumf
// ONLINE: tile.reduce({{.*}}) axis 1 : (tensor<128x8xf32>) -> tensor<128xf32>
// ONLINE: math.exp {{.*}} {tile.approximate}
// ONLINE: scf.yield
// ONLINE-NOT: scf.for
// ONLINE: valid
// ONLINE: tile.reduce({{.*}}, {{.*}}) axis 0 : (tensor<128xf32>, tensor<128xf32>) -> (f32, f32)
// ONLINE: math.exp {{.*}} : f32
// ONLINE-NOT: tile.reduce
// ONLINE: tile.return

// A row of 64 KB is read from memory once; two of them share a multiprocessor.
// SHARED: threads 1024 held bytes 65536 blocks per processor 2
// SHARED-SAME: online
// SHARED-SAME: tile.held_bytes = 65536
// SHARED: tile.load
// SHARED: tile.hold {{.*}} offset 0 : tensor<[[LANES:.*]]xbf16>
// SHARED: tile.reduce
// SHARED-NOT: tile.load
// SHARED: tile.held {{.*}} offset 0 : tensor<[[LANES]]xbf16>
// SHARED-NOT: tile.load
// SHARED: tile.return

// So is what is normalized where registers would not hold it; factors, which only the last pass reads, are not held.
// NORM: held bytes 81920 blocks per processor 1
// NORM: tile.load %arg0
// NORM: tile.held
// NORM-NOT: tile.load %arg0
// NORM: tile.load %arg1
// NORM-NOT: tile.hold
// NORM: tile.return

// The second kernel over a large tensor begins at its end, which is in the cache.
// AGAIN: tile.kernel
// AGAIN-NOT: backwards
// AGAIN: tile.kernel {{.*}} backwards
// AGAIN: tile.program_id
// AGAIN: arith.subi

// The index fits in 32 bits until it is stored.
// ARGMAX: tile.reduce({{.*}}) axis 0 : (tensor<8192xf32>, tensor<8192xi32>) -> (f32, i32)
// ARGMAX: arith.extsi {{.*}} : i32 to i64

// The count is the same for all lanes: a scalar is carried.
// MOMENTS: scf.for {{.*}} -> (tensor<3136xf32>, tensor<3136xf32>, f32)

// Tiles of one row are joined in pairs, whose counts are known, before they meet what is carried.
// STEPS: lanes 2048 threads 512 unroll 8
// STEPS: scf.for
// STEPS-COUNT-2: tile.load
// STEPS: %[[TWO:.*]] = arith.addf %cst{{[_0-9]*}}, %cst{{[_0-9]*}} : f32
// STEPS: arith.divf %cst{{[_0-9]*}}, %[[TWO]] {tile.weight} : f32
// STEPS-COUNT-6: tile.load
// STEPS: scf.yield

//--- short.mlir
graph.func @graph(%0: !graph.tensor<[1048576, 64], f32>) -> !graph.tensor<[1048576], f32> attributes {symbols = []} {
  %1 = graph.mean %0 {dims = array<i64: 1>} : (!graph.tensor<[1048576, 64], f32>) -> !graph.tensor<[1048576], f32>
  graph.return %1 : !graph.tensor<[1048576], f32>
}

//--- held.mlir
graph.func @graph(%0: !graph.tensor<[65536, 768], bf16>) -> !graph.tensor<[65536, 768], bf16> attributes {symbols = []} {
  %1 = graph.softmax %0 {dim = 1 : i64} : (!graph.tensor<[65536, 768], bf16>) -> !graph.tensor<[65536, 768], bf16>
  graph.return %1 : !graph.tensor<[65536, 768], bf16>
}

//--- online.mlir
graph.func @graph(%0: !graph.tensor<[4096, 200000], bf16>) -> !graph.tensor<[4096, 200000], bf16> attributes {symbols = []} {
  %1 = graph.softmax %0 {dim = 1 : i64} : (!graph.tensor<[4096, 200000], bf16>) -> !graph.tensor<[4096, 200000], bf16>
  graph.return %1 : !graph.tensor<[4096, 200000], bf16>
}

//--- argmax.mlir
graph.func @graph(%0: !graph.tensor<[16384, 8192], f32>) -> !graph.tensor<[16384], i64> attributes {symbols = []} {
  %1 = graph.argmax %0 {dim = 1 : i64} : (!graph.tensor<[16384, 8192], f32>) -> !graph.tensor<[16384], i64>
  graph.return %1 : !graph.tensor<[16384], i64>
}

//--- steps.mlir
graph.func @graph(%0: !graph.tensor<[768, 73728], f32>) -> (!graph.tensor<[768], f32>, !graph.tensor<[768], f32>) attributes {symbols = []} {
  %1:2 = graph.var_mean %0 {dims = array<i64: 1>, correction = 0 : i64} : (!graph.tensor<[768, 73728], f32>) -> (!graph.tensor<[768], f32>, !graph.tensor<[768], f32>)
  graph.return %1#0, %1#1 : !graph.tensor<[768], f32>, !graph.tensor<[768], f32>
}

//--- moments.mlir
graph.func @graph(%0: !graph.tensor<[64, 256, 3136], f32>) -> (!graph.tensor<[256], f32>, !graph.tensor<[256], f32>) attributes {symbols = []} {
  %1:2 = graph.var_mean %0 {dims = array<i64: 0, 2>, correction = 0 : i64} : (!graph.tensor<[64, 256, 3136], f32>) -> (!graph.tensor<[256], f32>, !graph.tensor<[256], f32>)
  graph.return %1#0, %1#1 : !graph.tensor<[256], f32>, !graph.tensor<[256], f32>
}

//--- shared.mlir
graph.func @graph(%0: !graph.tensor<[4096, 32768], bf16>) -> !graph.tensor<[4096, 32768], bf16> attributes {symbols = []} {
  %1 = graph.softmax %0 {dim = 1 : i64} : (!graph.tensor<[4096, 32768], bf16>) -> !graph.tensor<[4096, 32768], bf16>
  graph.return %1 : !graph.tensor<[4096, 32768], bf16>
}

//--- norm.mlir
graph.func @graph(%0: !graph.tensor<[4096, 40960], bf16>, %1: !graph.tensor<[40960], bf16>, %2: !graph.tensor<[40960], bf16>) -> !graph.tensor<[4096, 40960], bf16> attributes {symbols = []} {
  %3:3 = graph.layer_norm %0, %1, %2 {normalized_dims = 1 : i64, eps = 1.0e-05 : f64} : (!graph.tensor<[4096, 40960], bf16>, !graph.tensor<[40960], bf16>, !graph.tensor<[40960], bf16>) -> (!graph.tensor<[4096, 40960], bf16>, !graph.tensor<[4096, 1], f32>, !graph.tensor<[4096, 1], f32>)
  graph.return %3#0 : !graph.tensor<[4096, 40960], bf16>
}

//--- again.mlir
graph.func @graph(%0: !graph.tensor<[64, 256, 3136], f32>) -> !graph.tensor<[64, 256, 3136], f32> attributes {symbols = []} {
  %1:2 = graph.var_mean %0 {dims = array<i64: 0, 2>, correction = 0 : i64, keepdim = true} : (!graph.tensor<[64, 256, 3136], f32>) -> (!graph.tensor<[1, 256, 1], f32>, !graph.tensor<[1, 256, 1], f32>)
  %2 = graph.sub %0, %1#1 : (!graph.tensor<[64, 256, 3136], f32>, !graph.tensor<[1, 256, 1], f32>) -> !graph.tensor<[64, 256, 3136], f32>
  graph.return %2 : !graph.tensor<[64, 256, 3136], f32>
}
