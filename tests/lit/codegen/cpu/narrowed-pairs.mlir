// One of two narrowed numbers is stored: 4 bytes. LLVM 22 stores 8 for a masked store with one known lane.
// RUN: tile-compile %s --target=x86-64-v4 --emit=60-kernel.s -o - | FileCheck %s

// CHECK-LABEL: tile_{{.*}}:
// CHECK-NOT:     vmovq %xmm{{[0-9]+}}, {{.*}}(%r
// CHECK:         movl %e{{[a-z]+}}, (%r
// CHECK-NOT:     vmovq %xmm{{[0-9]+}}, {{.*}}(%r
// CHECK:         retq
tile.kernel @pair(%x: !tile.ptr<i64>, %y: !tile.ptr<i32>) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %v = tile.load %x[%c0] strides [1] : !tile.ptr<i64> -> tensor<2xi64>
  %w = tile.load %x[%c1] strides [1] : !tile.ptr<i64> -> tensor<2xi64>
  %s = arith.addi %v, %w : tensor<2xi64>
  %t = arith.trunci %s : tensor<2xi64> to tensor<2xi32>
  tile.store %t, %y[%c0] strides [1] valid[%c1] : tensor<2xi32>, !tile.ptr<i32>
  tile.return
}
