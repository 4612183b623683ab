// Where gather instructions are slow: indices that lie in memory are loaded one by one, and so is what they name, if no
// index is out of range or counts from the end. Where they are fast, and for offsets that are computed, a gather.
// RUN: tile-compile %s --emit=60-kernel.s --target=znver4 | FileCheck %s
// RUN: tile-compile %s --emit=60-kernel.s --target=skylake-avx512 | FileCheck %s --check-prefix=FAST

// CHECK-LABEL: # checked
// CHECK: vgatherqps
// CHECK: movq {{[0-9]*}}(%r
// CHECK: vinsertps $16, (%r
// FAST-LABEL: # checked
// FAST: vgatherqps
// FAST-NOT: vinsertps
// FAST: retq
tile.kernel @checked(%index: !tile.ptr<i64>, %x: !tile.ptr<f32>, %out: !tile.ptr<f32>, %row: i64) {
  %zero = arith.constant 0 : i64
  %size = arith.constant 100 : i64
  %i = tile.load %index[%zero] strides [1] : !tile.ptr<i64> -> tensor<8xi64>
  %safe = tile.check_index %i in %size wrap line 1 : tensor<8xi64> -> tensor<8xi64>
  %first = tile.splat %row : i64 -> tensor<8xi64>
  %at = arith.addi %first, %safe : tensor<8xi64>
  %v = tile.gather %x[%at] : !tile.ptr<f32>, tensor<8xi64> -> tensor<8xf32>
  tile.store %v, %out[%zero] strides [1] : tensor<8xf32>, !tile.ptr<f32>
  tile.return
}

// What may have been overwritten is not read again.

// CHECK-LABEL: # overwritten
// CHECK: vgatherqps
// CHECK-NOT: vinsertps
// CHECK: retq
tile.kernel @overwritten(%index: !tile.ptr<i64>, %x: !tile.ptr<f32>, %out: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %i = tile.load %index[%zero] strides [1] : !tile.ptr<i64> -> tensor<8xi64>
  tile.store %i, %index[%zero] strides [1] : tensor<8xi64>, !tile.ptr<i64>
  %v = tile.gather %x[%i] : !tile.ptr<f32>, tensor<8xi64> -> tensor<8xf32>
  tile.store %v, %out[%zero] strides [1] : tensor<8xf32>, !tile.ptr<f32>
  tile.return
}

// Several indices make an offset; each is loaded alone. Checks of 32-bit indices compare 32 bits.

// CHECK-LABEL: # pair
// CHECK-NOT: vpcmp{{[a-z]*}}q{{[[:space:]]}}
// CHECK: movslq {{[0-9]*}}(%r
// CHECK: vinsertps $16, (%r
// FAST-LABEL: # pair
// FAST: vgatherqps
// FAST-NOT: vinsertps
// FAST: retq
tile.kernel @pair(%rows: !tile.ptr<i32>, %columns: !tile.ptr<i32>, %x: !tile.ptr<f32>, %out: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %size = arith.constant 100 : i64
  %i = tile.load %rows[%zero] strides [1] : !tile.ptr<i32> -> tensor<8xi32>
  %j = tile.load %columns[%zero] strides [1] : !tile.ptr<i32> -> tensor<8xi32>
  %row = tile.check_index %i in %size wrap line 1 : tensor<8xi32> -> tensor<8xi32>
  %column = tile.check_index %j in %size wrap line 1 : tensor<8xi32> -> tensor<8xi32>
  %wide = arith.extsi %row : tensor<8xi32> to tensor<8xi64>
  %behind = arith.extsi %column : tensor<8xi32> to tensor<8xi64>
  %width = tile.splat %size : i64 -> tensor<8xi64>
  %first = arith.muli %wide, %width : tensor<8xi64>
  %at = arith.addi %first, %behind : tensor<8xi64>
  %v = tile.gather %x[%at] : !tile.ptr<f32>, tensor<8xi64> -> tensor<8xf32>
  tile.store %v, %out[%zero] strides [1] : tensor<8xf32>, !tile.ptr<f32>
  tile.return
}
