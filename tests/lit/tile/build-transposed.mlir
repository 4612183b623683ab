// RUN: tile-opt %s --split-input-file --graph-inline-producers --graph-split-reductions --graph-form-groups --graph-build-tile-kernels | FileCheck %s

// What is contiguous along the rows is read that way round and turned in registers.

// CHECK-LABEL: graph.func @transpose(
// CHECK:         vector axis i1 lanes 16 row axis i0 rows 16
// CHECK:         scf.for %[[ROW:.*]] =
// CHECK:           scf.for %[[LANE:.*]] =
// CHECK:             %[[X:.*]] = tile.load %arg0{{.*}} strides [256, 1] : !tile.ptr<f32> -> tensor<16x16xf32>
// CHECK:             %[[T:.*]] = tile.trans %[[X]] perm [1, 0]
// CHECK:             %[[Y:.*]] = tile.load %arg1{{.*}} strides [256, 1] : !tile.ptr<f32> -> tensor<16x16xf32>
// CHECK:             arith.addf %[[T]], %[[Y]]
// CHECK:             tile.store {{.*}} strides [256, 1]
graph.func @transpose(%x: !graph.tensor<[256, 256], f32>, %y: !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 256, i1 = 256] -> (!graph.tensor<[256, 256], f32>) {
    %v = graph.load %x ["i1", "i0"] : !graph.tensor<[256, 256], f32> -> f32
    %w = graph.load %y ["i0", "i1"] : !graph.tensor<[256, 256], f32> -> f32
    %e = arith.addf %v, %w : f32
    graph.yield %e : f32
  }
  graph.return %a : !graph.tensor<[256, 256], f32>
}

// -----

// The last tiles along both axes are moved back to be whole.

// CHECK-LABEL: graph.func @partial(
// CHECK:         scf.for %[[I:.*]] =
// CHECK:           %[[ROW:.*]] = arith.minsi %[[I]]
// CHECK:           scf.for %[[K:.*]] =
// CHECK:             %[[LANE:.*]] = arith.minsi %[[K]]
// CHECK:             tile.load {{.*}} strides [200, 1] : !tile.ptr<f32>
// CHECK:             tile.trans
// CHECK:             tile.store {{.*}} strides [100, 1] : tensor<16x16xf32>
// CHECK-NOT:     tile.load
// CHECK:         tile.return
graph.func @partial(%x: !graph.tensor<[100, 200], f32>) -> !graph.tensor<[200, 100], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 200, i1 = 100] -> (!graph.tensor<[200, 100], f32>) {
    %v = graph.load %x ["i1", "i0"] : !graph.tensor<[100, 200], f32> -> f32
    %e = arith.negf %v : f32
    graph.yield %e : f32
  }
  graph.return %a : !graph.tensor<[200, 100], f32>
}

// -----

// Sizes that are not known: partial tiles, whose counts turn round with the tile.

// CHECK-LABEL: graph.func @unknown(
// CHECK:         scf.if
// CHECK:           tile.load
// CHECK:           tile.store {{.*}} : tensor<16x16xf32>
// CHECK:         else
// CHECK:           %[[ROWS:.*]] = arith.minsi
// CHECK:           %[[LANES:.*]] = arith.minsi
// CHECK:           tile.load {{.*}} valid[%[[LANES]], %[[ROWS]]]
// CHECK:           tile.trans
// CHECK:           tile.store {{.*}} valid[%[[ROWS]], %[[LANES]]]
graph.func @unknown(%x: !graph.tensor<["s0", "s1"], f32>) -> !graph.tensor<["s1", "s0"], f32> attributes {symbols = [#graph.symbol<"s0", min = 2, max = 9223372036854775807, hint = 100>, #graph.symbol<"s1", min = 2, max = 9223372036854775807, hint = 200>]} {
  %a = graph.loops [i0 = "s1", i1 = "s0"] -> (!graph.tensor<["s1", "s0"], f32>) {
    %v = graph.load %x ["i1", "i0"] : !graph.tensor<["s0", "s1"], f32> -> f32
    %e = arith.negf %v : f32
    graph.yield %e : f32
  }
  graph.return %a : !graph.tensor<["s1", "s0"], f32>
}

// -----

// Wide elements: rows of a cache line, as those of narrower ones.

// CHECK-LABEL: graph.func @wide(
// CHECK:         lanes 8 row axis i0 rows 8 row block 16
// CHECK:         tile.trans {{.*}} : tensor<8x8xf64>
graph.func @wide(%x: !graph.tensor<[256, 256], f64>) -> !graph.tensor<[256, 256], f64> attributes {symbols = []} {
  %a = graph.loops [i0 = 256, i1 = 256] -> (!graph.tensor<[256, 256], f64>) {
    %v = graph.load %x ["i1", "i0"] : !graph.tensor<[256, 256], f64> -> f64
    graph.yield %v : f64
  }
  graph.return %a : !graph.tensor<[256, 256], f64>
}

// -----

// An axis between the two: programs and loops follow the result's memory. Rows are outermost, so that a run is written.

// CHECK-LABEL: graph.func @reversed(
// CHECK:         vector axis i2 lanes 16 row axis i0 rows 16 row block 32 blocked axis i1
// CHECK:         %[[ID:.*]] = tile.program_id 0
// CHECK:         %[[INNER:.*]] = arith.remui %[[ID]]
// CHECK:         arith.muli %[[INNER]]
// CHECK:         %[[OUTER:.*]] = arith.divui %[[ID]]
// CHECK:         %[[ROWS:.*]] = arith.muli %[[OUTER]]
// CHECK:         scf.for %{{.*}} = %[[ROWS]] to
// CHECK:           scf.for
// CHECK:             scf.for
// CHECK:               tile.trans
graph.func @reversed(%x: !graph.tensor<[32, 256, 128], f32>) -> !graph.tensor<[128, 256, 32], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 128, i1 = 256, i2 = 32] -> (!graph.tensor<[128, 256, 32], f32>) {
    %v = graph.load %x ["i2", "i1", "i0"] : !graph.tensor<[32, 256, 128], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[128, 256, 32], f32>
}

