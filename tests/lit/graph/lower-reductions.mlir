// graph-lower-to-loops: reductions.
// RUN: tile-opt %s --graph-lower-to-loops --split-input-file | FileCheck %s

// bf16 accumulates in f32; the rounding is a loop of its own.
// CHECK-LABEL: @sum
graph.func @sum(%x: !graph.tensor<[4, "s0", 8], bf16>) -> !graph.tensor<[4, 1, 8], bf16> {
  // CHECK: %[[S:.*]] = graph.loops [i0 = 4, i1 = 1, i2 = 8, reduce r0 = "s0"] -> (!graph.tensor<[4, 1, 8], f32>)
  // CHECK-NEXT: graph.load %{{.*}} ["i0", "r0", "i2"]
  // CHECK: combine [0.000000e+00 : f32]
  // CHECK: graph.loops [i0 = 4, i1 = 1, i2 = 8] -> (!graph.tensor<[4, 1, 8], bf16>)
  // CHECK-NEXT: graph.load %[[S]]
  // CHECK-NEXT: arith.truncf
  %0 = graph.sum %x {dims = array<i64: 1>, keepdim} : (!graph.tensor<[4, "s0", 8], bf16>) -> !graph.tensor<[4, 1, 8], bf16>
  graph.return %0 : !graph.tensor<[4, 1, 8], bf16>
}

// -----

// CHECK-LABEL: @kinds
graph.func @kinds(%b: !graph.tensor<[4, 6], i1>, %u: !graph.tensor<[4, 6], ui8>, %i: !graph.tensor<[4, 6], i32>)
    -> (!graph.tensor<[], i64>, !graph.tensor<[4], ui8>, !graph.tensor<[6], i32>, !graph.tensor<[], i1>) {
  // CHECK: graph.loops [reduce r0 = 4, reduce r1 = 6] -> (!graph.tensor<[], i64>)
  // CHECK: arith.extui %{{.*}} : i1 to i64
  // CHECK: combine [0]
  %0 = graph.sum %b : (!graph.tensor<[4, 6], i1>) -> !graph.tensor<[], i64>
  // CHECK: combine [0 : i8]
  // CHECK: arith.maxui
  %1 = graph.amax %u {dims = array<i64: 1>} : (!graph.tensor<[4, 6], ui8>) -> !graph.tensor<[4], ui8>
  // CHECK: combine [2147483647 : i32]
  // CHECK: arith.minsi
  %2 = graph.amin %i {dims = array<i64: 0>} : (!graph.tensor<[4, 6], i32>) -> !graph.tensor<[6], i32>
  // CHECK: arith.cmpi ne
  // CHECK: combine [true]
  // CHECK: arith.andi
  %3 = graph.all %i : (!graph.tensor<[4, 6], i32>) -> !graph.tensor<[], i1>
  graph.return %0, %1, %2, %3 : !graph.tensor<[], i64>, !graph.tensor<[4], ui8>, !graph.tensor<[6], i32>, !graph.tensor<[], i1>
}

// -----

// Nothing to reduce: no combiner.
// CHECK-LABEL: @scalar
graph.func @scalar(%x: !graph.tensor<[], f32>) -> !graph.tensor<[], f32> {
  // CHECK: graph.loops [] -> (!graph.tensor<[], f32>)
  // CHECK-NOT: combine
  %0 = graph.amax %x : (!graph.tensor<[], f32>) -> !graph.tensor<[], f32>
  graph.return %0 : !graph.tensor<[], f32>
}

// -----

// The index counts over the reduced dimensions in row-major order.
// CHECK-LABEL: @argmax
graph.func @argmax(%x: !graph.tensor<[4, 6], f32>) -> !graph.tensor<[], i64> {
  // CHECK: %[[R:.*]]:2 = graph.loops [reduce r0 = 4, reduce r1 = 6] -> (!graph.tensor<[], f32>, !graph.tensor<[], i64>)
  // CHECK: graph.index_value "r0*6 + r1"
  // CHECK: combine [0xFF800000 : f32, 9223372036854775807]
  // CHECK: graph.return %[[R]]#1
  %0 = graph.argmax %x : (!graph.tensor<[4, 6], f32>) -> !graph.tensor<[], i64>
  graph.return %0 : !graph.tensor<[], i64>
}

// -----

