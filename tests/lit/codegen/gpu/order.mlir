// Threads of a block meet at a barrier where one may touch what another has touched, and nowhere else.
// RUN: tile-compile %s --target=sm_90 --emit=60-kernel.ptx | FileCheck %s

// The same elements by the same threads.
// CHECK: // in_place =
// CHECK: .visible .entry
// CHECK-NOT: bar
// CHECK: ret
tile.kernel @in_place(%x: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
  %n = arith.negf %v : tensor<256xf32>
  tile.store %n, %x[%zero] strides [1] : tensor<256xf32>, !tile.ptr<f32>
  tile.return
}

// The same elements, but three quarters of the threads hold copies, which they must have read before the store.
// CHECK: // copies =
// CHECK: .visible .entry
// CHECK: ld.global
// CHECK: bar.sync
// CHECK: st.global
// CHECK: ret
tile.kernel @copies(%x: !tile.ptr<f32>) attributes {tile.threads = 256 : i64} {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<64xf32>
  %n = arith.negf %v : tensor<64xf32>
  tile.store %n, %x[%zero] strides [1] : tensor<64xf32>, !tile.ptr<f32>
  tile.return
}

// A neighbour's: all loads come before any store. A block of one warp needs no more than the warp.
// CHECK: // shifted =
// CHECK: .visible .entry
// CHECK: ld.global
// CHECK: bar.warp.sync
// CHECK: st.global
// CHECK: ret
tile.kernel @shifted(%x: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<64xf32>
  tile.store %v, %x[%one] strides [1] : tensor<64xf32>, !tile.ptr<f32>
  tile.return
}

// A barrier before the loop for what comes before it, and one between its iterations.
// CHECK: // loop =
// CHECK: .visible .entry
// CHECK: st.global
// CHECK: bar.sync
// CHECK: $L__BB
// CHECK: bar.sync
// CHECK: st.global
// CHECK: ret
tile.kernel @loop(%x: !tile.ptr<f32>, %n: i64) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %none = arith.constant dense<0.0> : tensor<256xf32>
  tile.store %none, %x[%zero] strides [1] : tensor<256xf32>, !tile.ptr<f32>
  scf.for %i = %zero to %n step %one : i64 {
    %v = tile.load %x[%i] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    tile.store %v, %x[%i] strides [1] : tensor<256xf32>, !tile.ptr<f32>
  }
  tile.return
}
