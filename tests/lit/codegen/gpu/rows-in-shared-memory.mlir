// Rows that several warps hold go through shared memory: tiles for which a device has too little are not chosen.
// RUN: tile-compile %s --target=sm_86 --emit=60-kernel.ptx -o - | FileCheck %s
// RUN: tile-compile %s --target=sm_120 --emit=60-kernel.ptx -o - | FileCheck %s
// CHECK: .target sm_
graph.func @graph(%0: !graph.tensor<[3000000, 7], f64>) -> (!graph.tensor<[7], i64>) attributes {symbols = []} {
  %1 = graph.argmax %0 {dim = 0 : i64} : (!graph.tensor<[3000000, 7], f64>) -> !graph.tensor<[7], i64>
  graph.return %1 : !graph.tensor<[7], i64>
}
