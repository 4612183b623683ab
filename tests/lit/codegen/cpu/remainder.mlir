// The remainder of floats: by one division where the quotient is moderate in all lanes, else lane by lane.
// RUN: tile-compile %s --emit=50-kernel.ll --target=x86-64-v4 | FileCheck %s

// CHECK-LABEL: ; remainder
// CHECK: %[[Q:.*]] = fdiv <16 x float>
// CHECK: llvm.trunc.v16f32
// CHECK: br i1
// CHECK: llvm.fma.v16f32
// CHECK: frem
tile.kernel @remainder(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %out: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<16xf32>
  %b = tile.load %y[%zero] strides [1] : !tile.ptr<f32> -> tensor<16xf32>
  %r = arith.remf %a, %b : tensor<16xf32>
  tile.store %r, %out[%zero] strides [1] : tensor<16xf32>, !tile.ptr<f32>
  tile.return
}
