// RUN: tile-opt %s --split-input-file --graph-inline-producers --graph-split-reductions --graph-form-groups --graph-build-tile-kernels | FileCheck %s

// A mask over lanes side by side.

// CHECK-LABEL: graph.func @triangle(
// CHECK:         %[[M:.*]] = arith.cmpi slt, {{.*}} : tensor<64xi64>
// CHECK:         %[[V:.*]] = tile.load {{.*}} strides [1] mask %[[M]]
// CHECK:         %[[Z:.*]] = tile.splat
// CHECK:         %[[S:.*]] = arith.select %[[M]], %[[V]], %[[Z]]
// CHECK:         tile.store %[[S]]
graph.func @triangle(%x: !graph.tensor<[60, 64], f32>) -> !graph.tensor<[60, 64], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 60, i1 = 64] -> (!graph.tensor<[60, 64], f32>) {
    %i = graph.index_value "i0"
    %j = graph.index_value "i1"
    %m = arith.cmpi slt, %j, %i : i64
    %z = arith.constant 1.0 : f32
    %v = graph.load %x ["i0", "i1"] mask %m other %z : f32 : !graph.tensor<[60, 64], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[60, 64], f32>
}

// -----

// A mask that changes at one place along the lanes: the loop is cut there, and neither part has a mask.

// CHECK-LABEL: graph.func @pad(
// CHECK-NOT:     mask
// CHECK:         %[[LEFT:.*]] = arith.constant 60 : i64
// CHECK:         %[[V:.*]] = tile.load %arg0{{.*}} valid[%[[LEFT]]]
// CHECK:         tile.store %[[V]], {{.*}} valid[%[[LEFT]]]
// CHECK-NOT:     tile.load
// CHECK:         tile.splat %{{.*}} : f32
// CHECK:         tile.store
graph.func @pad(%x: !graph.tensor<[60], f32>) -> !graph.tensor<[64], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 64] -> (!graph.tensor<[64], f32>) {
    %i = graph.index_value "i0"
    %n = arith.constant 60 : i64
    %m = arith.cmpi slt, %i, %n : i64
    %z = arith.constant 1.0 : f32
    %v = graph.load %x ["i0"] mask %m other %z : f32 : !graph.tensor<[60], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[64], f32>
}

// -----

// What two masks leave of a block whose place is known at run time only: three parts, cut to the block.

// CHECK-LABEL: graph.func @parts(
// CHECK-NOT:     mask
// CHECK:         arith.minsi %{{.*}}, %c1000_i64
// CHECK:         scf.for
// CHECK:           tile.load %arg0
// CHECK:         arith.maxsi %{{.*}}, %c1000_i64
// CHECK:         arith.minsi %{{.*}}, %c9000_i64
// CHECK:         scf.for
// CHECK:           tile.load %arg1
// CHECK:         arith.maxsi %{{.*}}, %c9000_i64
graph.func @parts(%x: !graph.tensor<[1000], f32>, %y: !graph.tensor<[8000], f32>) -> !graph.tensor<[10000], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 10000] -> (!graph.tensor<[10000], f32>) {
    %i = graph.index_value "i0"
    %n = arith.constant 1000 : i64
    %p = arith.constant 9000 : i64
    %true = arith.constant true
    %m = arith.cmpi slt, %i, %n : i64
    %o = arith.xori %m, %true : i1
    %q = arith.cmpi slt, %i, %p : i64
    %k = arith.andi %o, %q : i1
    %z = arith.constant 1.0 : f32
    %v = graph.load %x ["i0"] mask %m other %z : f32 : !graph.tensor<[1000], f32> -> f32
    %w = graph.load %y ["i0 - 1000"] mask %k other %v : f32 : !graph.tensor<[8000], f32> -> f32
    graph.yield %w : f32
  }
  graph.return %a : !graph.tensor<[10000], f32>
}

// -----

// One answer for all lanes of a long row: a branch.

// CHECK-LABEL: graph.func @rows(
// CHECK:         %[[M:.*]] = arith.cmpi slt, {{.*}} : i64
// CHECK:         scf.if %[[M]] -> (tensor<64xf32>)
// CHECK:           tile.load {{.*}} : !tile.ptr<f32> -> tensor<64xf32>
// CHECK:         else
// CHECK-NOT:     tile.load
// CHECK:           tile.splat
// CHECK:         tile.store
graph.func @rows(%x: !graph.tensor<[30, 1024], f32>) -> !graph.tensor<[32, 1024], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 32, i1 = 1024] -> (!graph.tensor<[32, 1024], f32>) {
    %i = graph.index_value "i0"
    %n = arith.constant 30 : i64
    %m = arith.cmpi slt, %i, %n : i64
    %z = arith.constant 1.0 : f32
    %v = graph.load %x ["i0", "i1"] mask %m other %z : f32 : !graph.tensor<[30, 1024], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[32, 1024], f32>
}

