// The elements at the edge of a row, fewer than an eighth of the lanes, are moved one by one: a gather under a mask would
// look at all lanes, and one of two bytes has no instruction.
// RUN: tile-compile %s --emit=50-kernel.ll --target=x86-64-v4 | FileCheck %s

// CHECK-LABEL: ; halves
// CHECK-NOT: gather
// CHECK-COUNT-3: load i16
// CHECK-NOT: gather
// CHECK: ret
tile.kernel @halves(%x: !tile.ptr<bf16>, %out: !tile.ptr<bf16>) {
  %zero = arith.constant 0 : i64
  %three = arith.constant 3 : i64
  %two = arith.constant 2 : i64
  %a = tile.load %x[%two] strides [-1] valid[%three] : !tile.ptr<bf16> -> tensor<64xbf16>
  tile.store %a, %out[%zero] strides [1] valid[%three] : tensor<64xbf16>, !tile.ptr<bf16>
  tile.return
}

// CHECK-LABEL: ; words
// CHECK-NOT: gather
// CHECK-COUNT-2: load float
// CHECK-NOT: gather
// CHECK: ret
tile.kernel @words(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %two = arith.constant 2 : i64
  %a = tile.load %x[%two] strides [-1] valid[%two] : !tile.ptr<f32> -> tensor<16xf32>
  tile.store %a, %out[%zero] strides [1] valid[%two] : tensor<16xf32>, !tile.ptr<f32>
  tile.return
}
