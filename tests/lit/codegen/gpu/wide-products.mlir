// The difference of two quotients. The high half of a product of 32 bits is no operand of a subtraction of 64 bits: ptxas
// takes a carry for its borrow there.
// RUN: tile-compile %s --target=sm_90 --emit=60-kernel.ptx -o - | FileCheck %s

// CHECK: mul.wide.u32 %wide, %{{.*}}, {{.*}}; mov.b64 {%low, %[[Q:r[0-9]+]]}, %wide; }
// CHECK-NOT: mul.hi.u32
// CHECK: sub.s64
tile.kernel @difference(%y: !tile.ptr<i64>) attributes {tile.threads = 32 : i64} {
  %c0 = arith.constant 0 : i64
  %nine = arith.constant dense<9> : tensor<32xi32>
  %seven = arith.constant dense<7> : tensor<32xi32>
  %i = tile.iota : tensor<32xi32>
  %j = arith.addi %i, %seven : tensor<32xi32>
  %p = arith.divui %i, %nine : tensor<32xi32>
  %q = arith.divui %j, %nine : tensor<32xi32>
  %a = arith.extui %p : tensor<32xi32> to tensor<32xi64>
  %b = arith.extui %q : tensor<32xi32> to tensor<32xi64>
  %d = arith.subi %b, %a : tensor<32xi64>
  tile.store %d, %y[%c0] strides [1] : tensor<32xi64>, !tile.ptr<i64>
  tile.return
}