// -----

// Masks are tiles of two axes as well; the mask of a load that is turned is turned.

// CHECK-LABEL: graph.func @triangle(
// CHECK:         vector axis i1 lanes 16 row axis i0 rows 16
// CHECK:             %[[M:.*]] = arith.cmpi sge, {{.*}} : tensor<16x16xi64>
// CHECK:             %[[T:.*]] = tile.trans %[[M]] perm [1, 0]
// CHECK:             %[[X:.*]] = tile.load %arg0{{.*}} strides [256, 1] mask %[[T]]
// CHECK:             %[[V:.*]] = tile.trans %[[X]] perm [1, 0]
// CHECK:             arith.select %[[M]], %[[V]]
graph.func @triangle(%x: !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256, 256], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 256, i1 = 256] -> (!graph.tensor<[256, 256], f32>) {
    %i = graph.index_value "i0"
    %j = graph.index_value "i1"
    %m = arith.cmpi sge, %i, %j : i64
    %z = arith.constant 0.0 : f32
    %v = graph.load %x ["i1", "i0"] mask %m other %z : f32 : !graph.tensor<[256, 256], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[256, 256], f32>
}

// -----

// A sum along what one operand has side by side, while the other has the results so: rows are folded tile by tile.

// CHECK-LABEL: graph.func @crossed(
// CHECK:         vector axis i0 lanes 16 row axis r0 rows 16
// CHECK:         scf.for {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}) -> (tensor<16xf32>)
// CHECK:           %[[X:.*]] = tile.load %arg0{{.*}} strides [256, 1] : !tile.ptr<f32> -> tensor<16x16xf32>
// CHECK:           %[[Y:.*]] = tile.load %arg1{{.*}} strides [256, 1] : !tile.ptr<f32> -> tensor<16x16xf32>
// CHECK:           %[[T:.*]] = tile.trans %[[Y]] perm [1, 0]
// CHECK:           %[[P:.*]] = arith.mulf %[[X]], %[[T]]
// CHECK:           %[[S:.*]] = tile.reduce(%[[P]]) axis 0
// CHECK:           arith.addf %[[ACC]], %[[S]] : tensor<16xf32>
graph.func @crossed(%x: !graph.tensor<[256, 256], f32>, %y: !graph.tensor<[256, 256], f32>) -> !graph.tensor<[256], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 256, reduce r0 = 256] -> (!graph.tensor<[256], f32>) {
    %v = graph.load %x ["r0", "i0"] : !graph.tensor<[256, 256], f32> -> f32
    %w = graph.load %y ["i0", "r0"] : !graph.tensor<[256, 256], f32> -> f32
    %e = arith.mulf %v, %w : f32
    graph.yield %e : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[256], f32>
}

// -----

// Tiles are no longer than their axes: each is whole.

// CHECK-LABEL: graph.func @short(
// CHECK:         vector axis mi0 lanes 8 row axis i0 rows 8
// CHECK:         tile.load {{.*}} strides [8, 1] : !tile.ptr<f32> -> tensor<8x8xf32>
// CHECK-NOT:     valid
// CHECK:         tile.return
graph.func @short(%x: !graph.tensor<[4000, 8, 8], f32>) -> !graph.tensor<[8, 4000, 8], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 8, i1 = 4000, i2 = 8] -> (!graph.tensor<[8, 4000, 8], f32>) {
    %v = graph.load %x ["i1", "i2", "i0"] : !graph.tensor<[4000, 8, 8], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[8, 4000, 8], f32>
}

// -----

// Rows of three elements, of which lanes would have one a cache line each.

