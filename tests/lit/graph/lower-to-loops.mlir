// graph-lower-to-loops: pointwise ops, casts, views, copies and buffers.
// RUN: tile-opt %s --graph-lower-to-loops --split-input-file | FileCheck %s

// A size-1 dimension reads index 0; a scalar constant is no load.
// CHECK-LABEL: @broadcast
graph.func @broadcast(%x: !graph.tensor<["s0", 8], f32>, %y: !graph.tensor<["s0", 1], f32>) -> !graph.tensor<["s0", 8], f32> {
  %two = graph.full {value = 2.0 : f64} : () -> !graph.tensor<[], f32>
  // CHECK: graph.loops [i0 = "s0", i1 = 8]
  // CHECK: graph.load %{{.*}} ["i0", "i1"]
  // CHECK: graph.load %{{.*}} ["i0", 0]
  %0 = graph.mul %x, %y : (!graph.tensor<["s0", 8], f32>, !graph.tensor<["s0", 1], f32>) -> !graph.tensor<["s0", 8], f32>
  // CHECK: graph.loops
  // CHECK: %[[TWO:.*]] = arith.constant 2.000000e+00 : f32
  // CHECK: arith.addf %{{.*}}, %[[TWO]]
  %1 = graph.add %0, %two : (!graph.tensor<["s0", 8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<["s0", 8], f32>
  graph.return %1 : !graph.tensor<["s0", 8], f32>
}

// -----

// Low precision computes in f32 and rounds once.
// CHECK-LABEL: @rounding
graph.func @rounding(%x: !graph.tensor<[8], bf16>) -> !graph.tensor<[8], bf16> {
  // CHECK: %[[V:.*]] = graph.load
  // CHECK-NEXT: %[[W:.*]] = arith.extf %[[V]] : bf16 to f32
  // CHECK-NEXT: %[[E:.*]] = math.exp %[[W]] : f32
  // CHECK-NEXT: %[[R:.*]] = arith.truncf %[[E]] {graph.elidable_rounding} : f32 to bf16
  // CHECK-NEXT: graph.yield %[[R]]
  %0 = graph.exp %x : (!graph.tensor<[8], bf16>) -> !graph.tensor<[8], bf16>
  graph.return %0 : !graph.tensor<[8], bf16>
}

// -----

// A float that does not fit is the smallest integer, as on x86; f64 reaches bf16 through f32.
// CHECK-LABEL: @casts
graph.func @casts(%x: !graph.tensor<[8], f32>, %d: !graph.tensor<[8], f64>, %u: !graph.tensor<[8], ui8>)
    -> (!graph.tensor<[8], i32>, !graph.tensor<[8], bf16>, !graph.tensor<[8], i64>, !graph.tensor<[8], i1>) {
  // CHECK: %[[IN:.*]] = arith.andi
  // CHECK: %[[SAFE:.*]] = arith.select %[[IN]]
  // CHECK: %[[MIN:.*]] = arith.constant -2147483648 : i32
  // CHECK: %[[INT:.*]] = arith.fptosi %[[SAFE]] : f32 to i32
  // CHECK: arith.select %[[IN]], %[[INT]], %[[MIN]]
  %0 = graph.cast %x : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], i32>
  // CHECK: arith.truncf %{{.*}} : f64 to f32
  // CHECK: arith.truncf %{{.*}} : f32 to bf16
  %1 = graph.cast %d : (!graph.tensor<[8], f64>) -> !graph.tensor<[8], bf16>
  // CHECK: graph.load %{{.*}} : !graph.tensor<[8], ui8> -> i8
  // CHECK: arith.extui %{{.*}} : i8 to i64
  %2 = graph.cast %u : (!graph.tensor<[8], ui8>) -> !graph.tensor<[8], i64>
  // CHECK: arith.cmpf une
  %3 = graph.cast %x : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], i1>
  graph.return %0, %1, %2, %3 : !graph.tensor<[8], i32>, !graph.tensor<[8], bf16>, !graph.tensor<[8], i64>, !graph.tensor<[8], i1>
}

