// Shared memory beyond 48 KB is provided by the launch; what no block of the architecture has is an error that says how
// much was asked for.
// RUN: split-file %s %t
// RUN: tile-compile %t/small.mlir --target=sm_86 --emit=60-kernel.ptx | FileCheck %s --check-prefix=SMALL
// RUN: tile-compile %t/large.mlir --target=sm_86 --emit=60-kernel.ptx | FileCheck %s --check-prefix=LARGE
// RUN: tile-compile %t/large.mlir --target=sm_86 --emit=50-kernel.ll | FileCheck %s --check-prefix=LLVM
// RUN: tile-compile %t/held.mlir --target=sm_90 --emit=60-kernel.ptx | FileCheck %s --check-prefix=HELD
// RUN: tile-compile %t/huge.mlir --target=sm_90 --emit=60-kernel.ptx | FileCheck %s --check-prefix=HUGE
// RUN: not tile-compile %t/huge.mlir --target=sm_86 --emit=ptx 2>&1 | FileCheck %s --check-prefix=SM86
// RUN: not tile-compile %t/held-huge.mlir --target=sm_80 --emit=ptx 2>&1 | FileCheck %s --check-prefix=SM80
// RUN: tile-compile %t/held-huge.mlir --target=sm_100 --emit=60-kernel.ptx | FileCheck %s --check-prefix=SM100

// SMALL: .shared .align 16 .b8 {{.*}}_shared[32768];
// SMALL-NOT: launch with shared bytes

// LARGE: .extern .shared .align 16 .b8 {{.*}}_shared[];
// LARGE: .visible .entry
// LARGE: atom.shared.add
// LARGE: // launch with shared bytes: 65536
// LLVM: external {{.*}}addrspace(3) global [0 x i8]

// All memory of the launch is one array: the rows that threads hold, then what they exchange.
// HELD-NOT: _shared
// HELD: .extern .shared .align 16 .b8 [[HELD:.*]][];
// HELD-NOT: _shared
// HELD: atom.shared.add{{.*}}+8192]
// HELD: // launch with shared bytes: 73728

// HUGE: // launch with shared bytes: 131072
// SM86: out of resources: shared memory, required 131072 bytes, limit 101376 bytes of a block on sm_86; use smaller block sizes or a lower num_stages
// SM80: out of resources: shared memory, required 196608 bytes, limit 166912 bytes of a block on sm_80
// SM100: // launch with shared bytes: 196608

//--- small.mlir
tile.kernel @small(%x: !tile.ptr<i32>, %y: !tile.ptr<i32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<i32> -> tensor<1024xi32>
  %counts = tile.histogram %v : tensor<1024xi32> -> tensor<8192xi32>
  tile.store %counts, %y[%zero] strides [1] : tensor<8192xi32>, !tile.ptr<i32>
  tile.return
}

//--- large.mlir
tile.kernel @large(%x: !tile.ptr<i32>, %y: !tile.ptr<i32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<i32> -> tensor<1024xi32>
  %counts = tile.histogram %v : tensor<1024xi32> -> tensor<16384xi32>
  tile.store %counts, %y[%zero] strides [1] : tensor<16384xi32>, !tile.ptr<i32>
  tile.return
}

//--- huge.mlir
tile.kernel @huge(%x: !tile.ptr<i32>, %y: !tile.ptr<i32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<i32> -> tensor<1024xi32>
  %counts = tile.histogram %v : tensor<1024xi32> -> tensor<32768xi32>
  tile.store %counts, %y[%zero] strides [1] : tensor<32768xi32>, !tile.ptr<i32>
  tile.return
}

//--- held.mlir
tile.kernel @held(%x: !tile.ptr<i32>, %y: !tile.ptr<i32>) attributes {tile.threads = 512 : i64, tile.held_bytes = 8192 : i64} {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<i32> -> tensor<2048xi32>
  tile.hold %v, %zero offset 0 : tensor<2048xi32>
  %counts = tile.histogram %v : tensor<2048xi32> -> tensor<16384xi32>
  tile.store %counts, %y[%zero] strides [1] : tensor<16384xi32>, !tile.ptr<i32>
  %w = tile.held %zero offset 0 : tensor<2048xi32>
  tile.store %w, %x[%zero] strides [1] : tensor<2048xi32>, !tile.ptr<i32>
  tile.return
}

//--- held-huge.mlir
tile.kernel @held_huge(%x: !tile.ptr<i32>, %y: !tile.ptr<i32>) attributes {tile.threads = 1024 : i64, tile.held_bytes = 65536 : i64} {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<i32> -> tensor<4096xi32>
  tile.hold %v, %zero offset 0 : tensor<4096xi32>
  %counts = tile.histogram %v : tensor<4096xi32> -> tensor<32768xi32>
  tile.store %counts, %y[%zero] strides [1] : tensor<32768xi32>, !tile.ptr<i32>
  %w = tile.held %zero offset 0 : tensor<4096xi32>
  tile.store %w, %x[%zero] strides [1] : tensor<4096xi32>, !tile.ptr<i32>
  tile.return
}
