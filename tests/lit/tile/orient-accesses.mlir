// Consecutive elements of gathered tiles come to lie along the last axis.
// RUN: tile-opt %s --tile-orient-accesses --split-input-file | FileCheck %s

// A loop carries the pointers transposed from the start; the product finds the data transposed.
// CHECK-LABEL: tile.kernel @operand
// CHECK: tile.expand_dims %{{.*}} axis 0
// CHECK: %[[POINTERS:.*]] = tile.ptr_add {{.*}} : tensor<64x32x!tile.ptr<f16>>
// CHECK: scf.for {{.*}}%[[CARRIED:.*]] = %[[POINTERS]])
// CHECK: %[[TILE:.*]] = tile.gather %[[CARRIED]] : tensor<64x32x!tile.ptr<f16>> -> tensor<64x32xf16>
// CHECK: %[[BACK:.*]] = tile.trans %[[TILE]] perm [1, 0]
// CHECK: tile.dot %{{.*}}, %[[BACK]]
// CHECK: tile.ptr_add %[[CARRIED]], {{.*}} : tensor<64x32x!tile.ptr<f16>>
tile.kernel @operand(%p: !tile.ptr<f16>, %n: i32, %a: tensor<16x32xf16>, %steps: i32) {
  %rows = tile.iota : tensor<32xi32>
  %columns = tile.iota : tensor<64xi32>
  %r = tile.expand_dims %rows axis 1 : tensor<32xi32> -> tensor<32x1xi32>
  %c = tile.expand_dims %columns axis 0 : tensor<64xi32> -> tensor<1x64xi32>
  %ns = tile.splat %n : i32 -> tensor<1x64xi32>
  %cn = arith.muli %c, %ns : tensor<1x64xi32>
  %rb = tile.broadcast %r : tensor<32x1xi32> -> tensor<32x64xi32>
  %cb = tile.broadcast %cn : tensor<1x64xi32> -> tensor<32x64xi32>
  %at = arith.addi %rb, %cb : tensor<32x64xi32>
  %base = tile.splat %p : !tile.ptr<f16> -> tensor<32x64x!tile.ptr<f16>>
  %pointers = tile.ptr_add %base, %at : tensor<32x64x!tile.ptr<f16>>, tensor<32x64xi32>
  %zero = arith.constant dense<0.0> : tensor<16x64xf32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %by = arith.constant dense<32> : tensor<32x64xi32>
  %sum, %last = scf.for %k = %c0 to %steps step %c1 iter_args(%acc = %zero, %q = %pointers)
      -> (tensor<16x64xf32>, tensor<32x64x!tile.ptr<f16>>) : i32 {
    %b = tile.gather %q : tensor<32x64x!tile.ptr<f16>> -> tensor<32x64xf16>
    %d = tile.dot %a, %b, %acc : tensor<16x32xf16>, tensor<32x64xf16> -> tensor<16x64xf32>
    %next = tile.ptr_add %q, %by : tensor<32x64x!tile.ptr<f16>>, tensor<32x64xi32>
    scf.yield %d, %next : tensor<16x64xf32>, tensor<32x64x!tile.ptr<f16>>
  }
  tile.return
}

// -----

// What lies along the last axis stays, and so does what has no order.
// CHECK-LABEL: tile.kernel @rows
// CHECK-NOT: tile.trans
tile.kernel @rows(%p: !tile.ptr<f32>, %n: i32) {
  %i = tile.iota : tensor<32xi32>
  %r = tile.expand_dims %i axis 1 : tensor<32xi32> -> tensor<32x1xi32>
  %c = tile.expand_dims %i axis 0 : tensor<32xi32> -> tensor<1x32xi32>
  %ns = tile.splat %n : i32 -> tensor<32x1xi32>
  %rn = arith.muli %r, %ns : tensor<32x1xi32>
  %rb = tile.broadcast %rn : tensor<32x1xi32> -> tensor<32x32xi32>
  %cb = tile.broadcast %c : tensor<1x32xi32> -> tensor<32x32xi32>
  %at = arith.addi %rb, %cb : tensor<32x32xi32>
  %x = tile.gather %p[%at] : !tile.ptr<f32>, tensor<32x32xi32> -> tensor<32x32xf32>
  %y = tile.gather %p[%rb] : !tile.ptr<f32>, tensor<32x32xi32> -> tensor<32x32xf32>
  %s = arith.addf %x, %y : tensor<32x32xf32>
  tile.scatter %s, %p[%at] : tensor<32x32xf32>, !tile.ptr<f32>, tensor<32x32xi32>
  tile.return
}

// -----

// Stores transpose what they write, and masks are computed transposed; rows modulo their number wrap at few places.
// CHECK-LABEL: tile.kernel @stores
// CHECK: %[[DATA:.*]] = tile.trans %{{.*}} perm [1, 0] : tensor<16x32xf32> -> tensor<32x16xf32>
// CHECK: tile.scatter %[[DATA]], %{{.*}}[%{{.*}}] mask %{{.*}} : tensor<32x16xi1>
tile.kernel @stores(%p: !tile.ptr<f32>, %n: i32, %data: tensor<16x32xf32>) {
  %rows = tile.iota : tensor<16xi32>
  %columns = tile.iota : tensor<32xi32>
  %ns = tile.splat %n : i32 -> tensor<16xi32>
  %inside = arith.remsi %rows, %ns : tensor<16xi32>
  %r = tile.expand_dims %inside axis 1 : tensor<16xi32> -> tensor<16x1xi32>
  %c = tile.expand_dims %columns axis 0 : tensor<32xi32> -> tensor<1x32xi32>
  %s = arith.constant dense<16> : tensor<1x32xi32>
  %cs = arith.muli %s, %c : tensor<1x32xi32>
  %rb = tile.broadcast %r : tensor<16x1xi32> -> tensor<16x32xi32>
  %cb = tile.broadcast %cs : tensor<1x32xi32> -> tensor<16x32xi32>
  %at = arith.addi %rb, %cb : tensor<16x32xi32>
  %limit = tile.splat %n : i32 -> tensor<16x32xi32>
  %m = arith.cmpi slt, %at, %limit : tensor<16x32xi32>
  tile.scatter %data, %p[%at] mask %m : tensor<16x32xi1> : tensor<16x32xf32>, !tile.ptr<f32>, tensor<16x32xi32>
  tile.return
}
