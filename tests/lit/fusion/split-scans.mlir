// RUN: tile-opt %s --split-input-file --graph-lower-to-loops=wide-scans=false --graph-split-scans | FileCheck %s

// Three kernels: folds of the pieces, the fold of all pieces before each one, and scans of the pieces, whose first point takes it in.

// CHECK-LABEL: graph.func @row
// CHECK:         %[[SUMS:.*]] = graph.loops [p = 256, reduce r0 = 4096] -> (!graph.tensor<[256], f32>)
// CHECK:           graph.load %arg0 ["p*4096 + r0"]
// CHECK-NOT:       graph.write_at
// CHECK:         } combine [0.{{.*}}] {
// CHECK:         %[[BEFORE:.*]] = graph.loops [reduce r0 = 256] -> (!graph.tensor<[256], f32>)
// CHECK:           graph.load %[[SUMS]] ["r0 - 1"] mask
// CHECK:           graph.write_at ["r0"]
// CHECK:         graph.loops [p = 256, reduce r0 = 4096] -> (!graph.tensor<[1048576], f32>)
// CHECK:           %[[X:.*]] = graph.load %arg0 ["p*4096 + r0"]
// CHECK:           graph.write_at ["p*4096 + r0"]{{$}}
// CHECK:           %[[PREFIX:.*]] = graph.load %[[BEFORE]] ["p"]
// CHECK:           %[[FIRST:.*]] = arith.addf %[[PREFIX]], %[[X]]
// CHECK:           arith.select %{{.*}}, %[[FIRST]], %[[X]]
graph.func @row(%x: !graph.tensor<[1048576], f32>) -> !graph.tensor<[1048576], f32> attributes {symbols = []} {
  %0 = graph.cumsum %x {dim = 0 : i64} : (!graph.tensor<[1048576], f32>) -> !graph.tensor<[1048576], f32>
  graph.return %0 : !graph.tensor<[1048576], f32>
}

// -----

// Columns: neighbours stay neighbours. bf16 is folded in f32, and so are the pieces.

// CHECK-LABEL: graph.func @columns
// CHECK:         %[[SUMS:.*]] = graph.loops [p = 256, i0 = 512, reduce r0 = 256] -> (!graph.tensor<[256, 512], f32>)
// CHECK:         graph.loops [i0 = 512, reduce r0 = 256] -> (!graph.tensor<[256, 512], f32>)
// CHECK:           graph.load %[[SUMS]] ["r0 - 1", "i0"] mask
// CHECK:         graph.loops [p = 256, i0 = 512, reduce r0 = 256] -> (!graph.tensor<[65536, 512], bf16>)
// CHECK:           graph.write_at ["p*256 + r0", "i0"]{{$}}
graph.func @columns(%x: !graph.tensor<[65536, 512], bf16>) -> !graph.tensor<[65536, 512], bf16> attributes {symbols = []} {
  %0 = graph.cumsum %x {dim = 0 : i64} : (!graph.tensor<[65536, 512], bf16>) -> !graph.tensor<[65536, 512], bf16>
  graph.return %0 : !graph.tensor<[65536, 512], bf16>
}

// -----

// A length that no piece divides: what lies past the end is the identity, and is not written.

// CHECK-LABEL: graph.func @masked
// CHECK:         graph.loops [p = {{.*}}, reduce r0 = {{.*}}]
// CHECK:           graph.load %arg0 {{.*}} mask
// CHECK:         graph.loops [reduce r0
// CHECK:         graph.loops [p = {{.*}}, reduce r0 = {{.*}}] -> (!graph.tensor<[100003], i64>)
// CHECK:           graph.load %arg0 {{.*}} mask %[[INSIDE:[0-9]*]] other
// CHECK:           graph.write_at {{.*}} mask %[[INSIDE]]
graph.func @masked(%x: !graph.tensor<[100003], i64>) -> !graph.tensor<[100003], i64> attributes {symbols = []} {
  %0 = graph.cumsum %x {dim = 0 : i64} : (!graph.tensor<[100003], i64>) -> !graph.tensor<[100003], i64>
  graph.return %0 : !graph.tensor<[100003], i64>
}

// -----

// Enough rows, and few points: one kernel.

// CHECK-LABEL: graph.func @enough
// CHECK:         graph.loops [i0 = 4096, reduce r0 = 4096]
// CHECK-NOT:     p =
// CHECK:         graph.loops [i0 = 8, reduce r0 = 100]
graph.func @enough(%x: !graph.tensor<[4096, 4096], f32>, %y: !graph.tensor<[100, 8], f32>) -> (!graph.tensor<[4096, 4096], f32>, !graph.tensor<[100, 8], f32>) attributes {symbols = []} {
  %0 = graph.cumsum %x {dim = 1 : i64} : (!graph.tensor<[4096, 4096], f32>) -> !graph.tensor<[4096, 4096], f32>
  %1 = graph.cumsum %y {dim = 0 : i64} : (!graph.tensor<[100, 8], f32>) -> !graph.tensor<[100, 8], f32>
  graph.return %0, %1 : !graph.tensor<[4096, 4096], f32>, !graph.tensor<[100, 8], f32>
}

// -----

// Columns of a length that is no multiple of 16 have pieces of equal length too.

// CHECK-LABEL: graph.func @equal
// CHECK:         graph.loops [p = 30, i0 = 64, reduce r0 = 100]
// CHECK-NOT:     mask
// CHECK:         graph.loops [i0 = 64, reduce r0 = 30]
// CHECK:         graph.loops [p = 30, i0 = 64, reduce r0 = 100]
// CHECK:           graph.write_at ["p*100 + r0", "i0"]{{$}}
graph.func @equal(%x: !graph.tensor<[3000, 64], f32>) -> !graph.tensor<[3000, 64], f32> attributes {symbols = []} {
  %0 = graph.cumsum %x {dim = 0 : i64} : (!graph.tensor<[3000, 64], f32>) -> !graph.tensor<[3000, 64], f32>
  graph.return %0 : !graph.tensor<[3000, 64], f32>
}
