// RUN: tile-opt %s --split-input-file --graph-inline-producers --graph-split-reductions --graph-form-groups --graph-build-tile-kernels | FileCheck %s

// Rows of as many numbers as s1 says, 3 when the graph was compiled: one kernel for 3, and one for all other lengths, which
// writes the memory that the first launch has made. Only one of them has programs.

// CHECK-LABEL: graph.func @reversed(
// CHECK:         %[[FIRST:.*]] = graph.launch @[[SHORT:.*_s1_3]](%arg2) {{.*}} programs "{{.*}}Min({{.*}}" {{.*}} writes [-1]
// CHECK:         %[[LAST:.*]] = graph.launch @[[OTHER:.*]](%arg2, %[[FIRST]]) {{.*}} programs "{{.*}}Min({{.*}}" {{.*}} writes [1]
// CHECK:         graph.return %[[LAST]]
// CHECK:       tile.kernel @[[SHORT]](
// CHECK-SAME:    = s0
// CHECK-SAME:    = 3]
// CHECK:       tile.kernel @[[OTHER]](
// CHECK-SAME:    = s1]
graph.func @reversed(%s: !graph.size<"s0">, %t: !graph.size<"s1">, %x: !graph.tensor<["s0", "s1"], f32>) -> !graph.tensor<["s0", "s1"], f32> attributes {symbols = [#graph.symbol<"s0", min = 2, max = 1000000, hint = 40000>, #graph.symbol<"s1", min = 2, max = 1000000, hint = 3>]} {
  %a = graph.loops [i0 = "s0", i1 = "s1"] -> (!graph.tensor<["s0", "s1"], f32>) {
    %v = graph.load %x ["i0", "s1 - i1 - 1"] : !graph.tensor<["s0", "s1"], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<["s0", "s1"], f32>
}

// -----

// Long rows, and axes that are one in memory whatever their length, need none.

// CHECK-LABEL: graph.func @long(
// CHECK-COUNT-1: graph.launch
// CHECK-NOT:     graph.launch
// CHECK:         graph.return
graph.func @long(%s: !graph.size<"s0">, %t: !graph.size<"s1">, %x: !graph.tensor<["s0", "s1"], f32>) -> !graph.tensor<["s0", "s1"], f32> attributes {symbols = [#graph.symbol<"s0", min = 2, max = 1000000, hint = 40000>, #graph.symbol<"s1", min = 2, max = 1000000, hint = 100>]} {
  %a = graph.loops [i0 = "s0", i1 = "s1"] -> (!graph.tensor<["s0", "s1"], f32>) {
    %v = graph.load %x ["i0", "s1 - i1 - 1"] : !graph.tensor<["s0", "s1"], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<["s0", "s1"], f32>
}

// -----

// CHECK-LABEL: graph.func @whole(
// CHECK-COUNT-1: graph.launch
// CHECK-NOT:     graph.launch
// CHECK:         graph.return
graph.func @whole(%s: !graph.size<"s0">, %t: !graph.size<"s1">, %x: !graph.tensor<["s0", "s1"], f32>) -> !graph.tensor<["s0", "s1"], f32> attributes {symbols = [#graph.symbol<"s0", min = 2, max = 1000000, hint = 40000>, #graph.symbol<"s1", min = 2, max = 1000000, hint = 3>]} {
  %a = graph.loops [i0 = "s0", i1 = "s1"] -> (!graph.tensor<["s0", "s1"], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<["s0", "s1"], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  graph.return %a : !graph.tensor<["s0", "s1"], f32>
}
