// Roundings between operations of one kernel go; those of stored values stay.
// RUN: tile-opt %s --graph-inline-producers --graph-form-groups --graph-build-tile-kernels | FileCheck %s
// RUN: tile-opt %s --graph-inline-producers --graph-form-groups --graph-build-tile-kernels=elide-rounding=false | FileCheck %s --check-prefix=EAGER

// CHECK: tile.kernel
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK-NOT: arith.truncf
// CHECK: %[[EXP:.*]] = math.exp %[[SUM]]
// CHECK: arith.truncf %[[EXP]]
// CHECK-NOT: arith.truncf
// EAGER: %[[SUM:.*]] = arith.addf
// EAGER: %[[ROUNDED:.*]] = arith.truncf %[[SUM]]
// EAGER: %[[WIDE:.*]] = arith.extf %[[ROUNDED]]
// EAGER: math.exp %[[WIDE]]
graph.func @graph(%x: !graph.tensor<[4096], bf16>) -> (!graph.tensor<[4096], bf16>) {
  %0 = graph.loops [i0 = 4096] -> (!graph.tensor<[4096], bf16>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[4096], bf16> -> bf16
    %w = arith.extf %v : bf16 to f32
    %s = arith.addf %w, %w : f32
    %r = arith.truncf %s : f32 to bf16
    graph.yield %r : bf16
  }
  %1 = graph.loops [i0 = 4096] -> (!graph.tensor<[4096], bf16>) {
    %v = graph.load %0 ["i0"] : !graph.tensor<[4096], bf16> -> bf16
    %w = arith.extf %v : bf16 to f32
    %s = math.exp %w : f32
    %r = arith.truncf %s : f32 to bf16
    graph.yield %r : bf16
  }
  graph.return %1 : !graph.tensor<[4096], bf16>
}