// The largest values and where they are: one search finds both.
// CHECK-LABEL: @max
graph.func @max(%x: !graph.tensor<[4, 6], bf16>) -> (!graph.tensor<[4], bf16>, !graph.tensor<[4], i64>) {
  // CHECK: %[[R:.*]]:2 = graph.loops [i0 = 4, reduce r0 = 6] -> (!graph.tensor<[4], f32>, !graph.tensor<[4], i64>)
  // CHECK: %[[VALUE:.*]] = graph.loops [i0 = 4] -> (!graph.tensor<[4], bf16>)
  // CHECK: arith.truncf
  // CHECK-NOT: reduce
  // CHECK: graph.return %[[VALUE]], %[[R]]#1
  %0 = graph.amax %x {dims = array<i64: 1>} : (!graph.tensor<[4, 6], bf16>) -> !graph.tensor<[4], bf16>
  %1 = graph.argmax %x {dim = 1 : i64} : (!graph.tensor<[4, 6], bf16>) -> !graph.tensor<[4], i64>
  graph.return %0, %1 : !graph.tensor<[4], bf16>, !graph.tensor<[4], i64>
}

// -----

// One search serves one maximum.
// CHECK-LABEL: @twice
graph.func @twice(%x: !graph.tensor<[4, 6], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], i64>) {
  // CHECK: %[[R:.*]]:2 = graph.loops [i0 = 4, reduce r0 = 6] -> (!graph.tensor<[4], f32>, !graph.tensor<[4], i64>)
  // CHECK: %[[SECOND:.*]] = graph.loops [i0 = 4, reduce r0 = 6] -> (!graph.tensor<[4], f32>)
  // CHECK: graph.return %[[R]]#0, %[[SECOND]], %[[R]]#1
  %0 = graph.amax %x {dims = array<i64: 1>} : (!graph.tensor<[4, 6], f32>) -> !graph.tensor<[4], f32>
  %1 = graph.amax %x {dims = array<i64: 1>} : (!graph.tensor<[4, 6], f32>) -> !graph.tensor<[4], f32>
  %2 = graph.argmax %x {dim = 1 : i64} : (!graph.tensor<[4, 6], f32>) -> !graph.tensor<[4], i64>
  graph.return %0, %1, %2 : !graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], i64>
}

// -----

// Other extrema, other dimensions, and what is written in between, are searched for on their own.
// CHECK-LABEL: @others
graph.func @others(%x: !graph.tensor<[4, 4], f32>, %y: !graph.tensor<[4, 4], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[4], i64>, !graph.tensor<[4], i64>, !graph.tensor<[4], i64>) {
  // CHECK-COUNT-4: reduce r0 = 4
  %0 = graph.amax %x {dims = array<i64: 1>} : (!graph.tensor<[4, 4], f32>) -> !graph.tensor<[4], f32>
  %1 = graph.argmin %x {dim = 1 : i64} : (!graph.tensor<[4, 4], f32>) -> !graph.tensor<[4], i64>
  %2 = graph.argmax %x {dim = 0 : i64} : (!graph.tensor<[4, 4], f32>) -> !graph.tensor<[4], i64>
  %3 = graph.copy_ %x, %y : (!graph.tensor<[4, 4], f32>, !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
  %4 = graph.argmax %x {dim = 1 : i64} : (!graph.tensor<[4, 4], f32>) -> !graph.tensor<[4], i64>
  graph.return %0, %1, %2, %4 : !graph.tensor<[4], f32>, !graph.tensor<[4], i64>, !graph.tensor<[4], i64>, !graph.tensor<[4], i64>
}

// -----

// CHECK-LABEL: @welford
graph.func @welford(%x: !graph.tensor<["s0", 64], f16>) -> (!graph.tensor<[64], f16>, !graph.tensor<[64], f16>) {
  // CHECK: %[[M:.*]]:3 = graph.loops [i0 = 64, reduce r0 = "s0"]
  // CHECK: combine [0.000000e+00 : f32, 0.000000e+00 : f32, 0.000000e+00 : f32]
  // CHECK: graph.loops [i0 = 64] -> (!graph.tensor<[64], f16>, !graph.tensor<[64], f16>)
  // The mean of nothing is NaN.
  // CHECK: arith.constant 0x7FC00000 : f32
  %0:2 = graph.var_mean %x {dims = array<i64: 0>, correction = 1} : (!graph.tensor<["s0", 64], f16>) -> (!graph.tensor<[64], f16>, !graph.tensor<[64], f16>)
  graph.return %0#0, %0#1 : !graph.tensor<[64], f16>, !graph.tensor<[64], f16>
}
