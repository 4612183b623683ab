// RUN: tile-opt %s --split-input-file --graph-inline-producers | FileCheck %s

// A sum of three that a longer sum follows is pointwise, and part of it.

// CHECK-LABEL: graph.func @distances
// CHECK-NEXT:    graph.loops [i0 = 64, reduce r0 = 128] -> (!graph.tensor<[64], f32>)
// CHECK:           graph.load %arg0 ["i0", "r0", 0]
// CHECK:           graph.load %arg0 ["i0", "r0", 1]
// CHECK:           graph.load %arg0 ["i0", "r0", 2]
// CHECK:           math.exp
// CHECK-NOT:     graph.loops
graph.func @distances(%x: !graph.tensor<[64, 128, 3], f32>) -> !graph.tensor<[64], f32> attributes {symbols = []} {
  %short = graph.loops [i0 = 64, i1 = 128, reduce r0 = 3] -> (!graph.tensor<[64, 128], f32>) {
    %v = graph.load %x ["i0", "i1", "r0"] : !graph.tensor<[64, 128, 3], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    graph.yield %s : f32
  }
  %exp = graph.loops [i0 = 64, i1 = 128] -> (!graph.tensor<[64, 128], f32>) {
    %v = graph.load %short ["i0", "i1"] : !graph.tensor<[64, 128], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %long = graph.loops [i0 = 64, reduce r0 = 128] -> (!graph.tensor<[64], f32>) {
    %v = graph.load %exp ["i0", "r0"] : !graph.tensor<[64, 128], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    graph.yield %s : f32
  }
  graph.return %long : !graph.tensor<[64], f32>
}

// -----

// Its result is needed in memory: the reduction stays.

// CHECK-LABEL: graph.func @result
// CHECK:         graph.loops [i0 = 64, i1 = 128, reduce r0 = 3]
graph.func @result(%x: !graph.tensor<[64, 128, 3], f32>) -> !graph.tensor<[64, 128], f32> attributes {symbols = []} {
  %short = graph.loops [i0 = 64, i1 = 128, reduce r0 = 3] -> (!graph.tensor<[64, 128], f32>) {
    %v = graph.load %x ["i0", "i1", "r0"] : !graph.tensor<[64, 128, 3], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    graph.yield %s : f32
  }
  graph.return %short : !graph.tensor<[64, 128], f32>
}
