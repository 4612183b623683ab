// gelu of rows, 64 lanes at a time with a masked tail: vector loads, inline polynomials, one masked load and store.
// RUN: tile-compile %s --emit=50-kernel.ll --target=x86-64-v4 | FileCheck %s
// RUN: tile-compile %s --emit=symbols --target=x86-64-v4 | FileCheck %s --check-prefix=SYMBOLS

// CHECK-LABEL: define i32 @tile_
// CHECK: load <64 x float>
// CHECK: store <64 x float>
// CHECK: call <64 x float> @llvm.masked.load
// CHECK: call void @llvm.masked.store

// Nothing outside is called.
// SYMBOLS: {{^}}gelu tile_{{[0-9a-f]+}} {{[0-9]+}}{{$}}
tile.kernel @gelu(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>, %n: i64) attributes {lines = array<i64: 3>} {
  %pid = tile.program_id 0 : i64
  %zero = arith.constant 0 : i64
  %width = arith.constant 64 : i64
  %row = arith.muli %pid, %n : i64
  %blocks = arith.divui %n, %width : i64
  %main = arith.muli %blocks, %width : i64
  %half = arith.constant dense<0.5> : tensor<64xf32>
  %one = arith.constant dense<1.0> : tensor<64xf32>
  %scale = arith.constant dense<0.797884583> : tensor<64xf32>
  %cubic = arith.constant dense<4.471500e-02> : tensor<64xf32>
  scf.for %c = %zero to %main step %width : i64 {
    %i = arith.addi %row, %c : i64
    %v = tile.load %x[%i] strides [1] : !tile.ptr<f32> -> tensor<64xf32>
    %v2 = arith.mulf %v, %v : tensor<64xf32>
    %v3 = arith.mulf %v2, %v : tensor<64xf32>
    %t = arith.mulf %v3, %cubic : tensor<64xf32>
    %u = arith.addf %v, %t : tensor<64xf32>
    %w = arith.mulf %u, %scale : tensor<64xf32>
    %th = math.tanh %w : tensor<64xf32>
    %a = arith.addf %th, %one : tensor<64xf32>
    %h = arith.mulf %v, %half : tensor<64xf32>
    %r = arith.mulf %h, %a : tensor<64xf32>
    tile.store %r, %out[%i] strides [1] : tensor<64xf32>, !tile.ptr<f32>
  }
  %left = arith.subi %n, %main : i64
  %hasTail = arith.cmpi sgt, %left, %zero : i64
  scf.if %hasTail {
    %i = arith.addi %row, %main : i64
    %v = tile.load %x[%i] strides [1] valid [%left] : !tile.ptr<f32> -> tensor<64xf32>
    %v2 = arith.mulf %v, %v : tensor<64xf32>
    %v3 = arith.mulf %v2, %v : tensor<64xf32>
    %t = arith.mulf %v3, %cubic : tensor<64xf32>
    %u = arith.addf %v, %t : tensor<64xf32>
    %w = arith.mulf %u, %scale : tensor<64xf32>
    %th = math.tanh %w : tensor<64xf32>
    %a = arith.addf %th, %one : tensor<64xf32>
    %h = arith.mulf %v, %half : tensor<64xf32>
    %r = arith.mulf %h, %a : tensor<64xf32>
    tile.store %r, %out[%i] strides [1] valid [%left] : tensor<64xf32>, !tile.ptr<f32>
  }
  tile.return
}
