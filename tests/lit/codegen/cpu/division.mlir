// Signed 64-bit integers divide in doubles, twice, and the quotient is put right; by a constant without a division.
// RUN: tile-compile %s --emit=50-kernel.ll --target=x86-64-v4 | FileCheck %s
// RUN: tile-compile %s --emit=50-kernel.ll --target=x86-64-v3 | FileCheck %s --check-prefix=AVX2

// CHECK-LABEL: ; by_tensor
// CHECK-NOT: sdiv
// CHECK-COUNT-2: fdiv <8 x double>
// CHECK-NOT: sdiv
// AVX2-LABEL: ; by_tensor
// AVX2: sdiv i64
tile.kernel @by_tensor(%x: !tile.ptr<i64>, %y: !tile.ptr<i64>, %out: !tile.ptr<i64>) {
  %zero = arith.constant 0 : i64
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<i64> -> tensor<8xi64>
  %b = tile.load %y[%zero] strides [1] : !tile.ptr<i64> -> tensor<8xi64>
  %q = arith.divsi %a, %b : tensor<8xi64>
  tile.store %q, %out[%zero] strides [1] : tensor<8xi64>, !tile.ptr<i64>
  tile.return
}

// CHECK-LABEL: ; by_constant
// CHECK-NOT: div
// CHECK: fmul <8 x double>
// CHECK-NOT: div
// CHECK: ret i32
tile.kernel @by_constant(%x: !tile.ptr<i64>, %out: !tile.ptr<i64>) {
  %zero = arith.constant 0 : i64
  %seven = arith.constant dense<7> : tensor<8xi64>
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<i64> -> tensor<8xi64>
  %q = arith.remsi %a, %seven : tensor<8xi64>
  tile.store %q, %out[%zero] strides [1] : tensor<8xi64>, !tile.ptr<i64>
  tile.return
}
