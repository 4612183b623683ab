// Products of 8-bit floats, and of f64.
// RUN: split-file %s %t
// RUN: tile-compile %t/e4m3.mlir --target=sm_89 --emit=ptx -o %t/89.ptx
// RUN: FileCheck %s --check-prefix=SM89 < %t/89.ptx
// RUN: %ptxas -arch=sm_89 %t/89.ptx
// RUN: tile-compile %t/e4m3.mlir --target=sm_80 --emit=ptx -o %t/80.ptx
// RUN: FileCheck %s --check-prefix=SM80 < %t/80.ptx
// RUN: %ptxas -arch=sm_80 %t/80.ptx
// RUN: tile-compile %t/e5m2.mlir --target=sm_90a --emit=ptx -o %t/90a.ptx
// RUN: FileCheck %s --check-prefix=SM90A < %t/90a.ptx
// RUN: %ptxas -arch=sm_90a %t/90a.ptx
// RUN: tile-compile %t/f64.mlir --target=sm_80 --emit=ptx -o %t/f64.ptx
// RUN: FileCheck %s --check-prefix=F64 < %t/f64.ptx
// RUN: %ptxas -arch=sm_80 %t/f64.ptx

// SM89: .version 8.4
// SM89-COUNT-2: mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32
// SM89-NOT: mma.sync

// Without such an instruction they are converted once, before they are stored to shared memory.
// SM80: st.shared
// SM80-COUNT-4: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// SM80-NOT: mma.sync

// No flags say that operands are transposed.
// SM90A: wgmma.mma_async.sync.aligned.m64n64k32.f32.e5m2.e5m2 {{{.*}}}, %rd{{[0-9]+}}, %rd{{[0-9]+}}, adds, 1, 1; }
// SM90A-NOT: mma.sync

// Eight steps of the depth, two blocks of 8 rows by two of 8 columns.
// F64-COUNT-32: mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64
// F64-NOT: mma.sync
// F64-NOT: fma.rn.f64

//--- e4m3.mlir
tile.kernel @product(%x: !tile.ptr<f8E4M3FN>, %y: !tile.ptr<f8E4M3FN>, %z: !tile.ptr<f32>) attributes {tile.threads = 32 : i64} {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %a = tile.load %x[%c0] strides [32, 1] : !tile.ptr<f8E4M3FN> -> tensor<16x32xf8E4M3FN>
  %b = tile.load %y[%c0] strides [32, 1] : !tile.ptr<f8E4M3FN> -> tensor<16x32xf8E4M3FN>
  %t = tile.trans %b perm [1, 0] : tensor<16x32xf8E4M3FN> -> tensor<32x16xf8E4M3FN>
  %c = tile.dot %a, %t, %zero : tensor<16x32xf8E4M3FN>, tensor<32x16xf8E4M3FN> -> tensor<16x16xf32>
  tile.store %c, %z[%c0] strides [16, 1] : tensor<16x16xf32>, !tile.ptr<f32>
  tile.return
}
//--- e5m2.mlir
tile.kernel @product(%x: !tile.ptr<f8E5M2>, %y: !tile.ptr<f8E5M2>, %z: !tile.ptr<f32>) attributes {tile.threads = 128 : i64} {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %a = tile.load %x[%c0] strides [32, 1] : !tile.ptr<f8E5M2> -> tensor<64x32xf8E5M2>
  %b = tile.load %y[%c0] strides [32, 1] : !tile.ptr<f8E5M2> -> tensor<64x32xf8E5M2>
  %t = tile.trans %b perm [1, 0] : tensor<64x32xf8E5M2> -> tensor<32x64xf8E5M2>
  %c = tile.dot %a, %t, %zero : tensor<64x32xf8E5M2>, tensor<32x64xf8E5M2> -> tensor<64x64xf32>
  tile.store %c, %z[%c0] strides [64, 1] : tensor<64x64xf32>, !tile.ptr<f32>
  tile.return
}
//--- f64.mlir
tile.kernel @product(%x: !tile.ptr<f64>, %y: !tile.ptr<f64>, %z: !tile.ptr<f64>) attributes {tile.threads = 32 : i64} {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<16x16xf64>
  %a = tile.load %x[%c0] strides [32, 1] : !tile.ptr<f64> -> tensor<16x32xf64>
  %b = tile.load %y[%c0] strides [32, 1] : !tile.ptr<f64> -> tensor<16x32xf64>
  %t = tile.trans %b perm [1, 0] : tensor<16x32xf64> -> tensor<32x16xf64>
  %c = tile.dot %a, %t, %zero : tensor<16x32xf64>, tensor<32x16xf64> -> tensor<16x16xf64>
  tile.store %c, %z[%c0] strides [16, 1] : tensor<16x16xf64>, !tile.ptr<f64>
  tile.return
}
