// Tiles of one side of a concatenation read it without masks: in whole words where it begins anywhere in memory.
// RUN: tile-compile %s --target=sm_90 --emit=60-kernel.ptx -o - | FileCheck %s

// CHECK: .visible .entry
// CHECK: ld.global.nc.v4.b32 {{.*}} [%[[FIRST:rd[0-9]+]]];
// CHECK-NEXT: ld.global.nc.v4.b32 {{.*}} [%[[FIRST]]+16];
// CHECK: ld.global.nc.v4.b32 {{.*}} [%[[SECOND:rd[0-9]+]]+-87380];
// CHECK-NEXT: ld.global.nc.v4.b32 {{.*}} [%[[SECOND]]+-87364];
graph.func @graph(%0: !graph.tensor<[768, 87381], bf16>) -> (!graph.tensor<[768, 131071], bf16>) attributes {symbols = []} {
  %1 = graph.slice %0 {dim = 1 : i64, start = 0 : i64, end = 43690 : i64} : (!graph.tensor<[768, 87381], bf16>) -> !graph.tensor<[768, 43690], bf16, [87381, 1]>
  %2 = graph.cat %1, %0 {dim = 1 : i64} : (!graph.tensor<[768, 43690], bf16, [87381, 1]>, !graph.tensor<[768, 87381], bf16>) -> !graph.tensor<[768, 131071], bf16>
  graph.return %2 : !graph.tensor<[768, 131071], bf16>
}
