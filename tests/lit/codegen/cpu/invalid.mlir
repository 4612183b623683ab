// What code generation for CPU refuses, with the line of the kernel.
// RUN: not tile-compile %s 2>&1 | FileCheck %s

// CHECK: error: {{.*}}:[[# @LINE + 1]]: codegen: kernel 'odd' does not compile: 'tile.splat' op expected a type that CPU code can hold, got 'tensor<16xi24>'
tile.kernel @odd(%x: i24) {
  %t = tile.splat %x : i24 -> tensor<16xi24>
  tile.return
}
