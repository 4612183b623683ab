// A row that is read again stays in shared memory, in the places of the thread that read it.
// RUN: tile-compile %s --target=sm_90 --emit=60-kernel.ptx | FileCheck %s
// RUN: tile-compile %s --target=sm_90 --emit=50-kernel.ll | FileCheck %s --check-prefix=LLVM

// LLVM: @[[HELD:.*]] = external {{.*}}addrspace(3) global [0 x i8]
// CHECK: .extern .shared .align 16 .b8 [[HELD:.*]][];
// CHECK-NOT: bar.sync
// CHECK: st.shared.v4
// CHECK-NOT: bar.sync
// CHECK: ld.volatile.shared.v4
// CHECK-NOT: bar.sync
// CHECK: ret
tile.kernel @twice(%x: !tile.ptr<bf16>, %y: !tile.ptr<bf16>) attributes {tile.threads = 128 : i64, tile.held_bytes = 65536 : i64, tile.aligned_args, tile.noalias_args} {
  %zero = arith.constant 0 : i64
  %step = arith.constant 1024 : i64
  %end = arith.constant 32768 : i64
  scf.for %i = %zero to %end step %step : i64 {
    %v = tile.load %x[%i] strides [1] : !tile.ptr<bf16> -> tensor<1024xbf16>
    tile.hold %v, %i offset 0 : tensor<1024xbf16>
  }
  scf.for %i = %zero to %end step %step : i64 {
    %v = tile.held %i offset 0 : tensor<1024xbf16>
    tile.store %v, %y[%i] strides [1] : tensor<1024xbf16>, !tile.ptr<bf16>
  }
  tile.return
}
