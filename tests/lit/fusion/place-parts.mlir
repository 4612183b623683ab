// RUN: tile-opt %s --split-input-file --graph-lower-to-loops --graph-inline-producers | FileCheck %s

// What makes an operand that a larger result would compute many times over writes its part of the result. So does the
// copy of the operand that was there before.

// CHECK-LABEL: graph.func @computed
// CHECK:         %[[FIRST:.*]] = graph.loops [i0 = 64, i1 = 1, i2 = 32] -> (!graph.tensor<[64, 1, 32], f32, [96, 32, 1]>)
// CHECK:           math.exp
// CHECK:           arith.mulf
// CHECK-NOT:       graph.part_starts
// CHECK:         %[[SECOND:.*]] = graph.loops [i0 = 64, i1 = 2, i2 = 32] -> (!graph.tensor<[64, 2, 32], f32, [96, 32, 1]>)
// CHECK-NEXT:      graph.load %arg2 ["i0", "i1", "i2"]
// CHECK:         %[[WHOLE:.*]] = graph.assemble %[[FIRST]], %[[SECOND]] {dim = 1 : i64}
// CHECK:         graph.return %[[WHOLE]]
graph.func @computed(%x: !graph.tensor<[64, 1, 32], f32>, %y: !graph.tensor<[64, 1, 32], f32>, %z: !graph.tensor<[64, 2, 32], f32>) -> !graph.tensor<[64, 3, 32], f32> attributes {symbols = []} {
  %0 = graph.exp %x : (!graph.tensor<[64, 1, 32], f32>) -> !graph.tensor<[64, 1, 32], f32>
  %1 = graph.mul %0, %y : (!graph.tensor<[64, 1, 32], f32>, !graph.tensor<[64, 1, 32], f32>) -> !graph.tensor<[64, 1, 32], f32>
  %2 = graph.cat %1, %z {dim = 1 : i64} : (!graph.tensor<[64, 1, 32], f32>, !graph.tensor<[64, 2, 32], f32>) -> !graph.tensor<[64, 3, 32], f32>
  graph.return %2 : !graph.tensor<[64, 3, 32], f32>
}

// -----

// A part that begins between multiples of 16 bytes says so. A reduction is copied into its part, in the same kernel.

// CHECK-LABEL: graph.func @unaligned
// CHECK:         %[[SUM:.*]] = graph.loops [i0 = 33, reduce r0 = 64]
// CHECK:         graph.loops [i0 = 33] -> (!graph.tensor<[33], f32>) {
// CHECK-NEXT:      graph.load %[[SUM]] ["i0"]
// CHECK:         graph.loops [i0 = 40] -> (!graph.tensor<[40], f32>) attributes {graph.unaligned_part} {
// CHECK:         graph.assemble
graph.func @unaligned(%x: !graph.tensor<[33, 64], f32>, %y: !graph.tensor<[40], f32>) -> !graph.tensor<[73], f32> attributes {symbols = []} {
  %0 = graph.sum %x {dims = array<i64: 1>} : (!graph.tensor<[33, 64], f32>) -> !graph.tensor<[33], f32>
  %1 = graph.cat %0, %y {dim = 0 : i64} : (!graph.tensor<[33], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[73], f32>
  graph.return %1 : !graph.tensor<[73], f32>
}

// -----

// Nothing is in memory but for the concatenation: one kernel chooses.

// CHECK-LABEL: graph.func @cheap
// CHECK:         graph.loops [i0 = 64, i1 = 3, i2 = 32]
// CHECK:           graph.load %arg0 {{.*}} mask
// CHECK-NOT:     graph.assemble
graph.func @cheap(%x: !graph.tensor<[64, 1, 32], f32>, %z: !graph.tensor<[64, 2, 32], f32>) -> !graph.tensor<[64, 3, 32], f32> attributes {symbols = []} {
  %0 = graph.neg %x : (!graph.tensor<[64, 1, 32], f32>) -> !graph.tensor<[64, 1, 32], f32>
  %1 = graph.cat %0, %z {dim = 1 : i64} : (!graph.tensor<[64, 1, 32], f32>, !graph.tensor<[64, 2, 32], f32>) -> !graph.tensor<[64, 3, 32], f32>
  graph.return %1 : !graph.tensor<[64, 3, 32], f32>
}

// -----

// Runs of a few bytes are written by one kernel.

// CHECK-LABEL: graph.func @short
// CHECK-NOT:     graph.assemble
graph.func @short(%x: !graph.tensor<[64, 2], f32>, %y: !graph.tensor<[64, 2], f32>, %z: !graph.tensor<[64, 4], f32>) -> !graph.tensor<[64, 6], f32> attributes {symbols = []} {
  %0 = graph.exp %x : (!graph.tensor<[64, 2], f32>) -> !graph.tensor<[64, 2], f32>
  %1 = graph.mul %0, %y : (!graph.tensor<[64, 2], f32>, !graph.tensor<[64, 2], f32>) -> !graph.tensor<[64, 2], f32>
  %2 = graph.cat %1, %z {dim = 1 : i64} : (!graph.tensor<[64, 2], f32>, !graph.tensor<[64, 4], f32>) -> !graph.tensor<[64, 6], f32>
  graph.return %2 : !graph.tensor<[64, 6], f32>
}
