// tile.scan along lanes: each step combines what is known some lanes before; tile.scatter with a combiner takes lane after lane.
// RUN: tile-compile %s --emit=50-kernel.ll | FileCheck %s

// Towards higher lanes; those without one so far before them combine with what leaves them as they are.
// CHECK-LABEL: ; forward
// CHECK: %[[X:.*]] = load <4 x float>
// CHECK: %[[M:.*]] = shufflevector <4 x float> %[[X]], <4 x float> <float -0.000000e+00, {{.*}}>, <4 x i32> <i32 4, i32 0, i32 1, i32 2>
// CHECK: %[[S:.*]] = fadd <4 x float> %[[M]], %[[X]]
// CHECK: %[[N:.*]] = shufflevector <4 x float> %[[S]], <4 x float> <float -0.000000e+00, {{.*}}>, <4 x i32> <i32 4, i32 5, i32 0, i32 1>
// CHECK: %[[T:.*]] = fadd <4 x float> %[[N]], %[[S]]
// CHECK: store <4 x float> %[[T]]
tile.kernel @forward(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %t = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<4xf32>
  %s = tile.scan (%t) axis 0 : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%before: f32, %v: f32):
    %sum = arith.addf %before, %v : f32
    tile.yield %sum : f32
  }
  tile.store %s, %y[%zero] strides [1] : tensor<4xf32>, !tile.ptr<f32>
  tile.return
}

// From the last lane on. The lanes that are complete are taken as they are.
// CHECK-LABEL: ; reverse
// CHECK: shufflevector {{.*}} <4 x i32> <i32 1, i32 2, i32 3, i32 3>
// CHECK: shufflevector {{.*}} <4 x i32> <i32 0, i32 1, i32 2, i32 7>
// CHECK: shufflevector {{.*}} <4 x i32> <i32 2, i32 3, i32 2, i32 3>
// CHECK: shufflevector {{.*}} <4 x i32> <i32 0, i32 1, i32 6, i32 7>
tile.kernel @reverse(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %t = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<4xf32>
  %s = tile.scan (%t) axis 0 reverse : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%before: f32, %v: f32):
    %sum = arith.maximumf %before, %v : f32
    tile.yield %sum : f32
  }
  tile.store %s, %y[%zero] strides [1] : tensor<4xf32>, !tile.ptr<f32>
  tile.return
}

// Along rows, one row after the other.
// CHECK-LABEL: ; rows
// CHECK: %[[R0:.*]] = load <8 x i32>
// CHECK: %[[R1:.*]] = load <8 x i32>
// CHECK: %[[R2:.*]] = load <8 x i32>
// CHECK-NOT: shufflevector
// CHECK: %[[S1:.*]] = add <8 x i32> {{.*}}%[[R0]]
// CHECK: %[[S2:.*]] = add <8 x i32> {{.*}}%[[S1]]
tile.kernel @rows(%x: !tile.ptr<i32>, %y: !tile.ptr<i32>) {
  %zero = arith.constant 0 : i64
  %t = tile.load %x[%zero] strides [8, 1] : !tile.ptr<i32> -> tensor<3x8xi32>
  %s = tile.scan (%t) axis 0 : (tensor<3x8xi32>) -> tensor<3x8xi32> {
  ^bb0(%before: i32, %v: i32):
    %sum = arith.addi %before, %v : i32
    tile.yield %sum : i32
  }
  tile.store %s, %y[%zero] strides [8, 1] : tensor<3x8xi32>, !tile.ptr<i32>
  tile.return
}

// Colliding lanes each take effect: memory is read again for each.
// CHECK-LABEL: ; fold
// CHECK-COUNT-4: fadd float
tile.kernel @fold(%x: !tile.ptr<f32>, %i: !tile.ptr<i64>, %y: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %t = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<4xf32>
  %o = tile.load %i[%zero] strides [1] : !tile.ptr<i64> -> tensor<4xi64>
  tile.scatter %t, %y[%o] : tensor<4xf32>, !tile.ptr<f32>, tensor<4xi64> combine {
  ^bb0(%held: f32, %v: f32):
    %sum = arith.addf %held, %v : f32
    tile.yield %sum : f32
  }
  tile.return
}
