// graph-lower-to-loops: writes at positions that tensors name, and scans.
// RUN: tile-opt %s --graph-lower-to-loops --split-input-file | FileCheck %s
// RUN: tile-opt %s --graph-lower-to-loops=ordered-writes=false --split-input-file | FileCheck %s --check-prefix=FREE

// The indices run in order, the other dimensions are parallel; the destination is a new buffer. Skipped points are masked.
// CHECK-LABEL: @embedding_backward
// CHECK: %[[DEST:.*]] = graph.loops [i0 = 1000, i1 = 64] -> (!graph.tensor<[1000, 64], f32>) {
// CHECK-NEXT: %[[ZERO:.*]] = arith.constant 0.0
// CHECK-NEXT: graph.yield %[[ZERO]]
// CHECK: graph.loops [i0 = 64, reduce r0 = "s0"] into(%[[DEST]] : !graph.tensor<[1000, 64], f32>) at [0] -> (!graph.tensor<[1000, 64], f32>) {
// CHECK: %[[I:.*]] = graph.load %{{.*}} ["r0"]
// CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %[[I]]
// CHECK: %[[WANTED:.*]] = arith.cmpi ne, %[[I]]
// CHECK: %[[MASK:.*]] = arith.andi %[[INSIDE]], %[[WANTED]]
// CHECK: graph.write_at ["x0", "i0"](%[[I]]) mask %[[MASK]]
// CHECK: %[[V:.*]] = graph.load %{{.*}} ["r0", "i0"]
// CHECK: graph.yield %[[V]]
// CHECK: } combine [] {
// CHECK: ^bb0(%[[HELD:.*]]: f32, %[[NEW:.*]]: f32):
// CHECK: arith.addf %[[HELD]], %[[NEW]]
graph.func @embedding_backward(%g: !graph.tensor<["s0", 64], f32>, %i: !graph.tensor<["s0"], i64>) -> !graph.tensor<[1000, 64], f32>
    attributes {symbols = [#graph.symbol<"s0", min = 2, max = 1000000, hint = 32>]} {
  %z = graph.full {value = 0.0 : f64} : () -> !graph.tensor<[1000, 64], f32>
  %0 = graph.index_put %z, %g, %i {dims = array<i64: 0>, combine = "add", skip = 3 : i64}
    : (!graph.tensor<[1000, 64], f32>, !graph.tensor<["s0", 64], f32>, !graph.tensor<["s0"], i64>) -> !graph.tensor<[1000, 64], f32>
  graph.return %0 : !graph.tensor<[1000, 64], f32>
}

// -----

// Index tensors that broadcast, apart from each other: their dimensions come first in the values. Without a combiner the last value stays.
// Where writes have no order, all points are parallel.
// Sums have no order either: each point is an atomic update.
// FREE-LABEL: @embedding_backward
// FREE: graph.loops [i0 = "s0", i1 = 64] into
// FREE: graph.write_at ["x0", "i1"]
// FREE: combine []
// FREE-LABEL: @index_put_apart
// FREE: graph.loops [i0 = 4, i1 = 2, i2 = 3] into
// FREE: %[[A:.*]] = graph.load %{{.*}} ["i0", 0]
// FREE: %[[I:.*]] = graph.check_index %[[A]] in 9 wrap
// FREE: %[[B:.*]] = graph.load %{{.*}} ["i1"]
// FREE: %[[J:.*]] = graph.check_index %[[B]] in 5 wrap
// FREE: graph.write_at ["x0", "i2", "x1"](%[[I]], %[[J]])
// FREE: graph.load %{{.*}} ["i0", "i1", "i2"]
// CHECK-LABEL: @index_put_apart
// CHECK: graph.loops [i0 = 3, reduce r0 = 4, reduce r1 = 2] into
// CHECK: %[[A:.*]] = graph.load %{{.*}} ["r0", 0]
// CHECK: %[[I:.*]] = graph.check_index %[[A]] in 9 wrap
// CHECK: %[[B:.*]] = graph.load %{{.*}} ["r1"]
// CHECK: %[[J:.*]] = graph.check_index %[[B]] in 5 wrap
// CHECK: graph.write_at ["x0", "i0", "x1"](%[[I]], %[[J]])
// CHECK: graph.load %{{.*}} ["r0", "r1", "i0"]
// CHECK-NOT: combine
graph.func @index_put_apart(%x: !graph.tensor<[9, 3, 5], i32>, %i: !graph.tensor<[4, 1], i64>, %j: !graph.tensor<[2], i64>, %v: !graph.tensor<[4, 2, 3], i32>)
    -> !graph.tensor<[9, 3, 5], i32> attributes {symbols = []} {
  %0 = graph.index_put %x, %v, %i, %j {dims = array<i64: 0, 2>, wrap}
    : (!graph.tensor<[9, 3, 5], i32>, !graph.tensor<[4, 2, 3], i32>, !graph.tensor<[4, 1], i64>, !graph.tensor<[2], i64>) -> !graph.tensor<[9, 3, 5], i32>
  graph.return %0 : !graph.tensor<[9, 3, 5], i32>
}

// -----

// Only the dimension of the index runs in order; bf16 rounds after each value.
// CHECK-LABEL: @scatter
// CHECK: graph.loops [i0 = 6, reduce r0 = 77] into
// CHECK: graph.write_at ["i0", "x0"]
// CHECK: } combine [] {
// CHECK: arith.extf
// CHECK: arith.maximumf
// CHECK: arith.truncf
graph.func @scatter(%x: !graph.tensor<[6, 9], bf16>, %i: !graph.tensor<[6, 77], i64>, %v: !graph.tensor<[6, 80], bf16>) -> !graph.tensor<[6, 9], bf16>
    attributes {symbols = []} {
  %0 = graph.scatter %x, %i, %v {dim = 1 : i64, combine = "max"}
    : (!graph.tensor<[6, 9], bf16>, !graph.tensor<[6, 77], i64>, !graph.tensor<[6, 80], bf16>) -> !graph.tensor<[6, 9], bf16>
  graph.return %0 : !graph.tensor<[6, 9], bf16>
}

// -----

// f32 accumulates in f64 and rounds where it is written.
// CHECK-LABEL: @cumsum
// CHECK: graph.loops [i0 = 3, i1 = 5, reduce r0 = "s0"] -> (!graph.tensor<[3, "s0", 5], f32>) {
// CHECK: %[[V:.*]] = graph.load %{{.*}} ["i0", "r0", "i1"]
// CHECK: graph.write_at ["i0", "r0", "i1"]
// CHECK: %[[W:.*]] = arith.extf %[[V]] : f32 to f64
// CHECK: graph.yield %[[W]] : f64
// CHECK: } combine [0.000000e+00] {
graph.func @cumsum(%x: !graph.tensor<[3, "s0", 5], f32>) -> !graph.tensor<[3, "s0", 5], f32>
    attributes {symbols = [#graph.symbol<"s0", min = 2, max = 1000000, hint = 32>]} {
  %0 = graph.cumsum %x {dim = 1 : i64} : (!graph.tensor<[3, "s0", 5], f32>) -> !graph.tensor<[3, "s0", 5], f32>
  graph.return %0 : !graph.tensor<[3, "s0", 5], f32>
}

// -----

// Pairs: what comes later wins among equals, and NaN among numbers.
// CHECK-LABEL: @cummax
// CHECK: %[[AT:.*]] = graph.index_value "r0"
// CHECK: graph.yield %{{.*}}, %[[AT]] : f32, i64
// CHECK: } combine [0xFF800000 : f32, 0] {
// CHECK: ^bb0(%[[A:.*]]: f32, %[[I:.*]]: i64, %[[B:.*]]: f32, %[[J:.*]]: i64):
// CHECK: %[[GE:.*]] = arith.cmpf oge, %[[B]], %[[A]]
// CHECK: %[[NAN:.*]] = arith.cmpf uno, %[[B]], %[[B]]
// CHECK: %[[TAKE:.*]] = arith.ori %[[GE]], %[[NAN]]
// CHECK: arith.select %[[TAKE]], %[[B]], %[[A]]
// CHECK: arith.select %[[TAKE]], %[[J]], %[[I]]
graph.func @cummax(%x: !graph.tensor<[16], f32>) -> (!graph.tensor<[16], f32>, !graph.tensor<[16], i64>) attributes {symbols = []} {
  %0, %1 = graph.cummax %x {dim = 0 : i64} : (!graph.tensor<[16], f32>) -> (!graph.tensor<[16], f32>, !graph.tensor<[16], i64>)
  graph.return %0, %1 : !graph.tensor<[16], f32>, !graph.tensor<[16], i64>
}

// -----

// A constant whose view a call returns lies in memory from there on: the call that writes the view changes it.
// CHECK-LABEL: @view_of_a_constant
// CHECK: %[[ONES:.*]] = graph.loops
// CHECK: %[[V:.*]] = graph.extern(%[[ONES]])
// CHECK: graph.extern(%[[V]])
// CHECK: graph.load %[[ONES]]
graph.func @view_of_a_constant() -> !graph.tensor<[8], f32> attributes {symbols = []} {
  %ones = graph.full {value = 1 : i64} : () -> !graph.tensor<[8], f32>
  %v = graph.extern(%ones) {op = "aten::view", overload = "dtype", args = [#graph.operand<0>, #graph.torch<"dtype", "int32">], aliases = array<i64: 0>} : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], i32>
  graph.extern(%v) {op = "aten::zero_", overload = "", args = [#graph.operand<0>], mutates = array<i64: 0>} : (!graph.tensor<[8], i32>) -> ()
  %n = graph.neg %ones : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  graph.return %n : !graph.tensor<[8], f32>
}

// -----

// The source of a copy that is a view of the destination is read as a whole first.
// CHECK-LABEL: @copy_of_a_view
// CHECK: %[[V:.*]] = graph.extern(%[[X:[a-z0-9]+]])
// CHECK: %[[C:.*]] = graph.loops [i0 = 8] ->
// CHECK: graph.load %[[V]]
// CHECK: into(%[[X]]
// CHECK: graph.load %[[C]]
graph.func @copy_of_a_view(%x: !graph.tensor<[8], f32>) -> () attributes {symbols = []} {
  %v = graph.extern(%x) {op = "user::reversed", overload = "", args = [#graph.operand<0>], aliases = array<i64: -2>} : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  %c = graph.copy_ %x, %v : (!graph.tensor<[8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  graph.return
}
