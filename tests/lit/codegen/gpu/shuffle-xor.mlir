// Partners in another piece of the thread cost nothing, those in another thread of a warp a shuffle, those in another
// warp a trip through shared memory.
// RUN: tile-compile %s --target=sm_90 --emit=60-kernel.ptx -o - | FileCheck %s

// CHECK-LABEL: // pieces = 
// CHECK: .visible .entry
// CHECK-NOT: shfl
// CHECK-NOT: st.shared
// CHECK: ret
tile.kernel @pieces(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) attributes {tile.threads = 32 : i64} {
  %c0 = arith.constant 0 : i64
  %v = tile.load %x[%c0] strides [1] : !tile.ptr<f32> -> tensor<1024xf32>
  %a = tile.shuffle_xor %v by 512 : tensor<1024xf32>
  tile.store %a, %y[%c0] strides [1] : tensor<1024xf32>, !tile.ptr<f32>
  tile.return
}

// CHECK-LABEL: // warp = 
// CHECK: .visible .entry
// CHECK: shfl.sync.bfly
// CHECK-NOT: st.shared
// CHECK: ret
tile.kernel @warp(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) attributes {tile.threads = 128 : i64} {
  %c0 = arith.constant 0 : i64
  %v = tile.load %x[%c0] strides [1] : !tile.ptr<f32> -> tensor<1024xf32>
  %a = tile.shuffle_xor %v by 9 : tensor<1024xf32>
  tile.store %a, %y[%c0] strides [1] : tensor<1024xf32>, !tile.ptr<f32>
  tile.return
}

// CHECK-LABEL: // warps = 
// CHECK: .visible .entry
// CHECK-NOT: shfl
// CHECK: st.shared
// CHECK: ret
tile.kernel @warps(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) attributes {tile.threads = 128 : i64} {
  %c0 = arith.constant 0 : i64
  %v = tile.load %x[%c0] strides [1] : !tile.ptr<f32> -> tensor<1024xf32>
  %a = tile.shuffle_xor %v by 256 : tensor<1024xf32>
  tile.store %a, %y[%c0] strides [1] : tensor<1024xf32>, !tile.ptr<f32>
  tile.return
}
