// store(p + 1 + i, load(p + i)): everything is loaded before anything is stored, so the long tile goes through scratch.
// RUN: tile-opt %s --tile-strip-mine --split-input-file | FileCheck %s

// CHECK-LABEL: tile.kernel @shift
// CHECK: %[[SCRATCH:.*]] = tile.scratch
// CHECK: scf.for
// CHECK:   %[[V:.*]] = tile.load %arg0[
// CHECK:   tile.store %[[V]], %[[SCRATCH]][
// CHECK: scf.for
// CHECK:   %[[W:.*]] = tile.load %[[SCRATCH]][
// CHECK:   tile.store %[[W]], %arg0[
tile.kernel @shift(%p: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %v = tile.load %p[%zero] strides [1] : !tile.ptr<f32> -> tensor<4096xf32>
  tile.store %v, %p[%one] strides [1] : tensor<4096xf32>, !tile.ptr<f32>
  tile.return
}

// -----

// The same lanes: no way round is needed.
// CHECK-LABEL: tile.kernel @in_place
// CHECK-NOT: tile.scratch
// CHECK: scf.for
// CHECK-NOT: scf.for
tile.kernel @in_place(%p: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %p[%zero] strides [1] : !tile.ptr<f32> -> tensor<4096xf32>
  %w = arith.mulf %v, %v : tensor<4096xf32>
  tile.store %w, %p[%zero] strides [1] : tensor<4096xf32>, !tile.ptr<f32>
  tile.return
}

// -----

// Short tiles stay.
// CHECK-LABEL: tile.kernel @short
// CHECK-NOT: scf.for
tile.kernel @short(%p: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %v = tile.load %p[%zero] strides [1] : !tile.ptr<f32> -> tensor<64xf32>
  tile.store %v, %p[%one] strides [1] : tensor<64xf32>, !tile.ptr<f32>
  tile.return
}
