// RUN: tile-opt %s --split-input-file --graph-inline-producers --graph-split-reductions --graph-form-groups --graph-build-tile-kernels | FileCheck %s

// Each lane is a result: no fold across lanes. The last tile is moved back to be whole, so there are no masks; a program
// has one tile, which is no loop.

// CHECK-LABEL: graph.func @sum(
// CHECK:         vector axis i0 lanes 64
// CHECK:         arith.minsi %{{.*}}, %c100_i64
// CHECK:         %[[FIRST:.*]] = arith.minsi
// CHECK:         %[[ZERO:.*]] = tile.splat
// CHECK:         %[[SUM:.*]] = scf.for {{.*}} step %c16_i64 iter_args(%[[ALL:.*]] = %[[ZERO]])
// CHECK:           %[[BLOCK:.*]] = scf.for {{.*}} iter_args(%[[ACC:.*]] = %[[ZERO]])
// CHECK:             %[[V:.*]] = tile.load {{.*}} strides [1] : !tile.ptr<f32> -> tensor<64xf32>
// CHECK:             %[[NEXT:.*]] = arith.addf %[[ACC]], %[[V]]
// CHECK:             scf.yield %[[NEXT]]
// CHECK:           arith.addf %[[ALL]], %[[BLOCK]]
// CHECK:         tile.store %[[SUM]], %arg1[%[[FIRST]]] strides [1] : tensor<64xf32>
// CHECK-NEXT:    tile.return
graph.func @sum(%x: !graph.tensor<[64, 100], f32>) -> !graph.tensor<[100], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 100, reduce r0 = 64] -> (!graph.tensor<[100], f32>) {
    %v = graph.load %x ["r0", "i0"] : !graph.tensor<[64, 100], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[100], f32>
}

// -----

// Results are stored once for 1024 points that are read: lanes lie along what is read, though results are 2 apart.

// CHECK-LABEL: graph.func @columns_of_two(
// CHECK:         tile.kernel @kernel({{.*}} vector axis i1 lanes
// CHECK:         tile.load %arg0{{.*}} strides [1]
graph.func @columns_of_two(%x: !graph.tensor<[1024, 771, 2], f32, [771, 1, 789504]>) -> !graph.tensor<[771, 2], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 771, i1 = 2, reduce r0 = 1024] -> (!graph.tensor<[771, 2], f32>) {
    %v = graph.load %x ["r0", "i0", "i1"] : !graph.tensor<[1024, 771, 2], f32, [771, 1, 789504]> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[771, 2], f32>
}

// -----

// Two loads of one walk bring the data once, so the order of what is written decides.

// CHECK-LABEL: graph.func @one_walk(
// CHECK:         axes [i0 = 512, i1 = 767, i2 = 5]
graph.func @one_walk(%x: !graph.tensor<[512, 768, 5], f32, [5, 2560, 1]>) -> !graph.tensor<[512, 767, 5], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 512, i1 = 767, i2 = 5] -> (!graph.tensor<[512, 767, 5], f32>) {
    %v = graph.load %x ["i0", "i1", "i2"] : !graph.tensor<[512, 768, 5], f32, [5, 2560, 1]> -> f32
    %w = graph.load %x ["i0", "i1 + 1", "i2"] : !graph.tensor<[512, 768, 5], f32, [5, 2560, 1]> -> f32
    %s = arith.addf %v, %w : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[512, 767, 5], f32>
}

// -----

// Long columns: a few rows at a time, all tiles of the block from each. Sums of rows are joined in scratch memory, at several
// levels where there are many; the last tile has a place of its own there, which may be moved back.

// CHECK-LABEL: graph.func @streamed(
// CHECK:         vector axis i0 lanes 64 streamed rows 8 block 1216
// CHECK:         scf.for {{.*}} step %c64_i64
// CHECK:           tile.store %{{.*}}, %{{.*}} strides [1] : tensor<64xf32>
// CHECK:         scf.for %[[MANY:.*]] = %c0_i64 to %c200_i64 step %c128_i64
// CHECK:           %[[END:.*]] = arith.minsi
// CHECK:           scf.for %[[FEW:.*]] = %[[MANY]] to %[[END]] step %c8_i64
// CHECK:             %[[LAST:.*]] = arith.minsi
// CHECK:             scf.for %[[LANE:.*]] = %{{.*}} to %{{.*}} step %c64_i64
// CHECK:               %[[SUM:.*]] = scf.for %{{.*}} = %[[FEW]] to %[[LAST]] step %c1_i64
// CHECK:                 tile.load %arg0
// CHECK:               %[[PLACE:.*]] = arith.andi %{{.*}}, %c-64_i64
// CHECK:               %[[BEFORE:.*]] = tile.load %{{.*}}[%[[PLACE]]]
// CHECK:               %[[AFTER:.*]] = arith.addf %[[BEFORE]], %[[SUM]]
// CHECK:               tile.store %[[AFTER]], %{{.*}}[%[[PLACE]]]
// CHECK:         tile.store %{{.*}}, %arg1
graph.func @streamed(%x: !graph.tensor<[200, 19400], f32>) -> !graph.tensor<[19400], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 19400, reduce r0 = 200] -> (!graph.tensor<[19400], f32>) {
    %v = graph.load %x ["r0", "i0"] : !graph.tensor<[200, 19400], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[19400], f32>
}
