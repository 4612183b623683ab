// How rows become programs: held, side by side, in one pass; and what reductions carry.
// RUN: split-file %s %t
// RUN: tile-compile %t/short.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=SHORT
// RUN: tile-compile %t/held.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=HELD
// RUN: tile-compile %t/online.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=ONLINE
// RUN: tile-compile %t/online.mlir --target=sm_90 --emit=artifact -o %t/artifact
// RUN: tile-compile %t/argmax.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=ARGMAX
// RUN: tile-compile %t/moments.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=MOMENTS

// Sixteen rows of 64 in a warp; one thread of a row stores its result.
// SHORT: row axis i0 rows 16
// SHORT: tile.load {{.*}} strides [64, 1] {{.*}} -> tensor<16x64xf32>
// SHORT: tile.reduce({{.*}}) axis 1
// SHORT: tile.broadcast {{.*}} tensor<16x1xf32> -> tensor<16x64xf32>
// SHORT: tile.store {{.*}} strides [1, 0]

// One warp holds a row of 768 in bfloat16: no loop, no mask, one load.
// HELD: lanes 768 threads 32
// HELD-COUNT-1: tensor<768xbf16>
// HELD-NOT: scf.for
// HELD-NOT: valid
// HELD: tile.return

// Maximum and sum in one pass over the row, then pairs of lanes.
// ONLINE: online
// ONLINE: scf.for {{.*}} -> (tensor<1024xf32>, tensor<1024xf32>)
// ONLINE: arith.maximumf
// ONLINE: math.exp {{.*}} {tile.approximate}
// ONLINE: tile.reduce({{.*}}, {{.*}}) axis 0 : (tensor<1024xf32>, tensor<1024xf32>) -> (f32, f32)
// ONLINE: math.exp {{.*}} : f32
// ONLINE-NOT: tile.reduce
// ONLINE: tile.return

// The index fits in 32 bits until it is stored.
// ARGMAX: tile.reduce({{.*}}) axis 0 : (tensor<8192xf32>, tensor<8192xi32>) -> (f32, i32)
// ARGMAX: arith.extsi {{.*}} : i32 to i64

// The count is the same for all lanes: a scalar is carried.
// MOMENTS: scf.for {{.*}} -> (tensor<3136xf32>, tensor<3136xf32>, f32)

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
graph.func @graph(%0: !graph.tensor<[4096, 100000], bf16>) -> !graph.tensor<[4096, 100000], bf16> attributes {symbols = []} {
  %1 = graph.softmax %0 {dim = 1 : i64} : (!graph.tensor<[4096, 100000], bf16>) -> !graph.tensor<[4096, 100000], bf16>
  graph.return %1 : !graph.tensor<[4096, 100000], bf16>
}

//--- argmax.mlir
graph.func @graph(%0: !graph.tensor<[16384, 8192], f32>) -> !graph.tensor<[16384], i64> attributes {symbols = []} {
  %1 = graph.argmax %0 {dim = 1 : i64} : (!graph.tensor<[16384, 8192], f32>) -> !graph.tensor<[16384], i64>
  graph.return %1 : !graph.tensor<[16384], i64>
}

//--- moments.mlir
graph.func @graph(%0: !graph.tensor<[64, 256, 3136], f32>) -> (!graph.tensor<[256], f32>, !graph.tensor<[256], f32>) attributes {symbols = []} {
  %1:2 = graph.var_mean %0 {dims = array<i64: 0, 2>, correction = 0 : i64} : (!graph.tensor<[64, 256, 3136], f32>) -> (!graph.tensor<[256], f32>, !graph.tensor<[256], f32>)
  graph.return %1#0, %1#1 : !graph.tensor<[256], f32>, !graph.tensor<[256], f32>
}
