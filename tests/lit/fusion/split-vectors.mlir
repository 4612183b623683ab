// RUN: tile-opt %s --split-input-file --graph-split-vectors | FileCheck %s

// Each component is a reduction of the points at which the weights are made.
// CHECK-LABEL: graph.func @forces
// CHECK:         %[[W:.*]] = graph.loops [i0 = 65536, i1 = 64] ->
// CHECK:         %[[X:.*]] = graph.loops [i0 = 65536, reduce r0 = 64] -> (!graph.tensor<[65536], f32>)
// CHECK:           graph.load %[[W]] ["i0", "r0"]
// CHECK:           graph.load %arg1 ["i0", "r0", 0]
// CHECK:         %[[X1:.*]] = graph.loops [i0 = 65536, i1 = 1] -> (!graph.tensor<[65536, 1], f32, [2, 1]>)
// CHECK:           graph.load %[[X]] ["i0"]
// CHECK:         %[[Y:.*]] = graph.loops [i0 = 65536, reduce r0 = 64] -> (!graph.tensor<[65536], f32>)
// CHECK:           graph.load %[[W]] ["i0", "r0"]
// CHECK:           graph.load %arg1 ["i0", "r0", 1]
// CHECK:         %[[Y1:.*]] = graph.loops [i0 = 65536, i1 = 1] -> (!graph.tensor<[65536, 1], f32, [2, 1]>)
// CHECK:         graph.assemble %[[X1]], %[[Y1]] {dim = 1 : i64}
graph.func @forces(%x: !graph.tensor<[65536, 64], f32>, %y: !graph.tensor<[65536, 64, 2], f32>) -> (!graph.tensor<[65536, 2], f32>) attributes {symbols = []} {
  %w = graph.loops [i0 = 65536, i1 = 64] -> (!graph.tensor<[65536, 64], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[65536, 64], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %s = graph.loops [i0 = 65536, i1 = 2, reduce r0 = 64] -> (!graph.tensor<[65536, 2], f32>) {
    %a = graph.load %w ["i0", "r0"] : !graph.tensor<[65536, 64], f32> -> f32
    %b = graph.load %y ["i0", "r0", "i1"] : !graph.tensor<[65536, 64, 2], f32> -> f32
    %p = arith.mulf %a, %b : f32
    graph.yield %p : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %t = arith.addf %l, %r : f32
    graph.yield %t : f32
  }
  graph.return %s : !graph.tensor<[65536, 2], f32>
}

// -----

// Weights that somebody else reads are in memory anyway.
// CHECK-LABEL: graph.func @kept
// CHECK:         [i0 = 65536, i1 = 2, reduce r0 = 64]
// CHECK-NOT:     graph.assemble
graph.func @kept(%x: !graph.tensor<[65536, 64], f32>, %y: !graph.tensor<[65536, 64, 2], f32>) -> (!graph.tensor<[65536, 2], f32>, !graph.tensor<[65536, 64], f32>) attributes {symbols = []} {
  %w = graph.loops [i0 = 65536, i1 = 64] -> (!graph.tensor<[65536, 64], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[65536, 64], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %s = graph.loops [i0 = 65536, i1 = 2, reduce r0 = 64] -> (!graph.tensor<[65536, 2], f32>) {
    %a = graph.load %w ["i0", "r0"] : !graph.tensor<[65536, 64], f32> -> f32
    %b = graph.load %y ["i0", "r0", "i1"] : !graph.tensor<[65536, 64, 2], f32> -> f32
    %p = arith.mulf %a, %b : f32
    graph.yield %p : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %t = arith.addf %l, %r : f32
    graph.yield %t : f32
  }
  graph.return %s, %w : !graph.tensor<[65536, 2], f32>, !graph.tensor<[65536, 64], f32>
}

// -----

// Small weights are moved sooner than kernels begin.
// CHECK-LABEL: graph.func @small
// CHECK:         [i0 = 64, i1 = 2, reduce r0 = 64]
// CHECK-NOT:     graph.assemble
graph.func @small(%x: !graph.tensor<[64, 64], f32>, %y: !graph.tensor<[64, 64, 2], f32>) -> (!graph.tensor<[64, 2], f32>) attributes {symbols = []} {
  %w = graph.loops [i0 = 64, i1 = 64] -> (!graph.tensor<[64, 64], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[64, 64], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %s = graph.loops [i0 = 64, i1 = 2, reduce r0 = 64] -> (!graph.tensor<[64, 2], f32>) {
    %a = graph.load %w ["i0", "r0"] : !graph.tensor<[64, 64], f32> -> f32
    %b = graph.load %y ["i0", "r0", "i1"] : !graph.tensor<[64, 64, 2], f32> -> f32
    %p = arith.mulf %a, %b : f32
    graph.yield %p : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %t = arith.addf %l, %r : f32
    graph.yield %t : f32
  }
  graph.return %s : !graph.tensor<[64, 2], f32>
}