// -----

// No divisor of 0 or -1 reaches the hardware.
// CHECK-LABEL: @int_division
graph.func @int_division(%x: !graph.tensor<[8], i64>, %y: !graph.tensor<[8], i64>) -> !graph.tensor<[8], i64> {
  // CHECK: %[[ZERO:.*]] = arith.cmpi eq, %[[B:.*]], %c0_i64
  // CHECK: %[[MINUS:.*]] = arith.cmpi eq, %[[B]], %c-1_i64
  // CHECK: %[[BAD:.*]] = arith.ori %[[ZERO]], %[[MINUS]]
  // CHECK: %[[SAFE:.*]] = arith.select %[[BAD]], %c1_i64, %[[B]]
  // CHECK: arith.divsi %{{.*}}, %[[SAFE]]
  %0 = graph.div_floor %x, %y : (!graph.tensor<[8], i64>, !graph.tensor<[8], i64>) -> !graph.tensor<[8], i64>
  graph.return %0 : !graph.tensor<[8], i64>
}

// -----

// A chain of views is one index expression; what a caller sees is an alias of the base.
// CHECK-LABEL: @views
graph.func @views(%x: !graph.tensor<["s0", 256], f32>) -> (!graph.tensor<["s0", 64, 4], f32, [256, 1, 64]>, !graph.tensor<["s0", 64, 4], f32>, !graph.tensor<["s0", 63], f32, [256, 1]>) {
  %0 = graph.view %x : (!graph.tensor<["s0", 256], f32>) -> !graph.tensor<["s0", 4, 64], f32>
  %1 = graph.permute %0 {dims = array<i64: 0, 2, 1>} : (!graph.tensor<["s0", 4, 64], f32>) -> !graph.tensor<["s0", 64, 4], f32, [256, 1, 64]>
  // CHECK: %[[NEG:.*]] = graph.loops [i0 = "s0", i1 = 64, i2 = 4]
  // CHECK-NEXT: graph.load %{{.*}} ["i0", "i1 + i2*64"]
  %2 = graph.neg %1 : (!graph.tensor<["s0", 64, 4], f32, [256, 1, 64]>) -> !graph.tensor<["s0", 64, 4], f32>
  %3 = graph.select %0 {dim = 1, index = 3} : (!graph.tensor<["s0", 4, 64], f32>) -> !graph.tensor<["s0", 64], f32, [256, 1]>
  %4 = graph.slice %3 {dim = 1, start = 1, end = 64} : (!graph.tensor<["s0", 64], f32, [256, 1]>) -> !graph.tensor<["s0", 63], f32, [256, 1]>
  // CHECK: %[[PERMUTED:.*]] = graph.alias %{{.*}} {offset = #graph.expr<0>} : <["s0", 256], f32> -> <["s0", 64, 4], f32, [256, 1, 64]>
  // CHECK: %[[SLICED:.*]] = graph.alias %{{.*}} {offset = #graph.expr<193>} : <["s0", 256], f32> -> <["s0", 63], f32, [256, 1]>
  // CHECK: graph.return %[[PERMUTED]], %[[NEG]], %[[SLICED]]
  graph.return %1, %2, %4 : !graph.tensor<["s0", 64, 4], f32, [256, 1, 64]>, !graph.tensor<["s0", 64, 4], f32>, !graph.tensor<["s0", 63], f32, [256, 1]>
}

// -----

