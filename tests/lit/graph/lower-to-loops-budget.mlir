// Views of views compose up to a budget; past it the operand is an alias, which has strides in the place of divisions.
// RUN: tile-opt %s --graph-lower-to-loops="index-budget=8" | FileCheck %s

// CHECK-LABEL: @view_of_view
// CHECK:         %[[A:.*]] = graph.alias %arg0
// CHECK:         graph.loops [i0 = 5, i1 = 12]
// CHECK-NEXT:      graph.load %[[A]]
graph.func @view_of_view(%x: !graph.tensor<[60], f32>) -> !graph.tensor<[5, 12], f32> attributes {symbols = []} {
  %0 = graph.view %x : (!graph.tensor<[60], f32>) -> !graph.tensor<[4, 15], f32>
  %1 = graph.permute %0 {dims = array<i64: 1, 0>} : (!graph.tensor<[4, 15], f32>) -> !graph.tensor<[15, 4], f32, [1, 15]>
  %2 = graph.view %1 : (!graph.tensor<[15, 4], f32, [1, 15]>) -> !graph.tensor<[5, 12], f32>
  %3 = graph.exp %2 : (!graph.tensor<[5, 12], f32>) -> !graph.tensor<[5, 12], f32>
  graph.return %3 : !graph.tensor<[5, 12], f32>
}
