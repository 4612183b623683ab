// The magnitude of -32768 is -32768. The assembler takes what abs.s16 gives for a number of 15 bits.
// RUN: tile-compile %s --target=sm_90 --emit=60-kernel.ptx -o - | FileCheck %s

// CHECK-NOT: abs.s16
// CHECK: abs.s32
// CHECK: rem.s16
tile.kernel @remainder(%x: !tile.ptr<i16>, %y: !tile.ptr<i16>) attributes {tile.threads = 32 : i64} {
  %c0 = arith.constant 0 : i64
  %one = arith.constant dense<1> : tensor<32xi16>
  %v = tile.load %x[%c0] strides [1] : !tile.ptr<i16> -> tensor<32xi16>
  %a = math.absi %v : tensor<32xi16>
  %b = arith.addi %a, %one : tensor<32xi16>
  %r = arith.remsi %a, %b : tensor<32xi16>
  tile.store %r, %y[%c0] strides [1] : tensor<32xi16>, !tile.ptr<i16>
  tile.return
}
