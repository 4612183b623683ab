// Products of 16-bit floats and of int8 by instructions of whole warps.
// RUN: tile-compile %s --target=sm_80 --emit=ptx -o %t.ptx
// RUN: FileCheck %s < %t.ptx
// RUN: %ptxas -arch=sm_80 %t.ptx

// The left operand is read as it lies, the right one, whose rows are the depth, transposed. Two steps of the depth, a
// block of 16 rows and two of 8 columns for each of two warps.
// CHECK: st.shared
// CHECK: bar.sync
// CHECK-COUNT-1: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK-COUNT-1: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK-COUNT-4: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK-NOT: fma.rn.f32
tile.kernel @product(%x: !tile.ptr<bf16>, %y: !tile.ptr<bf16>, %z: !tile.ptr<f32>) attributes {tile.threads = 64 : i64} {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<32x16xf32>
  %a = tile.load %x[%c0] strides [32, 1] : !tile.ptr<bf16> -> tensor<32x32xbf16>
  %b = tile.load %y[%c0] strides [16, 1] : !tile.ptr<bf16> -> tensor<32x16xbf16>
  %c = tile.dot %a, %b, %zero : tensor<32x32xbf16>, tensor<32x16xbf16> -> tensor<32x16xf32>
  tile.store %c, %z[%c0] strides [16, 1] : tensor<32x16xf32>, !tile.ptr<f32>
  tile.return
}
