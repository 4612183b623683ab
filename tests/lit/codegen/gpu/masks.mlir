// Masks that all lanes of a piece agree on: a piece is read as a whole or not at all, never element by element.
// RUN: tile-compile %s --target=sm_90 --emit=60-kernel.ptx | FileCheck %s

// Halves of rows of 128, and a row's end at a multiple of the lanes.
// CHECK: // halves =
// CHECK: .visible .entry
// CHECK-NOT: ld.global{{(.nc)?}}.b16
// CHECK: ld.global.nc.v4.b32
// CHECK-NOT: ld.global{{(.nc)?}}.b16
// CHECK: ret
tile.kernel @halves(%x: !tile.ptr<bf16>, %y: !tile.ptr<bf16>) attributes {tile.threads = 128 : i64, tile.aligned_args, tile.noalias_args} {
  %zero = arith.constant 0 : i64
  %shift = arith.constant 64 : i64
  %some = arith.constant 1000 : i64
  %flat = tile.iota : tensor<2048xi32>
  %positions = tile.reshape %flat : tensor<2048xi32> -> tensor<16x128xi32>
  %row = arith.constant dense<128> : tensor<16x128xi32>
  %half = arith.constant dense<64> : tensor<16x128xi32>
  %lane = arith.remui %positions, %row : tensor<16x128xi32>
  %first = arith.cmpi slt, %lane, %half : tensor<16x128xi32>
  %v = tile.load %x[%shift] strides [128, 1] mask %first : tensor<16x128xi1> : !tile.ptr<bf16> -> tensor<16x128xbf16>
  tile.store %v, %y[%zero] strides [128, 1] : tensor<16x128xbf16>, !tile.ptr<bf16>
  %w = tile.load %x[%zero] strides [1] valid[%some] : !tile.ptr<bf16> -> tensor<1024xbf16>
  tile.store %w, %y[%zero] strides [1] valid[%some] : tensor<1024xbf16>, !tile.ptr<bf16>
  tile.return
}

// Where a piece may end within it goes element by element.
// CHECK: // odd =
// CHECK: .visible .entry
// CHECK: ld.global{{(.nc)?}}.b16
// CHECK: ret
tile.kernel @odd(%x: !tile.ptr<bf16>, %y: !tile.ptr<bf16>) attributes {tile.threads = 128 : i64, tile.aligned_args, tile.noalias_args} {
  %zero = arith.constant 0 : i64
  %some = arith.constant 1001 : i64
  %w = tile.load %x[%zero] strides [1] valid[%some] : !tile.ptr<bf16> -> tensor<1024xbf16>
  tile.store %w, %y[%zero] strides [1] valid[%some] : tensor<1024xbf16>, !tile.ptr<bf16>
  tile.return
}