// Merging a permuted dimension divides inside its group only.
// CHECK-LABEL: @reshape_of_permute
graph.func @reshape_of_permute(%x: !graph.tensor<["s0", 4, 6, 8], f32>) -> !graph.tensor<["s0", 24, 8], f32> {
  %0 = graph.permute %x {dims = array<i64: 0, 2, 1, 3>} : (!graph.tensor<["s0", 4, 6, 8], f32>) -> !graph.tensor<["s0", 6, 4, 8], f32, [192, 8, 48, 1]>
  %1 = graph.clone %0 : (!graph.tensor<["s0", 6, 4, 8], f32, [192, 8, 48, 1]>) -> !graph.tensor<["s0", 6, 4, 8], f32>
  %2 = graph.view %1 : (!graph.tensor<["s0", 6, 4, 8], f32>) -> !graph.tensor<["s0", 24, 8], f32>
  // CHECK: graph.loops [i0 = "s0", i1 = 6, i2 = 4, i3 = 8]
  // CHECK-NEXT: graph.load %{{.*}} ["i0", "i2", "i1", "i3"]
  // CHECK: graph.loops [i0 = "s0", i1 = 24, i2 = 8]
  // CHECK-NEXT: graph.load %{{.*}} ["i0", "i1//4", "Mod(i1, 4)", "i2"]
  %3 = graph.neg %2 : (!graph.tensor<["s0", 24, 8], f32>) -> !graph.tensor<["s0", 24, 8], f32>
  graph.return %3 : !graph.tensor<["s0", 24, 8], f32>
}

// -----

