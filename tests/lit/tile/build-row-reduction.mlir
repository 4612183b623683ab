// RUN: tile-opt %s --split-input-file --graph-inline-producers --graph-split-reductions --graph-form-groups --graph-build-tile-kernels | FileCheck %s

// The accumulator is a tile; lanes past the end contribute the identity; the tile is folded once.

// CHECK-LABEL: graph.func @sum(
// CHECK:         vector axis r0 lanes 64
// CHECK:         scf.for
// CHECK:           %[[ZERO:.*]] = tile.splat
// CHECK:           %[[ACC:.*]] = scf.for {{.*}} iter_args(%[[SO_FAR:.*]] = %[[ZERO]])
// CHECK:             %[[FULL:.*]] = math.exp
// CHECK:             arith.addf %[[SO_FAR]], %[[FULL]]
// CHECK:           tile.load {{.*}} valid[
// CHECK:           %[[LAST:.*]] = math.exp
// CHECK:           %[[IDENTITY:.*]] = tile.splat
// CHECK:           %[[INSIDE:.*]] = arith.cmpi slt
// CHECK:           %[[MASKED:.*]] = arith.select %[[INSIDE]], %[[LAST]], %[[IDENTITY]]
// CHECK:           %[[ALL:.*]] = arith.addf %[[ACC]], %[[MASKED]]
// CHECK:           %[[SUM:.*]] = tile.reduce(%[[ALL]]) axis 0
// CHECK:           tile.store %[[SUM]], {{.*}} strides [] : f32
graph.func @sum(%x: !graph.tensor<[32, 300], f32>) -> !graph.tensor<[32], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 32, reduce r0 = 300] -> (!graph.tensor<[32], f32>) {
    %v = graph.load %x ["i0", "r0"] : !graph.tensor<[32, 300], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[32], f32>
}

// -----

// Two results fold together, the index in 32 bits.

// CHECK-LABEL: graph.func @pair(
// CHECK:         %[[ALL:.*]]:2 = scf.for
// CHECK:           %[[V:.*]] = arith.select {{.*}} : tensor<64xi1>, tensor<64xf32>
// CHECK:           %[[I:.*]] = arith.select {{.*}} : tensor<64xi1>, tensor<64xi32>
// CHECK:           scf.yield %[[V]], %[[I]]
// CHECK:         %[[R:.*]]:2 = tile.reduce(%[[ALL]]#0, %[[ALL]]#1) axis 0
// CHECK:         tile.store %[[R]]#0
// CHECK:         %[[WIDE:.*]] = arith.extsi %[[R]]#1 : i32 to i64
// CHECK:         tile.store %[[WIDE]]
graph.func @pair(%x: !graph.tensor<[32, 256], f32>) -> (!graph.tensor<[32], f32>, !graph.tensor<[32], i64>) attributes {symbols = []} {
  %a:2 = graph.loops [i0 = 32, reduce r0 = 256] -> (!graph.tensor<[32], f32>, !graph.tensor<[32], i64>) {
    %v = graph.load %x ["i0", "r0"] : !graph.tensor<[32, 256], f32> -> f32
    %i = graph.index_value "r0"
    graph.yield %v, %i : f32, i64
  } combine [0xFF800000 : f32, 9223372036854775807 : i64] {
  ^bb0(%lv: f32, %li: i64, %rv: f32, %ri: i64):
    %more = arith.cmpf ogt, %lv, %rv : f32
    %same = arith.cmpf oeq, %lv, %rv : f32
    %first = arith.cmpi slt, %li, %ri : i64
    %tie = arith.andi %same, %first : i1
    %left = arith.ori %more, %tie : i1
    %v = arith.select %left, %lv, %rv : f32
    %i = arith.select %left, %li, %ri : i64
    graph.yield %v, %i : f32, i64
  }
  graph.return %a#0, %a#1 : !graph.tensor<[32], f32>, !graph.tensor<[32], i64>
}

// -----

// Nothing to fold: the identity.

// CHECK-LABEL: graph.func @empty(
// CHECK:         arith.constant 0.000000e+00 : f32
// CHECK-NOT:     tile.load
// CHECK:         tile.reduce
// CHECK:         tile.store
graph.func @empty(%x: !graph.tensor<[4, 0], f32>) -> !graph.tensor<[4], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 4, reduce r0 = 0] -> (!graph.tensor<[4], f32>) {
    %v = graph.load %x ["i0", "r0"] : !graph.tensor<[4, 0], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[4], f32>
}

// -----

// Rows of a few elements: lanes lie along the rows, whose loads are shuffled.

// CHECK-LABEL: graph.func @short_rows(
// CHECK:         vector axis i0
// CHECK:         tile.load {{.*}} strides [3]
graph.func @short_rows(%x: !graph.tensor<[10000, 3], f32>) -> !graph.tensor<[10000], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 10000, reduce r0 = 3] -> (!graph.tensor<[10000], f32>) {
    %v = graph.load %x ["i0", "r0"] : !graph.tensor<[10000, 3], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%acc: f32, %val: f32):
    %s = arith.addf %acc, %val : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[10000], f32>
}

// -----

// An axis that was split and joined again is one run.

