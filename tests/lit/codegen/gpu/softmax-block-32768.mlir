// softmax of one row in one tile of 32768 elements: 1024 threads hold 32 each, in registers from the load to the store.
// RUN: tile-compile %s --target=sm_90 --emit=ptx -o %t.ptx
// RUN: FileCheck %s < %t.ptx
// RUN: %ptxas -arch=sm_90 %t.ptx

// CHECK: .maxntid 1024
// CHECK: .shared .align 16 .b8 {{.*}}[128]
// CHECK-NOT: st.global
// CHECK-COUNT-8: ld.global.nc.v4.b32
// CHECK-COUNT-5: shfl.sync.bfly.b32
// CHECK: st.shared
// CHECK: bar.sync
// CHECK: ld.shared
// CHECK-COUNT-5: shfl.sync.bfly.b32
// CHECK: ex2.approx.ftz.f32
// CHECK-COUNT-5: shfl.sync.bfly.b32
// CHECK: bar.sync
// CHECK: {{rcp.rn|div.rn}}.f32
// CHECK: st.global.v4.b32
// CHECK-NOT: ld.global
// CHECK-NOT: call
tile.kernel @softmax(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>, %n: i64) attributes {tile.noalias_args} {
  %pid = tile.program_id 0 : i64
  %row = arith.muli %pid, %n : i64
  %low = arith.constant 0xFF800000 : f32
  %v = tile.load %x[%row] strides [1] valid [%n] other %low : f32 : !tile.ptr<f32> -> tensor<32768xf32>
  %max = tile.reduce (%v) axis 0 : (tensor<32768xf32>) -> f32 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }
  %m = tile.splat %max : f32 -> tensor<32768xf32>
  %d = arith.subf %v, %m : tensor<32768xf32>
  %e = math.exp %d : tensor<32768xf32>
  %sum = tile.reduce (%e) axis 0 : (tensor<32768xf32>) -> f32 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  }
  %s = tile.splat %sum : f32 -> tensor<32768xf32>
  %r = arith.divf %e, %s : tensor<32768xf32>
  tile.store %r, %out[%row] strides [1] valid [%n] : tensor<32768xf32>, !tile.ptr<f32>
  tile.return
}
