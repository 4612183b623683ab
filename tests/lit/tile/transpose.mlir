// A 16x16 transpose of a matrix by programs of a two-axis grid: vector loads and stores, shuffles between.
// RUN: tile-compile %s --emit=50-kernel.ll --target=x86-64-v4 | FileCheck %s

// CHECK: load <16 x float>
// CHECK-NOT: extractelement
// CHECK-COUNT-64: shufflevector <16 x float>
// CHECK-NOT: insertelement <16 x float>
// CHECK: store <16 x float>
tile.kernel @transpose(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>, %m: i64, %n: i64) {
  %i = tile.program_id 0 : i64
  %j = tile.program_id 1 : i64
  %size = arith.constant 16 : i64
  %row = arith.muli %i, %size : i64
  %col = arith.muli %j, %size : i64
  %from0 = arith.muli %row, %n : i64
  %from = arith.addi %from0, %col : i64
  %to0 = arith.muli %col, %m : i64
  %to = arith.addi %to0, %row : i64
  %t = tile.load %x[%from] strides [%n, 1] : !tile.ptr<f32> -> tensor<16x16xf32>
  %u = tile.trans %t perm [1, 0] : tensor<16x16xf32> -> tensor<16x16xf32>
  tile.store %u, %out[%to] strides [%m, 1] : tensor<16x16xf32>, !tile.ptr<f32>
  tile.return
}

// Short rows share registers: four steps of eight shuffles of two rows each.

// CHECK-LABEL: ; short
// CHECK-COUNT-32: shufflevector <32 x i16>
// CHECK: store <16 x i16>
tile.kernel @short(%x: !tile.ptr<i16>, %out: !tile.ptr<i16>) {
  %zero = arith.constant 0 : i64
  %t = tile.load %x[%zero] strides [64, 1] : !tile.ptr<i16> -> tensor<16x16xi16>
  %u = tile.trans %t perm [1, 0] : tensor<16x16xi16> -> tensor<16x16xi16>
  tile.store %u, %out[%zero] strides [64, 1] : tensor<16x16xi16>, !tile.ptr<i16>
  tile.return
}
