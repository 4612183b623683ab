// RUN: tile-opt %s --split-input-file --graph-inline-producers --graph-split-reductions --graph-form-groups --graph-build-tile-kernels | FileCheck %s

// Some rows per program; the row's length is an argument, and so is the size of what is kept of it.

// CHECK-LABEL: graph.func @rows(
// CHECK:         graph.launch @kernel(%arg0) integers ["s0", "s1"] programs "(s0 + 7)//8" {{.*}} scratch "((s1 + 15)//16)*64 + 256"
// CHECK:         tile.kernel @kernel(%{{.*}}: !tile.ptr<f32>, %{{.*}}: !tile.ptr<f32>, %{{.*}}: i64, %[[N:.*]]: i64)
// CHECK:         %[[ALL:.*]] = scf.for {{.*}} iter_args
// CHECK:         %[[LEFT:.*]] = arith.cmpi slt, {{.*}}, %[[N]]
// CHECK:         %[[SUM:.*]] = scf.if %[[LEFT]]
// CHECK:           scf.yield
// CHECK:         else
// CHECK:           scf.yield %[[ALL]]
// CHECK:         tile.reduce(%[[SUM]])
graph.func @rows(%x: !graph.tensor<["s0", "s1"], f32>) -> !graph.tensor<["s0", "s1"], f32> attributes {symbols = [#graph.symbol<"s0", min = 0, max = 9223372036854775807, hint = 1024>, #graph.symbol<"s1", min = 2, max = 4096, hint = 300>]} {
  %y = graph.loops [i0 = "s0", i1 = "s1"] -> (!graph.tensor<["s0", "s1"], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<["s0", "s1"], f32> -> f32
    %e = math.exp %v : f32
    graph.yield %e : f32
  }
  %s = graph.loops [i0 = "s0", reduce r0 = "s1"] -> (!graph.tensor<["s0"], f32>) {
    %v = graph.load %y ["i0", "r0"] : !graph.tensor<["s0", "s1"], f32> -> f32
    graph.yield %v : f32
  } combine [0.0 : f32] {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    graph.yield %s : f32
  }
  %i = graph.loops [i0 = "s0"] -> (!graph.tensor<["s0"], f32>) {
    %v = graph.load %s ["i0"] : !graph.tensor<["s0"], f32> -> f32
    %e = math.rsqrt %v : f32
    graph.yield %e : f32
  }
  %o = graph.loops [i0 = "s0", i1 = "s1"] -> (!graph.tensor<["s0", "s1"], f32>) {
    %v = graph.load %y ["i0", "i1"] : !graph.tensor<["s0", "s1"], f32> -> f32
    %w = graph.load %i ["i0"] : !graph.tensor<["s0"], f32> -> f32
    %p = arith.mulf %v, %w : f32
    graph.yield %p : f32
  }
  graph.return %o : !graph.tensor<["s0", "s1"], f32>
}

// -----

// Contiguous axes are one, whatever their sizes.

// CHECK-LABEL: graph.func @flat(
// CHECK:         graph.launch @kernel(%arg0) integers ["s0*s1"] programs "(s0*s1 + 4095)//4096"
// CHECK:         axes [mi0 = s0*s1]
// CHECK:         tile.return
graph.func @flat(%x: !graph.tensor<["s0", "s1"], f32>) -> !graph.tensor<["s0", "s1"], f32> attributes {symbols = [#graph.symbol<"s0", min = 0, max = 9223372036854775807, hint = 1024>, #graph.symbol<"s1", min = 2, max = 4096, hint = 300>]} {
  %a = graph.loops [i0 = "s0", i1 = "s1"] -> (!graph.tensor<["s0", "s1"], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<["s0", "s1"], f32> -> f32
    %e = arith.negf %v : f32
    graph.yield %e : f32
  }
  graph.return %a : !graph.tensor<["s0", "s1"], f32>
}

// -----

// A stride between the rows keeps them apart. A size that is not known is cut into blocks however small its hint is.

// CHECK-LABEL: graph.func @strided(
// CHECK:         graph.launch @kernel(%arg0) integers [{{.*}}"s1*2"{{.*}}]
// CHECK:         axes [i0 = s0, i1 = s1] grid axes 0 vector axis i1 lanes 64 blocked axis i0 by 8 block 4096
// CHECK:         tile.return
graph.func @strided(%x: !graph.tensor<["s0", "s1"], f32, ["2*s1", 1]>) -> !graph.tensor<["s0", "s1"], f32> attributes {symbols = [#graph.symbol<"s0", min = 0, max = 9223372036854775807, hint = 1024>, #graph.symbol<"s1", min = 2, max = 4096, hint = 300>]} {
  %a = graph.loops [i0 = "s0", i1 = "s1"] -> (!graph.tensor<["s0", "s1"], f32>) {
    %v = graph.load %x ["i0", "i1"] : !graph.tensor<["s0", "s1"], f32, ["2*s1", 1]> -> f32
    %e = arith.negf %v : f32
    graph.yield %e : f32
  }
  graph.return %a : !graph.tensor<["s0", "s1"], f32>
}

// -----

// A loop for each part of a concatenation, without masks but at its end: where the parts meet is an argument.

// CHECK-LABEL: graph.func @shifted(
// CHECK:         tile.kernel @kernel(%[[X:.*]]: !tile.ptr<f32>, %{{.*}}: !tile.ptr<f32>, {{.*}}, %[[LAST:.*]]: i64)
// CHECK:         %[[END:.*]] = arith.minsi %{{.*}}, %[[LAST]]
// CHECK:         scf.for
// CHECK-NOT:     mask
// CHECK:         %[[NEXT:.*]] = tile.load %[[X]]
// CHECK-NEXT:    tile.store %[[NEXT]]
// CHECK:         arith.maxsi %{{.*}}, %[[LAST]]
// CHECK:         scf.for
// CHECK:         %[[FIRST:.*]] = tile.load %[[X]][%{{.*}}] strides []
// CHECK-NOT:     mask
// CHECK:         tile.return
graph.func @shifted(%x: !graph.tensor<["s0", "s1"], f32>) -> !graph.tensor<["s0", "s1"], f32> attributes {symbols = [#graph.symbol<"s0", min = 2, max = 9223372036854775807, hint = 512>, #graph.symbol<"s1", min = 2, max = 9223372036854775807, hint = 2048>]} {
  %a = graph.loops [i0 = "s0", i1 = "s1"] -> (!graph.tensor<["s0", "s1"], f32>) {
    %zero = arith.constant 0.0 : f32
    %i = graph.index_value "i1"
    %last = graph.index_value "s1 - 1"
    %inside = arith.cmpi slt, %i, %last : i64
    %next = graph.load %x ["i0", "i1 + 1"] mask %inside other %zero : f32 : !graph.tensor<["s0", "s1"], f32> -> f32
    %true = arith.constant true
    %outside = arith.xori %inside, %true : i1
    %first = graph.load %x ["i0", 0] mask %outside other %zero : f32 : !graph.tensor<["s0", "s1"], f32> -> f32
    %v = arith.select %outside, %first, %next : f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<["s0", "s1"], f32>
}

// -----

// Which of two edges comes first depends on the size: one of them stays a mask.

// CHECK-LABEL: graph.func @either(
// CHECK:         tile.load {{.*}} mask
// CHECK:         tile.return
graph.func @either(%x: !graph.tensor<["s0"], f32>) -> !graph.tensor<["s0"], f32> attributes {symbols = [#graph.symbol<"s0", min = 2, max = 9223372036854775807, hint = 2048>]} {
  %a = graph.loops [i0 = "s0"] -> (!graph.tensor<["s0"], f32>) {
    %zero = arith.constant 0.0 : f32
    %i = graph.index_value "i0"
    %third = arith.constant 3 : i64
    %last = graph.index_value "s0 - 3"
    %inside = arith.cmpi slt, %i, %last : i64
    %below = arith.cmpi slt, %i, %third : i64
    %next = graph.load %x ["i0 + 3"] mask %inside other %zero : f32 : !graph.tensor<["s0"], f32> -> f32
    %own = graph.load %x ["i0"] mask %below other %zero : f32 : !graph.tensor<["s0"], f32> -> f32
    %v = arith.addf %own, %next : f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<["s0"], f32>
}

// -----

// Reflection at an end whose place is an argument: three loops, of which two read backwards, without gathers.

// CHECK-LABEL: graph.func @reflected(
// CHECK:         scf.for
// CHECK:         tile.load {{.*}} strides [-1]
// CHECK:         scf.for
// CHECK:         tile.load {{.*}} strides [1]
// CHECK:         scf.for
// CHECK:         tile.load {{.*}} strides [-1]
// CHECK-NOT:     tile.gather
// CHECK:         tile.return
graph.func @reflected(%x: !graph.tensor<["s0", "s1"], f32>) -> !graph.tensor<["s0", "s1 + 10"], f32> attributes {symbols = [#graph.symbol<"s0", min = 2, max = 9223372036854775807, hint = 64>, #graph.symbol<"s1", min = 6, max = 9223372036854775807, hint = 2048>]} {
  %a = graph.loops [i0 = "s0", i1 = "s1 + 10"] -> (!graph.tensor<["s0", "s1 + 10"], f32>) {
    %v = graph.load %x ["i0", "s1 - Max(-s1 + Max(-i1 + 5, i1 - 5) + 1, s1 - Max(-i1 + 5, i1 - 5) - 1) - 1"] : !graph.tensor<["s0", "s1"], f32> -> f32
    graph.yield %v : f32
  }
  graph.return %a : !graph.tensor<["s0", "s1 + 10"], f32>
}
