// Kernels of graphs take their memory to start at multiples of 16 bytes, which the launch sees to; other kernels ask, and
// have a second way for memory that does not.
// RUN: tile-compile %s --target=sm_90 --emit=60-kernel.ptx -o %t.ptx
// RUN: FileCheck %s < %t.ptx
// RUN: tile-compile %s --target=sm_90 --emit=30-tile.mlir -o - | FileCheck %s --check-prefix=TILE

// TILE: tile.kernel {{.*}}tile.aligned_args

// CHECK: .visible .entry tile_
// CHECK-NOT: ld.global{{.*}}.b16
// CHECK-NOT: bra
// CHECK-COUNT-2: ld.global.nc.v4.b32
// CHECK-NOT: bra
// CHECK: st.global.v4.b32
// CHECK-NOT: st.global{{.*}}.b16
graph.func @graph(%0: !graph.tensor<[4096, 4096], bf16>, %1: !graph.tensor<[4096, 4096], bf16>) -> !graph.tensor<[4096, 4096], bf16> attributes {symbols = []} {
  %2 = graph.add %0, %1 : (!graph.tensor<[4096, 4096], bf16>, !graph.tensor<[4096, 4096], bf16>) -> !graph.tensor<[4096, 4096], bf16>
  graph.return %2 : !graph.tensor<[4096, 4096], bf16>
}
