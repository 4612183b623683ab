// RUN: tile-opt %s --split-input-file --graph-merge-loads | FileCheck %s
// Two loads of one tensor, of which a comparison chooses one, where the positions follow one another around the end.

// A roll by 3, then one by 1 along the other axis, whose second part is one point.
// CHECK-LABEL: @rolls
// CHECK: graph.load %arg0 ["i0", "Mod(i1 + 5, 8)"] : {{.*}} -> f32
// CHECK: graph.loops
// CHECK: graph.load %0 ["Mod(i0 + 1, 3)", "i1"] : {{.*}} -> f32
// CHECK-NOT: graph.load
graph.func @rolls(%0: !graph.tensor<[3, 8], f32>) -> !graph.tensor<[3, 8], f32> attributes {symbols = []} {
  %1 = graph.loops [i0 = 3, i1 = 8] -> (!graph.tensor<[3, 8], f32>) {
    %zero = arith.constant 0.0 : f32
    %i = graph.index_value "i1"
    %three = arith.constant 3 : i64
    %isFirst = arith.cmpi slt, %i, %three : i64
    %a = graph.load %0 ["i0", "i1 + 5"] mask %isFirst other %zero : f32 : !graph.tensor<[3, 8], f32> -> f32
    %true = arith.constant true
    %isRest = arith.xori %isFirst, %true : i1
    %b = graph.load %0 ["i0", "i1 - 3"] mask %isRest other %zero : f32 : !graph.tensor<[3, 8], f32> -> f32
    %c = arith.select %isRest, %b, %a : f32
    graph.yield %c : f32
  }
  %2 = graph.loops [i0 = 3, i1 = 8] -> (!graph.tensor<[3, 8], f32>) {
    %zero = arith.constant 0.0 : f32
    %i = graph.index_value "i0"
    %two = arith.constant 2 : i64
    %isFirst = arith.cmpi slt, %i, %two : i64
    %a = graph.load %1 ["i0 + 1", "i1"] mask %isFirst other %zero : f32 : !graph.tensor<[3, 8], f32> -> f32
    %isRest = arith.cmpi sge, %i, %two : i64
    %b = graph.load %1 [0, "i1"] mask %isRest other %zero : f32 : !graph.tensor<[3, 8], f32> -> f32
    %c = arith.select %isFirst, %a, %b : f32
    graph.yield %c : f32
  }
  graph.return %2 : !graph.tensor<[3, 8], f32>
}

// -----
// By itself, it keeps its masks.
// CHECK-LABEL: @single
// CHECK-COUNT-2: graph.load {{.*}} mask
graph.func @single(%0: !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32> attributes {symbols = []} {
  %1 = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %zero = arith.constant 0.0 : f32
    %i = graph.index_value "i0"
    %three = arith.constant 3 : i64
    %isFirst = arith.cmpi slt, %i, %three : i64
    %isRest = arith.cmpi sge, %i, %three : i64
    %a = graph.load %0 ["i0 + 5"] mask %isFirst other %zero : f32 : !graph.tensor<[8], f32> -> f32
    %b = graph.load %0 ["i0 - 3"] mask %isRest other %zero : f32 : !graph.tensor<[8], f32> -> f32
    %c = arith.select %isFirst, %a, %b : f32
    graph.yield %c : f32
  }
  graph.return %1 : !graph.tensor<[8], f32>
}

// -----
// Two tensors; the same part of one twice; a mask that is another comparison's.
// CHECK-LABEL: @others
// CHECK-NOT: Mod
graph.func @others(%0: !graph.tensor<[8], f32>, %1: !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32> attributes {symbols = []} {
  %2:3 = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>, !graph.tensor<[8], f32>, !graph.tensor<[8], f32>) {
    %zero = arith.constant 0.0 : f32
    %i = graph.index_value "i0"
    %three = arith.constant 3 : i64
    %four = arith.constant 4 : i64
    %isFirst = arith.cmpi slt, %i, %three : i64
    %isRest = arith.cmpi sge, %i, %three : i64
    %isLess = arith.cmpi slt, %i, %four : i64
    %a = graph.load %0 ["i0 + 5"] mask %isFirst other %zero : f32 : !graph.tensor<[8], f32> -> f32
    %b = graph.load %1 ["i0 - 3"] mask %isRest other %zero : f32 : !graph.tensor<[8], f32> -> f32
    %c = arith.select %isFirst, %a, %b : f32
    %d = graph.load %0 ["i0"] mask %isFirst other %zero : f32 : !graph.tensor<[8], f32> -> f32
    %e = graph.load %0 ["i0 - 3"] mask %isRest other %zero : f32 : !graph.tensor<[8], f32> -> f32
    %f = arith.select %isFirst, %d, %e : f32
    %g = graph.load %0 ["i0 + 4"] mask %isLess other %zero : f32 : !graph.tensor<[8], f32> -> f32
    %h = graph.load %0 ["i0 - 3"] mask %isRest other %zero : f32 : !graph.tensor<[8], f32> -> f32
    %j = arith.select %isFirst, %g, %h : f32
    graph.yield %c, %f, %j : f32, f32, f32
  }
  %3 = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %zero = arith.constant 0.0 : f32
    %i = graph.index_value "i0"
    %one = arith.constant 1 : i64
    %is = arith.cmpi slt, %i, %one : i64
    %a = graph.load %2#0 ["i0"] mask %is other %zero : f32 : !graph.tensor<[8], f32> -> f32
    %b = graph.load %2#0 ["i0"] mask %is other %zero : f32 : !graph.tensor<[8], f32> -> f32
    %c = graph.load %2#1 ["i0"] mask %is other %zero : f32 : !graph.tensor<[8], f32> -> f32
    %d = graph.load %2#1 ["i0"] mask %is other %zero : f32 : !graph.tensor<[8], f32> -> f32
    %e = graph.load %2#2 ["i0"] mask %is other %zero : f32 : !graph.tensor<[8], f32> -> f32
    %f = graph.load %2#2 ["i0"] mask %is other %zero : f32 : !graph.tensor<[8], f32> -> f32
    graph.yield %a : f32
  }
  graph.return %3 : !graph.tensor<[8], f32>
}
