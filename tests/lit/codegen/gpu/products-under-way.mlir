// Products of attention: the second one of an iteration ends in the next, and a second loop over the same pointers loads
// ahead, too. Sums of zero are not written: the first instruction of a product gives results without reading them.
// RUN: tile-compile %s --target=sm_90a --emit=ptx -o %t.ptx
// RUN: FileCheck %s < %t.ptx
// RUN: %ptxas -arch=sm_90a %t.ptx

// Copies for two iterations before the first loop.
// CHECK-COUNT-2: cp.async.commit_group
// The second product has its left operand in registers, adds to sums that are scaled, and is not waited for.
// CHECK: wgmma.fence
// CHECK-COUNT-4: setp.eq.b32 adds, 0, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{{.*}}}, {%r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}}
// CHECK: wgmma.commit_group
// CHECK-NEXT: wgmma.wait_group.sync.aligned 1
// The first one of the next iteration adds to nothing. Behind it both are complete, and what it reads next is there: one
// barrier, then copies.
// CHECK: wgmma.fence
// CHECK: setp.ne.b32 adds, 0, 0; wgmma.mma_async
// CHECK-COUNT-3: setp.eq.b32 adds, 0, 0; wgmma.mma_async
// CHECK: wgmma.commit_group
// CHECK: wgmma.wait_group.sync.aligned 0
// CHECK: cp.async.wait_group 0
// CHECK: bar.sync
// CHECK-NOT: bar.sync
// CHECK: cp.async.ca.shared.global
// CHECK-NOT: bar.sync
// Behind the loop the last product ends, and all threads' have before copies for the next loop start.
// CHECK: wgmma.wait_group.sync.aligned 0
// CHECK: bar.sync
// CHECK: cp.async.ca.shared.global
// CHECK: cp.async.commit_group
// CHECK: cp.async.ca.shared.global
// CHECK: cp.async.commit_group
// CHECK: setp.ne.b32 adds, 0, 0; wgmma.mma_async
// CHECK: wgmma.wait_group.sync.aligned 1
// CHECK-NEXT: bar.sync
// CHECK: cp.async.ca.shared.global
// CHECK: wgmma.wait_group.sync.aligned 0
tile.kernel @attention(%q_ptr: !tile.ptr<bf16>, %k_ptr: !tile.ptr<bf16>, %v_ptr: !tile.ptr<bf16>, %o_ptr: !tile.ptr<f32>, %n: i32)
    attributes {tile.threads = 128 : i64, tile.num_stages = 3 : i64,
                tile.argument_multiples = array<i64: 16, 16, 16, 16, 0>} {
  %width = arith.constant dense<64> : tensor<64x1xi32>
  %least = arith.constant dense<0xFF800000> : tensor<64xf32>
  %zero = arith.constant dense<0x00000000> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %step = arith.constant dense<4096> : tensor<64x64xi32>
  %c2 = arith.constant 2 : i32
  %rows = tile.iota : tensor<64xi32>
  %rows2 = tile.expand_dims %rows axis 1 : tensor<64xi32> -> tensor<64x1xi32>
  %firsts = arith.muli %rows2, %width : tensor<64x1xi32>
  %columns = tile.expand_dims %rows axis 0 : tensor<64xi32> -> tensor<1x64xi32>
  %firsts2 = tile.broadcast %firsts : tensor<64x1xi32> -> tensor<64x64xi32>
  %columns2 = tile.broadcast %columns : tensor<1x64xi32> -> tensor<64x64xi32>
  %at = arith.addi %firsts2, %columns2 : tensor<64x64xi32>
  %qp0 = tile.splat %q_ptr : !tile.ptr<bf16> -> tensor<64x64x!tile.ptr<bf16>>
  %qp = tile.ptr_add %qp0, %at : tensor<64x64x!tile.ptr<bf16>>, tensor<64x64xi32>
  %q = tile.gather %qp : tensor<64x64x!tile.ptr<bf16>> -> tensor<64x64xbf16>
  %kp0 = tile.splat %k_ptr : !tile.ptr<bf16> -> tensor<64x64x!tile.ptr<bf16>>
  %kp1 = tile.ptr_add %kp0, %at : tensor<64x64x!tile.ptr<bf16>>, tensor<64x64xi32>
  %vp0 = tile.splat %v_ptr : !tile.ptr<bf16> -> tensor<64x64x!tile.ptr<bf16>>
  %vp1 = tile.ptr_add %vp0, %at : tensor<64x64x!tile.ptr<bf16>>, tensor<64x64xi32>
  %first:4 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %most = %least, %kp = %kp1, %vp = %vp1)
      -> (tensor<64x64xf32>, tensor<64xf32>, tensor<64x64x!tile.ptr<bf16>>, tensor<64x64x!tile.ptr<bf16>>) : i32 {
    %k = tile.gather %kp : tensor<64x64x!tile.ptr<bf16>> -> tensor<64x64xbf16>
    %kt = tile.trans %k perm [1, 0] : tensor<64x64xbf16> -> tensor<64x64xbf16>
    %s = tile.dot %q, %kt, %zero : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    %row = tile.reduce (%s) axis 1 : (tensor<64x64xf32>) -> tensor<64xf32> {
    ^bb0(%x: f32, %y: f32):
      %z = arith.maxnumf %x, %y : f32
      tile.yield %z : f32
    }
    %larger = arith.maxnumf %most, %row : tensor<64xf32>
    %larger2 = tile.expand_dims %larger axis 1 : tensor<64xf32> -> tensor<64x1xf32>
    %larger3 = tile.broadcast %larger2 : tensor<64x1xf32> -> tensor<64x64xf32>
    %below = arith.subf %s, %larger3 : tensor<64x64xf32>
    %p = math.exp2 %below : tensor<64x64xf32>
    %p16 = arith.truncf %p : tensor<64x64xf32> to tensor<64x64xbf16>
    %v = tile.gather %vp : tensor<64x64x!tile.ptr<bf16>> -> tensor<64x64xbf16>
    %change = arith.subf %most, %larger : tensor<64xf32>
    %scale = math.exp2 %change : tensor<64xf32>
    %scale2 = tile.expand_dims %scale axis 1 : tensor<64xf32> -> tensor<64x1xf32>
    %scale3 = tile.broadcast %scale2 : tensor<64x1xf32> -> tensor<64x64xf32>
    %scaled = arith.mulf %acc, %scale3 : tensor<64x64xf32>
    %sums = tile.dot %p16, %v, %scaled : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    %kn = tile.ptr_add %kp, %step : tensor<64x64x!tile.ptr<bf16>>, tensor<64x64xi32>
    %vn = tile.ptr_add %vp, %step : tensor<64x64x!tile.ptr<bf16>>, tensor<64x64xi32>
    scf.yield %sums, %larger, %kn, %vn : tensor<64x64xf32>, tensor<64xf32>, tensor<64x64x!tile.ptr<bf16>>, tensor<64x64x!tile.ptr<bf16>>
  }
  %second:3 = scf.for %j = %c0 to %c2 step %c1 iter_args(%acc2 = %first#0, %kp2 = %first#2, %vp2 = %first#3)
      -> (tensor<64x64xf32>, tensor<64x64x!tile.ptr<bf16>>, tensor<64x64x!tile.ptr<bf16>>) : i32 {
    %k2 = tile.gather %kp2 : tensor<64x64x!tile.ptr<bf16>> -> tensor<64x64xbf16>
    %kt2 = tile.trans %k2 perm [1, 0] : tensor<64x64xbf16> -> tensor<64x64xbf16>
    %s2 = tile.dot %q, %kt2, %zero : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    %s16 = arith.truncf %s2 : tensor<64x64xf32> to tensor<64x64xbf16>
    %v2 = tile.gather %vp2 : tensor<64x64x!tile.ptr<bf16>> -> tensor<64x64xbf16>
    %sums2 = tile.dot %s16, %v2, %acc2 : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    %kn2 = tile.ptr_add %kp2, %step : tensor<64x64x!tile.ptr<bf16>>, tensor<64x64xi32>
    %vn2 = tile.ptr_add %vp2, %step : tensor<64x64x!tile.ptr<bf16>>, tensor<64x64xi32>
    scf.yield %sums2, %kn2, %vn2 : tensor<64x64xf32>, tensor<64x64x!tile.ptr<bf16>>, tensor<64x64x!tile.ptr<bf16>>
  }
  %op0 = tile.splat %o_ptr : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %op = tile.ptr_add %op0, %at : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  tile.scatter %second#0, %op : tensor<64x64xf32>, tensor<64x64x!tile.ptr<f32>>
  tile.return
}
