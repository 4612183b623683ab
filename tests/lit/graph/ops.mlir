// Named ops round-trip, one of each form of assembly.
// RUN: tile-opt %s | tile-opt | FileCheck %s

// CHECK-LABEL: graph.func @forms
graph.func @forms(%x: !graph.tensor<["s0", 8], f32>, %b: !graph.tensor<[8], f32>, %i: !graph.tensor<[4], i64>, %seed: !graph.tensor<[], i64>)
    -> !graph.tensor<["s0", 8], f32> {
  // CHECK: graph.add %{{.*}}, %{{.*}} : (!graph.tensor<["s0", 8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<["s0", 8], f32>
  %0 = graph.add %x, %b : (!graph.tensor<["s0", 8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<["s0", 8], f32>
  // CHECK: graph.full {value = 2.000000e+00 : f64} : () -> !graph.tensor<[], f32>
  %1 = graph.full {value = 2.0 : f64} : () -> !graph.tensor<[], f32>
  // CHECK: graph.size_value {expr = #graph.expr<"s0*2">} : () -> !graph.tensor<[], i64>
  %2 = graph.size_value {expr = #graph.expr<"s0*2">} : () -> !graph.tensor<[], i64>
  // CHECK: graph.slice %{{.*}} {dim = 0 : i64, end = #graph.expr<"s0">, start = 1 : i64} :
  %3 = graph.slice %x {dim = 0, start = 1, end = #graph.expr<"s0">} : (!graph.tensor<["s0", 8], f32>) -> !graph.tensor<["s0 - 1", 8], f32>
  // CHECK: graph.sum %{{.*}} {dims = array<i64: 0>, keepdim}
  %4 = graph.sum %x {dims = array<i64: 0>, keepdim} : (!graph.tensor<["s0", 8], f32>) -> !graph.tensor<[1, 8], f32>
  // CHECK: graph.sum %{{.*}} {dims = array<i64: 0>, keepdim = true}
  %5 = graph.sum %x {dims = array<i64: 0>, keepdim = true} : (!graph.tensor<["s0", 8], f32>) -> !graph.tensor<[1, 8], f32>
  // CHECK: graph.argmax %{{.*}} : (!graph.tensor<["s0", 8], f32>) -> !graph.tensor<[], i64>
  %6 = graph.argmax %x : (!graph.tensor<["s0", 8], f32>) -> !graph.tensor<[], i64>
  // CHECK: graph.index %{{.*}}, %{{.*}} {dims = array<i64: 0>, wrap}
  %7 = graph.index %x, %i {dims = array<i64: 0>, wrap} : (!graph.tensor<["s0", 8], f32>, !graph.tensor<[4], i64>) -> !graph.tensor<[4, 8], f32>
  // CHECK: graph.philox %{{.*}} {salt = 3 : i64}
  %8 = graph.philox %seed {salt = 3} : (!graph.tensor<[], i64>) -> !graph.tensor<[8], f32>
  // CHECK: %{{.*}}, %{{.*}} = graph.var_mean %{{.*}} {correction = 1 : i64, dims = array<i64: 1>}
  %9:2 = graph.var_mean %x {dims = array<i64: 1>, correction = 1} : (!graph.tensor<["s0", 8], f32>) -> (!graph.tensor<["s0"], f32>, !graph.tensor<["s0"], f32>)
  // CHECK: graph.layer_norm %{{.*}}, %{{.*}} {eps = 1.000000e-05 : f64, normalized_dims = 1 : i64}
  %10:3 = graph.layer_norm %x, %b {normalized_dims = 1, eps = 1.0e-5} : (!graph.tensor<["s0", 8], f32>, !graph.tensor<[8], f32>)
      -> (!graph.tensor<["s0", 8], f32>, !graph.tensor<["s0", 1], f32>, !graph.tensor<["s0", 1], f32>)
  // CHECK: graph.check {condition = #graph.expr<"{{.*}}">, message = "too many"}
  graph.check {condition = #graph.expr<"Min(1, Max(0, 9 - s0))">, message = "too many"}
  // CHECK: graph.extern(%{{.*}}) {{.*}}effect
  %11 = graph.extern(%b) {op = "aten::bernoulli", overload = "", args = [#graph.operand<0>, unit], effect} : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  graph.return %0 : !graph.tensor<["s0", 8], f32>
}
