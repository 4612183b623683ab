// graph-decompose-composites
// RUN: tile-opt %s --graph-decompose-composites --split-input-file | FileCheck %s

// CHECK-LABEL: @softmax
graph.func @softmax(%x: !graph.tensor<[8, 512], bf16>) -> !graph.tensor<[8, 512], bf16> {
  // CHECK: %[[X:.*]] = graph.cast %{{.*}} : {{.*}} -> !graph.tensor<[8, 512], f32>
  // CHECK: %[[MAX:.*]] = graph.amax %[[X]] {dims = array<i64: 1>, keepdim}
  // CHECK: %[[D:.*]] = graph.sub %[[X]], %[[MAX]]
  // CHECK: %[[E:.*]] = graph.exp %[[D]]
  // CHECK: %[[SUM:.*]] = graph.sum %[[E]]
  // CHECK: %[[Q:.*]] = graph.div %[[E]], %[[SUM]]
  // CHECK: graph.cast %[[Q]] : {{.*}} -> !graph.tensor<[8, 512], bf16>
  %0 = graph.softmax %x {dim = 1} : (!graph.tensor<[8, 512], bf16>) -> !graph.tensor<[8, 512], bf16>
  graph.return %0 : !graph.tensor<[8, 512], bf16>
}

// -----

// CHECK-LABEL: @log_softmax_backward
graph.func @log_softmax_backward(%g: !graph.tensor<[8, 512], f32>, %y: !graph.tensor<[8, 512], f32>) -> !graph.tensor<[8, 512], f32> {
  // CHECK-DAG: %[[SUM:.*]] = graph.sum %arg0
  // CHECK-DAG: %[[E:.*]] = graph.exp %arg1
  // CHECK: %[[M:.*]] = graph.mul %[[E]], %[[SUM]]
  // CHECK: graph.sub %arg0, %[[M]]
  %0 = graph.log_softmax_backward %g, %y {dim = 1} : (!graph.tensor<[8, 512], f32>, !graph.tensor<[8, 512], f32>) -> !graph.tensor<[8, 512], f32>
  graph.return %0 : !graph.tensor<[8, 512], f32>
}

// -----

// A short variance takes two passes, a long one stays for Welford.
// CHECK-LABEL: @var_mean
graph.func @var_mean(%x: !graph.tensor<[4, 512], f32>, %y: !graph.tensor<[4, 1048576], f32>)
    -> (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>) {
  // CHECK: %[[MEAN:.*]] = graph.div
  // CHECK: %[[C:.*]] = graph.sub %arg0, %[[MEAN]]
  // CHECK: %[[SQ:.*]] = graph.mul %[[C]], %[[C]]
  // CHECK: %[[N:.*]] = graph.full {value = 5.110000e+02 : f64}
  %0:2 = graph.var_mean %x {dims = array<i64: 1>, correction = 1} : (!graph.tensor<[4, 512], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>)
  // CHECK: graph.var_mean %arg1
  %1:2 = graph.var_mean %y {dims = array<i64: 1>, correction = 1} : (!graph.tensor<[4, 1048576], f32>) -> (!graph.tensor<[4], f32>, !graph.tensor<[4], f32>)
  graph.return %0#0, %0#1, %1#0 : !graph.tensor<[4], f32>, !graph.tensor<[4], f32>, !graph.tensor<[4], f32>
}

// -----

// CHECK-LABEL: @layer_norm
graph.func @layer_norm(%x: !graph.tensor<["s0", 512], bf16>, %w: !graph.tensor<[512], bf16>) -> (!graph.tensor<["s0", 512], bf16>, !graph.tensor<["s0", 1], f32>) {
  // CHECK: %[[RSTD:.*]] = graph.rsqrt
  // CHECK: %[[Y:.*]] = graph.mul %{{.*}}, %[[RSTD]]
  // CHECK: %[[W:.*]] = graph.cast %arg1
  // CHECK: %[[Z:.*]] = graph.mul %[[Y]], %[[W]]
  // CHECK: %[[OUT:.*]] = graph.cast %[[Z]]
  // CHECK: graph.return %[[OUT]], %[[RSTD]]
  %0:3 = graph.layer_norm %x, %w {normalized_dims = 1, eps = 1.0e-5} : (!graph.tensor<["s0", 512], bf16>, !graph.tensor<[512], bf16>)
      -> (!graph.tensor<["s0", 512], bf16>, !graph.tensor<["s0", 1], f32>, !graph.tensor<["s0", 1], f32>)
  graph.return %0#0, %0#2 : !graph.tensor<["s0", 512], bf16>, !graph.tensor<["s0", 1], f32>
}