// CHECK-LABEL: graph.func @far(
// CHECK:         vector axis i2 lanes 2 row axis i0 rows 2
graph.func @far(%x: !graph.tensor<[600, 600, 3], f32>) -> !graph.tensor<[3, 600, 600], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 3, i1 = 600, i2 = 600] -> (!graph.tensor<[3, 600, 600], f32>) {
    %v = graph.load %x ["i2", "i1", "i0"] : !graph.tensor<[600, 600, 3], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[3, 600, 600], f32>
}

// -----

// Elements of a lane lie in one run of memory: vectors of it are shuffled.

// CHECK-LABEL: graph.func @dense(
// CHECK-NOT:     row axis
// CHECK:         tile.return
graph.func @dense(%x: !graph.tensor<[1000, 1000, 3], f32>) -> !graph.tensor<[3, 1000, 1000], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 3, i1 = 1000, i2 = 1000] -> (!graph.tensor<[3, 1000, 1000], f32>) {
    %v = graph.load %x ["i1", "i2", "i0"] : !graph.tensor<[1000, 1000, 3], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[3, 1000, 1000], f32>
}

// -----

// The long axis is contiguous in neither tensor: tiles lie along the short ones.

// CHECK-LABEL: graph.func @gathered(
// CHECK:         vector axis i2 lanes 4 row axis i1 rows 4
// CHECK:         tile.store {{.*}} strides [5, 1] : tensor<4x4xf32>
graph.func @gathered(%x: !graph.tensor<[9000, 5, 7], f32>) -> !graph.tensor<[9000, 7, 5], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 9000, i1 = 7, i2 = 5] -> (!graph.tensor<[9000, 7, 5], f32>) {
    %v = graph.load %x ["i0", "i2", "i1"] : !graph.tensor<[9000, 5, 7], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[9000, 7, 5], f32>
}

// -----

// An exponential of parts of registers takes longer than strided loads of whole ones. A sum does not.

// CHECK-LABEL: graph.func @parts(
// CHECK-NOT:     row axis
// CHECK:         math.exp {{.*}} : tensor<{{16|32|64}}xf32>
graph.func @parts(%x: !graph.tensor<[1024, 64, 4], f32>) -> !graph.tensor<[1024, 4, 64], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 1024, i1 = 4, i2 = 64] -> (!graph.tensor<[1024, 4, 64], f32>) {
    %v = graph.load %x ["i0", "i2", "i1"] : !graph.tensor<[1024, 64, 4], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  graph.return %a : !graph.tensor<[1024, 4, 64], f32>
}

// -----

// CHECK-LABEL: graph.func @little(
// CHECK:         row axis i1 rows 4
graph.func @little(%x: !graph.tensor<[1024, 64, 4], f32>) -> !graph.tensor<[1024, 4, 64], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 1024, i1 = 4, i2 = 64] -> (!graph.tensor<[1024, 4, 64], f32>) {
    %v = graph.load %x ["i0", "i2", "i1"] : !graph.tensor<[1024, 64, 4], f32> -> f32
    %e = arith.addf %v, %v : f32
    graph.yield %e : f32
  }
  graph.return %a : !graph.tensor<[1024, 4, 64], f32>
}

// -----

// Of 20 rows that are summed, tiles of four are whole; of 1000, tiles of eight.

// CHECK-LABEL: graph.func @whole(
// CHECK:         row axis r0 rows 4
// CHECK-NOT:     valid
// CHECK:         tile.return
// CHECK:         row axis r0 rows 8
// CHECK-NOT:     valid
// CHECK:         tile.return
graph.func @whole(%x: !graph.tensor<[256, 20], f32>, %y: !graph.tensor<[20, 256], f32>, %z: !graph.tensor<[256, 1000], f32>, %w: !graph.tensor<[1000, 256], f32>) -> (!graph.tensor<[256], f32>, !graph.tensor<[256], f32>) attributes {symbols = []} {
  %a = graph.loops [i0 = 256, reduce r0 = 20] -> (!graph.tensor<[256], f32>) {
    %v = graph.load %x ["i0", "r0"] : !graph.tensor<[256, 20], f32> -> f32
    %u = graph.load %y ["r0", "i0"] : !graph.tensor<[20, 256], f32> -> f32
    %e = arith.mulf %v, %u : f32
    graph.yield %e : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  %b = graph.loops [i0 = 256, reduce r0 = 1000] -> (!graph.tensor<[256], f32>) {
    %v = graph.load %z ["i0", "r0"] : !graph.tensor<[256, 1000], f32> -> f32
    %u = graph.load %w ["r0", "i0"] : !graph.tensor<[1000, 256], f32> -> f32
    %e = arith.mulf %v, %u : f32
    graph.yield %e : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a, %b : !graph.tensor<[256], f32>, !graph.tensor<[256], f32>
}
