// A fused softmax over rows: each row is read once and stays in registers over two reductions of the block.
// RUN: tile-compile %s --target=sm_90 --emit=60-kernel.ptx -o %t.ptx
// RUN: FileCheck %s < %t.ptx
// RUN: %ptxas -arch=sm_90 %t.ptx

// CHECK: .visible .entry tile_
// CHECK: ld.global.nc.v4.b32
// CHECK-COUNT-5: shfl.sync.bfly.b32
// CHECK: bar.sync
// CHECK: ex2.approx.ftz.f32
// CHECK-COUNT-5: shfl.sync.bfly.b32
// CHECK: bar.sync
// CHECK: {{rcp.rn|div.rn}}.f32
// CHECK-NOT: ld.global
// CHECK: st.global.v4.b32
// CHECK-NOT: call
graph.func @graph(%0: !graph.tensor<[4096, 8192], f32>) -> !graph.tensor<[4096, 8192], f32> attributes {symbols = []} {
  %1 = graph.softmax %0 {dim = 1} : (!graph.tensor<[4096, 8192], f32>) -> !graph.tensor<[4096, 8192], f32>
  graph.return %1 : !graph.tensor<[4096, 8192], f32>
}
