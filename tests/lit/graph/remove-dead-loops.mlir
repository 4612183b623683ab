// graph-remove-dead-loops keeps what writes into existing buffers.
// RUN: tile-opt %s --graph-lower-to-loops --graph-remove-dead-loops | FileCheck %s

// CHECK-LABEL: @dead
graph.func @dead(%x: !graph.tensor<[8], f32>, %y: !graph.tensor<[8], f32>) {
  // CHECK-NOT: math.sin
  %0 = graph.sin %x : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  %1 = graph.neg %0 : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  // CHECK: graph.loops [i0 = 8] into
  %2 = graph.copy_ %x, %y : (!graph.tensor<[8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  graph.return
}
