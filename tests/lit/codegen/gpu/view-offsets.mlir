// A view that is written in place begins where its offset says. Between multiples of 16 bytes the kernel asks for each
// access; the launch would copy the whole of such a tensor twice.
// RUN: split-file %s %t
// RUN: tile-compile %t/odd.mlir --target=sm_90 --emit=30-tile.mlir -o - | FileCheck %s --check-prefix=ODD
// RUN: tile-compile %t/odd.mlir --target=sm_90 --emit=60-kernel.ptx -o - | FileCheck %s --check-prefix=ODD-PTX
// RUN: tile-compile %t/even.mlir --target=sm_90 --emit=30-tile.mlir -o - | FileCheck %s --check-prefix=EVEN
// RUN: tile-compile %t/symbol.mlir --target=sm_90 --emit=30-tile.mlir -o - | FileCheck %s --check-prefix=SYMBOL

// ODD: graph.alias %{{.*}} {offset = #graph.expr<5>}
// ODD: tile.kernel {{.*}}tile.unaligned_args = array<i64: 1>
// ODD-PTX: st.global.b32
// ODD-PTX: st.global.v{{[24]}}.b32

// EVEN: graph.alias %{{.*}} {offset = #graph.expr<8>}
// EVEN-NOT: tile.unaligned_args

// A row of 1024 elements begins at a multiple of 16 bytes, whichever it is.
// SYMBOL: graph.alias
// SYMBOL-NOT: tile.unaligned_args

//--- odd.mlir
graph.func @graph(%0: !graph.tensor<[64000, 8], f32>, %1: !graph.tensor<[64000, 1024], f32>) attributes {symbols = []} {
  %2 = graph.slice %1 {dim = 1 : i64, start = 5 : i64} : (!graph.tensor<[64000, 1024], f32>) -> !graph.tensor<[64000, 8], f32, [1024, 1]>
  %3 = graph.clone %0 : (!graph.tensor<[64000, 8], f32>) -> !graph.tensor<[64000, 8], f32, [1024, 1]>
  %4 = graph.copy_ %2, %3 : (!graph.tensor<[64000, 8], f32, [1024, 1]>, !graph.tensor<[64000, 8], f32, [1024, 1]>) -> !graph.tensor<[64000, 8], f32, [1024, 1]>
  graph.return
}

//--- even.mlir
graph.func @graph(%0: !graph.tensor<[64000, 8], f32>, %1: !graph.tensor<[64000, 1024], f32>) attributes {symbols = []} {
  %2 = graph.slice %1 {dim = 1 : i64, start = 8 : i64} : (!graph.tensor<[64000, 1024], f32>) -> !graph.tensor<[64000, 8], f32, [1024, 1]>
  %3 = graph.clone %0 : (!graph.tensor<[64000, 8], f32>) -> !graph.tensor<[64000, 8], f32, [1024, 1]>
  %4 = graph.copy_ %2, %3 : (!graph.tensor<[64000, 8], f32, [1024, 1]>, !graph.tensor<[64000, 8], f32, [1024, 1]>) -> !graph.tensor<[64000, 8], f32, [1024, 1]>
  graph.return
}

//--- symbol.mlir
graph.func @graph(%0: !graph.tensor<[64, 1024], f32>, %1: !graph.tensor<["s0", 1024], f32>)
    attributes {symbols = [#graph.symbol<"s0", min = 64, max = 9000, hint = 640>]} {
  %2 = graph.slice %1 {dim = 0, start = #graph.expr<"s0 - 64">} : (!graph.tensor<["s0", 1024], f32>) -> !graph.tensor<[64, 1024], f32>
  %3 = graph.copy_ %2, %0 : (!graph.tensor<[64, 1024], f32>, !graph.tensor<[64, 1024], f32>) -> !graph.tensor<[64, 1024], f32>
  graph.return
}
