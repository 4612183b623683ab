// RUN: tile-opt %s --split-input-file --graph-split-reductions | FileCheck %s

// A whole sum: 64 pieces that divide it evenly.

// CHECK-LABEL: graph.func @all
// CHECK:         %[[P:.*]] = graph.loops [p = 64, reduce r0 = 16384] -> (!graph.tensor<[64], f32>)
// CHECK-NEXT:      graph.load %arg0 ["p*16384 + r0"]
// CHECK:         graph.loops [reduce r0 = 64] -> (!graph.tensor<[], f32>)
// CHECK-NEXT:      graph.load %[[P]] ["r0"]
graph.func @all(%x: !graph.tensor<[1048576], f32>) -> !graph.tensor<[], f32> attributes {symbols = []} {
  %a = graph.loops [reduce r0 = 1048576] -> (!graph.tensor<[], f32>) {
    %v = graph.load %x ["r0"] : !graph.tensor<[1048576], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[], f32>
}

// -----

// A prime extent: pieces of equal length, and a rest that the second reduction reads behind the partial results. Both results go through.

// CHECK-LABEL: graph.func @rest
// CHECK:         %[[P:.*]]:2 = graph.loops [p = 24, reduce r0 = 4160]
// CHECK-NEXT:      graph.load %arg0 ["p*4160 + r0"] :
// CHECK-NEXT:      graph.index_value "p*4160 + r0"
// CHECK-NEXT:      graph.yield
// CHECK:         combine [0xFF800000 : f32, 9223372036854775807]
// CHECK:         graph.loops [reduce r0 = 187]
// CHECK-NEXT:      %[[X:.*]] = graph.load %arg0 ["r0 + 99816"] :
// CHECK-NEXT:      %[[AT:.*]] = graph.index_value "r0 + 99816"
// CHECK:           %[[IN:.*]] = arith.cmpi slt
// CHECK:           %[[V:.*]] = graph.load %[[P]]#0 ["r0"] mask %[[IN]]
// CHECK:           %[[I:.*]] = graph.load %[[P]]#1 ["r0"] mask %[[IN]]
// CHECK:           arith.select %[[IN]], %[[V]], %[[X]] : f32
// CHECK:           arith.select %[[IN]], %[[I]], %[[AT]] : i64
graph.func @rest(%x: !graph.tensor<[100003], f32>) -> !graph.tensor<[], i64> attributes {symbols = []} {
  %a:2 = graph.loops [reduce r0 = 100003] -> (!graph.tensor<[], f32>, !graph.tensor<[], i64>) {
    %v = graph.load %x ["r0"] : !graph.tensor<[100003], f32> -> f32
    %i = graph.index_value "r0"
    graph.yield %v, %i : f32, i64
  } combine [0xFF800000 : f32, 9223372036854775807 : i64] {
  ^bb0(%lv: f32, %li: i64, %rv: f32, %ri: i64):
    %more = arith.cmpf ogt, %lv, %rv : f32
    %same = arith.cmpf oeq, %lv, %rv : f32
    %first = arith.cmpi slt, %li, %ri : i64
    %tie = arith.andi %same, %first : i1
    %left = arith.ori %more, %tie : i1
    %v = arith.select %left, %lv, %rv : f32
    %i = arith.select %left, %li, %ri : i64
    graph.yield %v, %i : f32, i64
  }
  graph.return %a#1 : !graph.tensor<[], i64>
}

// -----

// A column reduction: pieces are the outermost axis, so that both halves read along the columns.

// CHECK-LABEL: graph.func @columns
// CHECK:         %[[P:.*]] = graph.loops [p = 64, i0 = 768, reduce r0 = 64] -> (!graph.tensor<[64, 768], f32>)
// CHECK-NEXT:      graph.load %arg0 ["p*64 + r0", "i0"]
// CHECK:         graph.loops [i0 = 768, reduce r0 = 64]
// CHECK-NEXT:      graph.load %[[P]] ["r0", "i0"]
graph.func @columns(%x: !graph.tensor<[4096, 768], f32>) -> !graph.tensor<[768], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 768, reduce r0 = 4096] -> (!graph.tensor<[768], f32>) {
    %v = graph.load %x ["r0", "i0"] : !graph.tensor<[4096, 768], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[768], f32>
}

// -----

// Few columns: 8 rows, one after the other in memory, have partial results of their own, which fill tiles.

