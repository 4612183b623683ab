// The remainder of floats: by one division where the quotient is exact as an integer in all elements of a thread, else
// by a loop in float64. Quotients of halves by a number that is not tiny are always exact.
// RUN: tile-compile %s --emit=60-kernel.ptx --target=sm_90 | FileCheck %s

// CHECK-LABEL: // of_halves =
// CHECK: .visible .entry
// CHECK-NOT: f64
// CHECK: div.rn.f32
// CHECK-NOT: f64
// CHECK: fma.rn.f32
// CHECK-NOT: f64
// CHECK: .visible .entry
// CHECK: div.rn.f32
// CHECK: bra
// CHECK: div.rn.f64
tile.kernel @of_halves(%x: !tile.ptr<f16>, %out: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f16> -> tensor<128xf16>
  %wide = arith.extf %a : tensor<128xf16> to tensor<128xf32>
  %six = arith.constant 6.0 : f32
  %sixes = tile.splat %six : f32 -> tensor<128xf32>
  %r = arith.remf %wide, %sixes : tensor<128xf32>
  tile.store %r, %out[%zero] strides [1] : tensor<128xf32>, !tile.ptr<f32>
  tile.return
}

tile.kernel @of_floats(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %out: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<128xf32>
  %b = tile.load %y[%zero] strides [1] : !tile.ptr<f32> -> tensor<128xf32>
  %r = arith.remf %a, %b : tensor<128xf32>
  tile.store %r, %out[%zero] strides [1] : tensor<128xf32>, !tile.ptr<f32>
  tile.return
}
