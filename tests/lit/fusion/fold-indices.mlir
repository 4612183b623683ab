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

// -----

// What the program clamps itself needs no check: through casts, sums of products, and values that other loops store.

// CHECK-LABEL: graph.func @clamped
// CHECK-NOT:     graph.check_index
// CHECK:         graph.return
graph.func @clamped(%x: !graph.tensor<[64], f32>, %i: !graph.tensor<[32], i32>, %j: !graph.tensor<[32], i64>) -> (!graph.tensor<[32], f32>, !graph.tensor<[32], i32>) attributes {symbols = []} {
  %row = graph.loops [i0 = 32] -> (!graph.tensor<[32], i32>) {
    %v = graph.load %i ["i0"] : !graph.tensor<[32], i32> -> i32
    %zero = arith.constant 0 : i32
    %last = arith.constant 7 : i32
    %a = arith.maxsi %v, %zero : i32
    %b = arith.minsi %a, %last : i32
    graph.yield %b : i32
  }
  %y = graph.loops [i0 = 32] -> (!graph.tensor<[32], f32>) {
    %r = graph.load %row ["i0"] : !graph.tensor<[32], i32> -> i32
    %wide = arith.extsi %r : i32 to i64
    %eight = arith.constant 8 : i64
    %first = arith.muli %wide, %eight : i64
    %c = graph.load %j ["i0"] : !graph.tensor<[32], i64> -> i64
    %seven = arith.constant 7 : i64
    %column = arith.andi %c, %seven : i64
    %at = arith.addi %first, %column : i64
    %k = graph.check_index %at in 64 wrap
    %v = graph.load %x ["x0"](%k) : !graph.tensor<[64], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %y, %row : !graph.tensor<[32], f32>, !graph.tensor<[32], i32>
}

// -----

// A bound that is the size itself, one side alone, and sums that may wrap.

// CHECK-LABEL: graph.func @not_clamped
// CHECK-COUNT-4: graph.check_index
// CHECK:         graph.return
graph.func @not_clamped(%x: !graph.tensor<[64], f32>, %j: !graph.tensor<[32], i64>) -> !graph.tensor<[32], f32> attributes {symbols = []} {
  %y = graph.loops [i0 = 32] -> (!graph.tensor<[32], f32>) {
    %v = graph.load %j ["i0"] : !graph.tensor<[32], i64> -> i64
    %zero = arith.constant 0 : i64
    %size = arith.constant 64 : i64
    %last = arith.constant 63 : i64
    %huge = arith.constant 9223372036854775807 : i64
    %up = arith.maxsi %v, %zero : i64
    %down = arith.minsi %v, %last : i64
    %both = arith.minsi %up, %size : i64
    %wrapping = arith.addi %both, %huge : i64
    %small = arith.minsi %wrapping, %last : i64
    %a = graph.check_index %up in 64 wrap
    %b = graph.check_index %down in 64 wrap
    %c = graph.check_index %both in 64 wrap
    %d = graph.check_index %small in 64 wrap
    %p = graph.load %x ["x0"](%a) : !graph.tensor<[64], f32> -> f32
    %q = graph.load %x ["x0"](%b) : !graph.tensor<[64], f32> -> f32
    %r = graph.load %x ["x0"](%c) : !graph.tensor<[64], f32> -> f32
    %s = graph.load %x ["x0"](%d) : !graph.tensor<[64], f32> -> f32
    %t = arith.addf %p, %q : f32
    %u = arith.addf %r, %s : f32
    %w = arith.addf %t, %u : f32
    graph.yield %w : f32
  }
  graph.return %y : !graph.tensor<[32], f32>
}

// -----

// A comparison of a row that a reshape counts divides nothing: i0 - 1 + (i0 + i1 + 1) // 127 is at least 0 where 127
// times of it is, and 5 - i1 // 3 is negative where i1 is at least 18.

// CHECK-LABEL: graph.func @rows
// CHECK-NOT:     //
// CHECK:         %[[A:.*]] = graph.index_value "-i0*128 - i1 + 125"
// CHECK:         arith.cmpi slt, %[[A]]
// CHECK:         %[[B:.*]] = graph.index_value "-i1 + 17"
// CHECK:         arith.cmpi slt, %[[B]]
// CHECK-NOT:     //
// CHECK:         graph.return
graph.func @rows(%x: !graph.tensor<[127, 127], f32>) -> !graph.tensor<[127, 127], f32> attributes {symbols = []} {
  %y = graph.loops [i0 = 127, i1 = 127] -> (!graph.tensor<[127, 127], f32>) {
    %i = graph.index_value "i0 - 1 + (i0 + i1 + 1)//127"
    %zero = arith.constant 0 : i64
    %m = arith.cmpi sge, %i, %zero : i64
    %j = graph.index_value "i1//3"
    %five = arith.constant 5 : i64
    %n = arith.cmpi sgt, %j, %five : i64
    %both = arith.andi %m, %n : i1
    %other = arith.constant 0.0 : f32
    %v = graph.load %x ["i0", "i1"] mask %both other %other : f32 : !graph.tensor<[127, 127], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %y : !graph.tensor<[127, 127], f32>
}
