// softmax of one row in one tile of 32768 lanes, as a user would write it: three loops of vectors, exponentials kept in scratch.
// RUN: tile-opt %s --tile-strip-mine | FileCheck %s
// RUN: tile-compile %s --emit=50-kernel.ll --target=x86-64-v4 | FileCheck %s --check-prefix=LLVM

// CHECK: tile.scratch_bytes = 131072
// CHECK: %[[SCRATCH:.*]] = tile.scratch
// CHECK: %[[MAX:.*]] = scf.for {{.*}} iter_args({{.*}}) -> (tensor<64xf32>)
// CHECK:   tile.load {{.*}} -> tensor<64xf32>
// CHECK:   arith.maximumf
// CHECK: tile.reduce(%[[MAX]])
// CHECK: scf.for
// CHECK:   math.exp {{.*}} : tensor<64xf32>
// CHECK:   tile.store {{.*}}, %[[SCRATCH]]
// CHECK: tile.reduce
// CHECK: scf.for
// CHECK-NOT: math.exp
// CHECK:   tile.load %[[SCRATCH]]
// CHECK:   arith.divf
// CHECK:   tile.store
// CHECK-NOT: scf.for
// LLVM-NOT: <32768 x
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
