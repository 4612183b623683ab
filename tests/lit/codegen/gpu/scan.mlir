// No lanes along an axis that keeps its order: threads take rows of their own.
// RUN: tile-compile %s --target=sm_90 --emit=30-tile.mlir | FileCheck %s
// RUN: tile-compile %s --target=sm_90 --emit=artifact -o %t

// CHECK-NOT: tile.scan
// CHECK-NOT: combine
// CHECK: vector axis i0
graph.func @graph(%x: !graph.tensor<[512, 1000], f32>, %i: !graph.tensor<[512, 64], i64>) -> (!graph.tensor<[512, 1000], f32>, !graph.tensor<[512, 1000], f32>) attributes {symbols = []} {
  %0 = graph.cumsum %x {dim = 1 : i64} : (!graph.tensor<[512, 1000], f32>) -> !graph.tensor<[512, 1000], f32>
  %1 = graph.full {value = 1.0 : f64} : () -> !graph.tensor<[], f32>
  %2 = graph.scatter %x, %i, %1 {dim = 1 : i64, combine = "add"}
    : (!graph.tensor<[512, 1000], f32>, !graph.tensor<[512, 64], i64>, !graph.tensor<[], f32>) -> !graph.tensor<[512, 1000], f32>
  graph.return %0, %2 : !graph.tensor<[512, 1000], f32>, !graph.tensor<[512, 1000], f32>
}
