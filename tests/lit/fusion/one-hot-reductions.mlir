// RUN: tile-opt %s --split-input-file --graph-inline-producers | FileCheck %s

// The row sum of a gradient with one element: no loop over the row is left.

// CHECK-LABEL: graph.func @row_sum
// CHECK:         graph.loops [i0 = 16] -> (!graph.tensor<[16], f32>)
// CHECK-NOT:     reduce
// CHECK:           %[[T:.*]] = graph.load %arg0 ["i0"]
// CHECK:           %[[LOW:.*]] = arith.cmpi sge, %[[T]]
// CHECK:           %[[HIGH:.*]] = arith.cmpi slt, %[[T]]
// CHECK:           %[[IN:.*]] = arith.andi %[[LOW]], %[[HIGH]]
// CHECK:           %[[BOTH:.*]] = arith.andi %[[IN]], %{{.*}}
// CHECK:           arith.select %[[BOTH]]
// CHECK-NOT:     combine
graph.func @row_sum(%t: !graph.tensor<[16], i64>, %g: !graph.tensor<[16], f32>) -> !graph.tensor<[16], f32> attributes {symbols = []} {
  %s = graph.loops [i0 = 16, reduce r0 = 1000] -> (!graph.tensor<[16], f32>) {
    %target = graph.load %t ["i0"] : !graph.tensor<[16], i64> -> i64
    %class = graph.index_value "r0"
    %hit = arith.cmpi eq, %class, %target : i64
    %ignored = arith.constant -100 : i64
    %kept = arith.cmpi ne, %target, %ignored : i64
    %both = arith.andi %hit, %kept : i1
    %value = graph.load %g ["i0"] : !graph.tensor<[16], f32> -> f32
    %zero = arith.constant 0.0 : f32
    %element = arith.select %both, %value, %zero : f32
    graph.yield %element : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %a = arith.addf %l, %r : f32
    graph.yield %a : f32
  }
  graph.return %s : !graph.tensor<[16], f32>
}

// -----

// Rounding casts keep zero; another reduced axis stays.

// CHECK-LABEL: graph.func @one_of_two
// CHECK:         graph.loops [i0 = 4, reduce r1 = 8]
// CHECK:           arith.extf
// CHECK:         combine
graph.func @one_of_two(%t: !graph.tensor<[4], i64>, %g: !graph.tensor<[4, 8], bf16>) -> !graph.tensor<[4], f32> attributes {symbols = []} {
  %s = graph.loops [i0 = 4, reduce r0 = 9, reduce r1 = 8] -> (!graph.tensor<[4], f32>) {
    %target = graph.load %t ["i0"] : !graph.tensor<[4], i64> -> i64
    %class = graph.index_value "r0"
    %hit = arith.cmpi eq, %class, %target : i64
    %value = graph.load %g ["i0", "r1"] : !graph.tensor<[4, 8], bf16> -> bf16
    %zero = arith.constant 0.0 : bf16
    %element = arith.select %hit, %value, %zero : bf16
    %wide = arith.extf %element : bf16 to f32
    graph.yield %wide : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %a = arith.addf %l, %r : f32
    graph.yield %a : f32
  }
  graph.return %s : !graph.tensor<[4], f32>
}

// -----

// The value depends on the axis, the other value is not zero, the combiner is no sum: nothing changes.

// CHECK-LABEL: graph.func @kept
// CHECK-COUNT-3: reduce r0 = 1000
graph.func @kept(%t: !graph.tensor<[16], i64>, %g: !graph.tensor<[16, 1000], f32>) -> (!graph.tensor<[16], f32>, !graph.tensor<[16], f32>, !graph.tensor<[16], f32>) attributes {symbols = []} {
  %0 = graph.loops [i0 = 16, reduce r0 = 1000] -> (!graph.tensor<[16], f32>) {
    %target = graph.load %t ["i0"] : !graph.tensor<[16], i64> -> i64
    %class = graph.index_value "r0"
    %hit = arith.cmpi eq, %class, %target : i64
    %value = graph.load %g ["i0", "r0"] : !graph.tensor<[16, 1000], f32> -> f32
    %zero = arith.constant 0.0 : f32
    %element = arith.select %hit, %value, %zero : f32
    graph.yield %element : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %a = arith.addf %l, %r : f32
    graph.yield %a : f32
  }
  %1 = graph.loops [i0 = 16, reduce r0 = 1000] -> (!graph.tensor<[16], f32>) {
    %target = graph.load %t ["i0"] : !graph.tensor<[16], i64> -> i64
    %class = graph.index_value "r0"
    %hit = arith.cmpi eq, %class, %target : i64
    %two = arith.constant 2.0 : f32
    %one = arith.constant 1.0 : f32
    %element = arith.select %hit, %two, %one : f32
    graph.yield %element : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %a = arith.addf %l, %r : f32
    graph.yield %a : f32
  }
  %2 = graph.loops [i0 = 16, reduce r0 = 1000] -> (!graph.tensor<[16], f32>) {
    %target = graph.load %t ["i0"] : !graph.tensor<[16], i64> -> i64
    %class = graph.index_value "r0"
    %hit = arith.cmpi eq, %class, %target : i64
    %two = arith.constant 2.0 : f32
    %zero = arith.constant 0.0 : f32
    %element = arith.select %hit, %two, %zero : f32
    graph.yield %element : f32
  } combine [0xFF800000 : f32] {
  ^bb0(%l: f32, %r: f32):
    %a = arith.maximumf %l, %r : f32
    graph.yield %a : f32
  }
  graph.return %0, %1, %2 : !graph.tensor<[16], f32>, !graph.tensor<[16], f32>, !graph.tensor<[16], f32>
}
