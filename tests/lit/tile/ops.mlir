// Every op of the tile dialect: prints as it parses.
// RUN: tile-opt %s | tile-opt | FileCheck %s

// CHECK-LABEL: tile.kernel @structure(%{{.*}}: !tile.ptr<f32>, %{{.*}}: i64) attributes {lines = array<i64: 3, 4>}
tile.kernel @structure(%x: !tile.ptr<f32>, %n: i64) attributes {lines = array<i64: 3, 4>} {
  // CHECK: tile.program_id 0 : i64
  %pid = tile.program_id 0 : i64
  // CHECK: tile.num_programs 1 : i32
  %num = tile.num_programs 1 : i32
  // CHECK: tile.return
  tile.return
}

// CHECK-LABEL: tile.kernel @shapes
tile.kernel @shapes(%s: f32) {
  // CHECK: tile.iota : tensor<16xi32>
  %iota = tile.iota : tensor<16xi32>
  // CHECK: tile.splat %{{.*}} : f32 -> tensor<4x16xf32>
  %splat = tile.splat %s : f32 -> tensor<4x16xf32>
  // CHECK: tile.expand_dims %{{.*}} axis 0 : tensor<16xi32> -> tensor<1x16xi32>
  %row = tile.expand_dims %iota axis 0 : tensor<16xi32> -> tensor<1x16xi32>
  // CHECK: tile.broadcast %{{.*}} : tensor<1x16xi32> -> tensor<4x16xi32>
  %wide = tile.broadcast %row : tensor<1x16xi32> -> tensor<4x16xi32>
  // CHECK: tile.reshape %{{.*}} : tensor<4x16xf32> -> tensor<64xf32>
  %flat = tile.reshape %splat : tensor<4x16xf32> -> tensor<64xf32>
  // CHECK: tile.trans %{{.*}} perm [1, 0] : tensor<4x16xf32> -> tensor<16x4xf32>
  %trans = tile.trans %splat perm [1, 0] : tensor<4x16xf32> -> tensor<16x4xf32>
  tile.return
}

// CHECK-LABEL: tile.kernel @memory
tile.kernel @memory(%p: !tile.ptr<f32>, %b: !tile.ptr<i1>, %o: i64, %row: i64, %m: i64, %n: i64) {
  // CHECK: tile.load %{{.*}}[%{{.*}}] strides [] : !tile.ptr<f32> -> f32
  %scalar = tile.load %p[%o] strides [] : !tile.ptr<f32> -> f32
  // CHECK: tile.load %{{.*}}[%{{.*}}] strides [%{{.*}}, 1] valid[%{{.*}}, %{{.*}}] other %{{.*}} : f32 : !tile.ptr<f32> -> tensor<16x16xf32>
  %t = tile.load %p[%o] strides [%row, 1] valid [%m, %n] other %scalar : f32 : !tile.ptr<f32> -> tensor<16x16xf32>
  // CHECK: tile.load %{{.*}}[%{{.*}}] strides [1] : !tile.ptr<i1> -> tensor<16xi1>
  %mask = tile.load %b[%o] strides [1] : !tile.ptr<i1> -> tensor<16xi1>
  // CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}] strides [1, 16] valid[%{{.*}}, %{{.*}}] : tensor<16x16xf32>, !tile.ptr<f32>
  tile.store %t, %p[%o] strides [1, 16] valid [%m, %n] : tensor<16x16xf32>, !tile.ptr<f32>
  // CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}] strides [] : f32, !tile.ptr<f32>
  tile.store %scalar, %p[%o] strides [] : f32, !tile.ptr<f32>
  %iota = tile.iota : tensor<16xi64>
  // CHECK: tile.check_index %{{.*}} in %{{.*}} valid %{{.*}} mask %{{.*}} : tensor<16xi1> wrap line 7 : tensor<16xi64> -> tensor<16xi64>
  %i = tile.check_index %iota in %n valid %m mask %mask : tensor<16xi1> wrap line 7 : tensor<16xi64> -> tensor<16xi64>
  // CHECK: tile.gather %{{.*}}[%{{.*}}] mask %{{.*}} : tensor<16xi1> other %{{.*}} : f32 : !tile.ptr<f32>, tensor<16xi64> -> tensor<16xf32>
  %g = tile.gather %p[%i] mask %mask : tensor<16xi1> other %scalar : f32 : !tile.ptr<f32>, tensor<16xi64> -> tensor<16xf32>
  // CHECK: tile.scatter %{{.*}}, %{{.*}}[%{{.*}}] mask %{{.*}} : tensor<16xi1> : tensor<16xf32>, !tile.ptr<f32>, tensor<16xi64>
  tile.scatter %g, %p[%i] mask %mask : tensor<16xi1> : tensor<16xf32>, !tile.ptr<f32>, tensor<16xi64>
  // CHECK: tile.scatter %{{.*}}, %{{.*}}[%{{.*}}] : tensor<16xf32>, !tile.ptr<f32>, tensor<16xi64> combine {
  // CHECK: tile.yield
  tile.scatter %g, %p[%i] : tensor<16xf32>, !tile.ptr<f32>, tensor<16xi64> combine {
  ^bb0(%held: f32, %value: f32):
    %sum = arith.addf %held, %value : f32
    tile.yield %sum : f32
  }
  // CHECK: tile.ptr_add %{{.*}}, %{{.*}} : !tile.ptr<f32>
  %q = tile.ptr_add %p, %o : !tile.ptr<f32>
  // CHECK: tile.hold %{{.*}}, %{{.*}} offset 16 : tensor<16xf32>
  tile.hold %g, %o offset 16 : tensor<16xf32>
  // CHECK: tile.held %{{.*}} offset 16 : tensor<16xf32>
  %kept = tile.held %o offset 16 : tensor<16xf32>
  // CHECK: tile.scratch %{{.*}} : !tile.ptr<f32>
  %s = tile.scratch %o : !tile.ptr<f32>
  tile.return
}

