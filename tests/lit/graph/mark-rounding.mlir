// graph-lower-to-loops marks the roundings that fusion may leave out: of values that one op reads, which bears the difference.
// RUN: tile-opt %s --graph-lower-to-loops --split-input-file | FileCheck %s

// Through a view and an exact cast.
// CHECK-LABEL: @one_reader
graph.func @one_reader(%a: !graph.tensor<[8, 64], bf16>) -> !graph.tensor<[64, 8], f32> {
  // CHECK: arith.truncf %{{.*}} {graph.elidable_rounding}
  %0 = graph.mul %a, %a : (!graph.tensor<[8, 64], bf16>, !graph.tensor<[8, 64], bf16>) -> !graph.tensor<[8, 64], bf16>
  %1 = graph.permute %0 {dims = array<i64: 1, 0>} : (!graph.tensor<[8, 64], bf16>) -> !graph.tensor<[64, 8], bf16, [1, 64]>
  %2 = graph.cast %1 : (!graph.tensor<[64, 8], bf16, [1, 64]>) -> !graph.tensor<[64, 8], f32>
  %3 = graph.exp %2 : (!graph.tensor<[64, 8], f32>) -> !graph.tensor<[64, 8], f32>
  graph.return %3 : !graph.tensor<[64, 8], f32>
}

// -----

// CHECK-LABEL: @two_readers
graph.func @two_readers(%a: !graph.tensor<[8, 64], bf16>) -> (!graph.tensor<[8, 64], f32>, !graph.tensor<[8], bf16>) {
  // CHECK-NOT: elidable
  // CHECK: arith.truncf
  // CHECK: graph.return
  %0 = graph.mul %a, %a : (!graph.tensor<[8, 64], bf16>, !graph.tensor<[8, 64], bf16>) -> !graph.tensor<[8, 64], bf16>
  %1 = graph.cast %0 : (!graph.tensor<[8, 64], bf16>) -> !graph.tensor<[8, 64], f32>
  %2 = graph.amax %0 {dims = array<i64: 1>} : (!graph.tensor<[8, 64], bf16>) -> !graph.tensor<[8], bf16>
  graph.return %1, %2 : !graph.tensor<[8, 64], f32>, !graph.tensor<[8], bf16>
}

// -----

// CHECK-LABEL: @compared
graph.func @compared(%a: !graph.tensor<[64], f16>, %b: !graph.tensor<[64], f32>) -> !graph.tensor<[64], i1> {
  // CHECK-NOT: elidable
  // CHECK: graph.return
  %0 = graph.mul %a, %a : (!graph.tensor<[64], f16>, !graph.tensor<[64], f16>) -> !graph.tensor<[64], f16>
  %1 = graph.cast %0 : (!graph.tensor<[64], f16>) -> !graph.tensor<[64], f32>
  %2 = graph.eq %1, %b : (!graph.tensor<[64], f32>, !graph.tensor<[64], f32>) -> !graph.tensor<[64], i1>
  graph.return %2 : !graph.tensor<[64], i1>
}

// -----

// A choice rounds nothing itself: the two that read it read both products.
// CHECK-LABEL: @chosen
graph.func @chosen(%c: !graph.tensor<[64], i1>, %a: !graph.tensor<[64], bf16>) -> (!graph.tensor<[64], f32>, !graph.tensor<[64], f32>) {
  // CHECK-NOT: elidable
  // CHECK: graph.return
  %0 = graph.mul %a, %a : (!graph.tensor<[64], bf16>, !graph.tensor<[64], bf16>) -> !graph.tensor<[64], bf16>
  %1 = graph.where %c, %0, %a : (!graph.tensor<[64], i1>, !graph.tensor<[64], bf16>, !graph.tensor<[64], bf16>) -> !graph.tensor<[64], bf16>
  %2 = graph.cast %1 : (!graph.tensor<[64], bf16>) -> !graph.tensor<[64], f32>
  %3 = graph.exp %1 : (!graph.tensor<[64], bf16>) -> !graph.tensor<[64], bf16>
  %4 = graph.cast %3 : (!graph.tensor<[64], bf16>) -> !graph.tensor<[64], f32>
  %5 = graph.floor %4 : (!graph.tensor<[64], f32>) -> !graph.tensor<[64], f32>
  graph.return %2, %5 : !graph.tensor<[64], f32>, !graph.tensor<[64], f32>
}

// -----

// Who casts means the rounding.
// CHECK-LABEL: @cast
graph.func @cast(%a: !graph.tensor<[64], f32>) -> !graph.tensor<[64], f32> {
  // CHECK-NOT: elidable
  // CHECK: arith.truncf
  %0 = graph.cast %a : (!graph.tensor<[64], f32>) -> !graph.tensor<[64], bf16>
  %1 = graph.cast %0 : (!graph.tensor<[64], bf16>) -> !graph.tensor<[64], f32>
  graph.return %1 : !graph.tensor<[64], f32>
}

// -----

// The backward graph has the rounded product, too.
// CHECK-LABEL: @rounded
graph.func @rounded(%a: !graph.tensor<[64], bf16>) -> !graph.tensor<[64], bf16> {
  // CHECK: arith.mulf
  // CHECK-NEXT: arith.truncf %{{.*}} : f32 to bf16
  // CHECK: math.exp
  %0 = graph.mul %a, %a : (!graph.tensor<[64], bf16>, !graph.tensor<[64], bf16>) -> !graph.tensor<[64], bf16>
  %1 = graph.rounded %0 : (!graph.tensor<[64], bf16>) -> !graph.tensor<[64], bf16>
  %2 = graph.exp %1 : (!graph.tensor<[64], bf16>) -> !graph.tensor<[64], bf16>
  graph.return %2 : !graph.tensor<[64], bf16>
}
