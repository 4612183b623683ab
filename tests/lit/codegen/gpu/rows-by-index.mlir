// Rows that indices choose are read in pieces of 16 bytes, and sums into such rows are made in pieces of four floats
// where the GPU has an instruction for that. Indices are checked by one branch for all elements of a thread.
// RUN: split-file %s %t
// RUN: tile-compile %t/rows.mlir --target=sm_90 --emit=60-kernel.ptx -o - | FileCheck %s --check-prefixes=ROWS,PIECES
// RUN: tile-compile %t/rows.mlir --target=sm_80 --emit=60-kernel.ptx -o - | FileCheck %s --check-prefixes=ROWS,SINGLE
// RUN: tile-compile %t/odd.mlir --target=sm_90 --emit=60-kernel.ptx -o - | FileCheck %s --check-prefix=ODD
// RUN: tile-compile %t/edges.mlir --target=sm_90 --emit=30-tile.mlir -o - | FileCheck %s --check-prefix=EDGES

// The first kernel writes zeros.
// ROWS: .visible .entry
// ROWS: .visible .entry
// ROWS-COUNT-1: call.uni __assertfail
// PIECES: ld.global.nc.v4.b32
// PIECES: red.relaxed.gpu.global.add.v4.f32
// SINGLE-NOT: add.v4.f32
// SINGLE: atom.global.add.f32

// Rows of 63 floats begin anywhere.
// ODD-NOT: add.v4.f32
// ODD-NOT: ld.global{{.*}}.v4.b32

// What tells the elements of a tile apart has 32 bits.
// EDGES: arith.maxsi {{.*}}tensor<{{.*}}xi32>
// EDGES: arith.minsi {{.*}}tensor<{{.*}}xi32>
// EDGES: tile.gather {{.*}}xi32> -> tensor

//--- rows.mlir
graph.func @graph(%0: !graph.tensor<[131072, 64], f32>, %1: !graph.tensor<[1048576], i64>) -> (!graph.tensor<[131072, 64], f32>) attributes {symbols = []} {
  %2 = graph.index %0, %1 {dims = array<i64: 0>, wrap = true} : (!graph.tensor<[131072, 64], f32>, !graph.tensor<[1048576], i64>) -> !graph.tensor<[1048576, 64], f32>
  %3 = graph.relu %2 : (!graph.tensor<[1048576, 64], f32>) -> !graph.tensor<[1048576, 64], f32>
  %4 = graph.full {value = 0.0 : f64} : () -> !graph.tensor<[131072, 64], f32>
  %5 = graph.index_put %4, %3, %1 {dims = array<i64: 0>, combine = "add"} : (!graph.tensor<[131072, 64], f32>, !graph.tensor<[1048576, 64], f32>, !graph.tensor<[1048576], i64>) -> !graph.tensor<[131072, 64], f32>
  graph.return %5 : !graph.tensor<[131072, 64], f32>
}

//--- odd.mlir
graph.func @graph(%0: !graph.tensor<[131072, 63], f32>, %1: !graph.tensor<[1048576], i64>) -> (!graph.tensor<[131072, 63], f32>) attributes {symbols = []} {
  %2 = graph.index %0, %1 {dims = array<i64: 0>, wrap = true} : (!graph.tensor<[131072, 63], f32>, !graph.tensor<[1048576], i64>) -> !graph.tensor<[1048576, 63], f32>
  %3 = graph.relu %2 : (!graph.tensor<[1048576, 63], f32>) -> !graph.tensor<[1048576, 63], f32>
  %4 = graph.full {value = 0.0 : f64} : () -> !graph.tensor<[131072, 63], f32>
  %5 = graph.index_put %4, %3, %1 {dims = array<i64: 0>, combine = "add"} : (!graph.tensor<[131072, 63], f32>, !graph.tensor<[1048576, 63], f32>, !graph.tensor<[1048576], i64>) -> !graph.tensor<[131072, 63], f32>
  graph.return %5 : !graph.tensor<[131072, 63], f32>
}

//--- edges.mlir
graph.func @graph(%0: !graph.tensor<[192, 512, 512], f32>) -> (!graph.tensor<[192, 512, 514], f32>) attributes {symbols = []} {
  %1 = graph.iota {start = -1 : i64, step = 1 : i64} : () -> !graph.tensor<[514], i64>
  %2 = graph.full {value = 0 : i64} : () -> !graph.tensor<[], i64>
  %3 = graph.full {value = 511 : i64} : () -> !graph.tensor<[], i64>
  %4 = graph.maximum %1, %2 : (!graph.tensor<[514], i64>, !graph.tensor<[], i64>) -> !graph.tensor<[514], i64>
  %5 = graph.minimum %4, %3 : (!graph.tensor<[514], i64>, !graph.tensor<[], i64>) -> !graph.tensor<[514], i64>
  %6 = graph.index %0, %5 {dims = array<i64: 2>, wrap = true} : (!graph.tensor<[192, 512, 512], f32>, !graph.tensor<[514], i64>) -> !graph.tensor<[192, 512, 514], f32>
  graph.return %6 : !graph.tensor<[192, 512, 514], f32>
}
