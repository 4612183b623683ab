// What code generation for CPU refuses, with the line of the kernel.
// RUN: not tile-compile %s 2>&1 | FileCheck %s

// CHECK: error: {{.*}}:[[# @LINE + 1]]: codegen: kernel 'wide' does not compile: 'tile.splat' op expected tiles of at most 256 lanes and 16384 elements, got 'tensor<2x1001xf32>'
tile.kernel @wide(%x: f32) {
  %t = tile.splat %x : f32 -> tensor<2x1001xf32>
  tile.return
}
