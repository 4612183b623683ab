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
