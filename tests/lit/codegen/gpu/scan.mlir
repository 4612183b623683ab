// Scans are kernels with what they are made of and what is computed of them.
// RUN: tile-compile %s --target=sm_90 --emit=30-tile.mlir | FileCheck %s
// RUN: tile-compile %s --target=sm_90 --emit=60-kernel.ptx | FileCheck %s --check-prefix=PTX
// RUN: tile-compile %s --target=sm_80 --emit=artifact -o %t

// Along the threads: a row of 4096 is one tile. Threads add up their own elements; shuffles and shared memory join them.
// CHECK:       tile.kernel @{{.*}} schedule = "axes [i0 = 16384, reduce r0 = 4096] grid axes 1 vector axis r0 lanes 4096 threads 256
// CHECK-NOT:     scf.for
// CHECK:         arith.mulf
// CHECK:         %[[SCAN:.*]] = tile.scan(%{{.*}}) axis 0 : (tensor<4096xf32>) -> tensor<4096xf32>
// CHECK:         %[[SUM:.*]] = arith.addf %[[SCAN]]
// CHECK:         tile.store %[[SUM]]
// CHECK-NOT:     tile.store
// CHECK:       tile.kernel
// Down the columns: a thread reads several points before it writes the first of them.
// CHECK:         vector axis i{{[01]}} lanes {{.*}} unroll
// CHECK:         scf.for
// CHECK-COUNT-4: tile.load
// CHECK:         tile.store

// PTX:         .entry
// PTX:         ld.global.nc.v4
// PTX:         shfl.sync.up.b32
// PTX:         st.shared
// PTX:         bar.sync
// PTX-COUNT-4: st.global.v4
graph.func @graph(%x: !graph.tensor<[16384, 4096], f32>, %y: !graph.tensor<[64, 1048576], f32>) -> (!graph.tensor<[16384, 4096], f32>, !graph.tensor<[64, 1048576], f32>) attributes {symbols = []} {
  %two = graph.full {value = 2.0 : f64} : () -> !graph.tensor<[], f32>
  %0 = graph.mul %x, %two : (!graph.tensor<[16384, 4096], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[16384, 4096], f32>
  %1 = graph.cumsum %0 {dim = 1 : i64} : (!graph.tensor<[16384, 4096], f32>) -> !graph.tensor<[16384, 4096], f32>
  %2 = graph.add %1, %two : (!graph.tensor<[16384, 4096], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[16384, 4096], f32>
  %3 = graph.cumsum %y {dim = 0 : i64} : (!graph.tensor<[64, 1048576], f32>) -> !graph.tensor<[64, 1048576], f32>
  graph.return %2, %3 : !graph.tensor<[16384, 4096], f32>, !graph.tensor<[64, 1048576], f32>
}