// CHECK-LABEL: graph.func @few_columns
// CHECK:         %[[P:.*]] = graph.loops [p = 64, q = 8, i0 = 64, reduce r0 = 32] -> (!graph.tensor<[64, 8, 64], f32>)
// CHECK-NEXT:      graph.load %arg0 ["p*256 + q + r0*8", "i0"]
// CHECK:         graph.loops [i0 = 64, reduce r0 = 64, reduce r1 = 8]
// CHECK-NEXT:      graph.load %[[P]] ["r0", "r1", "i0"]
graph.func @few_columns(%x: !graph.tensor<[16384, 64], f32>) -> !graph.tensor<[64], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 64, reduce r0 = 16384] -> (!graph.tensor<[64], f32>) {
    %v = graph.load %x ["r0", "i0"] : !graph.tensor<[16384, 64], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[64], f32>
}

// -----

// A symbolic extent: the pieces are counted at run time, the last one masked.

// CHECK-LABEL: graph.func @symbolic
// CHECK:         graph.loops [p = "{{.*}}s0{{.*}}", reduce r0 = 16384]
// CHECK:           graph.index_value "s0"
// CHECK:           graph.load %arg0 ["p*16384 + r0"] mask
graph.func @symbolic(%x: !graph.tensor<["s0"], f32>) -> !graph.tensor<[], f32>
    attributes {symbols = [#graph.symbol<"s0", min = 0, max = 9223372036854775807, hint = 1048576>]} {
  %a = graph.loops [reduce r0 = "s0"] -> (!graph.tensor<[], f32>) {
    %v = graph.load %x ["r0"] : !graph.tensor<["s0"], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[], f32>
}

// -----

// Kept: small ones, those with enough results, those that write in place.

// CHECK-LABEL: graph.func @kept
// CHECK-NOT:     [p =
// CHECK:         graph.return
graph.func @kept(%x: !graph.tensor<[65535], f32>, %y: !graph.tensor<[64, 65536], f32>, %z: !graph.tensor<[], f32>)
    -> (!graph.tensor<[], f32>, !graph.tensor<[64], f32>) attributes {symbols = []} {
  %a = graph.loops [reduce r0 = 65535] -> (!graph.tensor<[], f32>) {
    %v = graph.load %x ["r0"] : !graph.tensor<[65535], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  %b = graph.loops [i0 = 64, reduce r0 = 65536] -> (!graph.tensor<[64], f32>) {
    %v = graph.load %y ["i0", "r0"] : !graph.tensor<[64, 65536], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  %c = graph.loops [reduce r0 = 65536] into (%z : !graph.tensor<[], f32>) at [0] -> (!graph.tensor<[], f32>) {
    %v = graph.load %y [0, "r0"] : !graph.tensor<[64, 65536], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a, %b : !graph.tensor<[], f32>, !graph.tensor<[64], f32>
}

// -----

// Neighbouring axes of memory are one axis of 16 * 197: pieces of it need no mask, pieces of 197 would.

// CHECK-LABEL: graph.func @neighbours
// CHECK:         %[[P:.*]] = graph.loops [p = 16, i0 = 256, reduce r1 = 197]
// CHECK-NOT:       mask
// CHECK:         graph.loops [i0 = 256, reduce r0 = 16]
// CHECK-NEXT:      graph.load %[[P]]
graph.func @neighbours(%x: !graph.tensor<[16, 197, 256], f32>) -> !graph.tensor<[256], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 256, reduce r0 = 16, reduce r1 = 197] -> (!graph.tensor<[256], f32>) {
    %v = graph.load %x ["r0", "r1", "i0"] : !graph.tensor<[16, 197, 256], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[256], f32>
}

// -----

// Between these lies what is not reduced.

// CHECK-LABEL: graph.func @apart
// CHECK:         graph.loops [i0 = 8, p = {{[0-9]+}}, reduce r0 = {{[0-9]+}}, reduce r1 = {{[0-9]+}}]
graph.func @apart(%x: !graph.tensor<[64, 8, 1024], f32>) -> !graph.tensor<[8], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 8, reduce r0 = 64, reduce r1 = 1024] -> (!graph.tensor<[8], f32>) {
    %v = graph.load %x ["r0", "i0", "r1"] : !graph.tensor<[64, 8, 1024], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[8], f32>
}

// -----

// Rows are kept whole where there are enough of them: pieces are runs of memory.

// CHECK-LABEL: graph.func @whole_rows
// CHECK:         %[[P:.*]] = graph.loops [p = 64, reduce r0 = 8, reduce r1 = 1000] -> (!graph.tensor<[64], f32>)
// CHECK-NEXT:      graph.load %arg0 ["p*8 + r0", "r1"]
graph.func @whole_rows(%x: !graph.tensor<[512, 1008], f32>) -> !graph.tensor<[], f32> attributes {symbols = []} {
  %a = graph.loops [reduce r0 = 512, reduce r1 = 1000] -> (!graph.tensor<[], f32>) {
    %v = graph.load %x ["r0", "r1"] : !graph.tensor<[512, 1008], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[], f32>
}

// -----

// Three axes that lie in memory as one are one before they are cut.

// CHECK-LABEL: graph.func @one_axis
// CHECK:         graph.loops [i0 = 4, p = {{[0-9]+}}, reduce r2 = {{[0-9]+}}] -> (!graph.tensor<[4, {{[0-9]+}}], f32>)
graph.func @one_axis(%x: !graph.tensor<[4, 12, 5, 69905], f32>) -> !graph.tensor<[4], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 4, reduce r0 = 12, reduce r1 = 5, reduce r2 = 69905] -> (!graph.tensor<[4], f32>) {
    %v = graph.load %x ["i0", "r0", "r1", "r2"] : !graph.tensor<[4, 12, 5, 69905], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[4], f32>
}

// -----

// An axis that the load takes apart is cut along one of its digits.

// CHECK-LABEL: graph.func @digits
// CHECK:         graph.loops [p = 32, reduce d1 = 16, reduce d0 = 256] -> (!graph.tensor<[32], f32>)
// CHECK:           graph.load %arg0 ["d0", "d1 + p*16"]
graph.func @digits(%x: !graph.tensor<[256, 511], f32, [1, 300]>) -> !graph.tensor<[], f32> attributes {symbols = []} {
  %a = graph.loops [reduce r0 = 130816] -> (!graph.tensor<[], f32>) {
    %v = graph.load %x ["r0//511", "Mod(r0, 511)"] : !graph.tensor<[256, 511], f32, [1, 300]> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[], f32>
}

// -----

// Columns that are seen through a view, whose index expressions take axes apart and whose rows meet again in memory, are
// columns all the same.

// CHECK-LABEL: graph.func @columns_of_a_view
// CHECK:         graph.loops [p = 64, i0 = 288, reduce
// CHECK:         graph.loops [i0 = 288, reduce r0 = {{[0-9]+}}]
graph.func @columns_of_a_view(%x: !graph.tensor<[2048, 49, 3, 96], f32>) -> !graph.tensor<[288], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 288, reduce r0 = 100352] -> (!graph.tensor<[288], f32>) {
    %v = graph.load %x ["r0//49", "Mod(r0, 49)", "i0//96", "Mod(i0, 96)"] : !graph.tensor<[2048, 49, 3, 96], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[288], f32>
}

// -----

// What a rest would have written to memory for itself alone: the last piece is masked.

// CHECK-LABEL: graph.func @of_what_is_not_in_memory
// CHECK:         graph.loops [p = 25, reduce r0 = 4096]
// CHECK:           graph.load %{{.*}} ["p*4096 + r0"] mask
// CHECK:         graph.loops [reduce r0 = 25]
graph.func @of_what_is_not_in_memory(%x: !graph.tensor<[100003], f32>) -> !graph.tensor<[], f32> attributes {symbols = []} {
  %y = graph.loops [i0 = 100003] -> (!graph.tensor<[100003], f32>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[100003], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %a = graph.loops [reduce r0 = 100003] -> (!graph.tensor<[], f32>) {
    %v = graph.load %y ["r0"] : !graph.tensor<[100003], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[], f32>
}

// -----

// All elements of a transposed tensor: its axes are one axis in the order of memory.

// CHECK-LABEL: graph.func @transposed
// CHECK:         graph.loops [p = 64, reduce r0 = 16384]
// CHECK:           graph.load %arg0 ["{{.*}}", "{{.*}}"]
// CHECK:         graph.loops [reduce r0 = 64]
graph.func @transposed(%x: !graph.tensor<[1024, 1024], f32, [1, 1024]>) -> !graph.tensor<[], f32> attributes {symbols = []} {
  %a = graph.loops [reduce r0 = 1024, reduce r1 = 1024] -> (!graph.tensor<[], f32>) {
    %v = graph.load %x ["r0", "r1"] : !graph.tensor<[1024, 1024], f32, [1, 1024]> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<[], f32>
}
