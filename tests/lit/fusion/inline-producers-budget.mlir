// What would make a body or an index expression too large stays in memory, and the compiler says so.
// RUN: tile-opt %s --split-input-file --graph-inline-producers="body-budget=7 index-budget=12" 2>&1 | FileCheck %s

// The consumer's body counts, not each producer's: two of the three have room in it.

// CHECK:       remark: stays in memory: the body would grow beyond 7 operations
// CHECK-LABEL: graph.func @body
// CHECK:         %[[C:.*]] = graph.loops [i0 = 8]
// CHECK:           math.absf
// CHECK:         graph.loops [i0 = 8]
// CHECK-NEXT:      graph.load %arg0
// CHECK-NEXT:      arith.negf
// CHECK-NEXT:      graph.load %arg1
// CHECK-NEXT:      arith.negf
// CHECK-NEXT:      graph.load %[[C]]
// CHECK-NOT:     graph.loops
graph.func @body(%x: !graph.tensor<[8], f32>, %y: !graph.tensor<[8], f32>, %z: !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[8], f32> -> f32
    %n = arith.negf %v : f32
    graph.yield %n : f32
  }
  %b = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %y ["i0"] : !graph.tensor<[8], f32> -> f32
    %n = arith.negf %v : f32
    graph.yield %n : f32
  }
  %c = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %z ["i0"] : !graph.tensor<[8], f32> -> f32
    %n = math.absf %v : f32
    graph.yield %n : f32
  }
  %d = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %u = graph.load %a ["i0"] : !graph.tensor<[8], f32> -> f32
    %v = graph.load %b ["i0"] : !graph.tensor<[8], f32> -> f32
    %w = graph.load %c ["i0"] : !graph.tensor<[8], f32> -> f32
    %p = arith.addf %u, %v : f32
    %q = arith.addf %p, %w : f32
    graph.yield %q : f32
  }
  graph.return %d : !graph.tensor<[8], f32>
}

// -----

// CHECK:       remark: stays in memory: an index would grow beyond 12 operations
// CHECK-LABEL: graph.func @index
// CHECK:         %[[A:.*]] = graph.loops [i0 = 77]
// CHECK:         graph.loops [i0 = 77]
// CHECK-NEXT:      graph.load %[[A]] ["i0//11 + Mod(i0, 11)*7"]
graph.func @index(%x: !graph.tensor<[77], f32>) -> !graph.tensor<[77], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 77] -> (!graph.tensor<[77], f32>) {
    %v = graph.load %x ["i0//11 + Mod(i0, 11)*7"] : !graph.tensor<[77], f32> -> f32
    graph.yield %v : f32
  }
  %b = graph.loops [i0 = 77] -> (!graph.tensor<[77], f32>) {
    %v = graph.load %a ["i0//11 + Mod(i0, 11)*7"] : !graph.tensor<[77], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %b : !graph.tensor<[77], f32>
}
