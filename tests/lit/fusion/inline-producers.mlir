// RUN: tile-opt %s --split-input-file --graph-inline-producers | FileCheck %s

// One use: the producer's index expressions are those of the load, through a transposed and shifted read.

// CHECK-LABEL: graph.func @one_use
// CHECK:         graph.loops [i0 = 4, i1 = 8]
// CHECK-NEXT:      graph.load %arg0 ["i1", "i0 + 2"]
// CHECK-NEXT:      math.exp
// CHECK-NEXT:      arith.negf
// CHECK-NOT:     graph.loops
graph.func @one_use(%x: !graph.tensor<[8, 6], f32>) -> !graph.tensor<[4, 8], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 8, i1 = 6] -> (!graph.tensor<[8, 6], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[8, 6], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %b = graph.loops [i0 = 4, i1 = 8] -> (!graph.tensor<[4, 8], f32>) {
    %v = graph.load %a ["i1", "i0 + 2"] : !graph.tensor<[8, 6], f32> -> f32
    %n = arith.negf %v : f32
    graph.yield %n : f32
  }
  graph.return %b : !graph.tensor<[4, 8], f32>
}

// -----

// The masks of both loads hold together; where the outer one does not, the outer value counts.

// CHECK-LABEL: graph.func @masks
// CHECK:         graph.loops [i0 = 12]
// CHECK:           %[[OUTER:.*]] = arith.cmpi
// CHECK:           %[[INNER:.*]] = arith.cmpi
// CHECK:           %[[BOTH:.*]] = arith.andi %[[OUTER]], %[[INNER]]
// CHECK:           graph.load %arg0 ["i0 - 2"] mask %[[BOTH]]
// CHECK:           arith.select %[[OUTER]]
graph.func @masks(%x: !graph.tensor<[8], f32>) -> !graph.tensor<[12], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 10] -> (!graph.tensor<[10], f32>) {
    %i = graph.index_value "i0"
    %n = arith.constant 8 : i64
    %m = arith.cmpi slt, %i, %n : i64
    %z = arith.constant 1.0 : f32
    %v = graph.load %x ["i0"] mask %m other %z : f32 : !graph.tensor<[8], f32> -> f32
    graph.yield %v : f32
  }
  %b = graph.loops [i0 = 12] -> (!graph.tensor<[12], f32>) {
    %i = graph.index_value "i0"
    %n = arith.constant 2 : i64
    %m = arith.cmpi sge, %i, %n : i64
    %z = arith.constant 2.0 : f32
    %v = graph.load %a ["i0 - 2"] mask %m other %z : f32 : !graph.tensor<[10], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %b : !graph.tensor<[12], f32>
}

// -----

// Scalars of both loads are numbered anew.

// CHECK-LABEL: graph.func @gathers
// CHECK:         %[[I:.*]] = graph.load %arg1 ["i0"]
// CHECK:         %[[J:.*]] = graph.load %arg1 ["x0"](%[[I]])
// CHECK:         graph.load %arg0 ["x0", "i1"](%[[J]])
graph.func @gathers(%x: !graph.tensor<[8, 4], f32>, %i: !graph.tensor<[8], i64>) -> !graph.tensor<[8, 4], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 8, i1 = 4] -> (!graph.tensor<[8, 4], f32>) {
    %j = graph.load %i ["i0"] : !graph.tensor<[8], i64> -> i64
    %v = graph.load %x ["x0", "i1"] (%j) : !graph.tensor<[8, 4], f32> -> f32
    graph.yield %v : f32
  }
  %b = graph.loops [i0 = 8, i1 = 4] -> (!graph.tensor<[8, 4], f32>) {
    %j = graph.load %i ["i0"] : !graph.tensor<[8], i64> -> i64
    %v = graph.load %a ["x0", "i1"] (%j) : !graph.tensor<[8, 4], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %b : !graph.tensor<[8, 4], f32>
}

// -----

// A reduction over one point is pointwise and inlined like any other.

