// Tiles of pointers on GPU: neighbours travel as one word where they prove to be neighbours; products, atomics, scans.
// RUN: tile-compile %s --target=sm_90 --emit=60-kernel.ptx | FileCheck %s

// One test of alignment and mask, then words of 16 bytes; lane by lane otherwise.
// CHECK: // add =
// CHECK: ld.global.nc.v4.b32
// CHECK: ld.global.nc.b32
// CHECK: st.global.v4.b32
// CHECK: st.global.b32
// CHECK: ret
tile.kernel @add(%x: !tile.ptr<f32>, %o: !tile.ptr<f32>, %n: i32) attributes {tile.noalias_args} {
  %pid = tile.program_id 0 : i32
  %block = arith.constant 512 : i32
  %first = arith.muli %pid, %block : i32
  %firsts = tile.splat %first : i32 -> tensor<512xi32>
  %iota = tile.iota : tensor<512xi32>
  %at = arith.addi %firsts, %iota : tensor<512xi32>
  %ns = tile.splat %n : i32 -> tensor<512xi32>
  %mask = arith.cmpi slt, %at, %ns : tensor<512xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<512x!tile.ptr<f32>>
  %px = tile.ptr_add %xs, %at : tensor<512x!tile.ptr<f32>>, tensor<512xi32>
  %v = tile.gather %px mask %mask : tensor<512xi1> : tensor<512x!tile.ptr<f32>> -> tensor<512xf32>
  %s = arith.addf %v, %v : tensor<512xf32>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<512x!tile.ptr<f32>>
  %po = tile.ptr_add %os, %at : tensor<512x!tile.ptr<f32>>, tensor<512xi32>
  tile.scatter %s, %po mask %mask : tensor<512xi1> : tensor<512xf32>, tensor<512x!tile.ptr<f32>>
  tile.return
}

// Addresses of two axes are computed where they are needed: shared memory holds the operands of the product alone.
// CHECK: // product =
// CHECK: bar.sync
// CHECK-NOT: bar.sync
// CHECK: fma.rn.f32
// CHECK-NOT: bar.sync
// CHECK: ret
tile.kernel @product(%x: !tile.ptr<f32>, %o: !tile.ptr<f32>) attributes {tile.noalias_args, tile.threads = 64 : i64} {
  %iota = tile.iota : tensor<16xi32>
  %rows = tile.expand_dims %iota axis 1 : tensor<16xi32> -> tensor<16x1xi32>
  %columns = tile.expand_dims %iota axis 0 : tensor<16xi32> -> tensor<1x16xi32>
  %r = tile.broadcast %rows : tensor<16x1xi32> -> tensor<16x16xi32>
  %c = tile.broadcast %columns : tensor<1x16xi32> -> tensor<16x16xi32>
  %stride = arith.constant dense<16> : tensor<16x16xi32>
  %start = arith.muli %r, %stride : tensor<16x16xi32>
  %at = arith.addi %start, %c : tensor<16x16xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<16x16x!tile.ptr<f32>>
  %px = tile.ptr_add %xs, %at : tensor<16x16x!tile.ptr<f32>>, tensor<16x16xi32>
  %v = tile.gather %px : tensor<16x16x!tile.ptr<f32>> -> tensor<16x16xf32>
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %p = tile.dot %v, %v, %zero : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<16x16x!tile.ptr<f32>>
  %po = tile.ptr_add %os, %at : tensor<16x16x!tile.ptr<f32>>, tensor<16x16xi32>
  tile.scatter %p, %po : tensor<16x16xf32>, tensor<16x16x!tile.ptr<f32>>
  tile.return
}

// An element has one owner; what it found is everybody's.
// CHECK: // number =
// CHECK: setp.{{eq|ne}}.b32 [[FIRST:%p[0-9]+]], %{{r[0-9]+}}, 0
// CHECK: atom{{.*}}.add{{.*}}.u32
// CHECK: bar
// CHECK: ld.shared
// CHECK: ret
tile.kernel @number(%x: !tile.ptr<i32>, %o: !tile.ptr<i32>) {
  %one = arith.constant 1 : i32
  %old = tile.atomic_rmw add %one, %x : i32, !tile.ptr<i32>
  %p = tile.ptr_add %o, %old : !tile.ptr<i32>, i32
  tile.scatter %one, %p : i32, !tile.ptr<i32>
  tile.return
}

// A relaxed update orders nothing: neither threads nor what they wrote before wait for it.
// CHECK: // sums =
// CHECK-NOT: bar
// CHECK-NOT: fence
// CHECK: atom.global.add.f32
// CHECK-NOT: bar
// CHECK-NOT: fence
// CHECK: ret
tile.kernel @sums(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) attributes {tile.threads = 256 : i64} {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
  tile.store %v, %x[%zero] strides [1] : tensor<256xf32>, !tile.ptr<f32>
  %i = tile.iota : tensor<256xi32>
  %old = tile.atomic_rmw add %v, %y[%i] {relaxed} : tensor<256xf32>, !tile.ptr<f32>, tensor<256xi32>
  tile.return
}

// Each thread adds up four neighbours, five shuffles join those of a warp, and shared memory the warps.
// CHECK: // scan =
// CHECK-COUNT-5: shfl.sync.up.b32
// CHECK: bar.sync
// CHECK-NOT: bar.sync
// CHECK: ret
tile.kernel @scan(%x: !tile.ptr<f32>) attributes {tile.threads = 256 : i64} {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<1024xf32>
  %s = tile.scan (%v) axis 0 : (tensor<1024xf32>) -> tensor<1024xf32> {
  ^bb0(%before: f32, %now: f32):
    %c = arith.addf %before, %now : f32
    tile.yield %c : f32
  }
  tile.store %s, %x[%zero] strides [1] : tensor<1024xf32>, !tile.ptr<f32>
  tile.return
}
