// Several matrices at once: the rows of all lie one after the other.
// RUN: tile-compile %s --target=sm_80 --emit=ptx -o %t.ptx
// RUN: FileCheck %s < %t.ptx
// RUN: %ptxas -arch=sm_80 %t.ptx
// RUN: tile-opt %s --tile-assign-layouts | FileCheck %s --check-prefix=LAYOUT

// Two warps for four matrices: the last bit of the thread's number goes to the last two matrices.
// LAYOUT: tile.dot {{.*}} -> tensor<4x16x16xf32, #tile.linear<registers = [1, 128, 8, 256], threads = [2, 4, 16, 32, 64, 512]>>
// LAYOUT: tile.reduce({{.*}}) axis 2 {{.*}} -> tensor<4x16xf32, #tile.linear<registers = [8, 16], threads = [0, 0, 1, 2, 4, 32]>>

// A warp reads both operands of each of its matrices.
// CHECK-COUNT-2: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK-COUNT-2: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK-COUNT-4: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// CHECK-NOT: mma.sync
// CHECK-NOT: fma.rn.f32
tile.kernel @products(%x: !tile.ptr<f16>, %y: !tile.ptr<f16>, %z: !tile.ptr<f32>, %s: !tile.ptr<f32>) attributes {tile.threads = 64 : i64} {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<4x16x16xf32>
  %a = tile.load %x[%c0] strides [256, 16, 1] : !tile.ptr<f16> -> tensor<4x16x16xf16>
  %b = tile.load %y[%c0] strides [256, 16, 1] : !tile.ptr<f16> -> tensor<4x16x16xf16>
  %c = tile.dot %a, %b, %zero : tensor<4x16x16xf16>, tensor<4x16x16xf16> -> tensor<4x16x16xf32>
  %r = tile.reduce (%c) axis 2 : (tensor<4x16x16xf32>) -> tensor<4x16xf32> {
  ^bb0(%l: f32, %m: f32):
    %sum = arith.addf %l, %m : f32
    tile.yield %sum : f32
  }
  tile.store %r, %s[%c0] strides [16, 1] : tensor<4x16xf32>, !tile.ptr<f32>
  tile.store %c, %z[%c0] strides [256, 16, 1] : tensor<4x16x16xf32>, !tile.ptr<f32>
  tile.return
}
