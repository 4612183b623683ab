// A prefix of known length, and elements some distance apart, go without loops and without the stack where the processor has no
// instruction for them.
// RUN: tile-compile %s --emit=50-kernel.ll --target=x86-64-v3 | FileCheck %s
// RUN: tile-compile %s --emit=50-kernel.ll --target=x86-64-v4 | FileCheck %s --check-prefix=MASKED

// CHECK-LABEL: ; five_of_eight
// CHECK-NOT: alloca
// CHECK: load <4 x i16>
// CHECK: load i16
// CHECK: store <4 x i16>
// CHECK: store i16
// MASKED-LABEL: ; five_of_eight
// MASKED: call <8 x i16> @llvm.masked.load
// MASKED: call void @llvm.masked.store
tile.kernel @five_of_eight(%x: !tile.ptr<bf16>, %out: !tile.ptr<bf16>) {
  %zero = arith.constant 0 : i64
  %five = arith.constant 5 : i64
  %v = tile.load %x[%zero] strides [1] valid [%five] : !tile.ptr<bf16> -> tensor<8xbf16>
  tile.store %v, %out[%zero] strides [1] valid [%five] : tensor<8xbf16>, !tile.ptr<bf16>
  tile.return
}

// AVX has a masked load of words; its masked store takes many steps on some processors.
// CHECK-LABEL: ; seven_words
// CHECK: call <8 x float> @llvm.masked.load
// CHECK-NOT: masked.store
// CHECK: store <4 x float>
// CHECK: store <2 x float>
// CHECK: store float
tile.kernel @seven_words(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %seven = arith.constant 7 : i64
  %other = arith.constant 2.0 : f32
  %v = tile.load %x[%zero] strides [1] valid [%seven] other %other : f32 : !tile.ptr<f32> -> tensor<8xf32>
  tile.store %v, %out[%zero] strides [1] valid [%seven] : tensor<8xf32>, !tile.ptr<f32>
  tile.return
}

// The lanes that are not read hold `other`.
// CHECK-LABEL: ; three_of_four
// CHECK: load <2 x i16>
// CHECK: load i16
tile.kernel @three_of_four(%x: !tile.ptr<i16>, %out: !tile.ptr<i16>) {
  %zero = arith.constant 0 : i64
  %three = arith.constant 3 : i64
  %nine = arith.constant 9 : i16
  %v = tile.load %x[%zero] strides [1] valid [%three] other %nine : i16 : !tile.ptr<i16> -> tensor<4xi16>
  tile.store %v, %out[%zero] strides [1] : tensor<4xi16>, !tile.ptr<i16>
  tile.return
}

// CHECK-LABEL: ; far_apart
// CHECK-NOT: alloca
// CHECK-NOT: gather
// CHECK-COUNT-8: load i16
// CHECK-COUNT-8: store i16
tile.kernel @far_apart(%x: !tile.ptr<f16>, %out: !tile.ptr<f16>, %step: i64) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [100] : !tile.ptr<f16> -> tensor<8xf16>
  tile.store %v, %out[%zero] strides [%step] : tensor<8xf16>, !tile.ptr<f16>
  tile.return
}
