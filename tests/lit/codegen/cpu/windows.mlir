// What lanes read at quotients and remainders of indices lies side by side: one load and a permutation, no gather.
// RUN: tile-compile %s --emit=50-kernel.ll --target=x86-64-v4 | FileCheck %s
// RUN: tile-compile %s --emit=60-kernel.s --target=x86-64-v4 | FileCheck %s --check-prefix=ASM
// RUN: tile-compile %s --emit=60-kernel.s --target=x86-64-v3 | FileCheck %s --check-prefix=AVX2
// RUN: tile-compile %s --emit=60-kernel.s --target=x86-64-v2 | FileCheck %s --check-prefix=SSE

// Of 16 lanes no more elements are read than they take.
// CHECK-LABEL: ; quotients
// CHECK-NOT: gather
// CHECK: call <16 x float> @llvm.masked.load
// CHECK: call <16 x i32> @llvm.x86.avx512.permvar.si.512
// ASM-LABEL: # quotients
// ASM: vperm{{d|ps}}
// AVX2-LABEL: # quotients
// AVX2-NOT: gather
// AVX2-COUNT-2: vperm{{d|ps}}
// SSE-LABEL: # quotients
// SSE-NOT: perm
tile.kernel @quotients(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>, %base: i64, %rest: i32) {
  %zero = arith.constant 0 : i64
  %three = arith.constant 3 : i32
  %threes = tile.splat %three : i32 -> tensor<16xi32>
  %lanes = tile.iota : tensor<16xi32>
  %rests = tile.splat %rest : i32 -> tensor<16xi32>
  %sum = arith.addi %lanes, %rests : tensor<16xi32>
  %quotient = arith.divui %sum, %threes : tensor<16xi32>
  %wide = arith.extui %quotient {tile.steps_of_one} : tensor<16xi32> to tensor<16xi64>
  %bases = tile.splat %base : i64 -> tensor<16xi64>
  %at = arith.addi %wide, %bases : tensor<16xi64>
  %v = tile.gather %x[%at] : !tile.ptr<f32>, tensor<16xi64> -> tensor<16xf32>
  tile.store %v, %out[%zero] strides [1] : tensor<16xf32>, !tile.ptr<f32>
  tile.return
}

// Bytes are permuted as words.
// CHECK-LABEL: ; remainders
// CHECK-NOT: gather
// CHECK: call <32 x i8> @llvm.masked.load{{.*}} <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 false
// CHECK: call <32 x i16> @llvm.x86.avx512.permvar.hi.512
tile.kernel @remainders(%x: !tile.ptr<i8>, %out: !tile.ptr<i8>, %start: i32) {
  %zero = arith.constant 0 : i64
  %seven = arith.constant 7 : i32
  %sevens = tile.splat %seven : i32 -> tensor<32xi32>
  %lanes = tile.iota : tensor<32xi32>
  %starts = tile.splat %start : i32 -> tensor<32xi32>
  %sum = arith.addi %lanes, %starts : tensor<32xi32>
  %rest = arith.remui %sum, %sevens : tensor<32xi32>
  %at = arith.extui %rest {tile.all_below = 7 : i64} : tensor<32xi32> to tensor<32xi64>
  %v = tile.gather %x[%at] : !tile.ptr<i8>, tensor<32xi64> -> tensor<32xi8>
  tile.store %v, %out[%zero] strides [1] : tensor<32xi8>, !tile.ptr<i8>
  tile.return
}

// A bound keeps lanes side by side.
// CHECK-LABEL: ; bounded
// CHECK-NOT: gather
// CHECK: call <16 x float> @llvm.masked.load
// CHECK: call <16 x i32> @llvm.x86.avx512.permvar.si.512
tile.kernel @bounded(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>, %base: i64, %rest: i32) {
  %zero = arith.constant 0 : i64
  %five = arith.constant 5 : i32
  %fives = tile.splat %five : i32 -> tensor<16xi32>
  %lanes = tile.iota : tensor<16xi32>
  %rests = tile.splat %rest : i32 -> tensor<16xi32>
  %sum = arith.addi %lanes, %rests : tensor<16xi32>
  %quotient = arith.divui %sum, %fives : tensor<16xi32>
  %wide = arith.extui %quotient {tile.steps_of_one} : tensor<16xi32> to tensor<16xi64>
  %bases = tile.splat %base : i64 -> tensor<16xi64>
  %at = arith.addi %wide, %bases : tensor<16xi64>
  %zeros = tile.splat %zero : i64 -> tensor<16xi64>
  %bounded = arith.maxsi %at, %zeros : tensor<16xi64>
  %v = tile.gather %x[%bounded] : !tile.ptr<f32>, tensor<16xi64> -> tensor<16xf32>
  tile.store %v, %out[%zero] strides [1] : tensor<16xf32>, !tile.ptr<f32>
  tile.return
}
