// graph-build-tile-kernels: scatters and scans.
// RUN: tile-opt %s --split-input-file --graph-lower-to-loops --graph-inline-producers --graph-form-groups --graph-build-tile-kernels | FileCheck %s

// Lanes lie along the rows, which are parallel; a program takes the indices one after the other and writes a piece of a row for each. What the values are made of
// is computed there.
// CHECK-LABEL: graph.func @rows(
// CHECK:         tile.kernel @kernel_1
// CHECK-SAME:    axes [i0 = 64, reduce r0 = 4096]
// CHECK-SAME:    vector axis i0 lanes 64 innermost
// CHECK:         scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c1_
// CHECK:         %[[I:.*]] = tile.load %{{.*}} strides [] : !tile.ptr<i64> -> i64
// CHECK:         %[[J:.*]] = tile.check_index %[[I]]
// CHECK:         %[[V:.*]] = math.exp %{{.*}} : tensor<64xf32>
// CHECK:         %[[BASE:.*]] = arith.muli %[[J]]
// CHECK:         %[[HELD:.*]] = tile.load %[[DEST:.*]][%{{.*}}] strides [1] : !tile.ptr<f32> -> tensor<64xf32>
// CHECK:         %[[SUM:.*]] = arith.addf %[[HELD]], %[[V]]
// CHECK:         tile.store %[[SUM]], %[[DEST]]
graph.func @rows(%x: !graph.tensor<[1000, 64], f32>, %i: !graph.tensor<[4096], i64>, %g: !graph.tensor<[4096, 64], f32>) -> !graph.tensor<[1000, 64], f32> attributes {symbols = []} {
  %e = graph.exp %g : (!graph.tensor<[4096, 64], f32>) -> !graph.tensor<[4096, 64], f32>
  %0 = graph.index_put %x, %e, %i {combine = "add"}
    : (!graph.tensor<[1000, 64], f32>, !graph.tensor<[4096, 64], f32>, !graph.tensor<[4096], i64>) -> !graph.tensor<[1000, 64], f32>
  graph.return %0 : !graph.tensor<[1000, 64], f32>
}

// -----

// Lanes lie along the axis that keeps its order: values and indices are tiles, memory is changed lane after lane.
// CHECK-LABEL: graph.func @lanes(
// CHECK:         tile.kernel @kernel_1
// CHECK-SAME:    vector axis r0 lanes 16
// CHECK:         %[[J:.*]] = tile.check_index %{{.*}} : tensor<16xi64> -> tensor<16xi64>
// CHECK:         %[[V:.*]] = tile.load %{{.*}} : !tile.ptr<f32> -> tensor<16xf32>
// CHECK:         %[[AT:.*]] = arith.addi %{{.*}}, %[[J]]
// CHECK:         tile.scatter %[[V]], %{{.*}}[%[[AT]]] : tensor<16xf32>, !tile.ptr<f32>, tensor<16xi64> combine {
// CHECK:         arith.mulf
graph.func @lanes(%x: !graph.tensor<[6, 9], f32>, %i: !graph.tensor<[6, 64], i64>, %v: !graph.tensor<[6, 64], f32>) -> !graph.tensor<[6, 9], f32> attributes {symbols = []} {
  %0 = graph.scatter %x, %i, %v {dim = 1 : i64, combine = "mul"}
    : (!graph.tensor<[6, 9], f32>, !graph.tensor<[6, 64], i64>, !graph.tensor<[6, 64], f32>) -> !graph.tensor<[6, 9], f32>
  graph.return %0 : !graph.tensor<[6, 9], f32>
}

// -----

// One value for all rows: nothing is contiguous along i0, so the programs share it, and lanes lie along the indices.
// CHECK-LABEL: graph.func @one_value(
// CHECK:         axes [i0 = 256, reduce r0 = 64]
// CHECK-SAME:    vector axis r0 lanes 16 blocked axis i0
graph.func @one_value(%x: !graph.tensor<[256, 1024], f32>, %i: !graph.tensor<[64], i64>, %v: !graph.tensor<[], f32>) -> !graph.tensor<[256, 1024], f32> attributes {symbols = []} {
  %e = graph.expand %v : (!graph.tensor<[], f32>) -> !graph.tensor<[256, 64], f32, [0, 0]>
  %0 = graph.index_put %x, %e, %i {combine = "add", dims = array<i64: 1>}
    : (!graph.tensor<[256, 1024], f32>, !graph.tensor<[256, 64], f32, [0, 0]>, !graph.tensor<[64], i64>) -> !graph.tensor<[256, 1024], f32>
  graph.return %0 : !graph.tensor<[256, 1024], f32>
}

// -----

