// Products of 8-bit floats become those of f16 where no instruction makes them.
// RUN: tile-opt %s --tile-assign-layouts | FileCheck %s --check-prefixes=CHECK,F16
// RUN: tile-opt %s --tile-assign-layouts=float8=true | FileCheck %s --check-prefixes=CHECK,F8

// A transpose stays the operand.
// CHECK-LABEL: @along_the_depth
// F16: %[[X:.*]] = tile.load {{.*}} strides [64, 1]
// F16: %[[B:.*]] = arith.extf %[[X]] : tensor<16x32xf8E4M3FN, {{.*}}> to tensor<16x32xf16
// F16: %[[T:.*]] = tile.trans %[[B]] perm [1, 0]
// F16: tile.dot %{{.*}}, %[[T]], {{.*}} : tensor<16x32xf16
// F8-NOT: arith.extf
// F8: tile.dot {{.*}} : tensor<16x32xf8E4M3FN
tile.kernel @along_the_depth(%x: !tile.ptr<f8E4M3FN>, %z: !tile.ptr<f32>) attributes {tile.threads = 32 : i64} {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %a = tile.load %x[%c0] strides [32, 1] : !tile.ptr<f8E4M3FN> -> tensor<16x32xf8E4M3FN>
  %b = tile.load %x[%c0] strides [64, 1] : !tile.ptr<f8E4M3FN> -> tensor<16x32xf8E4M3FN>
  %t = tile.trans %b perm [1, 0] : tensor<16x32xf8E4M3FN> -> tensor<32x16xf8E4M3FN>
  %c = tile.dot %a, %t, %zero : tensor<16x32xf8E4M3FN>, tensor<32x16xf8E4M3FN> -> tensor<16x16xf32>
  tile.store %c, %z[%c0] strides [16, 1] : tensor<16x16xf32>, !tile.ptr<f32>
  tile.return
}

// An instruction takes 32 of the depth, so 16 are f16 everywhere.
// CHECK-LABEL: @short_depth
// CHECK-COUNT-2: arith.extf
// CHECK: tile.dot {{.*}} : tensor<16x16xf16
tile.kernel @short_depth(%x: !tile.ptr<f8E5M2>, %z: !tile.ptr<f32>) attributes {tile.threads = 32 : i64} {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %a = tile.load %x[%c0] strides [16, 1] : !tile.ptr<f8E5M2> -> tensor<16x16xf8E5M2>
  %c = tile.dot %a, %a, %zero : tensor<16x16xf8E5M2>, tensor<16x16xf8E5M2> -> tensor<16x16xf32>
  tile.store %c, %z[%c0] strides [16, 1] : tensor<16x16xf32>, !tile.ptr<f32>
  tile.return
}
