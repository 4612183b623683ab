// RUN: tile-opt %s --split-input-file --graph-inline-producers --graph-split-reductions --graph-form-groups --graph-build-tile-kernels | FileCheck %s

// The index is the same for all lanes: a scalar, and the row is read as it lies.

// CHECK-LABEL: graph.func @rows(
// CHECK:         %[[J:.*]] = tile.load {{.*}} strides [] : !tile.ptr<i64> -> i64
// CHECK:         %[[C:.*]] = tile.check_index %[[J]] in %{{.*}} wrap line {{[0-9]+}} : i64 -> i64
// CHECK:         %[[BASE:.*]] = arith.muli %[[C]]
// CHECK:         %[[AT:.*]] = arith.addi {{.*}}, %[[BASE]]
// CHECK:         tile.load {{.*}}[%[[AT]]] strides [1]
graph.func @rows(%w: !graph.tensor<[1000, 64], f32>, %i: !graph.tensor<[32], i64>) -> !graph.tensor<[32, 64], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 32, i1 = 64] -> (!graph.tensor<[32, 64], f32>) {
    %j = graph.load %i ["i0"] : !graph.tensor<[32], i64> -> i64
    %c = graph.check_index %j in 1000 wrap
    %v = graph.load %w ["x0", "i1"] (%c) : !graph.tensor<[1000, 64], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[32, 64], f32>
}

// -----

// Each lane has an index of its own; lanes past the end are neither checked nor read.

// CHECK-LABEL: graph.func @elements(
// CHECK:         %[[LEFT:.*]] = arith.constant 20 : i64
// CHECK:         %[[J:.*]] = tile.load {{.*}} valid[%[[LEFT]]] : !tile.ptr<i64> -> tensor<32xi64>
// CHECK:         %[[C:.*]] = tile.check_index %[[J]] in %{{.*}} valid %[[LEFT]]
// CHECK:         %[[INSIDE:.*]] = arith.cmpi slt
// CHECK:         tile.gather {{.*}}[%[[C]]] mask %[[INSIDE]]
graph.func @elements(%w: !graph.tensor<[1000], f32>, %i: !graph.tensor<[20], i64>) -> !graph.tensor<[20], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 20] -> (!graph.tensor<[20], f32>) {
    %j = graph.load %i ["i0"] : !graph.tensor<[20], i64> -> i64
    %c = graph.check_index %j in 1000
    %v = graph.load %w ["x0"] (%c) : !graph.tensor<[1000], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[20], f32>
}
