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
  // CHECK: tile.ptr_add %{{.*}}, %{{.*}} : !tile.ptr<f32>
  %q = tile.ptr_add %p, %o : !tile.ptr<f32>
  // CHECK: tile.scratch %{{.*}} : !tile.ptr<f32>
  %s = tile.scratch %o : !tile.ptr<f32>
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
