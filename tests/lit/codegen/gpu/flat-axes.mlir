// Where no axis suits all accesses, the axes along which the result has no gaps become one: neighbouring threads write
// neighbours, and each element that is read has an address of its own.
// RUN: split-file %s %t
// RUN: tile-compile %t/flip.mlir --target=sm_90 --emit=30-tile.mlir -o - | FileCheck %s --check-prefix=FLIP
// RUN: tile-compile %t/flip.mlir --target=sm_90 --emit=60-kernel.ptx -o - | FileCheck %s --check-prefix=FLIP-PTX
// RUN: tile-compile %t/compare.mlir --target=sm_90 --emit=30-tile.mlir -o - | FileCheck %s --check-prefix=COMPARE
// RUN: tile-compile %t/symbols.mlir --target=sm_90 --emit=30-tile.mlir -o - | FileCheck %s --check-prefix=SYMBOLS

// FLIP: axes [flat = 67108864] grid axes 1 vector axis flat
// FLIP: tile.gather
// FLIP: tile.store {{.*}} strides [1]

// Of constant extents nothing is left of the divisions.
// FLIP-PTX-NOT: div
// FLIP-PTX-NOT: rem
// FLIP-PTX: st.global

// Results of one byte lie side by side, and so do the elements that most threads read.
// COMPARE: axes [flat = 67108864]

// Nothing is divided by a size that is not known.
// SYMBOLS-NOT: flat

//--- flip.mlir
graph.func @graph(%0: !graph.tensor<[16777216, 2, 2], f32>) -> (!graph.tensor<[16777216, 2, 2], f32>) attributes {symbols = []} {
  %1 = graph.flip %0 {dims = array<i64: 1>} : (!graph.tensor<[16777216, 2, 2], f32>) -> !graph.tensor<[16777216, 2, 2], f32>
  %2 = graph.neg %1 : (!graph.tensor<[16777216, 2, 2], f32>) -> !graph.tensor<[16777216, 2, 2], f32>
  graph.return %2 : !graph.tensor<[16777216, 2, 2], f32>
}

//--- compare.mlir
graph.func @graph(%0: !graph.tensor<[524288, 8, 16], bf16>, %1: !graph.tensor<[1, 8, 1], bf16>) -> (!graph.tensor<[524288, 8, 16], i1>) attributes {symbols = []} {
  %2 = graph.eq %0, %1 : (!graph.tensor<[524288, 8, 16], bf16>, !graph.tensor<[1, 8, 1], bf16>) -> !graph.tensor<[524288, 8, 16], i1>
  graph.return %2 : !graph.tensor<[524288, 8, 16], i1>
}

//--- symbols.mlir
graph.func @graph(%0: !graph.tensor<[16777216, "s0", "s1"], f32>) -> (!graph.tensor<[16777216, "s0", "s1"], f32>)
    attributes {symbols = [#graph.symbol<"s0", min = 2, max = 8, hint = 2>, #graph.symbol<"s1", min = 2, max = 8, hint = 2>]} {
  %1 = graph.flip %0 {dims = array<i64: 1>} : (!graph.tensor<[16777216, "s0", "s1"], f32>) -> !graph.tensor<[16777216, "s0", "s1"], f32>
  graph.return %1 : !graph.tensor<[16777216, "s0", "s1"], f32>
}
