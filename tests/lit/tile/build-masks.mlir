// RUN: tile-opt %s --split-input-file --graph-inline-producers --graph-split-reductions --graph-form-groups --graph-build-tile-kernels | FileCheck %s

// A mask over lanes side by side.

// CHECK-LABEL: graph.func @pad(
// CHECK:         %[[M:.*]] = arith.cmpi slt, {{.*}} : tensor<32xi64>
// CHECK:         %[[V:.*]] = tile.load {{.*}} strides [1] mask %[[M]]
// CHECK:         %[[Z:.*]] = tile.splat
// CHECK:         %[[S:.*]] = arith.select %[[M]], %[[V]], %[[Z]]
// CHECK:         tile.store %[[S]]
graph.func @pad(%x: !graph.tensor<[60], f32>) -> !graph.tensor<[64], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 64] -> (!graph.tensor<[64], f32>) {
    %i = graph.index_value "i0"
    %n = arith.constant 60 : i64
    %m = arith.cmpi slt, %i, %n : i64
    %z = arith.constant 1.0 : f32
    %v = graph.load %x ["i0"] mask %m other %z : f32 : !graph.tensor<[60], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[64], f32>
}

// -----

// One answer for all lanes: a branch.

// CHECK-LABEL: graph.func @rows(
// CHECK:         %[[M:.*]] = arith.cmpi slt, {{.*}} : i64
// CHECK:         scf.if %[[M]] -> (tensor<32xf32>)
// CHECK:           tile.load {{.*}} : !tile.ptr<f32> -> tensor<32xf32>
// CHECK:         else
// CHECK-NOT:     tile.load
// CHECK:           tile.splat
// CHECK:         tile.store
graph.func @rows(%x: !graph.tensor<[30, 64], f32>) -> !graph.tensor<[32, 64], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 32, i1 = 64] -> (!graph.tensor<[32, 64], f32>) {
    %i = graph.index_value "i0"
    %n = arith.constant 30 : i64
    %m = arith.cmpi slt, %i, %n : i64
    %z = arith.constant 1.0 : f32
    %v = graph.load %x ["i0", "i1"] mask %m other %z : f32 : !graph.tensor<[30, 64], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[32, 64], f32>
}

// -----

// A masked load of a value of the same kernel selects.

// CHECK-LABEL: graph.func @inside(
// CHECK:         %[[E:.*]] = math.exp
// CHECK:         %[[M:.*]] = tile.load {{.*}} -> tensor<64xi1>
// CHECK:         %[[Z:.*]] = tile.splat
// CHECK:         %[[S:.*]] = arith.select %[[M]], %[[E]], %[[Z]]
// CHECK:         tile.store %[[S]]
graph.func @inside(%x: !graph.tensor<[64], f32>, %b: !graph.tensor<[64], i1>) -> (!graph.tensor<[64], f32>, !graph.tensor<[64], f32>) attributes {symbols = []} {
  %a = graph.loops [i0 = 64] -> (!graph.tensor<[64], f32>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[64], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %c = graph.loops [i0 = 64] -> (!graph.tensor<[64], f32>) {
    %m = graph.load %b ["i0"] : !graph.tensor<[64], i1> -> i1
    %z = arith.constant 2.0 : f32
    %v = graph.load %a ["i0"] mask %m other %z : f32 : !graph.tensor<[64], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a, %c : !graph.tensor<[64], f32>, !graph.tensor<[64], f32>
}
