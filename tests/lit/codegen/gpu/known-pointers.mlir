// What is known of the arguments of a launch makes pieces of tiles of pointers words: no test at run time, and one mask
// for a piece.
// RUN: tile-compile %s --target=sm_90 --emit=ptx -o %t.ptx
// RUN: FileCheck %s < %t.ptx
// RUN: %ptxas -arch=sm_90 %t.ptx

// CHECK: ld.global{{.*}}.v4.b32
// CHECK-NOT: ld.global{{.*}}.b16
// CHECK: st.global.v4.b32
// CHECK-NOT: st.global.b16
tile.kernel @copy(%x: !tile.ptr<bf16>, %y: !tile.ptr<bf16>, %n: i32, %stride: i32)
    attributes {tile.threads = 32 : i64, tile.argument_multiples = array<i64: 16, 16, 16, 16>} {
  %columns = tile.iota : tensor<32xi32>
  %rows = tile.iota : tensor<16xi32>
  %rows2 = tile.expand_dims %rows axis 1 : tensor<16xi32> -> tensor<16x1xi32>
  %strides = tile.splat %stride : i32 -> tensor<16x1xi32>
  %firsts = arith.muli %rows2, %strides : tensor<16x1xi32>
  %firsts2 = tile.broadcast %firsts : tensor<16x1xi32> -> tensor<16x32xi32>
  %columns2 = tile.expand_dims %columns axis 0 : tensor<32xi32> -> tensor<1x32xi32>
  %columns3 = tile.broadcast %columns2 : tensor<1x32xi32> -> tensor<16x32xi32>
  %at = arith.addi %firsts2, %columns3 : tensor<16x32xi32>
  %count = tile.splat %n : i32 -> tensor<1x32xi32>
  %inside = arith.cmpi slt, %columns2, %count : tensor<1x32xi32>
  %mask = tile.broadcast %inside : tensor<1x32xi1> -> tensor<16x32xi1>
  %base = tile.splat %x : !tile.ptr<bf16> -> tensor<16x32x!tile.ptr<bf16>>
  %from = tile.ptr_add %base, %at : tensor<16x32x!tile.ptr<bf16>>, tensor<16x32xi32>
  %v = tile.gather %from mask %mask : tensor<16x32xi1> : tensor<16x32x!tile.ptr<bf16>> -> tensor<16x32xbf16>
  %base2 = tile.splat %y : !tile.ptr<bf16> -> tensor<16x32x!tile.ptr<bf16>>
  %to = tile.ptr_add %base2, %at : tensor<16x32x!tile.ptr<bf16>>, tensor<16x32xi32>
  tile.scatter %v, %to mask %mask : tensor<16x32xi1> : tensor<16x32xbf16>, tensor<16x32x!tile.ptr<bf16>>
  tile.return
}
