// Functions behind the first one are bodies, each with steps and sizes of its own; calls of them are steps, and share
// the kernels of the whole.
// RUN: tile-compile %s --emit=55-program.txt | FileCheck %s

// CHECK:      kernel 0:
// CHECK:      %{{[0-9]+}} [s0], %{{[0-9]+}} [s0] = while @0 @1 carries 2(%{{[0-9]+}}, %{{[0-9]+}}, s0)
// CHECK:      = call @1(
// CHECK:      body @0
// CHECK:      extern aten::lt
// CHECK:      body @1
// CHECK:      launch
graph.func @graph(%0: !graph.tensor<["s0"], f32>, %1: !graph.tensor<["s0"], f32>, %2: !graph.size<"s0">)
    -> (!graph.tensor<["s0"], f32>, !graph.tensor<["s0"], f32>)
    attributes {symbols = [#graph.symbol<"s0", min = 2, max = 9223372036854775807, hint = 8>]} {
  %3:2 = graph.extern(%0, %1) {op = "torch_tile::control", overload = "while", args = [["body0", "body1"], 2, 0, [#graph.operand<0>, #graph.operand<1>, #graph.expr<"s0">]], aliases = array<i64: -2, -2>} : (!graph.tensor<["s0"], f32>, !graph.tensor<["s0"], f32>) -> (!graph.tensor<["s0"], f32>, !graph.tensor<["s0"], f32>)
  %4:2 = graph.extern(%3#0, %3#1) {op = "torch_tile::control", overload = "call", args = [["body1"], 0, 0, [#graph.operand<0>, #graph.operand<1>, #graph.expr<"s0">]], aliases = array<i64: -2, -2>} : (!graph.tensor<["s0"], f32>, !graph.tensor<["s0"], f32>) -> (!graph.tensor<["s0"], f32>, !graph.tensor<["s0"], f32>)
  graph.return %4#0, %4#1 : !graph.tensor<["s0"], f32>, !graph.tensor<["s0"], f32>
}
graph.func @body0(%0: !graph.tensor<["s0"], f32>, %1: !graph.tensor<["s0"], f32>, %2: !graph.size<"s0">) -> (!graph.tensor<[], i1>)
    attributes {symbols = [#graph.symbol<"s0", min = 2, max = 9223372036854775807, hint = 8>]} {
  %3 = graph.sum %0 {dims = array<i64: 0>} : (!graph.tensor<["s0"], f32>) -> !graph.tensor<[], f32>
  %4 = graph.extern(%3) {op = "aten::lt", overload = "Scalar", args = [#graph.operand<0>, 9.0 : f64]} : (!graph.tensor<[], f32>) -> !graph.tensor<[], i1>
  graph.return %4 : !graph.tensor<[], i1>
}
graph.func @body1(%0: !graph.tensor<["s0"], f32>, %1: !graph.tensor<["s0"], f32>, %2: !graph.size<"s0">)
    -> (!graph.tensor<["s0"], f32>, !graph.tensor<["s0"], f32>)
    attributes {symbols = [#graph.symbol<"s0", min = 2, max = 9223372036854775807, hint = 8>]} {
  %3 = graph.add %0, %1 : (!graph.tensor<["s0"], f32>, !graph.tensor<["s0"], f32>) -> !graph.tensor<["s0"], f32>
  graph.return %3, %1 : !graph.tensor<["s0"], f32>, !graph.tensor<["s0"], f32>
}
