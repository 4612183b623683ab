// Loops load operands of products ahead of their use, into shared memory.
// RUN: tile-compile %s --target=sm_80 --emit=ptx -o %t.80.ptx
// RUN: FileCheck %s < %t.80.ptx
// RUN: %ptxas -arch=sm_80 %t.80.ptx
// RUN: tile-compile %s --target=sm_90a --emit=ptx -o %t.90.ptx
// RUN: FileCheck %s --check-prefix=GROUP < %t.90.ptx
// RUN: %ptxas -arch=sm_90a %t.90.ptx

// Two iterations before the loop. In it, products of what lies in shared memory, which the loop's first block has after
// a wait that leaves the last group under way, one barrier, and copies for the iteration after the next one.
// CHECK-COUNT-2: cp.async.commit_group
// CHECK: bra.uni
// CHECK: cp.async.commit_group
// CHECK-NOT: bar.sync
// CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK-NOT: bar.sync
// CHECK-COUNT-16: mma.sync.aligned.m16n8k16
// CHECK: cp.async.wait_group 1
// CHECK-NEXT: bar.sync
// CHECK-COUNT-4: cp.async.cg.shared.global
// CHECK-NOT: cp.async

// Instructions of four warps read operands where they lie. Those of an iteration end while the next one's run. Copies
// start when all threads have the results of the iteration before.
// GROUP-COUNT-2: cp.async.commit_group
// GROUP: cp.async.wait_group 1
// GROUP: fence.proxy.async
// GROUP: bar.sync
// GROUP: wgmma.fence
// GROUP-COUNT-2: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// GROUP: wgmma.commit_group
// GROUP: wgmma.wait_group.sync.aligned 1
// GROUP-NEXT: bar.sync
// GROUP: cp.async.cg.shared.global
// GROUP: wgmma.wait_group.sync.aligned 0
tile.kernel @product(%x: !tile.ptr<bf16>, %y: !tile.ptr<bf16>, %z: !tile.ptr<bf16>, %n: i32, %stride: i32)
    attributes {tile.threads = 128 : i64, tile.num_stages = 3 : i64,
                tile.argument_multiples = array<i64: 16, 16, 16, 16, 16>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %rows = tile.iota : tensor<64xi32>
  %rows2 = tile.expand_dims %rows axis 1 : tensor<64xi32> -> tensor<64x1xi32>
  %depth = tile.iota : tensor<32xi32>
  %depth2 = tile.expand_dims %depth axis 0 : tensor<32xi32> -> tensor<1x32xi32>
  %strides = tile.splat %stride : i32 -> tensor<64x1xi32>
  %firsts = arith.muli %rows2, %strides : tensor<64x1xi32>
  %firsts2 = tile.broadcast %firsts : tensor<64x1xi32> -> tensor<64x32xi32>
  %depth3 = tile.broadcast %depth2 : tensor<1x32xi32> -> tensor<64x32xi32>
  %at = arith.addi %firsts2, %depth3 : tensor<64x32xi32>
  %base = tile.splat %x : !tile.ptr<bf16> -> tensor<64x32x!tile.ptr<bf16>>
  %a0 = tile.ptr_add %base, %at : tensor<64x32x!tile.ptr<bf16>>, tensor<64x32xi32>
  %depth4 = tile.expand_dims %depth axis 1 : tensor<32xi32> -> tensor<32x1xi32>
  %strides2 = tile.splat %stride : i32 -> tensor<32x1xi32>
  %firsts3 = arith.muli %depth4, %strides2 : tensor<32x1xi32>
  %firsts4 = tile.broadcast %firsts3 : tensor<32x1xi32> -> tensor<32x64xi32>
  %columns = tile.expand_dims %rows axis 0 : tensor<64xi32> -> tensor<1x64xi32>
  %columns2 = tile.broadcast %columns : tensor<1x64xi32> -> tensor<32x64xi32>
  %at2 = arith.addi %firsts4, %columns2 : tensor<32x64xi32>
  %base2 = tile.splat %y : !tile.ptr<bf16> -> tensor<32x64x!tile.ptr<bf16>>
  %b0 = tile.ptr_add %base2, %at2 : tensor<32x64x!tile.ptr<bf16>>, tensor<32x64xi32>
  %step = arith.constant dense<32> : tensor<64x32xi32>
  %step2 = arith.constant dense<2048> : tensor<32x64xi32>
  %sum, %a9, %b9 = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %zero, %ap = %a0, %bp = %b0)
      -> (tensor<64x64xf32>, tensor<64x32x!tile.ptr<bf16>>, tensor<32x64x!tile.ptr<bf16>>) : i32 {
    %a = tile.gather %ap : tensor<64x32x!tile.ptr<bf16>> -> tensor<64x32xbf16>
    %b = tile.gather %bp : tensor<32x64x!tile.ptr<bf16>> -> tensor<32x64xbf16>
    %c = tile.dot %a, %b, %acc : tensor<64x32xbf16>, tensor<32x64xbf16> -> tensor<64x64xf32>
    %an = tile.ptr_add %ap, %step : tensor<64x32x!tile.ptr<bf16>>, tensor<64x32xi32>
    %bn = tile.ptr_add %bp, %step2 : tensor<32x64x!tile.ptr<bf16>>, tensor<32x64xi32>
    scf.yield %c, %an, %bn : tensor<64x64xf32>, tensor<64x32x!tile.ptr<bf16>>, tensor<32x64x!tile.ptr<bf16>>
  }
  %result = arith.truncf %sum : tensor<64x64xf32> to tensor<64x64xbf16>
  %columns3 = tile.broadcast %columns : tensor<1x64xi32> -> tensor<64x64xi32>
  %firsts5 = tile.broadcast %firsts : tensor<64x1xi32> -> tensor<64x64xi32>
  %at3 = arith.addi %firsts5, %columns3 : tensor<64x64xi32>
  %base3 = tile.splat %z : !tile.ptr<bf16> -> tensor<64x64x!tile.ptr<bf16>>
  %to = tile.ptr_add %base3, %at3 : tensor<64x64x!tile.ptr<bf16>>, tensor<64x64xi32>
  tile.scatter %result, %to : tensor<64x64xbf16>, tensor<64x64x!tile.ptr<bf16>>
  tile.return
}
