// layer norm of a row with a weight; a * b + c keeps its two roundings.
// RUN: tile-compile %s --emit=60-kernel.s --target=x86-64-v4 | FileCheck %s

// CHECK-LABEL: tile_
// CHECK-NOT: vfmadd
// CHECK: zmm
// CHECK-NOT: vfmadd
tile.kernel @layernorm(%x: !tile.ptr<f32>, %w: !tile.ptr<f32>, %b: !tile.ptr<f32>, %out: !tile.ptr<f32>, %n: i64, %rn: f32, %eps: f32) {
  %pid = tile.program_id 0 : i64
  %zero = arith.constant 0 : i64
  %width = arith.constant 32 : i64
  %row = arith.muli %pid, %n : i64
  %none = arith.constant dense<0.0> : tensor<32xf32>
  %one = arith.constant 1.0 : f32
  %sums = scf.for %c = %zero to %n step %width iter_args(%acc = %none) -> tensor<32xf32> : i64 {
    %i = arith.addi %row, %c : i64
    %v = tile.load %x[%i] strides [1] : !tile.ptr<f32> -> tensor<32xf32>
    %s = arith.addf %acc, %v : tensor<32xf32>
    scf.yield %s : tensor<32xf32>
  }
  %sum = tile.reduce (%sums) axis 0 : (tensor<32xf32>) -> f32 {
  ^bb0(%a: f32, %c: f32):
    %d = arith.addf %a, %c : f32
    tile.yield %d : f32
  }
  %mean = arith.mulf %sum, %rn : f32
  %means = tile.splat %mean : f32 -> tensor<32xf32>
  %squares = scf.for %c = %zero to %n step %width iter_args(%acc = %none) -> tensor<32xf32> : i64 {
    %i = arith.addi %row, %c : i64
    %v = tile.load %x[%i] strides [1] : !tile.ptr<f32> -> tensor<32xf32>
    %d = arith.subf %v, %means : tensor<32xf32>
    %q = arith.mulf %d, %d : tensor<32xf32>
    %s = arith.addf %acc, %q : tensor<32xf32>
    scf.yield %s : tensor<32xf32>
  }
  %square = tile.reduce (%squares) axis 0 : (tensor<32xf32>) -> f32 {
  ^bb0(%a: f32, %c: f32):
    %d = arith.addf %a, %c : f32
    tile.yield %d : f32
  }
  %var = arith.mulf %square, %rn : f32
  %vare = arith.addf %var, %eps : f32
  %rstd = math.rsqrt %vare : f32
  %rs = tile.splat %rstd : f32 -> tensor<32xf32>
  scf.for %c = %zero to %n step %width : i64 {
    %i = arith.addi %row, %c : i64
    %v = tile.load %x[%i] strides [1] : !tile.ptr<f32> -> tensor<32xf32>
    %wv = tile.load %w[%c] strides [1] : !tile.ptr<f32> -> tensor<32xf32>
    %bv = tile.load %b[%c] strides [1] : !tile.ptr<f32> -> tensor<32xf32>
    %d = arith.subf %v, %means : tensor<32xf32>
    %q = arith.mulf %d, %rs : tensor<32xf32>
    %p = arith.mulf %q, %wv : tensor<32xf32>
    %r = arith.addf %p, %bv : tensor<32xf32>
    tile.store %r, %out[%i] strides [1] : tensor<32xf32>, !tile.ptr<f32>
  }
  tile.return
}
