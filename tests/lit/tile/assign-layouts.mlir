// Layouts follow from the number of elements, and from the widest element in memory.
// RUN: tile-opt %s --tile-assign-layouts | FileCheck %s
// RUN: tile-opt %s --tile-assign-layouts | tile-opt --tile-assign-layouts | FileCheck %s

// CHECK-LABEL: tile.kernel @two_sizes(
// CHECK-SAME:    tile.threads = 256 : i64
// CHECK: arith.constant dense<1.000000e+00> : tensor<1024xf32, #tile.layout<threads = 256, vector = 4>>
// CHECK: tile.iota : tensor<100xi32, #tile.layout<threads = 256, vector = 1>>
tile.kernel @two_sizes(%x: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %one = arith.constant dense<1.0> : tensor<1024xf32>
  %i = tile.iota : tensor<100xi32>
  tile.store %one, %x[%zero] strides [1] : tensor<1024xf32>, !tile.ptr<f32>
  tile.return
}

// CHECK-LABEL: tile.kernel @wide(
// CHECK: tile.load {{.*}} -> tensor<1024xi64, #tile.layout<threads = 256, vector = 2>>
tile.kernel @wide(%x: !tile.ptr<i64>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<i64> -> tensor<1024xi64>
  tile.return
}

// CHECK-LABEL: tile.kernel @given(
// CHECK: tensor<1024xi64, #tile.layout<threads = 64, vector = 2>>
tile.kernel @given(%x: !tile.ptr<i64>) attributes {tile.threads = 64 : i64} {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<i64> -> tensor<1024xi64>
  tile.return
}

// CHECK-LABEL: tile.kernel @narrow(
// CHECK: tile.load {{.*}} -> tensor<1024xf32, #tile.layout<threads = 64, vector = 2>>
tile.kernel @narrow(%x: !tile.ptr<f32>) attributes {tile.threads = 64 : i64, tile.most_neighbours = 2 : i64} {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<1024xf32>
  tile.return
}
