// What lowering refuses, at the op's line.
// RUN: tile-opt %s --graph-lower-to-loops --split-input-file --verify-diagnostics

graph.func @complex(%x: !graph.tensor<[4], complex<f32>>) -> !graph.tensor<[4], complex<f32>> {
  // expected-error @+1 {{unsupported: 'graph.neg' op element type is not generated}}
  %0 = graph.neg %x : (!graph.tensor<[4], complex<f32>>) -> !graph.tensor<[4], complex<f32>>
  graph.return %0 : !graph.tensor<[4], complex<f32>>
}

// -----

graph.func @int_exp(%x: !graph.tensor<[4], i64>) -> !graph.tensor<[4], i64> {
  // expected-error @+1 {{unsupported: 'graph.exp' op not on these element types}}
  %0 = graph.exp %x : (!graph.tensor<[4], i64>) -> !graph.tensor<[4], i64>
  graph.return %0 : !graph.tensor<[4], i64>
}

// -----

graph.func @mixed(%x: !graph.tensor<[4], f32>, %y: !graph.tensor<[4], f64>) -> !graph.tensor<[4], f64> {
  // expected-error @+1 {{unsupported: 'graph.add' op not on these element types}}
  %0 = graph.add %x, %y : (!graph.tensor<[4], f32>, !graph.tensor<[4], f64>) -> !graph.tensor<[4], f64>
  graph.return %0 : !graph.tensor<[4], f64>
}

// -----

graph.func @composite(%x: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
  // expected-error @+1 {{unsupported: 'graph.softmax' op no lowering to loops}}
  %0 = graph.softmax %x {dim = 0} : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  graph.return %0 : !graph.tensor<[4], f32>
}
