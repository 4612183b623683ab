// A 16x16 transpose by 64 threads: 16 bytes a thread in and out, through padded shared memory between.
// RUN: tile-compile %s --target=sm_90 --emit=ptx -o %t.ptx
// RUN: FileCheck %s < %t.ptx
// RUN: %ptxas -arch=sm_90 %t.ptx
// RUN: tile-compile %s --target=sm_90 --emit=35-layout.mlir -o %t.mlir
// RUN: FileCheck %s --check-prefix=LAYOUT < %t.mlir
// RUN: tile-compile %t.mlir --target=sm_90 --emit=ptx | diff - %t.ptx

// LAYOUT: tile.load {{.*}} -> tensor<16x16xf32, #tile.layout<threads = 64, vector = 4>>

// CHECK: .entry tile_
// CHECK: .maxntid 64
// CHECK: .shared .align 16 .b8 {{.*}}[1056]
// CHECK-DAG: %tid.x
// CHECK-DAG: %ctaid.x
// CHECK-DAG: %ctaid.y
// CHECK: ld.global.v4.b32
// CHECK-COUNT-4: st.shared.b32
// CHECK: bar.sync
// CHECK-COUNT-4: ld.shared.b32
// CHECK: st.global.v4.b32
// CHECK-NOT: .local
tile.kernel @transpose(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>, %m: i64, %n: i64) {
  %i = tile.program_id 0 : i64
  %j = tile.program_id 1 : i64
  %size = arith.constant 16 : i64
  %row = arith.muli %i, %size : i64
  %col = arith.muli %j, %size : i64
  %from0 = arith.muli %row, %n : i64
  %from = arith.addi %from0, %col : i64
  %to0 = arith.muli %col, %m : i64
  %to = arith.addi %to0, %row : i64
  %t = tile.load %x[%from] strides [%n, 1] : !tile.ptr<f32> -> tensor<16x16xf32>
  %u = tile.trans %t perm [1, 0] : tensor<16x16xf32> -> tensor<16x16xf32>
  tile.store %u, %out[%to] strides [%m, 1] : tensor<16x16xf32>, !tile.ptr<f32>
  tile.return
}
