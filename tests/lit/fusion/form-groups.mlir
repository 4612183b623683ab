// RUN: tile-opt %s --split-input-file --graph-form-groups | FileCheck %s

// A row maximum and the pointwise use of it share one group.

// CHECK-LABEL: graph.func @row
// CHECK:         graph.fusion [i0 = 8, reduce r0 = 64]
// CHECK:           graph.loops [i0 = 8, reduce r0 = 64] at_axes ["i0", "r0"]
// CHECK:           graph.loops [i0 = 8, i1 = 64] at_axes ["i0", "r0"]
// CHECK-NOT:     graph.fusion
graph.func @row(%x: !graph.tensor<[8, 64], f32>) -> !graph.tensor<[8, 64], f32> attributes {symbols = []} {
  %m = graph.loops [i0 = 8, reduce r0 = 64] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %x ["i0", "r0"] : !graph.tensor<[8, 64], f32> -> f32
    graph.yield %v : f32
  } combine [0xFF800000 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.maximumf %l, %r : f32
    graph.yield %s : f32
  }
  %y = graph.loops [i0 = 8, i1 = 64] -> (!graph.tensor<[8, 64], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[8, 64], f32> -> f32
    %w = graph.load %m ["i0"] : !graph.tensor<[8], f32> -> f32
    %d = arith.subf %v, %w : f32
    graph.yield %d : f32
  }
  graph.return %y : !graph.tensor<[8, 64], f32>
}

// -----

// Differently shaped spaces meet digit by digit: [8, 64] against a reshaped and transposed [16, 32].

