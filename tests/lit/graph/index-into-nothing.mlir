// A dimension that indices name has elements, or nothing is read: a check where sizes do not tell. What the error of an
// index in a kernel names: the op among the lines of the kernel, and the dimension.
// RUN: tile-opt %s --graph-lower-to-loops --split-input-file | FileCheck %s
// RUN: tile-opt %s --graph-lower-to-loops --graph-form-groups --graph-build-tile-kernels --split-input-file | FileCheck %s --check-prefix=PLACE

// CHECK-LABEL: graph.func @unknown
// CHECK: graph.check {condition = #graph.expr<"Min(s0, 1) - Min(s1, 1) + 1">, message = "IndexError: index is out of bounds for dimension 1 with size 0"}
// PLACE: tile.check_index {{.*}} line 102 :
graph.func @unknown(%x: !graph.tensor<[4, "s0"], f32>, %i: !graph.tensor<["s1"], i64>) -> (!graph.tensor<[4, "s1"], f32>)
    attributes {symbols = [#graph.symbol<"s0", min = 0, max = 100, hint = 8>, #graph.symbol<"s1", min = 0, max = 100, hint = 8>]} {
  %r = graph.index %x, %i {dims = array<i64: 1>} : (!graph.tensor<[4, "s0"], f32>, !graph.tensor<["s1"], i64>) -> !graph.tensor<[4, "s1"], f32>
  graph.return %r : !graph.tensor<[4, "s1"], f32>
}

// -----

// CHECK-LABEL: graph.func @known
// CHECK-NOT: graph.check {
graph.func @known(%x: !graph.tensor<["s0"], f32>, %y: !graph.tensor<[0], f32>, %i: !graph.tensor<["s1"], i64>, %n: !graph.tensor<[0], i64>)
    -> (!graph.tensor<["s1"], f32>, !graph.tensor<[0], f32>)
    attributes {symbols = [#graph.symbol<"s0", min = 2, max = 100, hint = 8>, #graph.symbol<"s1", min = 0, max = 100, hint = 8>]} {
  %r = graph.index %x, %i : (!graph.tensor<["s0"], f32>, !graph.tensor<["s1"], i64>) -> !graph.tensor<["s1"], f32>
  %g = graph.gather %y, %n {dim = 0} : (!graph.tensor<[0], f32>, !graph.tensor<[0], i64>) -> !graph.tensor<[0], f32>
  graph.return %r, %g : !graph.tensor<["s1"], f32>, !graph.tensor<[0], f32>
}

// -----

// CHECK-LABEL: graph.func @never
// CHECK: graph.check {condition = #graph.expr<0>, message = "IndexError: index is out of bounds for dimension 0 with size 0"}
graph.func @never(%x: !graph.tensor<[0], f32>, %i: !graph.tensor<[3], i64>, %v: !graph.tensor<[3], f32>) -> (!graph.tensor<[0], f32>) {
  %r = graph.index_put %x, %v, %i : (!graph.tensor<[0], f32>, !graph.tensor<[3], f32>, !graph.tensor<[3], i64>) -> !graph.tensor<[0], f32>
  graph.return %r : !graph.tensor<[0], f32>
}