// CHECK-LABEL: graph.func @unit_reduction
// CHECK:         graph.loops [i0 = 8]
// CHECK-NEXT:      graph.load %arg0 ["i0", 0]
// CHECK-NOT:     combine
// CHECK-NOT:     graph.loops
graph.func @unit_reduction(%x: !graph.tensor<[8, 1], f32>) -> !graph.tensor<[8], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 8, reduce r0 = 1] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %x ["i0", "r0"] : !graph.tensor<[8, 1], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  %b = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %a ["i0"] : !graph.tensor<[8], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  graph.return %b : !graph.tensor<[8], f32>
}

// -----

// Kept: what is returned, and what a larger consumer would compute many times over.

// CHECK-LABEL: graph.func @kept
// CHECK:         %[[A:.*]] = graph.loops [i0 = 8]
// CHECK:         %[[B:.*]] = graph.loops [i0 = 8]
// CHECK:         graph.loops [i0 = 64, i1 = 8]
// CHECK:           graph.load %[[B]]
// CHECK:         graph.return %[[A]]
graph.func @kept(%x: !graph.tensor<[8], f32>) -> (!graph.tensor<[8], f32>, !graph.tensor<[64, 8], f32>) attributes {symbols = []} {
  %a = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[8], f32> -> f32
    %n = arith.negf %v : f32
    graph.yield %n : f32
  }
  %b = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %a ["i0"] : !graph.tensor<[8], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %c = graph.loops [i0 = 64, i1 = 8] -> (!graph.tensor<[64, 8], f32>) {
    %v = graph.load %b ["i1"] : !graph.tensor<[8], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a, %c : !graph.tensor<[8], f32>, !graph.tensor<[64, 8], f32>
}

// -----

// Kept: what it reads is overwritten before its use, by loops or by a call, also through an alias and a chain of producers. At the write itself other elements may be
// overwritten already.

// CHECK-LABEL: graph.func @overwritten
// CHECK:         %[[A:.*]] = graph.loops [i0 = 8]
// CHECK:           graph.load %arg0
// CHECK:         graph.loops [i0 = 8] into(%arg0
// CHECK-NEXT:      graph.load %[[A]]
// CHECK:         graph.loops [i0 = 8] into(%arg1
// CHECK-NEXT:      graph.load %[[A]]
graph.func @overwritten(%x: !graph.tensor<[8], f32>, %y: !graph.tensor<[8], f32>) attributes {symbols = []} {
  %a = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[8], f32> -> f32
    graph.yield %v : f32
  }
  %b = graph.loops [i0 = 8] into (%x : !graph.tensor<[8], f32>) at [0] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %a ["7 - i0"] : !graph.tensor<[8], f32> -> f32
    graph.yield %v : f32
  }
  %c = graph.loops [i0 = 8] into (%y : !graph.tensor<[8], f32>) at [0] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %a ["i0"] : !graph.tensor<[8], f32> -> f32
    graph.yield %v : f32
  }
  graph.return
}

// -----

