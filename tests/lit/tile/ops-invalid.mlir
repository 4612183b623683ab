// What the verifiers of the tile dialect refuse.
// RUN: tile-opt %s --split-input-file --verify-diagnostics

tile.kernel @strides(%p: !tile.ptr<f32>, %o: i64) {
  // expected-error @+1 {{expected one stride per axis, got 1 for 'tensor<16x16xf32>'}}
  %t = tile.load %p[%o] strides [1] : !tile.ptr<f32> -> tensor<16x16xf32>
  tile.return
}

// -----

tile.kernel @valid(%p: !tile.ptr<f32>, %o: i64) {
  // expected-error @+1 {{expected no valid counts or one per axis, got 1 for 'tensor<16x16xf32>'}}
  %t = tile.load %p[%o] strides [16, 1] valid [%o] : !tile.ptr<f32> -> tensor<16x16xf32>
  tile.return
}

// -----

tile.kernel @elements(%p: !tile.ptr<f32>, %o: i64) {
  // expected-error @+1 {{expected element type to match the pointer's, got 'f16' and 'f32'}}
  %t = tile.load %p[%o] strides [1] : !tile.ptr<f32> -> tensor<16xf16>
  tile.return
}

// -----

tile.kernel @other(%p: !tile.ptr<f32>, %o: i64, %v: i32) {
  // expected-error @+1 {{expected other to match the pointer's element type, got 'i32' and '!tile.ptr<f32>'}}
  %t = tile.load %p[%o] strides [1] valid [%o] other %v : i32 : !tile.ptr<f32> -> tensor<16xf32>
  tile.return
}

// -----

tile.kernel @axis(%v: tensor<16xf32>) {
  // expected-error @+1 {{expected axis below the rank 1, got 1}}
  %t = tile.reduce (%v) axis 1 : (tensor<16xf32>) -> f32 {
  ^bb0(%x: f32, %y: f32):
    tile.yield %x : f32
  }
  tile.return
}

// -----

tile.kernel @combiner(%v: tensor<16xf32>) {
  // expected-error @+1 {{expected a combiner of 2 arguments, got 1}}
  %t = tile.reduce (%v) axis 0 : (tensor<16xf32>) -> f32 {
  ^bb0(%x: f32):
    tile.yield %x : f32
  }
  tile.return
}

// -----

tile.kernel @pointers_without_offsets(%p: !tile.ptr<f32>) {
  // expected-error @+1 {{expected offsets or a tile of pointers for 'tensor<16xf32>'}}
  %t = tile.gather %p : !tile.ptr<f32> -> tensor<16xf32>
  tile.return
}

// -----

tile.kernel @scan_results(%v: tensor<16xf32>) {
  // expected-error @+1 {{expected results of the sources' types, got 'tensor<16xf32>' and 'tensor<8xf32>'}}
  %t = tile.scan (%v) axis 0 : (tensor<16xf32>) -> tensor<8xf32> {
  ^bb0(%x: f32, %y: f32):
    tile.yield %x : f32
  }
  tile.return
}

// -----

tile.kernel @dot_shapes(%a: tensor<16x32xf32>, %b: tensor<16x32xf32>, %c: tensor<16x32xf32>) {
  // expected-error @+1 {{expected M x K, K x N and M x N, got 'tensor<16x32xf32>', 'tensor<16x32xf32>' and 'tensor<16x32xf32>'}}
  %t = tile.dot %a, %b, %c : tensor<16x32xf32>, tensor<16x32xf32> -> tensor<16x32xf32>
  tile.return
}

// -----

tile.kernel @dot_precision(%a: tensor<16x16xf32>) {
  // expected-error @+1 {{expected tile.input_precision to be one of ieee, tf32, tf32x3, bf16x3, bf16x6, got "tf16"}}
  %t = tile.dot %a, %a, %a {tile.input_precision = "tf16"} : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  tile.return
}

// -----

tile.kernel @scatter_combiner(%v: tensor<16xf32>, %p: !tile.ptr<f32>, %o: tensor<16xi64>) {
  // expected-error @+1 {{expected a combiner of two values of 'f32'}}
  tile.scatter %v, %p[%o] : tensor<16xf32>, !tile.ptr<f32>, tensor<16xi64> combine {
  ^bb0(%x: f32):
    tile.yield %x : f32
  }
  tile.return
}

// -----

tile.kernel @no_partner(%a: tensor<4x6xf32>) {
  // expected-error @+1 {{expected a mask of at least 1, of whose highest bit twice divides 24 elements, got 8}}
  %t = tile.shuffle_xor %a by 8 : tensor<4x6xf32>
  tile.return
}

// -----

tile.kernel @interleaved_types(%a: tensor<16xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{expected tiles of one axis and one type, got 'tensor<16xf32>', 'tensor<8xf32>'}}
  %t:2 = tile.interleave %a, %b : (tensor<16xf32>, tensor<8xf32>) -> (tensor<16xf32>, tensor<8xf32>)
  tile.return
}
