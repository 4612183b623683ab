// Marked roundings go where no memory lies between; unmarked ones, and those of what is stored, stay.
// RUN: tile-opt %s --split-input-file --graph-inline-producers --graph-form-groups --graph-elide-roundings | FileCheck %s

// Within a body.

// CHECK-LABEL: graph.func @inlined
// CHECK:         %[[SUM:.*]] = arith.addf
// CHECK-NEXT:    %[[EXP:.*]] = math.exp %[[SUM]]
// CHECK-NEXT:    arith.truncf %[[EXP]]
graph.func @inlined(%x: !graph.tensor<[4096], bf16>) -> (!graph.tensor<[4096], bf16>) {
  %0 = graph.loops [i0 = 4096] -> (!graph.tensor<[4096], bf16>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[4096], bf16> -> bf16
    %w = arith.extf %v : bf16 to f32
    %s = arith.addf %w, %w : f32
    %r = arith.truncf %s {graph.elidable_rounding} : f32 to bf16
    graph.yield %r : bf16
  }
  %1 = graph.loops [i0 = 4096] -> (!graph.tensor<[4096], bf16>) {
    %v = graph.load %0 ["i0"] : !graph.tensor<[4096], bf16> -> bf16
    %w = arith.extf %v : bf16 to f32
    %s = math.exp %w : f32
    %r = arith.truncf %s : f32 to bf16
    graph.yield %r : bf16
  }
  graph.return %1 : !graph.tensor<[4096], bf16>
}

// -----

// CHECK-LABEL: graph.func @unmarked
// CHECK:         %[[SUM:.*]] = arith.addf
// CHECK-NEXT:    %[[ROUNDED:.*]] = arith.truncf %[[SUM]]
// CHECK-NEXT:    %[[WIDE:.*]] = arith.extf %[[ROUNDED]]
// CHECK-NEXT:    math.exp %[[WIDE]]
graph.func @unmarked(%x: !graph.tensor<[4096], bf16>) -> (!graph.tensor<[4096], f32>) {
  %0 = graph.loops [i0 = 4096] -> (!graph.tensor<[4096], bf16>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[4096], bf16> -> bf16
    %w = arith.extf %v : bf16 to f32
    %s = arith.addf %w, %w : f32
    %r = arith.truncf %s : f32 to bf16
    graph.yield %r : bf16
  }
  %1 = graph.loops [i0 = 4096] -> (!graph.tensor<[4096], f32>) {
    %v = graph.load %0 ["i0"] : !graph.tensor<[4096], bf16> -> bf16
    %w = arith.extf %v : bf16 to f32
    %s = math.exp %w : f32
    graph.yield %s : f32
  }
  graph.return %1 : !graph.tensor<[4096], f32>
}

// -----

// Padded: the choice is made in f32.

// CHECK-LABEL: graph.func @padded
// CHECK:         %[[SUM:.*]] = arith.addf
// CHECK-NOT:     arith.truncf
// CHECK:         %[[CHOICE:.*]] = arith.select %{{.*}}, %[[SUM]], %{{.*}} : f32
// CHECK:         math.exp %[[CHOICE]]
graph.func @padded(%x: !graph.tensor<[4096], bf16>) -> (!graph.tensor<[5000], f32>) {
  %0 = graph.loops [i0 = 4096] -> (!graph.tensor<[4096], bf16>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[4096], bf16> -> bf16
    %w = arith.extf %v : bf16 to f32
    %s = arith.addf %w, %w : f32
    %r = arith.truncf %s {graph.elidable_rounding} : f32 to bf16
    graph.yield %r : bf16
  }
  %1 = graph.loops [i0 = 5000] -> (!graph.tensor<[5000], f32>) {
    %i = graph.index_value "i0"
    %n = arith.constant 4096 : i64
    %m = arith.cmpi slt, %i, %n : i64
    %zero = arith.constant 0.0 : bf16
    %v = graph.load %0 ["i0"] mask %m other %zero : bf16 : !graph.tensor<[4096], bf16> -> bf16
    %w = arith.extf %v : bf16 to f32
    %s = math.exp %w : f32
    graph.yield %s : f32
  }
  graph.return %1 : !graph.tensor<[5000], f32>
}

// -----

// Between members of a group: a sum and what is relative to it read the exponential, which is f32 for both.

// CHECK-LABEL: graph.func @member
// CHECK:         graph.fusion
// CHECK:           graph.loops {{.*}} -> (!graph.tensor<[64, 4096], f32>)
// CHECK:             %[[TANH:.*]] = math.tanh
// CHECK-NEXT:        graph.yield %[[TANH]] : f32
// CHECK:             graph.load {{.*}} !graph.tensor<[64, 4096], f32> -> f32
// CHECK-NEXT:        graph.yield
graph.func @member(%x: !graph.tensor<[64, 4096], bf16>) -> !graph.tensor<[64, 4096], f32> {
  %0 = graph.loops [i0 = 64, i1 = 4096] -> (!graph.tensor<[64, 4096], bf16>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[64, 4096], bf16> -> bf16
    %w = arith.extf %v : bf16 to f32
    %e = math.exp %w : f32
    %t = math.tanh %e : f32
    %r = arith.truncf %t {graph.elidable_rounding} : f32 to bf16
    graph.yield %r : bf16
  }
  %1 = graph.loops [i0 = 64, reduce r0 = 4096] -> (!graph.tensor<[64], f32>) {
    %v = graph.load %0 ["i0", "r0"] : !graph.tensor<[64, 4096], bf16> -> bf16
    %w = arith.extf %v : bf16 to f32
    graph.yield %w : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  %2 = graph.loops [i0 = 64, i1 = 4096] -> (!graph.tensor<[64, 4096], f32>) {
    %v = graph.load %0 ["i0", "i1"] : !graph.tensor<[64, 4096], bf16> -> bf16
    %w = arith.extf %v : bf16 to f32
    %m = graph.load %1 ["i0"] : !graph.tensor<[64], f32> -> f32
    %d = arith.divf %w, %m : f32
    graph.yield %d : f32
  }
  graph.return %2 : !graph.tensor<[64, 4096], f32>
}

// -----

// What leaves the group is rounded for its members as well.

// CHECK-LABEL: graph.func @stored
// CHECK:         math.tanh
// CHECK-NEXT:    arith.truncf
// CHECK:         graph.load {{.*}} !graph.tensor<[64, 4096], bf16> -> bf16
// CHECK-NEXT:    arith.extf
graph.func @stored(%x: !graph.tensor<[64, 4096], bf16>) -> (!graph.tensor<[64, 4096], bf16>, !graph.tensor<[64], f32>) {
  %0 = graph.loops [i0 = 64, i1 = 4096] -> (!graph.tensor<[64, 4096], bf16>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[64, 4096], bf16> -> bf16
    %w = arith.extf %v : bf16 to f32
    %e = math.exp %w : f32
    %t = math.tanh %e : f32
    %r = arith.truncf %t {graph.elidable_rounding} : f32 to bf16
    graph.yield %r : bf16
  }
  %1 = graph.loops [i0 = 64, reduce r0 = 4096] -> (!graph.tensor<[64], f32>) {
    %v = graph.load %0 ["i0", "r0"] : !graph.tensor<[64, 4096], bf16> -> bf16
    %w = arith.extf %v : bf16 to f32
    graph.yield %w : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %0, %1 : !graph.tensor<[64, 4096], bf16>, !graph.tensor<[64], f32>
}
