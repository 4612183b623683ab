// Threads hold all points of a short reduced axis: each is read once, what follows one another in memory is one access,
// no threads exchange anything, and one reciprocal is enough for all that is divided by one sum.
// RUN: split-file %s %t
// RUN: tile-compile %t/middle.mlir --target=sm_90 --emit=30-tile.mlir -o - | FileCheck %s --check-prefix=MIDDLE
// RUN: tile-compile %t/middle.mlir --target=sm_90 --emit=60-kernel.ptx -o - | FileCheck %s --check-prefix=MIDDLE-PTX
// RUN: tile-compile %t/far.mlir --target=sm_90 --emit=60-kernel.ptx -o - | FileCheck %s --check-prefix=FAR-PTX

// MIDDLE: reduce r0 = 4] {{.*}} vector axis i1 lanes 2 row axis i0 {{.*}} unroll 4
// MIDDLE-PTX-NOT: bar.
// MIDDLE-PTX-NOT: shfl
// MIDDLE-PTX-COUNT-2: ld.global.nc.v4.b32
// MIDDLE-PTX-NOT: ld.global
// MIDDLE-PTX: st.global.v4.b32
// MIDDLE-PTX-NOT: st.global.v2
// MIDDLE-PTX: ret

// Rows whose length is odd begin anywhere: their elements are accessed one by one, neighbours by neighbouring threads.
// FAR-PTX-NOT: bar.
// FAR-PTX-NOT: shfl
// FAR-PTX: ld.global.nc.b32
// FAR-PTX-NEXT: ld.global.nc.b32
// FAR-PTX: ret

//--- middle.mlir
graph.func @graph(%0: !graph.tensor<[8388608, 4, 2], f32>) -> (!graph.tensor<[8388608, 4, 2], f32>) attributes {symbols = []} {
  %1 = graph.softmax %0 {dim = 1 : i64} : (!graph.tensor<[8388608, 4, 2], f32>) -> !graph.tensor<[8388608, 4, 2], f32>
  graph.return %1 : !graph.tensor<[8388608, 4, 2], f32>
}

//--- far.mlir
graph.func @graph(%0: !graph.tensor<[22369621, 3], f32, [1, 22369621]>) -> (!graph.tensor<[22369621], f32>) attributes {symbols = []} {
  %1:2 = graph.var_mean %0 {dims = array<i64: 1>, correction = 1.0 : f64} : (!graph.tensor<[22369621, 3], f32, [1, 22369621]>) -> (!graph.tensor<[22369621], f32>, !graph.tensor<[22369621], f32>)
  graph.return %1#0 : !graph.tensor<[22369621], f32>
}