// CHECK-LABEL: tile.kernel @extract
tile.kernel @extract(%v: tensor<16xi64>, %k: i64) {
  // CHECK: tile.extract %{{.*}}[%{{.*}}] : tensor<16xi64> -> i64
  %e = tile.extract %v[%k] : tensor<16xi64> -> i64
  tile.return
}

// CHECK-LABEL: tile.kernel @reductions
tile.kernel @reductions(%a: f32, %seed: i64) {
  %t = tile.splat %a : f32 -> tensor<64xf32>
  // CHECK: tile.reduce(%{{.*}}) axis 0 : (tensor<64xf32>) -> f32 {
  // CHECK:   tile.yield %{{.*}} : f32
  %r = tile.reduce (%t) axis 0 : (tensor<64xf32>) -> f32 {
  ^bb0(%x: f32, %y: f32):
    %c = arith.addf %x, %y : f32
    tile.yield %c : f32
  }
  %counter = tile.iota : tensor<64xi64>
  // CHECK: tile.uniform %{{.*}}, %{{.*}} {salt = 2 : i64} : tensor<64xi64> -> tensor<64xf32>
  %u = tile.uniform %seed, %counter {salt = 2 : i64} : tensor<64xi64> -> tensor<64xf32>
  tile.return
}

// CHECK-LABEL: tile.kernel @pointers
tile.kernel @pointers(%p: !tile.ptr<f32>, %mask: i1, %address: i64) {
  %i = tile.iota : tensor<16xi32>
  %m = tile.splat %mask : i1 -> tensor<16xi1>
  %same = tile.splat %p : !tile.ptr<f32> -> tensor<16x!tile.ptr<f32>>
  // CHECK: tile.ptr_add %{{.*}}, %{{.*}} : tensor<16x!tile.ptr<f32>>, tensor<16xi32>
  %q = tile.ptr_add %same, %i : tensor<16x!tile.ptr<f32>>, tensor<16xi32>
  // CHECK: tile.gather %{{.*}} mask %{{.*}} : tensor<16xi1> : tensor<16x!tile.ptr<f32>> -> tensor<16xf32>
  %t = tile.gather %q mask %m : tensor<16xi1> : tensor<16x!tile.ptr<f32>> -> tensor<16xf32>
  // CHECK: tile.scatter %{{.*}}, %{{.*}} : tensor<16xf32>, tensor<16x!tile.ptr<f32>>
  tile.scatter %t, %q : tensor<16xf32>, tensor<16x!tile.ptr<f32>>
  // CHECK: tile.gather %{{.*}} : !tile.ptr<f32> -> f32
  %scalar = tile.gather %p : !tile.ptr<f32> -> f32
  // CHECK: tile.ptr_to_int %{{.*}} : tensor<16x!tile.ptr<f32>> -> tensor<16xi64>
  %a = tile.ptr_to_int %q : tensor<16x!tile.ptr<f32>> -> tensor<16xi64>
  // CHECK: tile.int_to_ptr %{{.*}} : tensor<16xi64> -> tensor<16x!tile.ptr<f32>>
  %r = tile.int_to_ptr %a : tensor<16xi64> -> tensor<16x!tile.ptr<f32>>
  // CHECK: tile.int_to_ptr %{{.*}} : i64 -> !tile.ptr<f32>
  %s = tile.int_to_ptr %address : i64 -> !tile.ptr<f32>
  // CHECK: tile.ptr_cast %{{.*}} : !tile.ptr<f32> -> !tile.ptr<i32>
  %c = tile.ptr_cast %p : !tile.ptr<f32> -> !tile.ptr<i32>
  %zero = arith.constant 0 : i64
  // CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}] strides [1] mask %{{.*}} : tensor<16xi1> : tensor<16xf32>, !tile.ptr<f32>
  tile.store %t, %p[%zero] strides [1] mask %m : tensor<16xi1> : tensor<16xf32>, !tile.ptr<f32>
  // CHECK: tile.atomic_rmw add %{{.*}}, %{{.*}}[%{{.*}}] mask %{{.*}} : tensor<16xi1> : tensor<16xf32>, !tile.ptr<f32>, tensor<16xi32>
  %old = tile.atomic_rmw add %t, %p[%i] mask %m : tensor<16xi1> : tensor<16xf32>, !tile.ptr<f32>, tensor<16xi32>
  // CHECK: tile.atomic_rmw xchg %{{.*}}, %{{.*}} : f32, !tile.ptr<f32>
  %last = tile.atomic_rmw xchg %scalar, %p : f32, !tile.ptr<f32>
  // CHECK: tile.atomic_cas %{{.*}}, %{{.*}}, %{{.*}} : tensor<16xf32>, tensor<16x!tile.ptr<f32>>
  %seen = tile.atomic_cas %t, %old, %q : tensor<16xf32>, tensor<16x!tile.ptr<f32>>
  // CHECK: tile.print "t = " %{{.*}}, %{{.*}} hex : tensor<16xf32>, !tile.ptr<f32>
  tile.print "t = " %t, %p hex : tensor<16xf32>, !tile.ptr<f32>
  // CHECK: tile.assert %{{.*}}, "in range" : tensor<16xi1>
  tile.assert %m, "in range" : tensor<16xi1>
  tile.return
}

