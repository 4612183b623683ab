// Products by matrix instructions have the layout of the instructions' results, and so has what is computed from them.
// RUN: tile-opt %s --tile-assign-layouts -split-input-file | FileCheck %s

// Each of four warps has 16 rows; the loop carries the layout, the store takes the usual one.
// CHECK-LABEL: @loop
// CHECK: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<64x32xf32, #tile.linear<registers = [1, 256, 8, 16], threads = [2, 4, 32, 64, 128, 512, 1024]>>
// CHECK: scf.for {{.*}} = %[[ZERO]]) -> (tensor<64x32xf32, #tile.linear<registers = [1, 256, 8, 16], threads = [2, 4, 32, 64, 128, 512, 1024]>>)
// CHECK: tile.dot {{.*}} -> tensor<64x32xf32, #tile.linear
// CHECK: math.exp {{.*}} : tensor<64x32xf32, #tile.linear
// CHECK: tile.convert_layout {{.*}} -> tensor<64x32xf32, #tile.layout<threads = 128, vector = 4>>
// CHECK: tile.store
tile.kernel @loop(%x: !tile.ptr<bf16>, %y: !tile.ptr<bf16>, %z: !tile.ptr<f32>, %n: i64) attributes {tile.threads = 128 : i64} {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x32xf32>
  %sum = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x32xf32>) : i64 {
    %a = tile.load %x[%k] strides [16, 1] : !tile.ptr<bf16> -> tensor<64x16xbf16>
    %b = tile.load %y[%k] strides [32, 1] : !tile.ptr<bf16> -> tensor<16x32xbf16>
    %c = tile.dot %a, %b, %acc : tensor<64x16xbf16>, tensor<16x32xbf16> -> tensor<64x32xf32>
    scf.yield %c : tensor<64x32xf32>
  }
  %e = math.exp %sum : tensor<64x32xf32>
  tile.store %e, %z[%c0] strides [32, 1] : tensor<64x32xf32>, !tile.ptr<f32>
  tile.return
}

// -----

// A product that is an operand of the next one, and its maximum along the rows, stay in the threads that hold the rows.
// CHECK-LABEL: @chain
// CHECK: %[[S:.*]] = tile.dot {{.*}} -> tensor<32x16xf32, #tile.linear<registers = [1, 128, 8], threads = [2, 4, 16, 32, 64, 256]>>
// CHECK: tile.reduce(%[[S]]) {{.*}} -> tensor<32xf32, #tile.linear<registers = [8], threads = [0, 0, 1, 2, 4, 16]>>
// CHECK-NOT: tile.convert_layout
// CHECK: %[[P:.*]] = arith.truncf
// CHECK: tile.dot %[[P]]
tile.kernel @chain(%x: !tile.ptr<bf16>, %y: !tile.ptr<bf16>, %z: !tile.ptr<f32>) attributes {tile.threads = 64 : i64} {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<32x16xf32>
  %a = tile.load %x[%c0] strides [16, 1] : !tile.ptr<bf16> -> tensor<32x16xbf16>
  %b = tile.load %y[%c0] strides [16, 1] : !tile.ptr<bf16> -> tensor<16x16xbf16>
  %s = tile.dot %a, %b, %zero : tensor<32x16xbf16>, tensor<16x16xbf16> -> tensor<32x16xf32>
  %m = tile.reduce (%s) axis 1 : (tensor<32x16xf32>) -> tensor<32xf32> {
  ^bb0(%l: f32, %r: f32):
    %max = arith.maximumf %l, %r : f32
    tile.yield %max : f32
  }
  %row = tile.expand_dims %m axis 1 : tensor<32xf32> -> tensor<32x1xf32>
  %all = tile.broadcast %row : tensor<32x1xf32> -> tensor<32x16xf32>
  %d = arith.subf %s, %all : tensor<32x16xf32>
  %p = arith.truncf %d : tensor<32x16xf32> to tensor<32x16xbf16>
  %o = tile.dot %p, %b, %zero : tensor<32x16xbf16>, tensor<16x16xbf16> -> tensor<32x16xf32>
  tile.store %o, %z[%c0] strides [16, 1] : tensor<32x16xf32>, !tile.ptr<f32>
  tile.return
}
