// Each result of an op has pieces of its own.
// RUN: tile-opt %s --tile-strip-mine --split-input-file | FileCheck %s

// CHECK-LABEL: tile.kernel @high_half
// CHECK: scf.for
// CHECK:   %[[V:.*]] = tile.load %arg0[%{{.*}}] strides [1]
// CHECK:   %[[LOW:.*]], %[[HIGH:.*]] = arith.mului_extended %[[V]], %[[V]]
// CHECK:   tile.store %[[HIGH]], %arg1[
// CHECK-NOT: tile.store
tile.kernel @high_half(%p: !tile.ptr<i64>, %q: !tile.ptr<i64>) attributes {tile.noalias_args} {
  %zero = arith.constant 0 : i64
  %v = tile.load %p[%zero] strides [1] : !tile.ptr<i64> -> tensor<1024xi64>
  %low, %high = arith.mului_extended %v, %v : tensor<1024xi64>
  tile.store %high, %q[%zero] strides [1] : tensor<1024xi64>, !tile.ptr<i64>
  tile.return
}

// -----

// CHECK-LABEL: tile.kernel @both
// CHECK: scf.for
// CHECK:   %[[SUM:.*]], %[[CARRY:.*]] = arith.addui_extended
// CHECK:   %[[WIDE:.*]] = arith.extui %[[CARRY]]
// CHECK:   arith.xori %[[WIDE]], %[[SUM]]
tile.kernel @both(%p: !tile.ptr<i64>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %p[%zero] strides [1] : !tile.ptr<i64> -> tensor<1024xi64>
  %sum, %carry = arith.addui_extended %v, %v : tensor<1024xi64>, tensor<1024xi1>
  %wide = arith.extui %carry : tensor<1024xi1> to tensor<1024xi64>
  %mixed = arith.xori %wide, %sum : tensor<1024xi64>
  tile.store %mixed, %p[%zero] strides [1] : tensor<1024xi64>, !tile.ptr<i64>
  tile.return
}

// -----

// The right half starts one element later, and pointers come out as pointers.
// CHECK-LABEL: tile.kernel @right_half
// CHECK: tile.store %{{.*}}, %[[SCRATCH:.*]][%{{.*}}] strides [1] : tensor<64xi64>
// CHECK: scf.for
// CHECK:   %[[NEXT:.*]] = arith.addi %{{.*}}, %c1_i64
// CHECK:   %[[ADDRESSES:.*]] = tile.load %[[SCRATCH]][%[[NEXT]]] strides [2]
// CHECK:   %[[POINTERS:.*]] = tile.int_to_ptr %[[ADDRESSES]]
// CHECK:   tile.gather %[[POINTERS]]
tile.kernel @right_half(%p: !tile.ptr<i64>, %q: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %p[%zero] strides [2, 1] : !tile.ptr<i64> -> tensor<512x2xi64>
  %pointers = tile.int_to_ptr %v : tensor<512x2xi64> -> tensor<512x2x!tile.ptr<f32>>
  %left, %right = tile.split %pointers : tensor<512x2x!tile.ptr<f32>> -> tensor<512x!tile.ptr<f32>>
  %w = tile.gather %right : tensor<512x!tile.ptr<f32>> -> tensor<512xf32>
  tile.store %w, %q[%zero] strides [1] : tensor<512xf32>, !tile.ptr<f32>
  tile.return
}
