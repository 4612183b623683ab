// RUN: tile-opt %s --split-input-file --graph-inline-producers | FileCheck %s

// A table of indices that is a function of the axes is no table: the access has strides, and needs no check.

// CHECK-LABEL: graph.func @table
// CHECK-NEXT:    graph.loops [i0 = 8, i1 = 32]
// CHECK-NEXT:      graph.load %arg0 ["i0", "i1*2 + 1"]
// CHECK-NEXT:      graph.yield
graph.func @table(%x: !graph.tensor<[8, 64], f32>) -> !graph.tensor<[8, 32], f32> attributes {symbols = []} {
  %t = graph.loops [i0 = 32] -> (!graph.tensor<[32], i64>) {
    %i = graph.index_value "i0"
    %two = arith.constant 2 : i64
    %one = arith.constant 1 : i64
    %d = arith.muli %i, %two : i64
    %e = arith.addi %d, %one : i64
    graph.yield %e : i64
  }
  %a = graph.loops [i0 = 8, i1 = 32] -> (!graph.tensor<[8, 32], f32>) {
    %i = graph.load %t ["i1"] : !graph.tensor<[32], i64> -> i64
    %c = graph.check_index %i in 64 wrap
    %v = graph.load %x ["i0", "x0"](%c) : !graph.tensor<[8, 64], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[8, 32], f32>
}

// -----

// What may be out of range is checked; what depends on values stays a scalar.

// CHECK-LABEL: graph.func @checked
// CHECK:         %[[I:.*]] = graph.index_value "i1 + 40"
// CHECK:         %[[C:.*]] = graph.check_index %[[I]] in 64
// CHECK:         %[[J:.*]] = graph.load %arg1 ["i0"]
// CHECK:         %[[D:.*]] = graph.check_index %[[J]] in 8
// CHECK:         graph.load %arg0 ["x0", "x1"](%[[D]], %[[C]])
graph.func @checked(%x: !graph.tensor<[8, 64], f32>, %j: !graph.tensor<[8], i64>) -> !graph.tensor<[8, 32], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 8, i1 = 32] -> (!graph.tensor<[8, 32], f32>) {
    %i = graph.index_value "i1"
    %forty = arith.constant 40 : i64
    %s = arith.addi %i, %forty : i64
    %c = graph.check_index %s in 64 wrap
    %k = graph.load %j ["i0"] : !graph.tensor<[8], i64> -> i64
    %d = graph.check_index %k in 8 wrap
    %v = graph.load %x ["x0", "x1"](%d, %c) : !graph.tensor<[8, 64], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[8, 32], f32>
}

// -----

// Masks that are the same everywhere, and quotients of what is not negative.

// CHECK-LABEL: graph.func @known
// CHECK-NEXT:    graph.loops [i0 = 32]
// CHECK-NEXT:      graph.load %arg0 ["i0*4"]
// CHECK-NEXT:      graph.yield
graph.func @known(%x: !graph.tensor<[128], f32>) -> !graph.tensor<[32], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 32] -> (!graph.tensor<[32], f32>) {
    %i = graph.index_value "i0"
    %n = arith.constant 128 : i64
    %m = arith.constant 32 : i64
    %z = arith.constant 0 : i64
    %p = arith.muli %i, %n : i64
    %q = arith.divsi %p, %m : i64
    %r = arith.remsi %p, %m : i64
    %isNegative = arith.cmpi slt, %r, %z : i64
    %one = arith.constant 1 : i64
    %lower = arith.subi %q, %one : i64
    %f = arith.select %isNegative, %lower, %q : i64
    %v = graph.load %x ["x0"](%f) : !graph.tensor<[128], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[32], f32>
}

// -----

// Indices of reflected padding: magnitudes of what depends on the axes alone, which lie in range.

// CHECK-LABEL: graph.func @reflected
// CHECK-NEXT:    graph.loops [i0 = 8, i1 = 34]
// CHECK-NEXT:      graph.load %arg0 ["i0", "{{.*}}Max(
// CHECK-NOT:       graph.check_index
// CHECK:           graph.yield
graph.func @reflected(%x: !graph.tensor<[8, 32], f32>) -> !graph.tensor<[8, 34], f32> attributes {symbols = []} {
  %low = graph.loops [i0 = 34] -> (!graph.tensor<[34], i64>) {
    %i = graph.index_value "i0 - 1"
    %m = math.absi %i : i64
    graph.yield %m : i64
  }
  %high = graph.loops [i0 = 34] -> (!graph.tensor<[34], i64>) {
    %i = graph.load %low ["i0"] : !graph.tensor<[34], i64> -> i64
    %last = arith.constant 31 : i64
    %d = arith.subi %last, %i : i64
    %m = math.absi %d : i64
    %e = arith.subi %last, %m : i64
    graph.yield %e : i64
  }
  %a = graph.loops [i0 = 8, i1 = 34] -> (!graph.tensor<[8, 34], f32>) {
    %i = graph.load %high ["i1"] : !graph.tensor<[34], i64> -> i64
    %c = graph.check_index %i in 32 wrap
    %v = graph.load %x ["i0", "x0"](%c) : !graph.tensor<[8, 32], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[8, 34], f32>
}
