// No instruction of SSE4a, which has no VEX encoding: beside AVX in use it takes hundreds of cycles on some processors.
// RUN: tile-compile %s --emit=60-kernel.s --target=znver3 | FileCheck %s

// CHECK-LABEL: # three_bytes
// CHECK-NOT: extrq
// CHECK-NOT: insertq
// CHECK: vpmovzxbq
// CHECK-NOT: extrq
tile.kernel @three_bytes(%src: !tile.ptr<i8>, %dst: !tile.ptr<i64>) {
  %zero = arith.constant 0 : i64
  %three = arith.constant 3 : i64
  %bytes = tile.load %src[%zero] strides [1] valid[%three] : !tile.ptr<i8> -> tensor<4xi8>
  %wide = arith.extui %bytes : tensor<4xi8> to tensor<4xi64>
  %old = tile.load %dst[%zero] strides [1] valid[%three] : !tile.ptr<i64> -> tensor<4xi64>
  %sum = arith.addi %old, %wide : tensor<4xi64>
  tile.store %sum, %dst[%zero] strides [1] valid[%three] : tensor<4xi64>, !tile.ptr<i64>
  tile.return
}
