// Sums of many terms go block by block, at four levels here; what is not rounded needs no blocks.
// RUN: tile-opt %s --split-input-file --graph-form-groups --graph-build-tile-kernels | FileCheck %s

// CHECK-LABEL: graph.func @columns(
// CHECK:         %[[ZERO:.*]] = tile.splat
// CHECK:         scf.for %[[L:.*]] = %c0_i64 to %c65536_i64 step %c4096_i64 iter_args(%[[ALL:.*]] = %[[ZERO]])
// CHECK:           %[[LEND:.*]] = arith.addi %[[L]], %c4096_i64
// CHECK:           %[[MOST:.*]] = scf.for %[[K:.*]] = %[[L]] to %[[LEND]] step %c256_i64 iter_args(%[[MANY:.*]] = %[[ZERO]])
// CHECK:             %[[KEND:.*]] = arith.addi %[[K]], %c256_i64
// CHECK:             %[[PART:.*]] = scf.for %[[J:.*]] = %[[K]] to %[[KEND]] step %c16_i64 iter_args(%[[SUM:.*]] = %[[ZERO]])
// CHECK:               %[[JEND:.*]] = arith.addi %[[J]], %c16_i64
// CHECK:               %[[BLOCK:.*]] = scf.for %{{.*}} = %[[J]] to %[[JEND]] step %c1_i64 iter_args(%[[ACC:.*]] = %[[ZERO]])
// CHECK:                 %[[V:.*]] = tile.load
// CHECK:                 arith.addf %[[ACC]], %[[V]]
// CHECK:               arith.addf %[[SUM]], %[[BLOCK]]
// CHECK:             arith.addf %[[MANY]], %[[PART]]
// CHECK:           arith.addf %[[ALL]], %[[MOST]]
graph.func @columns(%x: !graph.tensor<[65536, 32], f32>) -> !graph.tensor<[32], f32> {
  %a = graph.loops [i0 = 32, reduce r0 = 65536] -> (!graph.tensor<[32], f32>) {
    %v = graph.load %x ["r0", "i0"] : !graph.tensor<[65536, 32], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[32], f32>
}

// -----

// A row of a size that is not known: the last blocks may be shorter.

// CHECK-LABEL: graph.func @rows(
// CHECK:         scf.for %[[L:.*]] = {{.*}} step %c262144_i64
// CHECK:           %[[LEND:.*]] = arith.minsi
// CHECK:           scf.for %[[K:.*]] = %[[L]] to %[[LEND]] step %c16384_i64
// CHECK:             %[[KEND:.*]] = arith.minsi
// CHECK:             scf.for %[[J:.*]] = %[[K]] to %[[KEND]] step %c1024_i64
// CHECK:               %[[JEND:.*]] = arith.minsi
// CHECK:               scf.for %{{.*}} = %[[J]] to %[[JEND]] step %c64_i64
graph.func @rows(%x: !graph.tensor<[64, "s0"], f32>) -> !graph.tensor<[64], f32> attributes {symbols = [#graph.symbol<"s0", min = 2, max = 9223372036854775807, hint = 100>]} {
  %a = graph.loops [i0 = 64, reduce r0 = "s0"] -> (!graph.tensor<[64], f32>) {
    %v = graph.load %x ["i0", "r0"] : !graph.tensor<[64, "s0"], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[64], f32>
}

// -----

// CHECK-LABEL: graph.func @maximum(
// CHECK:         scf.for {{.*}} step %c1_i64
// CHECK-NOT:     scf.for
// CHECK:         tile.return
graph.func @maximum(%x: !graph.tensor<[65536, 64], f32>) -> !graph.tensor<[64], f32> {
  %a = graph.loops [i0 = 64, reduce r0 = 65536] -> (!graph.tensor<[64], f32>) {
    %v = graph.load %x ["r0", "i0"] : !graph.tensor<[65536, 64], f32> -> f32
    graph.yield %v : f32
  } combine [0xFF800000 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.maximumf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[64], f32>
}
