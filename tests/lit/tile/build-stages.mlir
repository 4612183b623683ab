// RUN: tile-opt %s --split-input-file --graph-inline-producers --graph-split-reductions --graph-form-groups --graph-build-tile-kernels | FileCheck %s

// What costs more to compute again than to store and load is kept in scratch memory.

// CHECK-LABEL: graph.func @kept(
// CHECK:         graph.launch {{.*}} scratch 1536
// CHECK:         scf.for
// CHECK:           %[[E:.*]] = math.exp
// CHECK:           %[[P:.*]] = tile.scratch
// CHECK:           tile.store %[[E]], %[[P]]
// CHECK:           arith.addf
// CHECK:         %[[SUM:.*]] = tile.reduce
// CHECK:         %[[R:.*]] = math.rsqrt %[[SUM]] : f32
// CHECK:         scf.for
// CHECK-NOT:     math.exp
// CHECK:           tile.scratch
// CHECK:           tile.load
// CHECK:           tile.splat %[[R]]
// CHECK:           arith.mulf
// CHECK:           tile.store
// CHECK:         tile.return
graph.func @kept(%x: !graph.tensor<[64, 320], f32>) -> !graph.tensor<[64, 320], f32> attributes {symbols = []} {
  %y = graph.loops [i0 = 64, i1 = 320] -> (!graph.tensor<[64, 320], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[64, 320], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %s = graph.loops [i0 = 64, reduce r0 = 320] -> (!graph.tensor<[64], f32>) {
    %v = graph.load %y ["i0", "r0"] : !graph.tensor<[64, 320], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  %i = graph.loops [i0 = 64] -> (!graph.tensor<[64], f32>) {
    %v = graph.load %s ["i0"] : !graph.tensor<[64], f32> -> f32
    %e = math.rsqrt %v : f32
    graph.yield %e : f32
  }
  %o = graph.loops [i0 = 64, i1 = 320] -> (!graph.tensor<[64, 320], f32>) {
    %v = graph.load %y ["i0", "i1"] : !graph.tensor<[64, 320], f32> -> f32
    %w = graph.load %i ["i0"] : !graph.tensor<[64], f32> -> f32
    %p = arith.mulf %v, %w : f32
    graph.yield %p : f32
  }
  graph.return %o : !graph.tensor<[64, 320], f32>
}

// -----

// What is cheap is computed again.

// CHECK-LABEL: graph.func @again(
// CHECK:         graph.launch {{.*}} scratch 0
// CHECK:         scf.for
// CHECK:           math.absf
// CHECK:         %[[SUM:.*]] = tile.reduce
// CHECK:         %[[R:.*]] = math.rsqrt %[[SUM]] : f32
// CHECK:         scf.for
// CHECK:           math.absf
// CHECK:           tile.splat %[[R]]
// CHECK:           arith.mulf
// CHECK-NOT:     tile.scratch
// CHECK:         tile.return
graph.func @again(%x: !graph.tensor<[64, 320], f32>) -> !graph.tensor<[64, 320], f32> attributes {symbols = []} {
  %y = graph.loops [i0 = 64, i1 = 320] -> (!graph.tensor<[64, 320], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[64, 320], f32> -> f32
    %e = math.absf %v : f32
    graph.yield %e : f32
  }
  %s = graph.loops [i0 = 64, reduce r0 = 320] -> (!graph.tensor<[64], f32>) {
    %v = graph.load %y ["i0", "r0"] : !graph.tensor<[64, 320], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  %i = graph.loops [i0 = 64] -> (!graph.tensor<[64], f32>) {
    %v = graph.load %s ["i0"] : !graph.tensor<[64], f32> -> f32
    %e = math.rsqrt %v : f32
    graph.yield %e : f32
  }
  %o = graph.loops [i0 = 64, i1 = 320] -> (!graph.tensor<[64, 320], f32>) {
    %v = graph.load %y ["i0", "i1"] : !graph.tensor<[64, 320], f32> -> f32
    %w = graph.load %i ["i0"] : !graph.tensor<[64], f32> -> f32
    %p = arith.mulf %v, %w : f32
    graph.yield %p : f32
  }
  graph.return %o : !graph.tensor<[64, 320], f32>
}
