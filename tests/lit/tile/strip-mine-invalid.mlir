// What strip-mining refuses.
// RUN: tile-opt %s --tile-strip-mine --split-input-file --verify-diagnostics

// expected-error @+1 {{expected tile.scratch_bytes to say how much scratch the kernel uses itself}}
tile.kernel @scratch(%p: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %s = tile.scratch %zero : !tile.ptr<f32>
  %v = tile.load %p[%zero] strides [1] : !tile.ptr<f32> -> tensor<4096xf32>
  tile.store %v, %s[%zero] strides [1] : tensor<4096xf32>, !tile.ptr<f32>
  tile.return
}
