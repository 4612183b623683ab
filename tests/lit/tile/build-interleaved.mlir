// RUN: tile-opt %s --split-input-file --graph-inline-producers --graph-split-reductions --graph-form-groups --graph-build-tile-kernels | FileCheck %s

// Results whose innermost axis is short: lanes lie along the axis before it, each point of the short one is computed by
// itself, without the masks that choose between them, and the results are interleaved.

// CHECK-LABEL: graph.func @pairs(
// CHECK:         vector axis i0 lanes {{[0-9]+}} interleaved axis i1
// CHECK:         scf.for
// CHECK-NOT:       mask
// CHECK:           %[[X:.*]] = tile.load %arg0{{.*}} strides [2]
// CHECK:           %[[N:.*]] = arith.negf
// CHECK-NOT:       mask
// CHECK:           %[[Y:.*]] = tile.load %arg0{{.*}} strides [2]
// CHECK-NOT:       arith.select
// CHECK:           %[[R:.*]]:2 = tile.interleave %[[N]], %[[Y]]
// CHECK:           tile.store %[[R]]#0, {{.*}} strides [1]
// CHECK:           tile.store %[[R]]#1, {{.*}} strides [1]
graph.func @pairs(%x: !graph.tensor<[1000, 2], f32>) -> !graph.tensor<[1000, 2], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 1000, i1 = 2] -> (!graph.tensor<[1000, 2], f32>) {
    %i = graph.index_value "i1"
    %one = arith.constant 1 : i64
    %zero = arith.constant 0.0 : f32
    %true = arith.constant true
    %first = arith.cmpi slt, %i, %one : i64
    %second = arith.xori %first, %true : i1
    %v = graph.load %x ["i0", "1"] mask %first other %zero : f32 : !graph.tensor<[1000, 2], f32> -> f32
    %n = arith.negf %v : f32
    %w = graph.load %x ["i0", "0"] mask %second other %zero : f32 : !graph.tensor<[1000, 2], f32> -> f32
    %e = arith.select %first, %n, %w : f32
    graph.yield %e : f32
  }
  graph.return %a : !graph.tensor<[1000, 2], f32>
}

// -----

// Five; the last tile of a size that is not known is stored in part.

// CHECK-LABEL: graph.func @five(
// CHECK:         interleaved axis i1
// CHECK:         tile.interleave
// CHECK:         scf.if
// CHECK:         %[[R:.*]]:5 = tile.interleave
// CHECK:         tile.store %[[R]]#0, {{.*}} strides [1] valid[
// CHECK:         tile.store %[[R]]#4, {{.*}} strides [1] valid[
graph.func @five(%x: !graph.tensor<["s0"], f32>, %y: !graph.tensor<[5], f32>) -> !graph.tensor<["s0", 5], f32> attributes {symbols = [#graph.symbol<"s0", min = 2, max = 9223372036854775807, hint = 100>]} {
  %a = graph.loops [i0 = "s0", i1 = 5] -> (!graph.tensor<["s0", 5], f32>) {
    %v = graph.load %x ["i0"] : !graph.tensor<["s0"], f32> -> f32
    %w = graph.load %y ["i1"] : !graph.tensor<[5], f32> -> f32
    %e = arith.mulf %v, %w : f32
    graph.yield %e : f32
  }
  graph.return %a : !graph.tensor<["s0", 5], f32>
}

// -----

// What is one run in memory stays one: nothing is to be interleaved.

// CHECK-LABEL: graph.func @run(
// CHECK-NOT:     interleaved
graph.func @run(%x: !graph.tensor<[1000, 2], f32>) -> !graph.tensor<[1000, 2], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 1000, i1 = 2] -> (!graph.tensor<[1000, 2], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[1000, 2], f32> -> f32
    %e = arith.negf %v : f32
    graph.yield %e : f32
  }
  graph.return %a : !graph.tensor<[1000, 2], f32>
}

// -----

// Rows that overlap: each is a vector as it lies. Columns would be turned to rows.

// CHECK-LABEL: graph.func @windows(
// CHECK:         vector axis i1 lanes 8
// CHECK-NOT:     interleaved
graph.func @windows(%x: !graph.tensor<[404], f32>) -> !graph.tensor<[100, 8], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 100, i1 = 8] -> (!graph.tensor<[100, 8], f32>) {
    %v = graph.load %x ["i0*4 + i1"] : !graph.tensor<[404], f32> -> f32
    %e = arith.negf %v : f32
    graph.yield %e : f32
  }
  graph.return %a : !graph.tensor<[100, 8], f32>
}

// -----

// Rows of a stack: all lanes along i0 would read one element of each, under masks. Each row is read as it lies.

// CHECK-LABEL: graph.func @rows(
// CHECK-NOT:     interleaved
graph.func @rows(%x: !graph.tensor<[8], f32>, %y: !graph.tensor<[8], f32>) -> !graph.tensor<[16, 8], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 16, i1 = 8] -> (!graph.tensor<[16, 8], f32>) {
    %i = graph.index_value "i0"
    %nine = arith.constant 9 : i64
    %zero = arith.constant 0.0 : f32
    %true = arith.constant true
    %first = arith.cmpi slt, %i, %nine : i64
    %second = arith.xori %first, %true : i1
    %v = graph.load %x ["i1"] mask %first other %zero : f32 : !graph.tensor<[8], f32> -> f32
    %w = graph.load %y ["i1"] mask %second other %zero : f32 : !graph.tensor<[8], f32> -> f32
    %e = arith.select %first, %v, %w : f32
    graph.yield %e : f32
  }
  graph.return %a : !graph.tensor<[16, 8], f32>
}

// -----

// The parts of a concatenation cut the innermost axis into tiles of one element, and the axis before it is short, too.
// A power would be computed for whole vectors of each part; along the longer axis every lane of them is used.

// CHECK-LABEL: graph.func @short_parts(
// CHECK:         vector axis i0 lanes
graph.func @short_parts(%x: !graph.tensor<[500, 4], f32>, %y: !graph.tensor<[500, 4], f32>, %z: !graph.tensor<[500, 4], f32>) -> !graph.tensor<[500, 2, 3], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 500, i1 = 2, i2 = 3] -> (!graph.tensor<[500, 2, 3], f32>) {
    %i = graph.index_value "i2"
    %one = arith.constant 1 : i64
    %two = arith.constant 2 : i64
    %zero = arith.constant 0.0 : f32
    %true = arith.constant true
    %first = arith.cmpi slt, %i, %one : i64
    %others = arith.xori %first, %true : i1
    %below = arith.cmpi slt, %i, %two : i64
    %second = arith.andi %others, %below : i1
    %third = arith.xori %below, %true : i1
    %u = graph.load %x ["i0", "i1"] mask %first other %zero : f32 : !graph.tensor<[500, 4], f32> -> f32
    %v = graph.load %y ["i0", "i1"] mask %second other %zero : f32 : !graph.tensor<[500, 4], f32> -> f32
    %w = graph.load %z ["i0", "i1"] mask %third other %zero : f32 : !graph.tensor<[500, 4], f32> -> f32
    %d = arith.select %first, %u, %v : f32
    %e = arith.select %third, %w, %d : f32
    %gain = arith.constant 0.45 : f32
    %p = math.powf %e, %gain : f32
    graph.yield %p : f32
  }
  graph.return %a : !graph.tensor<[500, 2, 3], f32>
}
