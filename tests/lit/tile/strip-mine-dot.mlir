// Blocks of products by the registers of the target, and transposed operands.
// RUN: tile-opt %s --tile-strip-mine=vector-bits=256 | FileCheck %s --check-prefixes=CHECK,AVX2
// RUN: tile-opt %s --tile-strip-mine=vector-bits=512 | FileCheck %s --check-prefixes=CHECK,AVX512

tile.kernel @product(%a: !tile.ptr<f32>, %b: !tile.ptr<f32>, %c: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %acc = arith.constant dense<0.0> : tensor<32x64xf32>
  %left = tile.load %a[%zero] strides [64, 1] : !tile.ptr<f32> -> tensor<32x64xf32>
  %rows = tile.load %b[%zero] strides [64, 1] : !tile.ptr<f32> -> tensor<64x64xf32>
  %right = tile.trans %rows perm [1, 0] : tensor<64x64xf32> -> tensor<64x64xf32>
  %sum = tile.dot %left, %right, %acc : tensor<32x64xf32>, tensor<64x64xf32> -> tensor<32x64xf32>
  tile.store %sum, %c[%zero] strides [64, 1] : tensor<32x64xf32>, !tile.ptr<f32>
  tile.return
}
// CHECK: tile.trans {{.*}} : tensor<8x8xf32> -> tensor<8x8xf32>
// AVX2: math.fma {{.*}} : tensor<16xf32>
// AVX512: math.fma {{.*}} : tensor<64xf32>