// Along the lanes: a scan of each tile, and its last lane carried to the next tile in all lanes.
// CHECK-LABEL: graph.func @row_scan(
// CHECK:         %[[CARRIED:.*]] = scf.for {{.*}} iter_args(%[[BEFORE:.*]] = %{{.*}}) -> (tensor<16xf64>)
// CHECK:         %[[SCAN:.*]] = tile.scan(%{{.*}}) axis 0 : (tensor<16xf64>) -> tensor<16xf64> {
// CHECK:         %[[END:.*]] = tile.extract %[[SCAN]]
// CHECK:         %[[SPLAT:.*]] = tile.splat %[[END]]
// CHECK:         %[[NEXT:.*]] = arith.addf %[[BEFORE]], %[[SPLAT]]
// CHECK:         %[[SUM:.*]] = arith.addf %[[BEFORE]], %[[SCAN]]
// CHECK:         %[[ROUNDED:.*]] = arith.truncf %[[SUM]]
// CHECK:         tile.store %[[ROUNDED]]
// CHECK:         scf.yield %[[NEXT]]
graph.func @row_scan(%x: !graph.tensor<[6, 77], f32>) -> !graph.tensor<[6, 77], f32> attributes {symbols = []} {
  %0 = graph.cumsum %x {dim = 1 : i64} : (!graph.tensor<[6, 77], f32>) -> !graph.tensor<[6, 77], f32>
  graph.return %0 : !graph.tensor<[6, 77], f32>
}

// -----

// Where combining takes long, the last lane is carried as a scalar.
// CHECK-LABEL: graph.func @long_scan(
// CHECK:         scf.for {{.*}} iter_args(%[[BEFORE:.*]] = %{{.*}}) -> (f64)
// CHECK:         tile.scan
// CHECK:         tile.splat %[[BEFORE]]
graph.func @long_scan(%x: !graph.tensor<[6, 77], f32>) -> !graph.tensor<[6, 77], f32> attributes {symbols = []} {
  %0 = graph.logcumsumexp %x {dim = 1 : i64} : (!graph.tensor<[6, 77], f32>) -> !graph.tensor<[6, 77], f32>
  graph.return %0 : !graph.tensor<[6, 77], f32>
}

// -----

// The index of the largest so far takes 32 bits until it is written.
// CHECK-LABEL: graph.func @index_scan(
// CHECK:         tile.scan(%{{.*}}, %{{.*}}) axis 0 : (tensor<32xf32>, tensor<32xi32>)
// CHECK:         arith.extsi %{{.*}} : tensor<32xi32> to tensor<32xi64>
graph.func @index_scan(%x: !graph.tensor<[6, 77], f32>) -> (!graph.tensor<[6, 77], f32>, !graph.tensor<[6, 77], i64>) attributes {symbols = []} {
  %0:2 = graph.cummax %x {dim = 1 : i64} : (!graph.tensor<[6, 77], f32>) -> (!graph.tensor<[6, 77], f32>, !graph.tensor<[6, 77], i64>)
  graph.return %0#0, %0#1 : !graph.tensor<[6, 77], f32>, !graph.tensor<[6, 77], i64>
}

// -----

// Across the lanes: a carried tile. What is computed point by point of the result is done as the scan goes on.
// CHECK-LABEL: graph.func @column_scan(
// CHECK-COUNT-1: graph.launch
// CHECK:         scf.for {{.*}} iter_args(%[[BEFORE:.*]] = %{{.*}}) -> (tensor<32xi64>)
// CHECK:         %[[SUM:.*]] = arith.addi %[[BEFORE]]
// CHECK:         %[[NEGATED:.*]] = arith.subi %{{.*}}, %[[SUM]]
// CHECK-NOT:     tile.store %[[SUM]]
// CHECK:         tile.store %[[NEGATED]]
// CHECK:         scf.yield %[[SUM]]
graph.func @column_scan(%x: !graph.tensor<[100, 64], i64>) -> !graph.tensor<[100, 64], i64> attributes {symbols = []} {
  %0 = graph.cumsum %x {dim = 0 : i64} : (!graph.tensor<[100, 64], i64>) -> !graph.tensor<[100, 64], i64>
  %1 = graph.neg %0 : (!graph.tensor<[100, 64], i64>) -> !graph.tensor<[100, 64], i64>
  graph.return %1 : !graph.tensor<[100, 64], i64>
}

// -----

// Lanes along a parallel axis, each with an index of its own: they never meet, so they are read and written at once.
// CHECK-LABEL: graph.func @parallel_lanes(
// CHECK:         tile.kernel @kernel_1
// CHECK-SAME:    vector axis i0
// CHECK:         %[[HELD:.*]] = tile.gather %[[DEST:.*]][%[[AT:.*]]]
// CHECK:         %[[SUM:.*]] = arith.addf %[[HELD]]
// CHECK:         tile.scatter %[[SUM]], %[[DEST]][%[[AT]]]
// CHECK-NOT:     combine
graph.func @parallel_lanes(%x: !graph.tensor<[9, 64], f32>, %i: !graph.tensor<[6, 64], i64>, %v: !graph.tensor<[6, 64], f32>) -> !graph.tensor<[9, 64], f32> attributes {symbols = []} {
  %0 = graph.scatter %x, %i, %v {dim = 0 : i64, combine = "add"}
    : (!graph.tensor<[9, 64], f32>, !graph.tensor<[6, 64], i64>, !graph.tensor<[6, 64], f32>) -> !graph.tensor<[9, 64], f32>
  graph.return %0 : !graph.tensor<[9, 64], f32>
}