// CHECK-LABEL: graph.func @reshaped
// CHECK:         graph.fusion [i0 = 8, i1 = 2, i2 = 32]
// CHECK:           graph.loops [i0 = 8, i1 = 64] at_axes ["i0", "i1*32 + i2"]
// CHECK:           graph.loops [i0 = 32, i1 = 16] at_axes ["i2", "i0*2 + i1"]
// CHECK-NOT:     graph.fusion
graph.func @reshaped(%x: !graph.tensor<[8, 64], f32>) -> (!graph.tensor<[8, 64], f32>, !graph.tensor<[32, 16], f32>) attributes {symbols = []} {
  %a = graph.loops [i0 = 8, i1 = 64] -> (!graph.tensor<[8, 64], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[8, 64], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %b = graph.loops [i0 = 32, i1 = 16] -> (!graph.tensor<[32, 16], f32>) {
    %v = graph.load %a ["i1//2", "(i1 % 2)*32 + i0"] : !graph.tensor<[8, 64], f32> -> f32
    %n = arith.negf %v : f32
    graph.yield %n : f32
  }
  graph.return %a, %b : !graph.tensor<[8, 64], f32>, !graph.tensor<[32, 16], f32>
}

// -----

// Other points than those at which a value is made, other reduced axes, other extents: not in the group of %a. What only reads it meets in a group, each in its own
// way around.

// CHECK-LABEL: graph.func @apart
// CHECK:         %[[A:.*]]:2 = graph.fusion [i0 = 8, reduce r0 = 8]
// CHECK:           graph.loops [i0 = 8, i1 = 8] at_axes ["i0", "r0"]
// CHECK:           graph.loops [i0 = 8, reduce r0 = 8] at_axes ["i0", "r0"]
// CHECK:         graph.fusion [i0 = 8, reduce r0 = 8]
// CHECK-NEXT:      graph.loops [i0 = 8, i1 = 8] at_axes ["r0", "i0"]
// CHECK-NEXT:        graph.load %[[A]]#0 ["-i0 + 7", "i1"]
// CHECK:           graph.loops [i0 = 8, reduce r0 = 8] at_axes ["i0", "r0"]
// CHECK-NEXT:        graph.load %[[A]]#0 ["r0", "i0"]
// CHECK:         graph.fusion [i0 = 3]
graph.func @apart(%x: !graph.tensor<[8, 8], f32>)
    -> (!graph.tensor<[8, 8], f32>, !graph.tensor<[8, 8], f32>, !graph.tensor<[8], f32>, !graph.tensor<[8], f32>, !graph.tensor<[3], f32>)
    attributes {symbols = []} {
  %a = graph.loops [i0 = 8, i1 = 8] -> (!graph.tensor<[8, 8], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[8, 8], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %b = graph.loops [i0 = 8, i1 = 8] -> (!graph.tensor<[8, 8], f32>) {
    %v = graph.load %a ["7 - i0", "i1"] : !graph.tensor<[8, 8], f32> -> f32
    graph.yield %v : f32
  }
  %rows = graph.loops [i0 = 8, reduce r0 = 8] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %a ["i0", "r0"] : !graph.tensor<[8, 8], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  %columns = graph.loops [i0 = 8, reduce r0 = 8] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %a ["r0", "i0"] : !graph.tensor<[8, 8], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  %few = graph.loops [i0 = 3] -> (!graph.tensor<[3], f32>) {
    %v = graph.load %a ["i0", 0] : !graph.tensor<[8, 8], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a, %b, %rows, %columns, %few : !graph.tensor<[8, 8], f32>, !graph.tensor<[8, 8], f32>, !graph.tensor<[8], f32>, !graph.tensor<[8], f32>, !graph.tensor<[3], f32>
}

// -----

// A call between the two needs the one and is needed by the other.

// CHECK-LABEL: graph.func @call_between
// CHECK:         graph.fusion
// CHECK:         graph.extern
// CHECK:         graph.fusion
graph.func @call_between(%x: !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[8], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %s = graph.extern(%a) {op = "aten::sort", overload = "", args = [#graph.operand<0>]} : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  %b = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %a ["i0"] : !graph.tensor<[8], f32> -> f32
    %w = graph.load %s ["i0"] : !graph.tensor<[8], f32> -> f32
    %d = arith.addf %v, %w : f32
    graph.yield %d : f32
  }
  graph.return %b : !graph.tensor<[8], f32>
}

// -----

// No cycle through a group that was there before: %d joins %a, which makes the call depend on %b, so %e may not join %b.

// CHECK-LABEL: graph.func @cycle
// CHECK:         %[[B:.*]] = graph.fusion [i0 = 16]
// CHECK:         %[[AD:.*]]:2 = graph.fusion [i0 = 8]
// CHECK:         %[[S:.*]] = graph.extern(%[[AD]]#0)
// CHECK:         graph.fusion
// CHECK:           graph.load %[[S]]
// CHECK:         graph.return
graph.func @cycle(%x: !graph.tensor<[8], f32>, %y: !graph.tensor<[16], f32>)
    -> (!graph.tensor<[8], f32>, !graph.tensor<[16], f32>) attributes {symbols = []} {
  %a = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[8], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %s = graph.extern(%a) {op = "aten::sort", overload = "", args = [#graph.operand<0>]} : (!graph.tensor<[8], f32>) -> !graph.tensor<[16], f32>
  %b = graph.loops [i0 = 16] -> (!graph.tensor<[16], f32>) {
    %v = graph.load %y ["i0"] : !graph.tensor<[16], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %d = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %a ["i0"] : !graph.tensor<[8], f32> -> f32
    %w = graph.load %b ["3"] : !graph.tensor<[16], f32> -> f32
    %p = arith.addf %v, %w : f32
    graph.yield %p : f32
  }
  %e = graph.loops [i0 = 16] -> (!graph.tensor<[16], f32>) {
    %v = graph.load %b ["i0"] : !graph.tensor<[16], f32> -> f32
    %w = graph.load %s ["i0"] : !graph.tensor<[16], f32> -> f32
    %p = arith.addf %v, %w : f32
    graph.yield %p : f32
  }
  graph.return %d, %e : !graph.tensor<[8], f32>, !graph.tensor<[16], f32>
}

// -----

// Written in place: with the read of the same elements it shares a kernel ...

// CHECK-LABEL: graph.func @in_place
// CHECK:         graph.fusion [i0 = 8]
// CHECK:           graph.load %arg0
// CHECK:           graph.loops [i0 = 8] at_axes ["i0"] into(%arg0
// CHECK-NOT:     graph.fusion
graph.func @in_place(%x: !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[8], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %b = graph.loops [i0 = 8] into (%x : !graph.tensor<[8], f32>) at [0] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %a ["i0"] : !graph.tensor<[8], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[8], f32>
}

// -----

// ... with reads of other elements it does not: they come before, by an order of their own.

// CHECK-LABEL: graph.func @in_place_elsewhere
// CHECK:         graph.fusion
// CHECK:           graph.load %arg0 ["-i0 + 7"]
// CHECK:         graph.fusion
// CHECK:           into(%arg0
graph.func @in_place_elsewhere(%x: !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %x ["7 - i0"] : !graph.tensor<[8], f32> -> f32
    graph.yield %v : f32
  }
  %b = graph.loops [i0 = 8] into (%x : !graph.tensor<[8], f32>) at [0] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %a ["i0"] : !graph.tensor<[8], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[8], f32>
}

// -----

// A later stage would compute %a again from what is overwritten: the write stays outside.

// CHECK-LABEL: graph.func @in_place_stages
// CHECK:         graph.fusion [i0 = 8, reduce r0 = 64]
// CHECK-NOT:       into
// CHECK:         graph.fusion
// CHECK-NEXT:      graph.loops {{.*}} into(%arg0
graph.func @in_place_stages(%x: !graph.tensor<[8, 64], f32>) -> !graph.tensor<[8, 64], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 8, i1 = 64] -> (!graph.tensor<[8, 64], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[8, 64], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %s = graph.loops [i0 = 8, reduce r0 = 64] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %a ["i0", "r0"] : !graph.tensor<[8, 64], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %t = arith.addf %l, %r : f32
    graph.yield %t : f32
  }
  %n = graph.loops [i0 = 8, i1 = 64] -> (!graph.tensor<[8, 64], f32>) {
    %v = graph.load %a ["i0", "i1"] : !graph.tensor<[8, 64], f32> -> f32
    %w = graph.load %s ["i0"] : !graph.tensor<[8], f32> -> f32
    %d = arith.divf %v, %w : f32
    graph.yield %d : f32
  }
  %w = graph.loops [i0 = 8, i1 = 64] into (%x : !graph.tensor<[8, 64], f32>) at [0] -> (!graph.tensor<[8, 64], f32>) {
    %v = graph.load %a ["i0", "i1"] : !graph.tensor<[8, 64], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %n : !graph.tensor<[8, 64], f32>
}

// -----

// A size that a call returns exists only after the call, even where nothing else of it is used.

// CHECK-LABEL: graph.func @size_of_call
// CHECK:         graph.extern
// CHECK:         graph.fusion [i0 = "u0"]
graph.func @size_of_call(%x: !graph.tensor<[8], f32>) -> (!graph.tensor<["u0", 1], i64>, !graph.tensor<["u0"], f32>, !graph.tensor<[8], f32>)
    attributes {symbols = [#graph.symbol<"u0", min = 0, max = 8, hint = 4>]} {
  %a = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[8], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %n = graph.extern(%a) {op = "aten::nonzero", overload = "", args = [#graph.operand<0>]} : (!graph.tensor<[8], f32>) -> !graph.tensor<["u0", 1], i64>
  %z = graph.loops [i0 = "u0"] -> (!graph.tensor<["u0"], f32>) {
    %c = arith.constant 1.0 : f32
    graph.yield %c : f32
  }
  %b = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %a ["i0"] : !graph.tensor<[8], f32> -> f32
    %e = arith.negf %v : f32
    graph.yield %e : f32
  }
  graph.return %n, %z, %b : !graph.tensor<["u0", 1], i64>, !graph.tensor<["u0"], f32>, !graph.tensor<[8], f32>
}

// -----

// What two groups make and one op reads: all of it runs in the same loops, though the groups share no data before.

// CHECK-LABEL: graph.func @two_producers
// CHECK:         graph.fusion [i0 = 4096]
// CHECK-COUNT-3:   graph.loops
// CHECK-NOT:     graph.fusion
graph.func @two_producers(%x: !graph.tensor<[4096], f32>, %y: !graph.tensor<[4096], f32>) -> (!graph.tensor<[4096], f32>, !graph.tensor<[4096], f32>) attributes {symbols = []} {
  %a = graph.loops [i0 = 4096] -> (!graph.tensor<[4096], f32>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[4096], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %b = graph.loops [i0 = 4096] -> (!graph.tensor<[4096], f32>) {
    %v = graph.load %y ["i0"] : !graph.tensor<[4096], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %c = graph.loops [i0 = 4096] -> (!graph.tensor<[4096], f32>) {
    %v = graph.load %a ["i0"] : !graph.tensor<[4096], f32> -> f32
    %w = graph.load %b ["i0"] : !graph.tensor<[4096], f32> -> f32
    %s = arith.mulf %v, %w : f32
    graph.yield %s : f32
  }
  graph.return %b, %c : !graph.tensor<[4096], f32>, !graph.tensor<[4096], f32>
}

// -----

// Not where a call between them needs the one group and the other one needs the call.

// CHECK-LABEL: graph.func @call_between
// CHECK:         graph.fusion [i0 = 4096]
// CHECK:         graph.extern
// CHECK:         graph.fusion [i0 = 4096]
// CHECK-COUNT-2:   graph.loops
graph.func @call_between(%x: !graph.tensor<[4096], f32>) -> !graph.tensor<[4096], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 4096] -> (!graph.tensor<[4096], f32>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[4096], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %y = graph.extern(%a) {op = "aten::sort", overload = "", args = [#graph.operand<0>]} : (!graph.tensor<[4096], f32>) -> !graph.tensor<[4096], f32>
  %b = graph.loops [i0 = 4096] -> (!graph.tensor<[4096], f32>) {
    %v = graph.load %y ["i0"] : !graph.tensor<[4096], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %c = graph.loops [i0 = 4096] -> (!graph.tensor<[4096], f32>) {
    %v = graph.load %a ["i0"] : !graph.tensor<[4096], f32> -> f32
    %w = graph.load %b ["i0"] : !graph.tensor<[4096], f32> -> f32
    %s = arith.mulf %v, %w : f32
    graph.yield %s : f32
  }
  graph.return %c : !graph.tensor<[4096], f32>
}
