// RUN: tile-opt %s --split-input-file --graph-inline-producers --graph-split-reductions --graph-form-groups --graph-build-tile-kernels | FileCheck %s

// The inner axis lies along the lanes; all of it is one program.

// CHECK-LABEL: graph.func @whole(
// CHECK:         graph.launch @kernel(%arg0, %arg1) integers [] programs 1
// CHECK:         tile.kernel @kernel(%[[X:.*]]: !tile.ptr<f32>, %[[B:.*]]: !tile.ptr<f32>, %[[OUT:.*]]: !tile.ptr<f32>)
// CHECK:         vector axis i1 lanes 64
// CHECK:         scf.for %[[ROW:.*]] =
// CHECK:           tile.load %[[X]][%{{.*}}] strides [1]
// CHECK:           tile.load %[[B]][%{{.*}}] strides [1]
// CHECK:           arith.addf
// CHECK:           tile.store %{{.*}}, %[[OUT]][%{{.*}}] strides [1]
// CHECK:         tile.return
graph.func @whole(%x: !graph.tensor<[64, 64], f32>, %b: !graph.tensor<[64], f32>) -> !graph.tensor<[64, 64], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 64, i1 = 64] -> (!graph.tensor<[64, 64], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[64, 64], f32> -> f32
    %w = graph.load %b ["i1"] : !graph.tensor<[64], f32> -> f32
    %e = arith.addf %v, %w : f32
    graph.yield %e : f32
  }
  graph.return %a : !graph.tensor<[64, 64], f32>
}

// -----

// Whole tiles, of which the last is moved back over what is done already.

// CHECK-LABEL: graph.func @partial(
// CHECK:         scf.for %[[I:.*]] =
// CHECK:           %[[LATEST:.*]] = arith.subi %c100_i64, %c64_i64
// CHECK:           %[[FIRST:.*]] = arith.minsi %[[I]], %[[LATEST]]
// CHECK:           tile.load %arg0[%[[FIRST]]] strides [1] : !tile.ptr<f32> -> tensor<64xf32>
// CHECK:           tile.store {{.*}}[%[[FIRST]]] strides [1] : tensor<64xf32>
// CHECK-NOT:     tile.load
// CHECK:         tile.return
graph.func @partial(%x: !graph.tensor<[100], f32>) -> !graph.tensor<[100], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 100] -> (!graph.tensor<[100], f32>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[100], f32> -> f32
    %e = arith.negf %v : f32
    graph.yield %e : f32
  }
  graph.return %a : !graph.tensor<[100], f32>
}

// -----

// What is overwritten is read once: whole tiles, then what is left as one partial tile.

// CHECK-LABEL: graph.func @partial_in_place(
// CHECK:         tile.load {{.*}} strides [1] : !tile.ptr<f32> -> tensor<64xf32>
// CHECK:         tile.store {{.*}} strides [1] : tensor<64xf32>
// CHECK:         %[[LEFT:.*]] = arith.constant 36 : i64
// CHECK:         tile.load {{.*}} strides [1] valid[%[[LEFT]]]
// CHECK:         tile.store {{.*}} strides [1] valid[%[[LEFT]]]
// CHECK:         tile.return
graph.func @partial_in_place(%x: !graph.tensor<[100], f32>) attributes {symbols = []} {
  %b = graph.loops [i0 = 100] into (%x : !graph.tensor<[100], f32>) at [0] -> (!graph.tensor<[100], f32>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[100], f32> -> f32
    %e = arith.negf %v : f32
    graph.yield %e : f32
  }
  graph.return
}

// -----

// No axes: scalars.

// CHECK-LABEL: graph.func @scalar(
// CHECK:         vector axis none
// CHECK:         tile.load {{.*}} strides [] : !tile.ptr<f32> -> f32
// CHECK:         arith.negf {{.*}} : f32
// CHECK:         tile.store {{.*}} strides [] : f32
// CHECK:         tile.return
graph.func @scalar(%x: !graph.tensor<[], f32>) -> !graph.tensor<[], f32> attributes {symbols = []} {
  %a = graph.loops [] -> (!graph.tensor<[], f32>) {
    %v = graph.load %x [] : !graph.tensor<[], f32> -> f32
    %e = arith.negf %v : f32
    graph.yield %e : f32
  }
  graph.return %a : !graph.tensor<[], f32>
}

// -----

// Result 0 is written into input 0, and needs no buffer of its own.

// CHECK-LABEL: graph.func @in_place(
// CHECK:         graph.launch @kernel(%arg0) {{.*}} writes [0]
// CHECK:         tile.kernel @kernel(%[[X:.*]]: !tile.ptr<f32>) attributes
// CHECK:         %[[V:.*]] = tile.load %[[X]]
// CHECK:         %[[N:.*]] = arith.negf %[[V]]
// CHECK:         tile.store %[[N]], %[[X]]
// CHECK:         tile.return
graph.func @in_place(%x: !graph.tensor<[64], f32>) attributes {symbols = []} {
  %a = graph.loops [i0 = 64] -> (!graph.tensor<[64], f32>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[64], f32> -> f32
    %e = arith.negf %v : f32
    graph.yield %e : f32
  }
  %b = graph.loops [i0 = 64] into (%x : !graph.tensor<[64], f32>) at [0] -> (!graph.tensor<[64], f32>) {
    %v = graph.load %a ["i0"] : !graph.tensor<[64], f32> -> f32
    graph.yield %v : f32
  }
  graph.return
}
