// softmax of a row: running maximum and sum as vectors, one reduction to a scalar each, exponentials kept in scratch memory.
// RUN: tile-compile %s --emit=50-kernel.ll --target=x86-64-v4 | FileCheck %s

// CHECK-LABEL: define i32 @tile_
// CHECK: call <32 x float> @llvm.masked.load
// CHECK: shufflevector <32 x float>
// CHECK: shufflevector <16 x float>
// CHECK: load <32 x float>
// CHECK: fdiv
tile.kernel @softmax(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>, %n: i64) {
  %pid = tile.program_id 0 : i64
  %zero = arith.constant 0 : i64
  %width = arith.constant 32 : i64
  %row = arith.muli %pid, %n : i64
  %lowest = arith.constant dense<0xFF800000> : tensor<32xf32>
  %none = arith.constant dense<0.0> : tensor<32xf32>
  %low = arith.constant 0xFF800000 : f32
  %scratch = tile.scratch %zero : !tile.ptr<f32>
  %max = scf.for %c = %zero to %n step %width iter_args(%acc = %lowest) -> tensor<32xf32> : i64 {
    %i = arith.addi %row, %c : i64
    %left = arith.subi %n, %c : i64
    %v = tile.load %x[%i] strides [1] valid [%left] other %low : f32 : !tile.ptr<f32> -> tensor<32xf32>
    %m = arith.maximumf %acc, %v : tensor<32xf32>
    scf.yield %m : tensor<32xf32>
  }
  %m = tile.reduce (%max) axis 0 : (tensor<32xf32>) -> f32 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }
  %ms = tile.splat %m : f32 -> tensor<32xf32>
  %sum = scf.for %c = %zero to %n step %width iter_args(%acc = %none) -> tensor<32xf32> : i64 {
    %i = arith.addi %row, %c : i64
    %left = arith.subi %n, %c : i64
    %v = tile.load %x[%i] strides [1] valid [%left] other %low : f32 : !tile.ptr<f32> -> tensor<32xf32>
    %d = arith.subf %v, %ms : tensor<32xf32>
    %e = math.exp %d : tensor<32xf32>
    tile.store %e, %scratch[%c] strides [1] : tensor<32xf32>, !tile.ptr<f32>
    %s = arith.addf %acc, %e : tensor<32xf32>
    scf.yield %s : tensor<32xf32>
  }
  %s = tile.reduce (%sum) axis 0 : (tensor<32xf32>) -> f32 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  }
  %ss = tile.splat %s : f32 -> tensor<32xf32>
  scf.for %c = %zero to %n step %width : i64 {
    %i = arith.addi %row, %c : i64
    %left = arith.subi %n, %c : i64
    %e = tile.load %scratch[%c] strides [1] : !tile.ptr<f32> -> tensor<32xf32>
    %r = arith.divf %e, %ss : tensor<32xf32>
    tile.store %r, %out[%i] strides [1] valid [%left] : tensor<32xf32>, !tile.ptr<f32>
  }
  tile.return
}
