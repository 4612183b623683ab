// RUN: tile-opt %s --split-input-file --graph-inline-producers --graph-split-reductions --graph-form-groups --graph-build-tile-kernels | FileCheck %s

// Rows of 24 numbers, of which the first 3000 are a tensor's: one axis, cut at 3000 * 24.

// CHECK-LABEL: graph.func @rows(
// CHECK:         axes [mi0 = 96000]
// CHECK-NOT:     mask
// CHECK:         arith.constant 72000 : i64
graph.func @rows(%x: !graph.tensor<[3000, 24], f32>) -> !graph.tensor<[4000, 24], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 4000, i1 = 24] -> (!graph.tensor<[4000, 24], f32>) {
    %i = graph.index_value "i0"
    %n = arith.constant 3000 : i64
    %m = arith.cmpi slt, %i, %n : i64
    %z = arith.constant 1.0 : f32
    %v = graph.load %x ["i0", "i1"] mask %m other %z : f32 : !graph.tensor<[3000, 24], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[4000, 24], f32>
}

// -----

// A bound of sizes, and two axes that become one with the rows.

// CHECK-LABEL: graph.func @sizes(
// CHECK:         integers ["s0*96", "s0*96 - 480"
// CHECK:         axes [mi1 = s0*96]
graph.func @sizes(%s: !graph.size<"s0">, %x: !graph.tensor<["s0", 8, 12], f32>) -> !graph.tensor<["s0", 8, 12], f32> attributes {symbols = [#graph.symbol<"s0", min = 8, max = 100000, hint = 4000>]} {
  %a = graph.loops [i0 = "s0", i1 = 8, i2 = 12] -> (!graph.tensor<["s0", 8, 12], f32>) {
    %i = graph.index_value "i0"
    %n = graph.index_value "s0 - 5"
    %m = arith.cmpi sge, %i, %n : i64
    %z = arith.constant 1.0 : f32
    %v = graph.load %x ["i0", "i1", "i2"] : !graph.tensor<["s0", 8, 12], f32> -> f32
    %r = arith.select %m, %z, %v : f32
    graph.yield %r : f32
  }
  graph.return %a : !graph.tensor<["s0", 8, 12], f32>
}

// -----

// An index that is a value too, and a comparison that is none of a bound, keep the axes apart.

// CHECK-LABEL: graph.func @value(
// CHECK:         axes [i0 = 4000, i1 = 24]
graph.func @value(%x: !graph.tensor<[4000, 24], f32>) -> !graph.tensor<[4000, 24], i64> attributes {symbols = []} {
  %a = graph.loops [i0 = 4000, i1 = 24] -> (!graph.tensor<[4000, 24], i64>) {
    %i = graph.index_value "i0"
    %n = arith.constant 3000 : i64
    %m = arith.cmpi slt, %i, %n : i64
    %z = arith.constant 7 : i64
    %r = arith.select %m, %z, %i : i64
    graph.yield %r : i64
  }
  graph.return %a : !graph.tensor<[4000, 24], i64>
}

// -----

// CHECK-LABEL: graph.func @one_row(
// CHECK:         axes [i0 = 4000, i1 = 24]
graph.func @one_row(%x: !graph.tensor<[4000, 24], f32>) -> !graph.tensor<[4000, 24], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 4000, i1 = 24] -> (!graph.tensor<[4000, 24], f32>) {
    %i = graph.index_value "i0"
    %n = arith.constant 3000 : i64
    %m = arith.cmpi eq, %i, %n : i64
    %z = arith.constant 1.0 : f32
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[4000, 24], f32> -> f32
    %r = arith.select %m, %z, %v : f32
    graph.yield %r : f32
  }
  graph.return %a : !graph.tensor<[4000, 24], f32>
}
