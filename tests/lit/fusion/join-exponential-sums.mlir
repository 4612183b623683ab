// RUN: tile-opt %s --split-input-file --graph-join-exponential-sums | FileCheck %s

// Columns of a softmax: one reduction gives both. Its other reader still has the maximum.

// CHECK-LABEL: graph.func @columns
// CHECK:         %[[P:.*]]:2 = graph.loops [i0 = 1, i1 = 4096, reduce r0 = 512]
// CHECK:           %[[X:.*]] = graph.load %arg0 ["r0", "i1"]
// CHECK-DAG:       %[[NONE:.*]] = arith.cmpf oeq, %[[X]], %{{.*}}
// CHECK-DAG:       %[[TIMES:.*]] = arith.select %[[NONE]]
// CHECK-DAG:       %[[FINITE:.*]] = arith.maximumf %[[X]]
// CHECK:           graph.yield %[[FINITE]], %[[TIMES]]
// CHECK:         combine [-3.40282347E+38 : f32, 0.000000e+00 : f32]
// CHECK:           math.exp %{{.*}} {graph.at_most_zero}
// CHECK:         %[[M:.*]] = graph.loops [i0 = 1, i1 = 4096]
// CHECK:           graph.load %[[P]]#1
// CHECK:           arith.constant 0xFF800000
// CHECK:         %[[S:.*]] = graph.loops [i0 = 4096] ->
// CHECK:           graph.load %[[P]]#1 [0, "i0"]
// CHECK:           arith.constant 0x7FC00000
// CHECK:         graph.return %[[M]], %[[S]]
graph.func @columns(%x: !graph.tensor<[512, 4096], f32>) -> (!graph.tensor<[1, 4096], f32>, !graph.tensor<[4096], f32>) attributes {symbols = []} {
  %m = graph.loops [i0 = 1, i1 = 4096, reduce r0 = 512] -> (!graph.tensor<[1, 4096], f32>) {
    %v = graph.load %x ["r0", "i1"] : !graph.tensor<[512, 4096], f32> -> f32
    graph.yield %v : f32
  } combine [0xFF800000 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.maximumf %l, %r : f32
    graph.yield %s : f32
  }
  %s = graph.loops [i0 = 4096, reduce r0 = 512] -> (!graph.tensor<[4096], f32>) {
    %v = graph.load %x ["r0", "i0"] : !graph.tensor<[512, 4096], f32> -> f32
    %n = graph.load %m [0, "i0"] : !graph.tensor<[1, 4096], f32> -> f32
    %d = arith.subf %v, %n : f32
    %e = math.exp %d : f32
    graph.yield %e : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %t = arith.addf %l, %r : f32
    graph.yield %t : f32
  }
  graph.return %m, %s : !graph.tensor<[1, 4096], f32>, !graph.tensor<[4096], f32>
}

// -----

// A log-sum-exp subtracts 0 for an infinite maximum, so that the sum is infinite there.

// CHECK-LABEL: graph.func @logarithm
// CHECK:         graph.loops [i0 = 4096, reduce r0 = 512]
// CHECK:         combine [-3.40282347E+38 : f32, 0.000000e+00 : f32]
// CHECK-NOT:     reduce
// CHECK:         arith.constant 0x7F800000
// CHECK-NOT:     0x7FC00000
graph.func @logarithm(%x: !graph.tensor<[512, 4096], f32>) -> !graph.tensor<[4096], f32> attributes {symbols = []} {
  %m = graph.loops [i0 = 4096, reduce r0 = 512] -> (!graph.tensor<[4096], f32>) {
    %v = graph.load %x ["r0", "i0"] : !graph.tensor<[512, 4096], f32> -> f32
    graph.yield %v : f32
  } combine [0xFF800000 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.maximumf %l, %r : f32
    graph.yield %s : f32
  }
  %n = graph.loops [i0 = 4096] -> (!graph.tensor<[4096], f32>) {
    %v = graph.load %m ["i0"] : !graph.tensor<[4096], f32> -> f32
    %a = math.absf %v : f32
    %inf = arith.constant 0x7F800000 : f32
    %is = arith.cmpf oeq, %a, %inf : f32
    %zero = arith.constant 0.0 : f32
    %c = arith.select %is, %zero, %v : f32
    graph.yield %c : f32
  }
  %s = graph.loops [i0 = 4096, reduce r0 = 512] -> (!graph.tensor<[4096], f32>) {
    %v = graph.load %x ["r0", "i0"] : !graph.tensor<[512, 4096], f32> -> f32
    %c = graph.load %n ["i0"] : !graph.tensor<[4096], f32> -> f32
    %d = arith.subf %v, %c : f32
    %e = math.exp %d : f32
    graph.yield %e : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %t = arith.addf %l, %r : f32
    graph.yield %t : f32
  }
  graph.return %s : !graph.tensor<[4096], f32>
}

