// Elements a small known distance apart, or in reverse, are read as whole vectors and shuffled; a gather costs an access a lane.
// RUN: tile-compile %s --emit=50-kernel.ll --target=x86-64-v4 | FileCheck %s
// RUN: tile-compile %s --emit=60-kernel.s --target=x86-64-v4 | FileCheck %s --check-prefix=ASM

// The second vector ends with the last element that is wanted: element 30 of 31.
// CHECK-LABEL: ; every_second
// CHECK-NOT: gather
// CHECK: %[[LAST:.*]] = getelementptr i8, ptr %{{.*}}, i64 60
// CHECK: load <16 x float>
// CHECK: load <16 x float>, ptr %[[LAST]]
// CHECK: shufflevector
// ASM-LABEL: # every_second
// ASM: vpermt2ps
tile.kernel @every_second(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [2] : !tile.ptr<f32> -> tensor<16xf32>
  tile.store %v, %out[%zero] strides [1] : tensor<16xf32>, !tile.ptr<f32>
  tile.return
}

// CHECK-LABEL: ; every_third_of_some
// CHECK-NOT: gather
// CHECK-COUNT-3: call <8 x i64> @llvm.masked.load
// CHECK: select
tile.kernel @every_third_of_some(%x: !tile.ptr<i64>, %out: !tile.ptr<i64>, %n: i64) {
  %zero = arith.constant 0 : i64
  %seven = arith.constant 7 : i64
  %v = tile.load %x[%zero] strides [3] valid [%n] other %seven : i64 : !tile.ptr<i64> -> tensor<8xi64>
  tile.store %v, %out[%zero] strides [1] : tensor<8xi64>, !tile.ptr<i64>
  tile.return
}

// CHECK-LABEL: ; reversed
// CHECK-NOT: gather
// CHECK: load <16 x float>
// CHECK: shufflevector
tile.kernel @reversed(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %last = arith.constant 15 : i64
  %v = tile.load %x[%last] strides [-1] : !tile.ptr<f32> -> tensor<16xf32>
  tile.store %v, %out[%zero] strides [1] : tensor<16xf32>, !tile.ptr<f32>
  tile.return
}

// Part of a row whose length is known: each register by itself, the last one from the element that is wanted last.
// CHECK-LABEL: ; some_reversed
// CHECK-NOT: gather
// CHECK: load <16 x float>
// CHECK: shufflevector
// CHECK: call <16 x float> @llvm.masked.load
// CHECK: shufflevector
// ASM-LABEL: # some_reversed
// ASM-NOT: gather
// ASM: retq
tile.kernel @some_reversed(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %last = arith.constant 24 : i64
  %n = arith.constant 25 : i64
  %v = tile.load %x[%last] strides [-1] valid [%n] : !tile.ptr<f32> -> tensor<32xf32>
  tile.store %v, %out[%zero] strides [1] valid [%n] : tensor<32xf32>, !tile.ptr<f32>
  tile.return
}

// CHECK-LABEL: ; up_to_reversed
// CHECK-NOT: gather
// CHECK: %[[MASK:.*]] = shufflevector <16 x i1>
// CHECK: call <16 x float> @llvm.masked.load{{.*}}<16 x i1> %[[MASK]]
// CHECK: shufflevector
tile.kernel @up_to_reversed(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>, %n: i64) {
  %zero = arith.constant 0 : i64
  %last = arith.constant 15 : i64
  %v = tile.load %x[%last] strides [-1] valid [%n] : !tile.ptr<f32> -> tensor<16xf32>
  tile.store %v, %out[%zero] strides [1] : tensor<16xf32>, !tile.ptr<f32>
  tile.return
}

// CHECK-LABEL: ; far_apart
// CHECK: gather
tile.kernel @far_apart(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [17] : !tile.ptr<f32> -> tensor<16xf32>
  tile.store %v, %out[%zero] strides [1] : tensor<16xf32>, !tile.ptr<f32>
  tile.return
}
