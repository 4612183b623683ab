// A long scan goes piece by piece: each is scanned in registers, then combined with what came before it.
// RUN: tile-opt %s --tile-strip-mine --split-input-file | FileCheck %s

// CHECK-LABEL: tile.kernel @running_sum
// CHECK: %[[FIRST:.*]] = tile.scan
// CHECK: %[[CARRIED:.*]] = tile.extract %[[FIRST]][%c31_i64]
// CHECK: scf.for %{{.*}} iter_args(%[[BEFORE:.*]] = %[[CARRIED]])
// CHECK:   %[[PIECE:.*]] = tile.scan
// CHECK:   %[[ALL:.*]] = tile.splat %[[BEFORE]]
// CHECK:   %[[SUM:.*]] = arith.addf %[[ALL]], %[[PIECE]]
// CHECK:   tile.store %[[SUM]]
// CHECK:   tile.extract %[[SUM]][%c31_i64]
tile.kernel @running_sum(%p: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %p[%zero] strides [1] : !tile.ptr<f32> -> tensor<1024xf32>
  %s = tile.scan (%v) axis 0 : (tensor<1024xf32>) -> tensor<1024xf32> {
  ^bb0(%before: f32, %x: f32):
    %c = arith.addf %before, %x : f32
    tile.yield %c : f32
  }
  tile.store %s, %p[%zero] strides [1] : tensor<1024xf32>, !tile.ptr<f32>
  tile.return
}

// -----

// Along another axis lanes are side by side: rows follow each other.
// CHECK-LABEL: tile.kernel @down
// CHECK-NOT: tile.scan
tile.kernel @down(%p: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %p[%zero] strides [64, 1] : !tile.ptr<f32> -> tensor<64x64xf32>
  %s = tile.scan (%v) axis 0 : (tensor<64x64xf32>) -> tensor<64x64xf32> {
  ^bb0(%before: f32, %x: f32):
    %c = arith.addf %before, %x : f32
    tile.yield %c : f32
  }
  tile.store %s, %p[%zero] strides [64, 1] : tensor<64x64xf32>, !tile.ptr<f32>
  tile.return
}
