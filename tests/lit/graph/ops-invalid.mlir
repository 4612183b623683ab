// Verifiers of named ops.
// RUN: tile-opt %s --split-input-file --verify-diagnostics

graph.func @broadcast(%x: !graph.tensor<[4], f32>, %y: !graph.tensor<[3], f32>) {
  // expected-error @+1 {{'graph.add' op expected operands to broadcast to the result, got '!graph.tensor<[3], f32>' and '!graph.tensor<[4], f32>'}}
  %0 = graph.add %x, %y : (!graph.tensor<[4], f32>, !graph.tensor<[3], f32>) -> !graph.tensor<[4], f32>
  graph.return
}

// -----

graph.func @rank(%x: !graph.tensor<[4, 2], f32>) {
  // expected-error @+1 {{'graph.sum' op expected a result of rank 1, got '!graph.tensor<[1, 2], f32>'}}
  %0 = graph.sum %x {dims = array<i64: 0>} : (!graph.tensor<[4, 2], f32>) -> !graph.tensor<[1, 2], f32>
  graph.return
}

// -----

graph.func @dim(%x: !graph.tensor<[4, 2], f32>) {
  // expected-error @+1 {{'graph.amax' op expected dims in [0, 2), got 2}}
  %0 = graph.amax %x {dims = array<i64: 2>} : (!graph.tensor<[4, 2], f32>) -> !graph.tensor<[4], f32>
  graph.return
}

// -----

graph.func @permutation(%x: !graph.tensor<[4, 2], f32>) {
  // expected-error @+1 {{'graph.permute' op expected dims to be a permutation of 2 dimensions}}
  %0 = graph.permute %x {dims = array<i64: 0, 0>} : (!graph.tensor<[4, 2], f32>) -> !graph.tensor<[4, 4], f32>
  graph.return
}

// -----

graph.func @mask(%x: !graph.tensor<[4], f32>, %i: !graph.tensor<[4], i1>) {
  // expected-error @+1 {{'graph.index' op expected signed integer indices, got '!graph.tensor<[4], i1>'}}
  %0 = graph.index %x, %i : (!graph.tensor<[4], f32>, !graph.tensor<[4], i1>) -> !graph.tensor<[4], f32>
  graph.return
}

// -----

graph.func @combine(%x: !graph.tensor<[4], f32>, %i: !graph.tensor<[2], i64>, %v: !graph.tensor<[2], f32>) {
  // expected-error @+1 {{'graph.index_put' op expected to combine with add, mul, max or min, got "mean"}}
  %0 = graph.index_put %x, %v, %i {combine = "mean"} : (!graph.tensor<[4], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], i64>) -> !graph.tensor<[4], f32>
  graph.return
}

// -----

graph.func @skip(%x: !graph.tensor<[4, 4], f32>, %i: !graph.tensor<[2], i64>, %v: !graph.tensor<[2], f32>) {
  // expected-error @+1 {{'graph.index_put' op expected one index tensor with skip, got 2}}
  %0 = graph.index_put %x, %v, %i, %i {skip = 1 : i64} : (!graph.tensor<[4, 4], f32>, !graph.tensor<[2], f32>, !graph.tensor<[2], i64>, !graph.tensor<[2], i64>) -> !graph.tensor<[4, 4], f32>
  graph.return
}

// -----

graph.func @scatter(%x: !graph.tensor<[4], f32>, %i: !graph.tensor<[2], i64>, %v: !graph.tensor<[2], f64>) {
  // expected-error @+1 {{'graph.scatter' op expected a result of the operand's sizes and one element type}}
  %0 = graph.scatter %x, %i, %v {dim = 0 : i64} : (!graph.tensor<[4], f32>, !graph.tensor<[2], i64>, !graph.tensor<[2], f64>) -> !graph.tensor<[4], f32>
  graph.return
}

// -----

graph.func @scan(%x: !graph.tensor<[4], f32>) {
  // expected-error @+1 {{'graph.cumsum' op expected dim below the rank 1, got 1}}
  %0 = graph.cumsum %x {dim = 1 : i64} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  graph.return
}

// -----

graph.func @write_without_dest(%x: !graph.tensor<[4], f32>) {
  // expected-error @+1 {{'graph.loops' op expected a scatter to write into one dest per result, got 0 for 1}}
  %0 = graph.loops [reduce r0 = 4] -> (!graph.tensor<[4], f32>) {
    %v = graph.load %x ["r0"] : !graph.tensor<[4], f32> -> f32
    graph.write_at ["3 - r0"]
    graph.yield %v : f32
  }
  graph.return
}

// -----

graph.func @aliases(%x: !graph.tensor<[4], f32>) {
  // expected-error @+1 {{'graph.extern' op expected an entry of 'aliases' for each of 1 results, got 2}}
  %0 = graph.extern(%x) {op = "aten::alias", overload = "", args = [#graph.operand<0>], aliases = array<i64: 0, 0>} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  graph.return
}

// -----

graph.func @alias_of_nothing(%x: !graph.tensor<[4], f32>) {
  // expected-error @+1 {{'graph.extern' op expected 'aliases' to name tensor operands, -1 or -2, got 1}}
  %0 = graph.extern(%x) {op = "aten::alias", overload = "", args = [#graph.operand<0>], aliases = array<i64: 1>} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  graph.return
}

// -----

graph.func @mutates(%x: !graph.tensor<[4], f32>) {
  // expected-error @+1 {{'graph.extern' op expected 'mutates' to name tensor operands, got -1}}
  graph.extern(%x) {op = "aten::zero_", overload = "", args = [#graph.operand<0>], mutates = array<i64: -1>} : (!graph.tensor<[4], f32>) -> ()
  graph.return
}