// CHECK-LABEL: graph.func @overwritten_by_call
// CHECK:         %[[ALIAS:.*]] = graph.alias
// CHECK:         %[[A:.*]] = graph.loops [i0 = 4]
// CHECK:           graph.load %[[ALIAS]]
// CHECK:           math.exp
// CHECK:           arith.negf
// CHECK:         graph.extern
// CHECK:         graph.loops [i0 = 4]
// CHECK-NEXT:      graph.load %[[A]]
graph.func @overwritten_by_call(%x: !graph.tensor<[8], f32>) -> !graph.tensor<[4], f32> attributes {symbols = []} {
  %s = graph.alias %x {offset = #graph.expr<"4">} : !graph.tensor<[8], f32> -> !graph.tensor<[4], f32>
  %a = graph.loops [i0 = 4] -> (!graph.tensor<[4], f32>) {
    %v = graph.load %s ["i0"] : !graph.tensor<[4], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %b = graph.loops [i0 = 4] -> (!graph.tensor<[4], f32>) {
    %v = graph.load %a ["i0"] : !graph.tensor<[4], f32> -> f32
    %n = arith.negf %v : f32
    graph.yield %n : f32
  }
  graph.extern(%x) {op = "aten::zero_", overload = "", args = [#graph.operand<0>], mutates = array<i64: 0>} : (!graph.tensor<[8], f32>) -> ()
  %c = graph.loops [i0 = 4] -> (!graph.tensor<[4], f32>) {
    %v = graph.load %b ["i0"] : !graph.tensor<[4], f32> -> f32
    %n = arith.negf %v : f32
    graph.yield %n : f32
  }
  graph.return %c : !graph.tensor<[4], f32>
}

// -----

// Two uses of six operations: recomputed where it reads half the bytes of the result (16-bit elements for 32-bit ones; the
// row's mean is read from the cache), kept where it reads as many.

// CHECK-LABEL: graph.func @half_the_bytes
// CHECK-COUNT-2: graph.loops
// CHECK-NOT:     graph.loops
// CHECK-LABEL: graph.func @as_many_bytes
// CHECK-COUNT-3: graph.loops
graph.func @half_the_bytes(%x: !graph.tensor<[64, 1024], bf16>, %m: !graph.tensor<[64, 1], f32>) -> (!graph.tensor<[64, 1024], f32>, !graph.tensor<[64, 1024], f32>) attributes {symbols = []} {
  %a = graph.loops [i0 = 64, i1 = 1024] -> (!graph.tensor<[64, 1024], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[64, 1024], bf16> -> bf16
    %c = graph.load %m ["i0", 0] : !graph.tensor<[64, 1], f32> -> f32
    %w = arith.extf %v : bf16 to f32
    %s = arith.subf %w, %c : f32
    %q = arith.mulf %s, %s : f32
    %t = arith.addf %q, %c : f32
    %u = arith.mulf %t, %s : f32
    %z = arith.negf %u : f32
    graph.yield %z : f32
  }
  %b = graph.loops [i0 = 64, i1 = 1024] -> (!graph.tensor<[64, 1024], f32>) {
    %v = graph.load %a ["i0", "i1"] : !graph.tensor<[64, 1024], f32> -> f32
    %n = math.exp %v : f32
    graph.yield %n : f32
  }
  %c = graph.loops [i0 = 64, i1 = 1024] -> (!graph.tensor<[64, 1024], f32>) {
    %v = graph.load %a ["i0", "i1"] : !graph.tensor<[64, 1024], f32> -> f32
    %n = math.tanh %v : f32
    graph.yield %n : f32
  }
  graph.return %b, %c : !graph.tensor<[64, 1024], f32>, !graph.tensor<[64, 1024], f32>
}

graph.func @as_many_bytes(%x: !graph.tensor<[64, 1024], f32>, %m: !graph.tensor<[64, 1], f32>) -> (!graph.tensor<[64, 1024], f32>, !graph.tensor<[64, 1024], f32>) attributes {symbols = []} {
  %a = graph.loops [i0 = 64, i1 = 1024] -> (!graph.tensor<[64, 1024], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[64, 1024], f32> -> f32
    %c = graph.load %m ["i0", 0] : !graph.tensor<[64, 1], f32> -> f32
    %k = arith.mulf %v, %v : f32
    %s = arith.subf %k, %c : f32
    %q = arith.mulf %s, %s : f32
    %t = arith.addf %q, %c : f32
    %u = arith.mulf %t, %s : f32
    %z = arith.negf %u : f32
    graph.yield %z : f32
  }
  %b = graph.loops [i0 = 64, i1 = 1024] -> (!graph.tensor<[64, 1024], f32>) {
    %v = graph.load %a ["i0", "i1"] : !graph.tensor<[64, 1024], f32> -> f32
    %n = math.exp %v : f32
    graph.yield %n : f32
  }
  %c = graph.loops [i0 = 64, i1 = 1024] -> (!graph.tensor<[64, 1024], f32>) {
    %v = graph.load %a ["i0", "i1"] : !graph.tensor<[64, 1024], f32> -> f32
    %n = math.tanh %v : f32
    graph.yield %n : f32
  }
  graph.return %b, %c : !graph.tensor<[64, 1024], f32>, !graph.tensor<[64, 1024], f32>
}

// -----

// Padding that few taps read is a mask of those that may reach into it; the others have none.

// CHECK-LABEL: graph.func @taps
// CHECK-NEXT:    graph.loops [i0 = 64]
// CHECK:           %[[M:.*]] = arith.cmpi sge
// CHECK:           graph.load %arg0 ["i0 - 1"] mask %[[M]]
// CHECK:           graph.load %arg0 ["i0"] : !graph.tensor<[64], f32>
// CHECK-NOT:     graph.loops
graph.func @taps(%x: !graph.tensor<[64], f32>) -> !graph.tensor<[64], f32> attributes {symbols = []} {
  %p = graph.loops [i0 = 65] -> (!graph.tensor<[65], f32>) {
    %i = graph.index_value "i0 - 1"
    %n = arith.constant 0 : i64
    %m = arith.cmpi sge, %i, %n : i64
    %z = arith.constant 0.0 : f32
    %v = graph.load %x ["i0 - 1"] mask %m other %z : f32 : !graph.tensor<[64], f32> -> f32
    graph.yield %v : f32
  }
  %a = graph.loops [i0 = 64] -> (!graph.tensor<[64], f32>) {
    %v = graph.load %p ["i0"] : !graph.tensor<[65], f32> -> f32
    %w = graph.load %p ["i0 + 1"] : !graph.tensor<[65], f32> -> f32
    %s = arith.addf %v, %w : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[64], f32>
}

// -----

// What two operands of one interleaved stack share is computed in its kernel, where it is there for both.

// CHECK-LABEL: graph.func @stacked(
// CHECK-NEXT:    graph.loops [i0 = 100000, i1 = 2]
// CHECK-NOT:     graph.loops
// CHECK:         graph.return
graph.func @stacked(%x: !graph.tensor<[100000], f32>, %y: !graph.tensor<[100000], f32>) -> !graph.tensor<[100000, 2], f32> {
  %ratio = graph.loops [i0 = 100000] -> (!graph.tensor<[100000], f32>) {
    %a = graph.load %x ["i0"] : !graph.tensor<[100000], f32> -> f32
    %b = graph.load %y ["i0"] : !graph.tensor<[100000], f32> -> f32
    %q = arith.divf %a, %b : f32
    %e = math.exp %q : f32
    %s = math.sqrt %e : f32
    graph.yield %s : f32
  }
  %real = graph.loops [i0 = 100000] -> (!graph.tensor<[100000], f32>) {
    %r = graph.load %ratio ["i0"] : !graph.tensor<[100000], f32> -> f32
    %a = graph.load %x ["i0"] : !graph.tensor<[100000], f32> -> f32
    %p = arith.mulf %r, %a : f32
    graph.yield %p : f32
  }
  %imag = graph.loops [i0 = 100000] -> (!graph.tensor<[100000], f32>) {
    %r = graph.load %ratio ["i0"] : !graph.tensor<[100000], f32> -> f32
    %b = graph.load %y ["i0"] : !graph.tensor<[100000], f32> -> f32
    %p = arith.mulf %r, %b : f32
    graph.yield %p : f32
  }
  %stack = graph.loops [i0 = 100000, i1 = 2] -> (!graph.tensor<[100000, 2], f32>) attributes {graph.concatenated_dim = 1 : i64, graph.part_starts = [#graph.expr<0>, #graph.expr<1>]} {
    %zero = arith.constant 0.0 : f32
    %i = graph.index_value "i1"
    %one = arith.constant 1 : i64
    %first = arith.cmpi slt, %i, %one : i64
    %r = graph.load %real ["i0"] mask %first other %zero : f32 : !graph.tensor<[100000], f32> -> f32
    %true = arith.constant true
    %second = arith.xori %first, %true : i1
    %s = graph.load %imag ["i0"] mask %second other %zero : f32 : !graph.tensor<[100000], f32> -> f32
    %v = arith.select %second, %s, %r : f32
    graph.yield %v : f32
  }
  graph.return %stack : !graph.tensor<[100000, 2], f32>
}