// -----

// Rows of one program each, sums relative to another tensor's maximum, and values that were overwritten in between stay.

// CHECK-LABEL: graph.func @rows
// CHECK-NOT:     -3.40282347E+38
graph.func @rows(%x: !graph.tensor<[4096, 512], f32>) -> !graph.tensor<[4096], f32> attributes {symbols = []} {
  %m = graph.loops [i0 = 4096, reduce r0 = 512] -> (!graph.tensor<[4096], f32>) {
    %v = graph.load %x ["i0", "r0"] : !graph.tensor<[4096, 512], f32> -> f32
    graph.yield %v : f32
  } combine [0xFF800000 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.maximumf %l, %r : f32
    graph.yield %s : f32
  }
  %s = graph.loops [i0 = 4096, reduce r0 = 512] -> (!graph.tensor<[4096], f32>) {
    %v = graph.load %x ["i0", "r0"] : !graph.tensor<[4096, 512], f32> -> f32
    %n = graph.load %m ["i0"] : !graph.tensor<[4096], f32> -> f32
    %d = arith.subf %v, %n : f32
    %e = math.exp %d : f32
    graph.yield %e : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %t = arith.addf %l, %r : f32
    graph.yield %t : f32
  }
  graph.return %s : !graph.tensor<[4096], f32>
}

// -----

// CHECK-LABEL: graph.func @of_another
// CHECK-NOT:     -3.40282347E+38
graph.func @of_another(%x: !graph.tensor<[512, 4096], f32>, %y: !graph.tensor<[512, 4096], f32>) -> !graph.tensor<[4096], f32> attributes {symbols = []} {
  %m = graph.loops [i0 = 4096, reduce r0 = 512] -> (!graph.tensor<[4096], f32>) {
    %v = graph.load %y ["r0", "i0"] : !graph.tensor<[512, 4096], f32> -> f32
    graph.yield %v : f32
  } combine [0xFF800000 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.maximumf %l, %r : f32
    graph.yield %s : f32
  }
  %s = graph.loops [i0 = 4096, reduce r0 = 512] -> (!graph.tensor<[4096], f32>) {
    %v = graph.load %x ["r0", "i0"] : !graph.tensor<[512, 4096], f32> -> f32
    %n = graph.load %m ["i0"] : !graph.tensor<[4096], f32> -> f32
    %d = arith.subf %v, %n : f32
    %e = math.exp %d : f32
    graph.yield %e : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %t = arith.addf %l, %r : f32
    graph.yield %t : f32
  }
  graph.return %s : !graph.tensor<[4096], f32>
}

// -----

// CHECK-LABEL: graph.func @overwritten
// CHECK-NOT:     -3.40282347E+38
graph.func @overwritten(%x: !graph.tensor<[512, 4096], f32>) -> !graph.tensor<[4096], f32> attributes {symbols = []} {
  %m = graph.loops [i0 = 4096, reduce r0 = 512] -> (!graph.tensor<[4096], f32>) {
    %v = graph.load %x ["r0", "i0"] : !graph.tensor<[512, 4096], f32> -> f32
    graph.yield %v : f32
  } combine [0xFF800000 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.maximumf %l, %r : f32
    graph.yield %s : f32
  }
  %w = graph.loops [i0 = 512, i1 = 4096] into(%x : !graph.tensor<[512, 4096], f32>) at [0] -> (!graph.tensor<[512, 4096], f32>) {
    %zero = arith.constant 0.0 : f32
    graph.yield %zero : f32
  }
  %s = graph.loops [i0 = 4096, reduce r0 = 512] -> (!graph.tensor<[4096], f32>) {
    %v = graph.load %x ["r0", "i0"] : !graph.tensor<[512, 4096], f32> -> f32
    %n = graph.load %m ["i0"] : !graph.tensor<[4096], f32> -> f32
    %d = arith.subf %v, %n : f32
    %e = math.exp %d : f32
    graph.yield %e : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %t = arith.addf %l, %r : f32
    graph.yield %t : f32
  }
  graph.return %s : !graph.tensor<[4096], f32>
}