// -----

// A masked load of a value of the same kernel selects.

// CHECK-LABEL: graph.func @inside(
// CHECK:         %[[E:.*]] = math.exp
// CHECK:         %[[M:.*]] = tile.load {{.*}} -> tensor<64xi1>
// CHECK:         %[[Z:.*]] = tile.splat
// CHECK:         %[[S:.*]] = arith.select %[[M]], %[[E]], %[[Z]]
// CHECK:         tile.store %[[S]]
graph.func @inside(%x: !graph.tensor<[64], f32>, %b: !graph.tensor<[64], i1>) -> (!graph.tensor<[64], f32>, !graph.tensor<[64], f32>) attributes {symbols = []} {
  %a = graph.loops [i0 = 64] -> (!graph.tensor<[64], f32>) {
    %v = graph.load %x ["i0"] : !graph.tensor<[64], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %c = graph.loops [i0 = 64] -> (!graph.tensor<[64], f32>) {
    %m = graph.load %b ["i0"] : !graph.tensor<[64], i1> -> i1
    %z = arith.constant 2.0 : f32
    %v = graph.load %a ["i0"] mask %m other %z : f32 : !graph.tensor<[64], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a, %c : !graph.tensor<[64], f32>, !graph.tensor<[64], f32>
}

// -----

// An axis that may be longer than it was: cut where a comparison changes beyond that too.

// CHECK-LABEL: graph.func @grows(
// CHECK:         tile.kernel
// CHECK-DAG:     arith.constant 40 : i64
// CHECK-DAG:     arith.constant 100 : i64
// CHECK-NOT:     mask
// CHECK:         tile.return
graph.func @grows(%x: !graph.tensor<["s0"], f32>) -> !graph.tensor<["s0"], f32> attributes {symbols = [#graph.symbol<"s0", min = 2, max = 9223372036854775807, hint = 60>]} {
  %a = graph.loops [i0 = "s0"] -> (!graph.tensor<["s0"], f32>) {
    %i = graph.index_value "i0"
    %n = arith.constant 40 : i64
    %l = arith.constant 100 : i64
    %m = arith.cmpi slt, %i, %n : i64
    %k = arith.cmpi sge, %i, %l : i64
    %z = arith.constant 1.0 : f32
    %v = graph.load %x ["i0"] mask %m other %z : f32 : !graph.tensor<["s0"], f32> -> f32
    %w = graph.load %x ["i0"] mask %k other %z : f32 : !graph.tensor<["s0"], f32> -> f32
    %s = arith.addf %v, %w : f32
    graph.yield %s : f32
  }
  graph.return %a : !graph.tensor<["s0"], f32>
}

// -----

// Integers that wrap are no places along an axis.

// CHECK-LABEL: graph.func @wraps(
// CHECK:         tile.load {{.*}} mask
graph.func @wraps(%x: !graph.tensor<[256], f32>) -> !graph.tensor<[256], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 256] -> (!graph.tensor<[256], f32>) {
    %i = graph.index_value "i0"
    %n = arith.constant 9223372036854775807 : i64
    %b = arith.constant 9223372036854775747 : i64
    %j = arith.addi %i, %n : i64
    %m = arith.cmpi slt, %j, %b : i64
    %z = arith.constant 1.0 : f32
    %v = graph.load %x ["i0"] mask %m other %z : f32 : !graph.tensor<[256], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[256], f32>
}

// -----

// A reflected border: the loop is cut where the index turns; the parts read backwards, forwards and backwards.

// CHECK-LABEL: graph.func @reflected(
// CHECK-NOT:     tile.gather
// CHECK:         tile.load %arg0{{.*}} strides [-1]
// CHECK:         tile.load %arg0{{.*}} strides [1]
// CHECK:         tile.load %arg0{{.*}} strides [-1]
// CHECK-NOT:     tile.gather
// CHECK:         tile.return
graph.func @reflected(%x: !graph.tensor<[128], f32>) -> !graph.tensor<[132], f32> attributes {symbols = []} {
  %a = graph.loops [i0 = 132] -> (!graph.tensor<[132], f32>) {
    %v = graph.load %x ["127 - Max(127 - Max(2 - i0, i0 - 2), Max(2 - i0, i0 - 2) - 127)"] : !graph.tensor<[128], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<[132], f32>
}
