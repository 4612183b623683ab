// Masked access by element width and processor: native masks where there are any, a loop over the lanes in range where there are none.
// RUN: tile-compile %s --emit=50-kernel.ll --target=x86-64-v4 | FileCheck %s --check-prefixes=CHECK,V4
// RUN: tile-compile %s --emit=50-kernel.ll --target=x86-64-v3 | FileCheck %s --check-prefixes=CHECK,V3

// CHECK-LABEL: ; words
// CHECK: call <32 x float> @llvm.masked.load
// CHECK: call void @llvm.masked.store
tile.kernel @words(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>, %n: i64) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] valid [%n] : !tile.ptr<f32> -> tensor<32xf32>
  tile.store %v, %out[%zero] strides [1] valid [%n] : tensor<32xf32>, !tile.ptr<f32>
  tile.return
}

// CHECK-LABEL: ; halves
// V4: call <32 x i16> @llvm.masked.load
// V4: call void @llvm.masked.store
// V3-NOT: llvm.masked
// V3: load i16
// V3: store i16
tile.kernel @halves(%x: !tile.ptr<bf16>, %out: !tile.ptr<bf16>, %n: i64) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] valid [%n] : !tile.ptr<bf16> -> tensor<32xbf16>
  tile.store %v, %out[%zero] strides [1] valid [%n] : tensor<32xbf16>, !tile.ptr<bf16>
  tile.return
}

// A count that is known to cover the tile needs no mask.
// CHECK-LABEL: ; all_valid
// CHECK-NOT: llvm.masked
// CHECK: load <32 x float>
tile.kernel @all_valid(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %all = arith.constant 32 : i64
  %v = tile.load %x[%zero] strides [1] valid [%all] : !tile.ptr<f32> -> tensor<32xf32>
  tile.store %v, %out[%zero] strides [1] valid [%all] : tensor<32xf32>, !tile.ptr<f32>
  tile.return
}

// CHECK-LABEL: ; strided
// V4: call <16 x float> @llvm.masked.gather
// V3-NOT: gather
// V3-COUNT-16: load float
tile.kernel @strided(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>, %s: i64) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [%s] : !tile.ptr<f32> -> tensor<16xf32>
  tile.store %v, %out[%zero] strides [1] : tensor<16xf32>, !tile.ptr<f32>
  tile.return
}

// Under a mask of any form, a vector that lies whole inside is moved without it.
// CHECK-LABEL: ; any_mask
// CHECK: %[[IS_WHOLE:.*]] = icmp eq i32 %{{.*}}, -1
// CHECK: br i1 %[[IS_WHOLE]], label
// CHECK: load <32 x float>
// CHECK: call <32 x float> @llvm.masked.load
// CHECK: br i1 %[[IS_WHOLE]], label
// CHECK: store <32 x float>
// CHECK: call void @llvm.masked.store
tile.kernel @any_mask(%x: !tile.ptr<f32>, %n: i64) {
  %zero = arith.constant 0 : i64
  %i = tile.iota : tensor<32xi64>
  %limit = tile.splat %n : i64 -> tensor<32xi64>
  %mask = arith.cmpi slt, %i, %limit : tensor<32xi64>
  %v = tile.load %x[%zero] strides [1] mask %mask : tensor<32xi1> : !tile.ptr<f32> -> tensor<32xf32>
  tile.store %v, %x[%zero] strides [1] mask %mask : tensor<32xi1> : tensor<32xf32>, !tile.ptr<f32>
  tile.return
}

// A part of known length: whole registers without a mask, one with, and nothing for those beyond.

// CHECK-LABEL: ; known_part
// V4: load <16 x float>
// V4: load <16 x float>
// V4: masked.load.v16f32
// V4-NOT: load
// V4: store <16 x float>
// V4: store <16 x float>
// V4: masked.store.v16f32
// V4-NOT: store <
// V4: ret i32
tile.kernel @known_part(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %count = arith.constant 43 : i64
  %v = tile.load %x[%zero] strides [1] valid[%count] : !tile.ptr<f32> -> tensor<64xf32>
  %w = arith.negf %v : tensor<64xf32>
  tile.store %w, %out[%zero] strides [1] valid[%count] : tensor<64xf32>, !tile.ptr<f32>
  tile.return
}
