// Instructions of four warps need registers for their sums, which ptxas cannot spill. With fewer, those of one warp make
// the product.
// RUN: sed -e 's/LIMIT/72/' %s > %t.72.mlir
// RUN: sed -e 's/LIMIT/71/' %s > %t.71.mlir
// RUN: tile-opt %t.72.mlir --tile-assign-layouts=warp-groups=true | FileCheck %s --check-prefix=FOUR
// RUN: tile-opt %t.71.mlir --tile-assign-layouts=warp-groups=true | FileCheck %s --check-prefix=ONE
// RUN: tile-compile %t.72.mlir --target=sm_90a --emit=ptx -o %t.72.ptx
// RUN: FileCheck %s --check-prefix=WGMMA < %t.72.ptx
// RUN: %ptxas -arch=sm_90a %t.72.ptx
// RUN: tile-compile %t.71.mlir --target=sm_90a --emit=ptx -o %t.71.ptx
// RUN: FileCheck %s --check-prefix=MMA < %t.71.ptx
// RUN: %ptxas -arch=sm_90a %t.71.ptx
// RUN: sed -e 's/LIMIT/32/' %s > %t.32.mlir
// RUN: tile-compile %t.32.mlir --target=sm_90a --emit=ptx -o %t.32.ptx
// RUN: FileCheck %s --check-prefix=MMA < %t.32.ptx
// RUN: %ptxas -arch=sm_90a %t.32.ptx

// FOUR: tile.dot {{.*}} {tile.warp_group}
// ONE: tile.dot
// ONE-NOT: tile.warp_group
// WGMMA: .maxnreg 72
// WGMMA: wgmma.mma_async.sync.aligned.m64n64k16
// MMA: .maxnreg
// MMA-NOT: wgmma
// MMA: mma.sync.aligned.m16n8k16
tile.kernel @product(%x: !tile.ptr<bf16>, %y: !tile.ptr<bf16>, %z: !tile.ptr<f32>) attributes {tile.threads = 128 : i64, tile.max_registers = LIMIT : i64} {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %a = tile.load %x[%c0] strides [32, 1] : !tile.ptr<bf16> -> tensor<64x32xbf16>
  %b = tile.load %y[%c0] strides [64, 1] : !tile.ptr<bf16> -> tensor<32x64xbf16>
  %c = tile.dot %a, %b, %zero : tensor<64x32xbf16>, tensor<32x64xbf16> -> tensor<64x64xf32>
  tile.store %c, %z[%c0] strides [64, 1] : tensor<64x64xf32>, !tile.ptr<f32>
  tile.return
}
