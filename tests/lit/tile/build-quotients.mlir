// RUN: tile-opt %s --split-input-file --graph-form-groups --graph-build-tile-kernels | FileCheck %s

// What all lanes have in common is divided once; the rest has few bits, and a product and a shift divide it.

// CHECK-LABEL: graph.func @repeated(
// CHECK:         tile.kernel
// CHECK-DAG:     %[[REST:.*]] = arith.remui %{{.*}}, %{{.*}} : i64
// CHECK:         %[[PRODUCT:.*]] = arith.muli %{{.*}}, %{{.*}} : tensor<{{.*}}xi32>
// CHECK:         %[[SMALL:.*]] = arith.shrui %[[PRODUCT]], %{{.*}} : tensor<{{.*}}xi32>
// CHECK:         %[[WIDE:.*]] = arith.extui %[[SMALL]] {tile.steps_of_one} : tensor<{{.*}}xi32> to tensor<{{.*}}xi64>
// CHECK:         arith.divui %{{.*}}, %{{.*}} : i64
// CHECK:         tile.gather
graph.func @repeated(%x: !graph.tensor<[40, 334], f32>) -> !graph.tensor<[40, 1000], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 40, i1 = 1000] -> (!graph.tensor<[40, 1000], f32>) {
    %v = graph.load %x ["i0", "i1//3"] : !graph.tensor<[40, 334], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[40, 1000], f32>
}

// -----

// A divisor that the lanes of a tile do not reach twice: a comparison.

// CHECK-LABEL: graph.func @past(
// CHECK:         tile.kernel
// CHECK:         %[[PAST:.*]] = arith.cmpi sge, %{{.*}}, %{{.*}} : tensor<{{.*}}xi32>
// CHECK:         arith.extui %[[PAST]] {tile.steps_of_one} : tensor<{{.*}}xi1> to tensor<{{.*}}xi64>
graph.func @past(%x: !graph.tensor<[40, 4], f32>) -> !graph.tensor<[40, 1000], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 40, i1 = 1000] -> (!graph.tensor<[40, 1000], f32>) {
    %v = graph.load %x ["i0", "i1//333"] : !graph.tensor<[40, 4], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[40, 1000], f32>
}