// CHECK-LABEL: graph.func @joined(
// CHECK-NOT:     tile.gather
// CHECK:         tile.load {{.*}} strides [32, 1]
// CHECK-NOT:     tile.gather
// CHECK:         tile.reduce
graph.func @joined(%x: !graph.tensor<[16, 40, 40], f32>) -> !graph.tensor<[16, 50], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 16, i1 = 50, reduce r0 = 32] -> (!graph.tensor<[16, 50], f32>) {
    %v = graph.load %x ["i0", "(i1*32 + r0)//40", "Mod(i1*32 + r0, 40)"] : !graph.tensor<[16, 40, 40], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%acc: f32, %val: f32):
    %s = arith.addf %acc, %val : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[16, 50], f32>
}

// -----

// Short rows side by side. What follows from them alone has a lane for each row; the last rows are moved back.

// CHECK-LABEL: graph.func @short_rows(
// CHECK:         lanes 16 row axis i0 rows 16
// CHECK:         scf.for %[[I:.*]] =
// CHECK:           %[[ROW:.*]] = arith.minsi %[[I]]
// CHECK:           %[[X:.*]] = tile.load %arg0{{.*}} strides [10, 1] valid[%{{.*}}, %c10_i64] : !tile.ptr<f32> -> tensor<16x16xf32>
// CHECK:           %[[KEPT:.*]] = arith.select {{.*}}, %[[X]]
// CHECK:           %[[SUM:.*]] = tile.reduce(%[[KEPT]]) axis 1 : (tensor<16x16xf32>) -> tensor<16xf32>
// CHECK:           %[[MEAN:.*]] = arith.divf %[[SUM]], {{.*}} : tensor<16xf32>
// CHECK:           tile.store %[[MEAN]], %arg1[%[[ROW]]] strides [1] : tensor<16xf32>
// CHECK:           %[[COLUMN:.*]] = tile.expand_dims %[[MEAN]] axis 1
// CHECK:           %[[ALL:.*]] = tile.broadcast %[[COLUMN]] : tensor<16x1xf32> -> tensor<16x16xf32>
// CHECK:           %[[D:.*]] = arith.subf %[[X]], %[[ALL]]
// CHECK:           tile.store %[[D]], %arg2{{.*}} strides [10, 1] valid
graph.func @short_rows(%x: !graph.tensor<[1000, 10], f32>) -> (!graph.tensor<[1000], f32>, !graph.tensor<[1000, 10], f32>) attributes {symbols = []} {
  %s = graph.loops [i0 = 1000, reduce r0 = 10] -> (!graph.tensor<[1000], f32>) {
    %v = graph.load %x ["i0", "r0"] : !graph.tensor<[1000, 10], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%acc: f32, %val: f32):
    %s = arith.addf %acc, %val : f32
    graph.yield %s : f32
  }
  %m = graph.loops [i0 = 1000] -> (!graph.tensor<[1000], f32>) {
    %v = graph.load %s ["i0"] : !graph.tensor<[1000], f32> -> f32
    %n = arith.constant 10.0 : f32
    %q = arith.divf %v, %n : f32
    graph.yield %q : f32
  }
  %d = graph.loops [i0 = 1000, i1 = 10] -> (!graph.tensor<[1000, 10], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[1000, 10], f32> -> f32
    %w = graph.load %m ["i0"] : !graph.tensor<[1000], f32> -> f32
    %e = arith.subf %v, %w : f32
    graph.yield %e : f32
  }
  graph.return %m, %d : !graph.tensor<[1000], f32>, !graph.tensor<[1000, 10], f32>
}

// -----

// A short reduced axis inside a long one: points of both make a tile, whose rows and lanes are folded after the loop.

// CHECK-LABEL: graph.func @groups(
// CHECK:         vector axis r1 lanes 8 row axis r0 rows 8
// CHECK:         scf.for
// CHECK:           tile.load {{.*}} strides [64, 1]{{.*}} -> tensor<8x8xf32>
// CHECK:           arith.addf {{.*}} : tensor<8x8xf32>
// CHECK:         %[[ROW:.*]] = tile.reduce(%{{.*}}) axis 0 : (tensor<8x8xf32>) -> tensor<8xf32>
// CHECK:         tile.reduce(%[[ROW]]) axis 0 : (tensor<8xf32>) -> f32
graph.func @groups(%x: !graph.tensor<[4, 3136, 64], f32>) -> !graph.tensor<[4, 8], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 4, i1 = 8, reduce r0 = 3136, reduce r1 = 8] -> (!graph.tensor<[4, 8], f32>) {
    %v = graph.load %x ["i0", "r0", "i1*8 + r1"] : !graph.tensor<[4, 3136, 64], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[4, 8], f32>
}

// -----

// Rows of several registers, two side by side.

// CHECK-LABEL: graph.func @two_rows(
// CHECK:         lanes 128 row axis i0 rows 2
graph.func @two_rows(%x: !graph.tensor<[32, 100], f32>) -> !graph.tensor<[32], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 32, reduce r0 = 100] -> (!graph.tensor<[32], f32>) {
    %v = graph.load %x ["i0", "r0"] : !graph.tensor<[32, 100], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[32], f32>
}
