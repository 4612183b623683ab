// Tiles of rows under masks: one branch for all rows, addresses that are distances from one, and no gathers of one
// element.
// RUN: tile-compile %s --emit=50-kernel.ll --target=x86-64-v4 | FileCheck %s --check-prefixes=CHECK,V4
// RUN: tile-compile %s --emit=50-kernel.ll --target=x86-64-v3 | FileCheck %s --check-prefixes=CHECK,V3

// CHECK-LABEL: ; rows
// CHECK: call ptr @llvm.strip.invariant.group
// CHECK-COUNT-4: load <16 x float>
// CHECK-COUNT-4: call <16 x float> @llvm.masked.load
// CHECK-COUNT-4: store <16 x float>
// CHECK-COUNT-4: call void @llvm.masked.store
tile.kernel @rows(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>, %n: i32) {
  %zero = arith.constant 0 : i64
  %i = tile.iota : tensor<64xi32>
  %t = tile.reshape %i : tensor<64xi32> -> tensor<4x16xi32>
  %l = tile.splat %n : i32 -> tensor<4x16xi32>
  %m = arith.cmpi slt, %t, %l : tensor<4x16xi32>
  %v = tile.load %x[%zero] strides [100, 1] mask %m : tensor<4x16xi1> : !tile.ptr<f32> -> tensor<4x16xf32>
  %s = arith.addf %v, %v : tensor<4x16xf32>
  tile.store %s, %out[%zero] strides [200, 1] mask %m : tensor<4x16xi1> : tensor<4x16xf32>, !tile.ptr<f32>
  tile.return
}

// Where there are no masked moves of the width, one loop takes the lanes of all rows.
// CHECK-LABEL: ; bytes
// V4: call <16 x i8> @llvm.masked.load
// V3-COUNT-4: store ptr
// V3: load i8, ptr
// V3: load i8, ptr
// V3-NOT: load i8, ptr
// V3: ret i32
tile.kernel @bytes(%x: !tile.ptr<i8>, %out: !tile.ptr<i8>, %n: i32) {
  %zero = arith.constant 0 : i64
  %i = tile.iota : tensor<64xi32>
  %t = tile.reshape %i : tensor<64xi32> -> tensor<4x16xi32>
  %l = tile.splat %n : i32 -> tensor<4x16xi32>
  %m = arith.cmpi slt, %t, %l : tensor<4x16xi32>
  %v = tile.load %x[%zero] strides [100, 1] mask %m : tensor<4x16xi1> : !tile.ptr<i8> -> tensor<4x16xi8>
  tile.store %v, %out[%zero] strides [16, 1] : tensor<4x16xi8>, !tile.ptr<i8>
  tile.return
}

// One element for all lanes of a row, read where the mask leaves any.
// CHECK-LABEL: ; uniform
// CHECK-NOT: gather
// CHECK: %[[PLACE:.*]] = select i1 %{{.*}}, ptr %{{.*}}, ptr
// CHECK: load float, ptr %[[PLACE]]
// CHECK: ret i32
tile.kernel @uniform(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>, %n: i32) {
  %zero = arith.constant 0 : i64
  %i = tile.iota : tensor<32xi32>
  %t = tile.reshape %i : tensor<32xi32> -> tensor<2x16xi32>
  %l = tile.splat %n : i32 -> tensor<2x16xi32>
  %m = arith.cmpi slt, %t, %l : tensor<2x16xi32>
  %v = tile.load %x[%zero] strides [1, 0] mask %m : tensor<2x16xi1> : !tile.ptr<f32> -> tensor<2x16xf32>
  tile.store %v, %out[%zero] strides [16, 1] : tensor<2x16xf32>, !tile.ptr<f32>
  tile.return
}

// A transpose of four steps: code generation looks into two at a time.
// CHECK-LABEL: ; transpose
// CHECK: @llvm.arithmetic.fence.v16f32
tile.kernel @transpose(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [100, 1] : !tile.ptr<f32> -> tensor<16x16xf32>
  %t = tile.trans %v perm [1, 0] : tensor<16x16xf32> -> tensor<16x16xf32>
  tile.store %t, %out[%zero] strides [16, 1] : tensor<16x16xf32>, !tile.ptr<f32>
  tile.return
}

// Rows reduced along their lanes share registers: half as many additions at each step.
// V4-LABEL: ; sums
// V4-COUNT-2: fadd <16 x float>
// V4: fadd <16 x float>
// V4: fadd <8 x float>
// V4: fadd <4 x float>
// V4-NOT: fadd
// V4: ret i32
tile.kernel @sums(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [16, 1] : !tile.ptr<f32> -> tensor<4x16xf32>
  %r = tile.reduce(%v) axis 1 : (tensor<4x16xf32>) -> tensor<4xf32> {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tile.yield %s : f32
  }
  tile.store %r, %out[%zero] strides [1] : tensor<4xf32>, !tile.ptr<f32>
  tile.return
}

// A row that is not valid has the address of the first: beyond the tensor there may be no memory.
// CHECK-LABEL: ; beyond
// CHECK: %[[IN:.*]] = icmp sgt i64 %[[COUNT:.*]], 1
// CHECK: select i1 %[[IN]], i64 {{.*}}, i64 0
// CHECK: ret i32
tile.kernel @beyond(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>, %n: i64, %stride: i64) {
  %zero = arith.constant 0 : i64
  %lanes = arith.constant 16 : i64
  %v = tile.load %x[%zero] strides [%stride, 1] valid[%n, %lanes] : !tile.ptr<f32> -> tensor<2x16xf32>
  tile.store %v, %out[%zero] strides [16, 1] : tensor<2x16xf32>, !tile.ptr<f32>
  tile.return
}
