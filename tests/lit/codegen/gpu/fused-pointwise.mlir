// A fused pointwise kernel: the bias is read per column, bfloat16 is converted by its bits, tanh is inline.
// RUN: tile-compile %s --target=sm_90 --emit=60-kernel.ptx -o %t.ptx
// RUN: FileCheck %s < %t.ptx
// RUN: %ptxas -arch=sm_90 %t.ptx

// CHECK: .visible .entry tile_
// CHECK: ld.global.nc.v{{[24]}}.b
// CHECK: fma.rn.f32
// CHECK: st.global.v{{[24]}}.b
// CHECK-NOT: .shared
graph.func @graph(%0: !graph.tensor<["s0", 1024], bf16>, %1: !graph.tensor<[1024], bf16>, %2: !graph.size<"s0">) -> !graph.tensor<["s0", 1024], bf16>
    attributes {symbols = [#graph.symbol<"s0", min = 2, max = 9223372036854775807, hint = 512>]} {
  %3 = graph.cast %0 : (!graph.tensor<["s0", 1024], bf16>) -> !graph.tensor<["s0", 1024], f32>
  %4 = graph.cast %1 : (!graph.tensor<[1024], bf16>) -> !graph.tensor<[1024], f32>
  %5 = graph.add %3, %4 : (!graph.tensor<["s0", 1024], f32>, !graph.tensor<[1024], f32>) -> !graph.tensor<["s0", 1024], f32>
  %6 = graph.tanh %5 : (!graph.tensor<["s0", 1024], f32>) -> !graph.tensor<["s0", 1024], f32>
  %7 = graph.cast %6 : (!graph.tensor<["s0", 1024], f32>) -> !graph.tensor<["s0", 1024], bf16>
  graph.return %7 : !graph.tensor<["s0", 1024], bf16>
}
