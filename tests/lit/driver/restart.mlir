// A compile restarts from any stage it dumped and gives the same program; only kernels' names, which come from the graph text, are plainer.
// RUN: rm -rf %t && tile-compile %s --dump-dir=%t --emit=55-program.txt | sed 's| *// line.*||; s|fused_[a-z_]*|fused|' > %t.whole
// RUN: FileCheck %s < %t.whole
// RUN: tile-compile %t/15-loops.mlir --emit=55-program.txt | sed 's| *// line.*||; s|fused_[a-z_]*|fused|' | diff - %t.whole
// RUN: tile-compile %t/20-fusion.mlir --emit=55-program.txt | sed 's| *// line.*||; s|fused_[a-z_]*|fused|' | diff - %t.whole
// RUN: tile-compile %t/30-tile.mlir --emit=55-program.txt | sed 's| *// line.*||; s|fused_[a-z_]*|fused|' | diff - %t.whole

// CHECK: alloc f32 [s0, 256]
// CHECK: launch
graph.func @graph(%0: !graph.tensor<["s0", 256], f32>, %1: !graph.tensor<[256], f32>, %2: !graph.size<"s0">) -> !graph.tensor<["s0", 256], f32>
    attributes {symbols = [#graph.symbol<"s0", min = 2, max = 9223372036854775807, hint = 8>]} {
  %3 = graph.add %0, %1 : (!graph.tensor<["s0", 256], f32>, !graph.tensor<[256], f32>) -> !graph.tensor<["s0", 256], f32>
  %4 = graph.exp %3 : (!graph.tensor<["s0", 256], f32>) -> !graph.tensor<["s0", 256], f32>
  graph.return %4 : !graph.tensor<["s0", 256], f32>
}