// copy_ writes into its destination; a value read through the same storage is copied first.
// CHECK-LABEL: @mutation
graph.func @mutation(%x: !graph.tensor<[4, 4], f32>, %y: !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32> {
  // CHECK: graph.loops [i0 = 4, i1 = 4] into(%{{.*}} : !graph.tensor<[4, 4], f32>) at [0]
  %0 = graph.copy_ %x, %y : (!graph.tensor<[4, 4], f32>, !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
  %1 = graph.permute %y {dims = array<i64: 1, 0>} : (!graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32, [1, 4]>
  // CHECK: %[[COPY:.*]] = graph.loops [i0 = 4, i1 = 4] ->
  // CHECK: graph.loops [i0 = 4, i1 = 4] into
  // CHECK: graph.load %[[COPY]]
  %2 = graph.copy_ %y, %1 : (!graph.tensor<[4, 4], f32>, !graph.tensor<[4, 4], f32, [1, 4]>) -> !graph.tensor<[4, 4], f32>
  graph.return %0 : !graph.tensor<[4, 4], f32>
}

// -----

// Operands of calls are in memory: an expanded constant becomes loops, a view an alias.
// CHECK-LABEL: @extern_operands
graph.func @extern_operands(%x: !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32> {
  %0 = graph.permute %x {dims = array<i64: 1, 0>} : (!graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32, [1, 4]>
  %1 = graph.full {value = 1 : i64} : () -> !graph.tensor<[4, 4], f32>
  // CHECK: %[[T:.*]] = graph.alias
  // CHECK: %[[ONES:.*]] = graph.loops
  // CHECK: graph.extern(%[[T]], %[[ONES]])
  %2 = graph.extern(%0, %1) {op = "aten::mm", overload = "", args = [#graph.operand<0>, #graph.operand<1>]}
      : (!graph.tensor<[4, 4], f32, [1, 4]>, !graph.tensor<[4, 4], f32>) -> !graph.tensor<[4, 4], f32>
  graph.return %2 : !graph.tensor<[4, 4], f32>
}

// -----

// CHECK-LABEL: @layout
graph.func @layout(%x: !graph.tensor<[2, 3], f32>, %y: !graph.tensor<[2, "s0"], f32>)
    -> (!graph.tensor<[2, "s0 + 3"], f32>, !graph.tensor<[4, 2], f32>, !graph.tensor<[2, 3], f32>) {
  // CHECK: %[[FIRST:.*]] = arith.cmpi slt
  // CHECK: graph.load %{{.*}} ["i0", "i1"] mask %[[FIRST]]
  // CHECK: %[[SECOND:.*]] = arith.xori %[[FIRST]]
  // CHECK: graph.load %{{.*}} ["i0", "i1 - 3"] mask %[[SECOND]]
  // CHECK: arith.select %[[SECOND]]
  %0 = graph.cat %x, %y {dim = 1} : (!graph.tensor<[2, 3], f32>, !graph.tensor<[2, "s0"], f32>) -> !graph.tensor<[2, "s0 + 3"], f32>
  // The cropped side has no test.
  // CHECK: graph.loops [i0 = 4, i1 = 2]
  // CHECK: graph.index_value "i0 - 1"
  // CHECK-NOT: graph.index_value "i1
  // CHECK: graph.load %{{.*}} ["i0 - 1", "i1 + 1"] mask
  %1 = graph.constant_pad %x {low = array<i64: 1, -1>, high = array<i64: 1, 0>, value = 1.5 : f64} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[4, 2], f32>
  // CHECK: graph.load %{{.*}} ["i0", "-i1 + 2"]
  %2 = graph.flip %x {dims = array<i64: 1>} : (!graph.tensor<[2, 3], f32>) -> !graph.tensor<[2, 3], f32>
  graph.return %0, %1, %2 : !graph.tensor<[2, "s0 + 3"], f32>, !graph.tensor<[4, 2], f32>, !graph.tensor<[2, 3], f32>
}

// -----

// CHECK-LABEL: @indexing
graph.func @indexing(%x: !graph.tensor<[5, 6, 7], f32>, %i: !graph.tensor<[4], i64>, %j: !graph.tensor<[3, 1], i32>, %g: !graph.tensor<[5, 2, 7], i64>)
    -> (!graph.tensor<[5, 3, 4], f32>, !graph.tensor<[3, 4, 6], f32>, !graph.tensor<[5, 2, 7], f32>) {
  // Adjacent dimensions: the indices' dimensions take their place.
  // CHECK: %[[A:.*]] = graph.check_index %{{.*}} in 6 wrap
  // CHECK: arith.extsi
  // CHECK: %[[B:.*]] = graph.check_index %{{.*}} in 7 wrap
  // CHECK: graph.load %{{.*}} ["i0", "x0", "x1"](%[[A]], %[[B]])
  %0 = graph.index %x, %i, %j {dims = array<i64: 1, 2>, wrap} : (!graph.tensor<[5, 6, 7], f32>, !graph.tensor<[4], i64>, !graph.tensor<[3, 1], i32>)
      -> !graph.tensor<[5, 3, 4], f32>
  // Else they come first.
  // CHECK: graph.load %{{.*}} ["x0", "i2", "x1"]
  %1 = graph.index %x, %i, %j {dims = array<i64: 0, 2>, wrap} : (!graph.tensor<[5, 6, 7], f32>, !graph.tensor<[4], i64>, !graph.tensor<[3, 1], i32>)
      -> !graph.tensor<[3, 4, 6], f32>
  // CHECK: graph.check_index %{{[0-9]+}} in 6{{$}}
  // CHECK: graph.load %{{.*}} ["i0", "x0", "i2"]
  %2 = graph.gather %x, %g {dim = 1} : (!graph.tensor<[5, 6, 7], f32>, !graph.tensor<[5, 2, 7], i64>) -> !graph.tensor<[5, 2, 7], f32>
  graph.return %0, %1, %2 : !graph.tensor<[5, 3, 4], f32>, !graph.tensor<[3, 4, 6], f32>, !graph.tensor<[5, 2, 7], f32>
}

// -----

// The counter is the logical element index, whatever the strides.
// CHECK-LABEL: @philox
graph.func @philox(%seed: !graph.tensor<[], i64>) -> !graph.tensor<[4, "s0"], f32, [1, 4]> {
  // CHECK: %[[N:.*]] = graph.index_value "i0*s0 + i1"
  // CHECK: graph.uniform %{{.*}}, %[[N]] {salt = 7 : i64}
  %0 = graph.philox %seed {salt = 7} : (!graph.tensor<[], i64>) -> !graph.tensor<[4, "s0"], f32, [1, 4]>
  graph.return %0 : !graph.tensor<[4, "s0"], f32, [1, 4]>
}

// -----

// Floats round once; integers have no such op.
// CHECK-LABEL: @fma
graph.func @fma(%x: !graph.tensor<[8], bf16>, %n: !graph.tensor<[8], i64>, %m: !graph.tensor<[], i64>) -> (!graph.tensor<[8], bf16>, !graph.tensor<[8], i64>) {
  // CHECK: %[[F:.*]] = math.fma %{{.*}} : f32
  // CHECK-NEXT: arith.truncf %[[F]] {graph.elidable_rounding} : f32 to bf16
  %0 = graph.fma %x, %x, %x : (!graph.tensor<[8], bf16>, !graph.tensor<[8], bf16>, !graph.tensor<[8], bf16>) -> !graph.tensor<[8], bf16>
  // CHECK: graph.load %{{.*}} []
  // CHECK: %[[P:.*]] = arith.muli
  // CHECK-NEXT: arith.addi %[[P]]
  %1 = graph.fma %n, %m, %n : (!graph.tensor<[8], i64>, !graph.tensor<[], i64>, !graph.tensor<[8], i64>) -> !graph.tensor<[8], i64>
  graph.return %0, %1 : !graph.tensor<[8], bf16>, !graph.tensor<[8], i64>
}

// -----

// On a GPU floats beyond an integer's range become the nearest one (of i16 for i8), NaN 0, but the smallest for i64.
// CHECK-LABEL: @saturating_casts
graph.func @saturating_casts(%x: !graph.tensor<[8], f32>) -> (!graph.tensor<[8], i32>, !graph.tensor<[8], i8>, !graph.tensor<[8], i64>) {
  // CHECK-DAG: %[[LOW:.*]] = arith.constant -2147483648 : i32
  // CHECK-DAG: %[[HIGH:.*]] = arith.constant 2147483647 : i32
  // CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : i32
  // CHECK: %[[FAR:.*]] = arith.select %{{.*}}, %[[LOW]], %[[HIGH]]
  // CHECK: arith.select %{{.*}}, %[[ZERO]], %[[FAR]]
  // CHECK: arith.fptosi %{{.*}} : f32 to i32
  %0 = graph.cast %x {saturate} : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], i32>
  // CHECK: %[[SHORT:.*]] = arith.fptosi %{{.*}} : f32 to i16
  // CHECK: arith.trunci %{{.*}} : i16 to i8
  %1 = graph.cast %x {saturate} : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], i8>
  // CHECK: %[[LOWEST:.*]] = arith.constant -9223372036854775808 : i64
  // CHECK: arith.select %{{.*}}, %[[LOWEST]], %{{.*}} : i64
  // CHECK: arith.fptosi %{{.*}} : f32 to i64
  %2 = graph.cast %x {saturate} : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], i64>
  graph.return %0, %1, %2 : !graph.tensor<[8], i32>, !graph.tensor<[8], i8>, !graph.tensor<[8], i64>
}

// -----

// x^0.5 is a square root but at -inf and -0.
// CHECK-LABEL: @root_power
graph.func @root_power(%x: !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32> {
  %half = graph.full {value = 5.000000e-01 : f64} : () -> !graph.tensor<[], f32>
  // CHECK: %[[IS:.*]] = arith.cmpf oeq
  // CHECK: %[[SUM:.*]] = arith.addf
  // CHECK: %[[ROOT:.*]] = math.sqrt %[[SUM]]
  // CHECK: arith.select %[[IS]], %{{.*}}, %[[ROOT]]
  %0 = graph.pow %x, %half : (!graph.tensor<[8], f32>, !graph.tensor<[], f32>) -> !graph.tensor<[8], f32>
  graph.return %0 : !graph.tensor<[8], f32>
}
