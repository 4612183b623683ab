// RUN: tile-opt %s --split-input-file --graph-lower-to-loops=ordered-writes=false --graph-reuse-buffers --graph-split-scatters | FileCheck %s

// Copies of each bin lie side by side, where neighbouring points update them.

// CHECK-LABEL: graph.func @histogram
// CHECK:         %[[ZEROS:.*]] = graph.loops [i0 = 16, i1 = 1024] -> (!graph.tensor<[16, 1024], f32>)
// CHECK:         %[[MANY:.*]] = graph.loops [i0 = 1048576] into(%[[ZEROS]] : !graph.tensor<[16, 1024], f32>)
// CHECK:           graph.write_at ["x0", "Mod(i0, 1024)"]
// CHECK:         %[[SUMS:.*]] = graph.loops [i0 = 16, reduce r0 = 1024] -> (!graph.tensor<[16], f32>)
// CHECK:           graph.load %[[MANY]] ["i0", "r0"]
// CHECK:         graph.loops [i0 = 16] -> (!graph.tensor<[16], f32>)
// CHECK:           %[[HELD:.*]] = graph.load %{{.*}} ["i0"]
// CHECK:           %[[SUM:.*]] = graph.load %[[SUMS]] ["i0"]
// CHECK:           arith.addf %[[HELD]], %[[SUM]] : f32
graph.func @histogram(%x: !graph.tensor<[16], f32>, %i: !graph.tensor<[1048576], i64>, %v: !graph.tensor<[1048576], f32>) -> !graph.tensor<[16], f32> attributes {symbols = []} {
  %0 = graph.index_put %x, %v, %i {dims = array<i64: 0>, combine = "add"} : (!graph.tensor<[16], f32>, !graph.tensor<[1048576], f32>, !graph.tensor<[1048576], i64>) -> !graph.tensor<[16], f32>
  graph.return %0 : !graph.tensor<[16], f32>
}

// -----

// Neighbouring points update neighbouring elements of rows: copies lie apart. A maximum begins with the least value.

// CHECK-LABEL: graph.func @rows
// CHECK:         %[[LEAST:.*]] = graph.loops [i0 = 1024, i1 = 2, i2 = 64] -> (!graph.tensor<[1024, 2, 64], f32>)
// CHECK-NEXT:      arith.constant 0xFF800000 : f32
// CHECK:         graph.loops [i0 = 65536, i1 = 64] into(%[[LEAST]] : !graph.tensor<[1024, 2, 64], f32>)
// CHECK:           graph.write_at ["Mod(i0, 1024)", "x0", "i1"]
// CHECK:         graph.loops [i0 = 2, i1 = 64, reduce r0 = 1024] -> (!graph.tensor<[2, 64], f32>)
graph.func @rows(%x: !graph.tensor<[2, 64], f32>, %i: !graph.tensor<[65536], i64>, %v: !graph.tensor<[65536, 64], f32>) -> !graph.tensor<[2, 64], f32> attributes {symbols = []} {
  %0 = graph.index_put %x, %v, %i {dims = array<i64: 0>, combine = "max"} : (!graph.tensor<[2, 64], f32>, !graph.tensor<[65536, 64], f32>, !graph.tensor<[65536], i64>) -> !graph.tensor<[2, 64], f32>
  graph.return %0 : !graph.tensor<[2, 64], f32>
}

// -----

// Two sums into the same elements update the same copies, which are folded once.

// CHECK-LABEL: graph.func @again
// CHECK:         %[[ZEROS:.*]] = graph.loops [i0 = 16, i1 = 1024]
// CHECK:         %[[FIRST:.*]] = graph.loops [i0 = 1048576] into(%[[ZEROS]]
// CHECK:         graph.loops [i0 = 1048576] into(%[[FIRST]]
// CHECK:         graph.loops [i0 = 16, reduce r0 = 1024]
// CHECK-NOT:     reduce
graph.func @again(%x: !graph.tensor<[16], f32>, %i: !graph.tensor<[1048576], i64>, %j: !graph.tensor<[1048576], i64>, %v: !graph.tensor<[1048576], f32>) -> !graph.tensor<[16], f32> attributes {symbols = []} {
  %0 = graph.index_put %x, %v, %i {dims = array<i64: 0>, combine = "add"} : (!graph.tensor<[16], f32>, !graph.tensor<[1048576], f32>, !graph.tensor<[1048576], i64>) -> !graph.tensor<[16], f32>
  %1 = graph.index_put %0, %v, %j {dims = array<i64: 0>, combine = "add"} : (!graph.tensor<[16], f32>, !graph.tensor<[1048576], f32>, !graph.tensor<[1048576], i64>) -> !graph.tensor<[16], f32>
  graph.return %1 : !graph.tensor<[16], f32>
}

// -----

// Few points for each element, or few points in all, seldom meet.

// CHECK-LABEL: graph.func @seldom
// CHECK-NOT:     Mod(
// CHECK:         graph.return
graph.func @seldom(%x: !graph.tensor<[10000], f32>, %y: !graph.tensor<[100], f32>, %i: !graph.tensor<[65536], i64>, %v: !graph.tensor<[65536], f32>) -> (!graph.tensor<[10000], f32>, !graph.tensor<[100], f32>) attributes {symbols = []} {
  %0 = graph.index_put %x, %v, %i {dims = array<i64: 0>, combine = "add"} : (!graph.tensor<[10000], f32>, !graph.tensor<[65536], f32>, !graph.tensor<[65536], i64>) -> !graph.tensor<[10000], f32>
  %1 = graph.index_put %y, %v, %i {dims = array<i64: 0>, combine = "add"} : (!graph.tensor<[100], f32>, !graph.tensor<[65536], f32>, !graph.tensor<[65536], i64>) -> !graph.tensor<[100], f32>
  graph.return %0, %1 : !graph.tensor<[10000], f32>, !graph.tensor<[100], f32>
}