// CHECK-LABEL: tile.kernel @rearranging
tile.kernel @rearranging(%s: f32, %n: i32) {
  %t = tile.splat %s : f32 -> tensor<4x16xf32>
  %i = tile.splat %n : i32 -> tensor<4x8xi32>
  // CHECK: tile.cat %{{.*}}, %{{.*}} : tensor<4x16xf32> -> tensor<8x16xf32>
  %cat = tile.cat %t, %t : tensor<4x16xf32> -> tensor<8x16xf32>
  // CHECK: tile.interleave %{{.*}}, %{{.*}}, %{{.*}} : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
  %row = tile.splat %s : f32 -> tensor<16xf32>
  %runs:3 = tile.interleave %row, %row, %row : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
  // CHECK: tile.join %{{.*}}, %{{.*}} : tensor<4x16xf32> -> tensor<4x16x2xf32>
  %join = tile.join %t, %t : tensor<4x16xf32> -> tensor<4x16x2xf32>
  // CHECK: tile.split %{{.*}} : tensor<4x16x2xf32> -> tensor<4x16xf32>
  %l, %r = tile.split %join : tensor<4x16x2xf32> -> tensor<4x16xf32>
  // CHECK: tile.take %{{.*}}[%{{.*}}] axis 1 : tensor<4x16xf32>, tensor<4x8xi32> -> tensor<4x8xf32>
  %take = tile.take %t[%i] axis 1 : tensor<4x16xf32>, tensor<4x8xi32> -> tensor<4x8xf32>
  %flat = tile.reshape %i : tensor<4x8xi32> -> tensor<32xi32>
  // CHECK: tile.shuffle_xor %{{.*}} by 6 : tensor<4x16xf32>
  %partner = tile.shuffle_xor %t by 6 : tensor<4x16xf32>
  // CHECK: tile.histogram %{{.*}} : tensor<32xi32> -> tensor<8xi32>
  %h = tile.histogram %flat : tensor<32xi32> -> tensor<8xi32>
  // CHECK: tile.dot %{{.*}}, %{{.*}}, %{{.*}} : tensor<16x4xf32>, tensor<4x16xf32> -> tensor<16x16xf32>
  %lhs = tile.trans %t perm [1, 0] : tensor<4x16xf32> -> tensor<16x4xf32>
  %acc = tile.splat %s : f32 -> tensor<16x16xf32>
  %dot = tile.dot %lhs, %t, %acc : tensor<16x4xf32>, tensor<4x16xf32> -> tensor<16x16xf32>
  // CHECK: tile.scan(%{{.*}}) axis 1 reverse : (tensor<4x16xf32>) -> tensor<4x16xf32> {
  %scan = tile.scan (%t) axis 1 reverse : (tensor<4x16xf32>) -> tensor<4x16xf32> {
  ^bb0(%x: f32, %y: f32):
    %c = arith.addf %x, %y : f32
    tile.yield %c : f32
  }
  // CHECK: tile.map(%{{.*}}) pack 1 : (tensor<4x16xf32>) -> tensor<4x16xf32> {
  %map = tile.map (%t) pack 1 : (tensor<4x16xf32>) -> tensor<4x16xf32> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  }
  tile.return
}
