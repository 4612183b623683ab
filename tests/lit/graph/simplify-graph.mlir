// graph-simplify
// RUN: tile-opt %s --graph-simplify --split-input-file | FileCheck %s

// Rounding to bf16 and widening again is not a no-op; widening and rounding back is.
// CHECK-LABEL: @casts
graph.func @casts(%x: !graph.tensor<[8], bf16>, %y: !graph.tensor<[8], f32>) -> (!graph.tensor<[8], bf16>, !graph.tensor<[8], f32>) {
  %0 = graph.cast %x : (!graph.tensor<[8], bf16>) -> !graph.tensor<[8], f32>
  %1 = graph.cast %0 : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], bf16>
  // CHECK: %[[NEG:.*]] = graph.neg %arg0
  %2 = graph.neg %1 : (!graph.tensor<[8], bf16>) -> !graph.tensor<[8], bf16>
  // CHECK: %[[LOW:.*]] = graph.cast %arg1
  %3 = graph.cast %y : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], bf16>
  // CHECK: %[[HIGH:.*]] = graph.cast %[[LOW]]
  %4 = graph.cast %3 : (!graph.tensor<[8], bf16>) -> !graph.tensor<[8], f32>
  // CHECK: graph.return %[[NEG]], %[[HIGH]]
  graph.return %2, %4 : !graph.tensor<[8], bf16>, !graph.tensor<[8], f32>
}

// -----

