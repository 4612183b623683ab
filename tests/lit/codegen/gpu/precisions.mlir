// Products of f32 by instructions of whole warps, whose operands are rounded or split into terms.
// RUN: split-file %s %t
// RUN: tile-compile %t/tf32.mlir --target=sm_80 --emit=ptx -o %t/tf32.ptx
// RUN: FileCheck %s --check-prefix=TF32 < %t/tf32.ptx
// RUN: %ptxas -arch=sm_80 %t/tf32.ptx
// RUN: tile-compile %t/tf32x3.mlir --target=sm_90a --emit=ptx -o %t/tf32x3.ptx
// RUN: FileCheck %s --check-prefix=TF32X3 < %t/tf32x3.ptx
// RUN: %ptxas -arch=sm_90a %t/tf32x3.ptx
// RUN: tile-compile %t/bf16x6.mlir --target=sm_80 --emit=ptx -o %t/bf16x6.ptx
// RUN: FileCheck %s --check-prefix=BF16X6 < %t/bf16x6.ptx
// RUN: %ptxas -arch=sm_80 %t/bf16x6.ptx
// RUN: tile-compile %t/ieee.mlir --target=sm_80 --emit=ptx -o %t/ieee.ptx
// RUN: FileCheck %s --check-prefix=IEEE < %t/ieee.ptx

// The left operand lies along the depth. Of the right one, whose rows are the depth, each thread reads four elements of
// 16 columns for each of two steps. Each register is rounded.
// TF32-COUNT-1: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// TF32-COUNT-4: cvt.rna.tf32.f32
// TF32-COUNT-4: ld.shared.b32
// TF32-COUNT-4: cvt.rna.tf32.f32
// TF32-COUNT-2: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
// TF32-COUNT-1: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// TF32-COUNT-2: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
// TF32-NOT: mma.sync
// TF32-NOT: fma.rn.f32

// Three products for each; wgmma takes no operands that are rounded in registers first.
// TF32X3-COUNT-12: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
// TF32X3-NOT: mma.sync
// TF32X3-NOT: wgmma

// Six for each, of 16 of the depth.
// BF16X6-COUNT-12: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// BF16X6-NOT: mma.sync

// IEEE-NOT: mma.sync
// IEEE: fma.rn.f32

//--- tf32.mlir
tile.kernel @product(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %z: !tile.ptr<f32>) attributes {tile.threads = 32 : i64} {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %a = tile.load %x[%c0] strides [16, 1] : !tile.ptr<f32> -> tensor<16x16xf32>
  %b = tile.load %y[%c0] strides [16, 1] : !tile.ptr<f32> -> tensor<16x16xf32>
  %c = tile.dot %a, %b, %zero {tile.input_precision = "tf32"} : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  tile.store %c, %z[%c0] strides [16, 1] : tensor<16x16xf32>, !tile.ptr<f32>
  tile.return
}
//--- tf32x3.mlir
tile.kernel @product(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %z: !tile.ptr<f32>) attributes {tile.threads = 32 : i64} {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %a = tile.load %x[%c0] strides [16, 1] : !tile.ptr<f32> -> tensor<16x16xf32>
  %b = tile.load %y[%c0] strides [16, 1] : !tile.ptr<f32> -> tensor<16x16xf32>
  %c = tile.dot %a, %b, %zero {tile.input_precision = "tf32x3"} : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  tile.store %c, %z[%c0] strides [16, 1] : tensor<16x16xf32>, !tile.ptr<f32>
  tile.return
}
//--- bf16x6.mlir
tile.kernel @product(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %z: !tile.ptr<f32>) attributes {tile.threads = 32 : i64} {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %a = tile.load %x[%c0] strides [16, 1] : !tile.ptr<f32> -> tensor<16x16xf32>
  %b = tile.load %y[%c0] strides [16, 1] : !tile.ptr<f32> -> tensor<16x16xf32>
  %c = tile.dot %a, %b, %zero {tile.input_precision = "bf16x6"} : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  tile.store %c, %z[%c0] strides [16, 1] : tensor<16x16xf32>, !tile.ptr<f32>
  tile.return
}
//--- ieee.mlir
tile.kernel @product(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %z: !tile.ptr<f32>) attributes {tile.threads = 32 : i64} {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %a = tile.load %x[%c0] strides [16, 1] : !tile.ptr<f32> -> tensor<16x16xf32>
  %b = tile.load %y[%c0] strides [16, 1] : !tile.ptr<f32> -> tensor<16x16xf32>
  %c = tile.dot %a, %b, %zero {tile.input_precision = "ieee"} : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  tile.store %c, %z[%c0] strides [16, 1] : tensor<16x16xf32>, !tile.ptr<f32>
  tile.return
}
