// Functions without a float32 form are computed in float64 on the device: nothing outside is called, and what large
// arguments of sine take has a function and registers of its own. An index out of range is an
// assertion of the device, as in eager.
// RUN: tile-compile %s --target=sm_90 --emit=60-kernel.ptx | FileCheck %s

// CHECK-LABEL: // powers =
// CHECK-NOT: .extern
// CHECK: .func (.param .b32 func_retval0) tile_sin
// CHECK: .visible .entry
// CHECK-NOT: f64
// CHECK: call.uni (retval0), tile_sin
// CHECK: cvt.f64.f32
// CHECK: fma.rn.f64
// CHECK: cvt.rn.f32.f64
// CHECK: ret;
tile.kernel @powers(%x: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<64xf32>
  %p = math.powf %v, %v : tensor<64xf32>
  %s = math.sin %p : tensor<64xf32>
  %r = math.asin %s : tensor<64xf32>
  tile.store %r, %x[%zero] strides [1] : tensor<64xf32>, !tile.ptr<f32>
  tile.return
}

// CHECK-LABEL: // checked =
// CHECK: .visible .entry
// CHECK: setp.{{lt|ge|gt|le}}
// CHECK: __assertfail
// CHECK: ret;
tile.kernel @checked(%x: !tile.ptr<f32>, %i: !tile.ptr<i64>, %n: i64) {
  %zero = arith.constant 0 : i64
  %v = tile.load %i[%zero] strides [1] : !tile.ptr<i64> -> tensor<64xi64>
  %c = tile.check_index %v in %n wrap line 3 : tensor<64xi64> -> tensor<64xi64>
  %g = tile.gather %x[%c] : !tile.ptr<f32>, tensor<64xi64> -> tensor<64xf32>
  tile.store %g, %x[%zero] strides [1] : tensor<64xf32>, !tile.ptr<f32>
  tile.return
}

// Pairs round by one instruction, also where a value goes on in f32. tanh is the instruction's exponential and reciprocal.
// CHECK-LABEL: // halves =
// CHECK: .visible .entry
// CHECK-NOT: cvt.rn.bf16.f32
// CHECK-NOT: div
// CHECK: cvt.rn.bf16x2.f32
// CHECK: ex2.approx.ftz.f32
// CHECK: rcp.approx.ftz.f32
// CHECK-NOT: cvt.rn.bf16.f32
// CHECK: ret;
tile.kernel @halves(%x: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<512xf32>
  %h = arith.truncf %v : tensor<512xf32> to tensor<512xbf16>
  %w = arith.extf %h : tensor<512xbf16> to tensor<512xf32>
  %t = math.tanh %w : tensor<512xf32>
  tile.store %t, %x[%zero] strides [1] : tensor<512xf32>, !tile.ptr<f32>
  tile.return
}
