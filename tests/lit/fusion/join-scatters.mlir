// RUN: tile-opt %s --split-input-file --graph-lower-to-loops=ordered-writes=false --graph-reuse-buffers --graph-form-groups=join-scatters=true | FileCheck %s

// Sums over the same points share a kernel, also those into one buffer, one after another.

// CHECK-LABEL: graph.func @same_points
// CHECK:         graph.fusion [i0 = 70]
// CHECK:           into(%{{.*}})
// CHECK:           %[[FIRST:.*]] = graph.loops [i0 = 70]
// CHECK:           graph.loops [i0 = 70] {{.*}} into(%[[FIRST]]
// CHECK:         graph.return
graph.func @same_points(%x: !graph.tensor<[20], f32>, %y: !graph.tensor<[30], f32>, %i: !graph.tensor<[70], i64>, %v: !graph.tensor<[70], f32>, %w: !graph.tensor<[70], f32>) -> (!graph.tensor<[20], f32>, !graph.tensor<[30], f32>) attributes {symbols = []} {
  %0 = graph.index_put %y, %v, %i {dims = array<i64: 0>, combine = "add"} : (!graph.tensor<[30], f32>, !graph.tensor<[70], f32>, !graph.tensor<[70], i64>) -> !graph.tensor<[30], f32>
  %1 = graph.index_put %x, %v, %i {dims = array<i64: 0>, combine = "add"} : (!graph.tensor<[20], f32>, !graph.tensor<[70], f32>, !graph.tensor<[70], i64>) -> !graph.tensor<[20], f32>
  %2 = graph.index_put %1, %w, %i {dims = array<i64: 0>, combine = "add"} : (!graph.tensor<[20], f32>, !graph.tensor<[70], f32>, !graph.tensor<[70], i64>) -> !graph.tensor<[20], f32>
  graph.return %2, %0 : !graph.tensor<[20], f32>, !graph.tensor<[30], f32>
}

// -----

// What is read of a sum needs all of it, and a maximum of sums comes after them.

// CHECK-LABEL: graph.func @after
// CHECK-COUNT-2: graph.fusion [i0 = 70]
// CHECK:         graph.return
graph.func @after(%x: !graph.tensor<[20], f32>, %i: !graph.tensor<[70], i64>, %v: !graph.tensor<[70], f32>) -> !graph.tensor<[20], f32> attributes {symbols = []} {
  %0 = graph.index_put %x, %v, %i {dims = array<i64: 0>, combine = "add"} : (!graph.tensor<[20], f32>, !graph.tensor<[70], f32>, !graph.tensor<[70], i64>) -> !graph.tensor<[20], f32>
  %1 = graph.index_put %0, %v, %i {dims = array<i64: 0>, combine = "max"} : (!graph.tensor<[20], f32>, !graph.tensor<[70], f32>, !graph.tensor<[70], i64>) -> !graph.tensor<[20], f32>
  graph.return %1 : !graph.tensor<[20], f32>
}
