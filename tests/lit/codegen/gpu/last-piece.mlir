// A length that nothing near a piece's divides: all pieces but the last one are read without masks.
// RUN: tile-compile %s --target=sm_90 --emit=60-kernel.ptx -o - | FileCheck %s

// CHECK: .visible .entry
// CHECK: setp
// CHECK: bra
// CHECK: ld.global.nc.v{{[24]}}.b32
// CHECK-NOT: bra
// CHECK: ld.global.nc.v{{[24]}}.b32
// CHECK-NOT: bra
// CHECK: ld.global.nc.v{{[24]}}.b32
graph.func @graph(%0: !graph.tensor<[3, 5592396], f32>) -> (!graph.tensor<[3], f32>) attributes {symbols = []} {
  %1:2 = graph.var_mean %0 {dims = array<i64: 1>, correction = 1.0 : f64} : (!graph.tensor<[3, 5592396], f32>) -> (!graph.tensor<[3], f32>, !graph.tensor<[3], f32>)
  graph.return %1#0 : !graph.tensor<[3], f32>
}
