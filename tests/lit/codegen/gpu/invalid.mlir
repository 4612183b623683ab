// What has no form on the device is refused, never called.
// RUN: split-file %s %t
// RUN: not tile-compile %t/long.mlir --target=sm_90 --emit=ptx 2>&1 | FileCheck %s --check-prefix=LONG
// RUN: not tile-compile %t/long.mlir --target=sm_50 --emit=ptx 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not tile-compile %t/short.mlir --target=sm_90 --emit=object 2>&1 | FileCheck %s --check-prefix=EMIT
// RUN: not tile-compile %t/held.mlir --target=sm_90 --emit=ptx 2>&1 | FileCheck %s --check-prefix=HELD
// RUN: not tile-compile %t/held.mlir --emit=object 2>&1 | FileCheck %s --check-prefix=CPU

// HELD: expected a tile in whole pieces of all threads
// CPU: expected an op that the CPU target lowers
// LONG: unsupported on gpu: a tile of 131072 elements over 1024 threads, at most 64 elements a thread
// TARGET: option 'target' expected one of sm_80, {{.*}}, got 'sm_50'
// EMIT: expected --emit=ptx for a GPU

//--- short.mlir
tile.kernel @short(%x: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<64xf32>
  tile.store %v, %x[%zero] strides [1] : tensor<64xf32>, !tile.ptr<f32>
  tile.return
}

//--- long.mlir
tile.kernel @long(%x: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<131072xf32>
  tile.store %v, %x[%zero] strides [1] : tensor<131072xf32>, !tile.ptr<f32>
  tile.return
}

//--- held.mlir
tile.kernel @held(%x: !tile.ptr<f32>) attributes {tile.threads = 128 : i64, tile.held_bytes = 256 : i64} {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<64xf32>
  tile.hold %v, %zero offset 0 : tensor<64xf32>
  tile.return
}