// x + 0.0 changes -0.0; x * 1 and x - 0.0 change nothing.
// CHECK-LABEL: @neutral
graph.func @neutral(%x: !graph.tensor<[8], f32>) -> (!graph.tensor<[8], f32>, !graph.tensor<[8], f32>) {
  %zero = graph.full {value = 0.0 : f64} : () -> !graph.tensor<[], f32>
  %one = graph.full {value = 1 : i64} : () -> !graph.tensor<[], f32>
  %0 = graph.mul %one, %x : (!graph.tensor<[], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  %1 = graph.sub %0, %zero : (!graph.tensor<[8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[8], f32>
  // CHECK: %[[E:.*]] = graph.exp %arg0
  %2 = graph.exp %1 : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  // CHECK: %[[A:.*]] = graph.add %arg0
  %3 = graph.add %x, %zero : (!graph.tensor<[8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[8], f32>
  // CHECK: %[[N:.*]] = graph.neg %[[A]]
  %4 = graph.neg %3 : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  graph.return %2, %4 : !graph.tensor<[8], f32>, !graph.tensor<[8], f32>
}

// -----

// An output that eager allocates stays a tensor of its own, and equal outputs stay apart.
// CHECK-LABEL: @outputs
graph.func @outputs(%x: !graph.tensor<[8], f32>) -> (!graph.tensor<[8], f32>, !graph.tensor<[8], f32>, !graph.tensor<[8], f32>) {
  %one = graph.full {value = 1 : i64} : () -> !graph.tensor<[], f32>
  // CHECK: %[[M:.*]] = graph.mul
  %0 = graph.mul %x, %one : (!graph.tensor<[8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[8], f32>
  // CHECK: %[[A:.*]] = graph.exp
  %1 = graph.exp %x : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  // CHECK: %[[B:.*]] = graph.exp
  %2 = graph.exp %x : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  // CHECK: graph.return %[[M]], %[[A]], %[[B]]
  graph.return %0, %1, %2 : !graph.tensor<[8], f32>, !graph.tensor<[8], f32>, !graph.tensor<[8], f32>
}

// -----

// Equal ops merge; unused ones go.
// CHECK-LABEL: @equal
graph.func @equal(%x: !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32> {
  // CHECK-NEXT: %[[E:.*]] = graph.exp
  %0 = graph.exp %x : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  %1 = graph.exp %x : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  %2 = graph.sin %x : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  // CHECK-NEXT: %[[S:.*]] = graph.add %[[E]], %[[E]]
  %3 = graph.add %0, %1 : (!graph.tensor<[8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  // CHECK-NEXT: graph.return %[[S]]
  graph.return %3 : !graph.tensor<[8], f32>
}

// -----

// x changes before y is used: x * 1 is not x, and the second exp is not the first.
// CHECK-LABEL: @written
graph.func @written(%x: !graph.tensor<[8], f32>, %z: !graph.tensor<[8], f32>) -> (!graph.tensor<[8], f32>, !graph.tensor<[8], f32>) {
  %one = graph.full {value = 1 : i64} : () -> !graph.tensor<[], f32>
  // CHECK: %[[Y:.*]] = graph.mul
  %0 = graph.mul %x, %one : (!graph.tensor<[8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[8], f32>
  // CHECK: %[[E:.*]] = graph.exp
  %1 = graph.exp %x : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  // CHECK: graph.copy_
  %2 = graph.copy_ %x, %z : (!graph.tensor<[8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  // CHECK: graph.neg %[[Y]]
  %3 = graph.neg %0 : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  // CHECK: %[[F:.*]] = graph.exp
  %4 = graph.exp %x : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  // CHECK: graph.sub %[[F]], %[[E]]
  %5 = graph.sub %4, %1 : (!graph.tensor<[8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  graph.return %3, %5 : !graph.tensor<[8], f32>, !graph.tensor<[8], f32>
}

// -----

// Exponentials of a tensor minus its own maximum are marked: through a cast that loses nothing, a view that restores the
// reduced dimension, an expansion, and over all of the tensor.
// CHECK-LABEL: @own_maximum
graph.func @own_maximum(%x: !graph.tensor<[8, 8], f32>, %b: !graph.tensor<[8, 8], bf16>) -> (!graph.tensor<[8, 8], f32>, !graph.tensor<[8, 8], f32>, !graph.tensor<[8, 8], f32>, !graph.tensor<[8, 8], f32>) {
  %0 = graph.amax %x {dims = array<i64: 1>, keepdim} : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[8, 1], f32>
  %1 = graph.sub %x, %0 : (!graph.tensor<[8, 8], f32>, !graph.tensor<[8, 1], f32>) -> !graph.tensor<[8, 8], f32>
  // CHECK: graph.exp %{{.*}} {graph.at_most_zero}
  %2 = graph.exp %1 : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[8, 8], f32>
  %3 = graph.amax %b {dims = array<i64: 0>} : (!graph.tensor<[8, 8], bf16>) -> !graph.tensor<[8], bf16>
  %4 = graph.view %3 : (!graph.tensor<[8], bf16>) -> !graph.tensor<[1, 8], bf16>
  %5 = graph.cast %4 : (!graph.tensor<[1, 8], bf16>) -> !graph.tensor<[1, 8], f32>
  %6 = graph.cast %b : (!graph.tensor<[8, 8], bf16>) -> !graph.tensor<[8, 8], f32>
  %7 = graph.sub %6, %5 : (!graph.tensor<[8, 8], f32>, !graph.tensor<[1, 8], f32>) -> !graph.tensor<[8, 8], f32>
  // CHECK: graph.exp %{{.*}} {graph.at_most_zero}
  %8 = graph.exp %7 : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[8, 8], f32>
  %9 = graph.expand %0 : (!graph.tensor<[8, 1], f32>) -> !graph.tensor<[8, 8], f32, [1, 0]>
  %10 = graph.sub %x, %9 : (!graph.tensor<[8, 8], f32>, !graph.tensor<[8, 8], f32, [1, 0]>) -> !graph.tensor<[8, 8], f32>
  // CHECK: graph.exp %{{.*}} {graph.at_most_zero}
  %11 = graph.exp %10 : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[8, 8], f32>
  %12 = graph.amax %x : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[], f32>
  %13 = graph.sub %x, %12 : (!graph.tensor<[8, 8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[8, 8], f32>
  // CHECK: graph.exp %{{.*}} {graph.at_most_zero}
  %14 = graph.exp %13 : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[8, 8], f32>
  graph.return %2, %8, %11, %14 : !graph.tensor<[8, 8], f32>, !graph.tensor<[8, 8], f32>, !graph.tensor<[8, 8], f32>, !graph.tensor<[8, 8], f32>
}

// -----

// Not of another tensor's maximum, nor of its own along another dimension, nor rounded, nor of the minimum.
// CHECK-LABEL: @other_maximum
// CHECK-NOT: at_most_zero
graph.func @other_maximum(%x: !graph.tensor<[8, 8], f32>, %y: !graph.tensor<[8, 8], f32>) -> (!graph.tensor<[8, 8], f32>, !graph.tensor<[8, 8], f32>, !graph.tensor<[8, 8], f32>, !graph.tensor<[8, 8], f32>) {
  %0 = graph.amax %y {dims = array<i64: 1>, keepdim} : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[8, 1], f32>
  %1 = graph.sub %x, %0 : (!graph.tensor<[8, 8], f32>, !graph.tensor<[8, 1], f32>) -> !graph.tensor<[8, 8], f32>
  %2 = graph.exp %1 : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[8, 8], f32>
  %3 = graph.amax %x {dims = array<i64: 1>} : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[8], f32>
  %4 = graph.view %3 : (!graph.tensor<[8], f32>) -> !graph.tensor<[1, 8], f32>
  %5 = graph.sub %x, %4 : (!graph.tensor<[8, 8], f32>, !graph.tensor<[1, 8], f32>) -> !graph.tensor<[8, 8], f32>
  %6 = graph.exp %5 : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[8, 8], f32>
  %7 = graph.cast %x : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[8, 8], bf16>
  %8 = graph.amax %7 {dims = array<i64: 1>, keepdim} : (!graph.tensor<[8, 8], bf16>) -> !graph.tensor<[8, 1], bf16>
  %9 = graph.cast %8 : (!graph.tensor<[8, 1], bf16>) -> !graph.tensor<[8, 1], f32>
  %10 = graph.sub %x, %9 : (!graph.tensor<[8, 8], f32>, !graph.tensor<[8, 1], f32>) -> !graph.tensor<[8, 8], f32>
  %11 = graph.exp %10 : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[8, 8], f32>
  %12 = graph.amin %x {dims = array<i64: 1>, keepdim} : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[8, 1], f32>
  %13 = graph.sub %x, %12 : (!graph.tensor<[8, 8], f32>, !graph.tensor<[8, 1], f32>) -> !graph.tensor<[8, 8], f32>
  %14 = graph.exp %13 : (!graph.tensor<[8, 8], f32>) -> !graph.tensor<[8, 8], f32>
  graph.return %2, %6, %11, %14 : !graph.tensor<[8, 8], f32>, !graph.tensor<[8, 8], f32>, !graph.tensor<[8, 8], f32>, !graph.tensor<[8, 8], f32>
}

// -----

// What a call returns may be a view of what is written: x * 1 stays of it. A result that is new memory folds.
// CHECK-LABEL: @written_behind_a_view
graph.func @written_behind_a_view(%x: !graph.tensor<[8], f32>, %z: !graph.tensor<[8], f32>) -> (!graph.tensor<[8], f32>, !graph.tensor<[8], f32>) {
  %one = graph.full {value = 1 : i64} : () -> !graph.tensor<[], f32>
  // CHECK: %[[V:.*]] = graph.extern(%arg0)
  %v = graph.extern(%x) {op = "aten::as_strided", overload = "", args = [#graph.operand<0>, [8], [1], 0], aliases = array<i64: 0>} : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  // CHECK: %[[N:.*]] = graph.extern(%arg0)
  %n = graph.extern(%x) {op = "aten::sort", overload = "", args = [#graph.operand<0>]} : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  // CHECK: %[[Y:.*]] = graph.mul %[[V]]
  %0 = graph.mul %v, %one : (!graph.tensor<[8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[8], f32>
  // CHECK-NOT: graph.mul
  %1 = graph.mul %n, %one : (!graph.tensor<[8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[8], f32>
  %2 = graph.copy_ %x, %z : (!graph.tensor<[8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  // CHECK: graph.neg %[[Y]]
  %3 = graph.neg %0 : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  // CHECK: graph.neg %[[N]]
  %4 = graph.neg %1 : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  graph.return %3, %4 : !graph.tensor<[8], f32>, !graph.tensor<[8], f32>
}
