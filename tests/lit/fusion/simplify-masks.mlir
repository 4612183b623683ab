// RUN: tile-opt %s --split-input-file --graph-simplify-masks | FileCheck %s
// What is computed of padded values: choices that only the same mask sees, and loads that need no mask.

// A difference of neighbours, padded at its end: the place itself lies within the tensor at all points.
// CHECK-LABEL: @flux
// CHECK: %[[MASK:.*]] = arith.cmpi slt
// CHECK-NOT: mask
// CHECK: %[[A:.*]] = graph.load %arg0 ["i0"] :
// CHECK: %[[B:.*]] = graph.load %arg0 ["i0 + 1"] mask %[[MASK]]
// CHECK-NEXT: %[[D:.*]] = arith.subf %[[B]], %[[A]]
// CHECK-NEXT: %[[Q:.*]] = arith.divf %[[D]], %[[A]]
// CHECK-NEXT: %[[R:.*]] = arith.select %[[MASK]], %[[Q]]
// CHECK-NEXT: graph.yield %[[R]]
graph.func @flux(%0: !graph.tensor<[64], f32>) -> !graph.tensor<[64], f32> attributes {symbols = []} {
  %1 = graph.loops [i0 = 64] -> (!graph.tensor<[64], f32>) {
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %i = graph.index_value "i0"
    %last = arith.constant 63 : i64
    %m = arith.cmpi slt, %i, %last : i64
    %a = graph.load %0 ["i0"] mask %m other %one : f32 : !graph.tensor<[64], f32> -> f32
    %b = graph.load %0 ["i0 + 1"] mask %m other %zero : f32 : !graph.tensor<[64], f32> -> f32
    %d = arith.subf %b, %a : f32
    %chosen = arith.select %m, %d, %zero : f32
    %q = arith.divf %chosen, %a : f32
    %r = arith.select %m, %q, %one : f32
    graph.yield %r : f32
  }
  graph.return %1 : !graph.tensor<[64], f32>
}

// -----

// Others see the choice; few points need the load; a division of integers must not see what the choice kept from it.
// CHECK-LABEL: @kept
// CHECK: graph.load %arg0 ["i0"] mask
// CHECK: arith.select
// CHECK: arith.addf
// CHECK: arith.select
// CHECK: arith.divsi
graph.func @kept(%0: !graph.tensor<[64], f32>, %1: !graph.tensor<[64], i32>) -> (!graph.tensor<[64], f32>, !graph.tensor<[64], i32>) attributes {symbols = []} {
  %2 = graph.loops [i0 = 64] -> (!graph.tensor<[64], f32>) {
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %i = graph.index_value "i0"
    %few = arith.constant 8 : i64
    %m = arith.cmpi slt, %i, %few : i64
    %a = graph.load %0 ["i0"] mask %m other %zero : f32 : !graph.tensor<[64], f32> -> f32
    %b = arith.mulf %a, %a : f32
    %chosen = arith.select %m, %b, %one : f32
    %r = arith.addf %chosen, %one : f32
    graph.yield %r : f32
  }
  %3 = graph.loops [i0 = 64] -> (!graph.tensor<[64], i32>) {
    %one = arith.constant 1 : i32
    %i = graph.index_value "i0"
    %most = arith.constant 60 : i64
    %m = arith.cmpi slt, %i, %most : i64
    %a = graph.load %1 ["i0"] : !graph.tensor<[64], i32> -> i32
    %chosen = arith.select %m, %a, %one : i32
    %q = arith.divsi %one, %chosen : i32
    %r = arith.select %m, %q, %one : i32
    graph.yield %r : i32
  }
  graph.return %2, %3 : !graph.tensor<[64], f32>, !graph.tensor<[64], i32>
}

// -----

// A choice under both of two masks implies each; a place that is read anyway needs no mask, however few points it has.
// CHECK-LABEL: @both
// CHECK-COUNT-1: arith.select
// CHECK-NOT: arith.select
// CHECK-NOT: mask
graph.func @both(%0: !graph.tensor<[64, 64], f32>) -> !graph.tensor<[64, 64], f32> attributes {symbols = []} {
  %1 = graph.loops [i0 = 64, i1 = 64] -> (!graph.tensor<[64, 64], f32>) {
    %zero = arith.constant 0.0 : f32
    %i = graph.index_value "i0"
    %j = graph.index_value "i1"
    %few = arith.constant 8 : i64
    %m = arith.cmpi slt, %i, %few : i64
    %n = arith.cmpi slt, %j, %few : i64
    %both = arith.andi %m, %n : i1
    %x = graph.load %0 ["i0", "i1"] : !graph.tensor<[64, 64], f32> -> f32
    %a = graph.load %0 ["i0", "i1"] mask %m other %zero : f32 : !graph.tensor<[64, 64], f32> -> f32
    %b = math.exp %a : f32
    %chosen = arith.select %m, %b, %zero : f32
    %c = arith.mulf %chosen, %x : f32
    %r = arith.select %both, %c, %x : f32
    graph.yield %r : f32
  }
  graph.return %1 : !graph.tensor<[64, 64], f32>
}
