// RUN: tile-opt %s --graph-choose-strides --split-input-file | FileCheck %s

// The maximum lies like the input that it is made of, and which it is compared with.
// CHECK-LABEL: graph.func @permuted
// CHECK: reduce r0 = 3] -> (!graph.tensor<[16, 8, 4], f32, [1, 64, 16]>)
// CHECK: graph.load {{.*}} ["i0", "i1", "i2"] : !graph.tensor<[16, 8, 4], f32, [1, 64, 16]> -> f32
graph.func @permuted(%x: !graph.tensor<[16, 8, 4, 3], f32, [1, 64, 16, 512]>) -> (!graph.tensor<[16, 8, 4, 3], i1, [1, 64, 16, 512]>)
    attributes {symbols = []} {
  %m = graph.loops [i0 = 16, i1 = 8, i2 = 4, reduce r0 = 3] -> (!graph.tensor<[16, 8, 4], f32>) {
    %v = graph.load %x ["i0", "i1", "i2", "r0"] : !graph.tensor<[16, 8, 4, 3], f32, [1, 64, 16, 512]> -> f32
    graph.yield %v : f32
  } combine [0xFF800000 : f32] {
  ^bb0(%a: f32, %b: f32):
    %s = arith.maximumf %a, %b : f32
    graph.yield %s : f32
  }
  %y = graph.loops [i0 = 16, i1 = 8, i2 = 4, i3 = 3] -> (!graph.tensor<[16, 8, 4, 3], i1, [1, 64, 16, 512]>) {
    %v = graph.load %x ["i0", "i1", "i2", "i3"] : !graph.tensor<[16, 8, 4, 3], f32, [1, 64, 16, 512]> -> f32
    %w = graph.load %m ["i0", "i1", "i2"] : !graph.tensor<[16, 8, 4], f32> -> f32
    %e = arith.cmpf oeq, %v, %w : f32
    graph.yield %e : i1
  }
  graph.return %y : !graph.tensor<[16, 8, 4, 3], i1, [1, 64, 16, 512]>
}

// -----

// A chain follows its beginning, through a value that is itself laid out anew.
// CHECK-LABEL: graph.func @chain
// CHECK: -> (!graph.tensor<["s0", 8, 1], f32, [1, "s0", 1]>)
// CHECK: -> (!graph.tensor<["s0", 8], f32, [1, "s0"]>)
graph.func @chain(%x: !graph.tensor<["s0", 8, 5], f32, [1, "s0", "8*s0"]>) -> (!graph.tensor<["s0"], f32>)
    attributes {symbols = [#graph.symbol<"s0", min = 2, max = 1000000, hint = 100>]} {
  %a = graph.loops [i0 = "s0", i1 = 8, i2 = 1, reduce r0 = 5] -> (!graph.tensor<["s0", 8, 1], f32>) {
    %v = graph.load %x ["i0", "i1", "r0"] : !graph.tensor<["s0", 8, 5], f32, [1, "s0", "8*s0"]> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%p: f32, %q: f32):
    %s = arith.addf %p, %q : f32
    graph.yield %s : f32
  }
  %b = graph.loops [i0 = "s0", i1 = 8] -> (!graph.tensor<["s0", 8], f32>) {
    %v = graph.load %a ["i0", "i1", 0] : !graph.tensor<["s0", 8, 1], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %c = graph.loops [i0 = "s0", reduce r0 = 8] -> (!graph.tensor<["s0"], f32>) {
    %v = graph.load %b ["i0", "r0"] : !graph.tensor<["s0", 8], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%p: f32, %q: f32):
    %s = arith.addf %p, %q : f32
    graph.yield %s : f32
  }
  graph.return %c : !graph.tensor<["s0"], f32>
}

// -----

// What a call or the caller sees stays as it is.
// CHECK-LABEL: graph.func @seen
// CHECK: graph.loops [i0 = 16, i1 = 8] -> (!graph.tensor<[16, 8], f32>)
// CHECK: graph.loops [i0 = 16, i1 = 8] -> (!graph.tensor<[16, 8], f32>)
graph.func @seen(%x: !graph.tensor<[16, 8], f32, [1, 16]>) -> (!graph.tensor<[16, 8], f32>, !graph.tensor<[16, 8], f32>)
    attributes {symbols = []} {
  %a = graph.loops [i0 = 16, i1 = 8] -> (!graph.tensor<[16, 8], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[16, 8], f32, [1, 16]> -> f32
    graph.yield %v : f32
  }
  %b = graph.loops [i0 = 16, i1 = 8] -> (!graph.tensor<[16, 8], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[16, 8], f32, [1, 16]> -> f32
    graph.yield %v : f32
  }
  %c = graph.extern(%b) {op = "aten::tanh", overload = "", args = [#graph.operand<0>], aliases = array<i64: -1>} : (!graph.tensor<[16, 8], f32>) -> !graph.tensor<[16, 8], f32>
  graph.return %a, %c : !graph.tensor<[16, 8], f32>, !graph.tensor<[16, 8], f32>
}

// -----

// Two readers of another order count more than the op that makes the value.
// CHECK-LABEL: graph.func @readers
// CHECK: graph.loops [i0 = 16, i1 = 8] -> (!graph.tensor<[16, 8], f32>)
graph.func @readers(%x: !graph.tensor<[16, 8], f32, [1, 16]>, %z: !graph.tensor<[16, 8], f32>) -> (!graph.tensor<[16, 8], f32>, !graph.tensor<[16, 8], f32>)
    attributes {symbols = []} {
  %a = graph.loops [i0 = 16, i1 = 8] -> (!graph.tensor<[16, 8], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<[16, 8], f32, [1, 16]> -> f32
    graph.yield %v : f32
  }
  %b = graph.loops [i0 = 16, i1 = 8] -> (!graph.tensor<[16, 8], f32>) {
    %v = graph.load %a ["i0", "i1"] : !graph.tensor<[16, 8], f32> -> f32
    graph.yield %v : f32
  }
  %c = graph.loops [i0 = 16, i1 = 8] -> (!graph.tensor<[16, 8], f32>) {
    %v = graph.load %a ["i0", "i1"] : !graph.tensor<[16, 8], f32> -> f32
    %w = graph.load %z ["i0", "i1"] : !graph.tensor<[16, 8], f32> -> f32
    %s = arith.addf %v, %w : f32
    graph.yield %s : f32
  }
  graph.return %b, %c : !graph.tensor<[16, 8], f32>, !graph.tensor<[16, 8], f32>
}
