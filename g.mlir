graph.func @graph(%0: !graph.tensor<["s0", 3, 16, 16], f32>, %1: !graph.tensor<[8, 3, 3, 3], f32>, %2: !graph.tensor<[8], f32>) -> (!graph.tensor<["s0", 8, 2, 2], f32>)
    attributes {symbols = [#graph.symbol<"s0", min = 0, max = 9223372036854775807, hint = 2>]} {
  %3 = graph.extern(%0, %1, %2) {op = "aten::convolution", overload = "", args = [#graph.operand<0>, #graph.operand<1>, #graph.operand<2>, [#graph.expr<"2">, #graph.expr<"2">], [#graph.expr<"1">, #graph.expr<"1">], [#graph.expr<"1">, #graph.expr<"1">], false, [#graph.expr<"0">, #graph.expr<"0">], #graph.expr<"1">], reason = "there is no rule for this operator"} : (!graph.tensor<["s0", 3, 16, 16], f32>, !graph.tensor<[8, 3, 3, 3], f32>, !graph.tensor<[8], f32>) -> (!graph.tensor<["s0", 8, 8, 8], f32>)
  %4 = graph.slice %3 {dim = 2 : i64, start = 0 : i64, step = 4 : i64} : (!graph.tensor<["s0", 8, 8, 8], f32>) -> !graph.tensor<["s0", 8, 2, 8], f32, [512, 64, 32, 1]>
  %5 = graph.slice %3 {dim = 2 : i64, start = 1 : i64, step = 4 : i64} : (!graph.tensor<["s0", 8, 8, 8], f32>) -> !graph.tensor<["s0", 8, 2, 8], f32, [512, 64, 32, 1]>
  %6 = graph.slice %3 {dim = 2 : i64, start = 2 : i64, step = 4 : i64} : (!graph.tensor<["s0", 8, 8, 8], f32>) -> !graph.tensor<["s0", 8, 2, 8], f32, [512, 64, 32, 1]>
  %7 = graph.slice %3 {dim = 2 : i64, start = 3 : i64, step = 4 : i64} : (!graph.tensor<["s0", 8, 8, 8], f32>) -> !graph.tensor<["s0", 8, 2, 8], f32, [512, 64, 32, 1]>
  %8 = graph.add %4, %5 : (!graph.tensor<["s0", 8, 2, 8], f32, [512, 64, 32, 1]>, !graph.tensor<["s0", 8, 2, 8], f32, [512, 64, 32, 1]>) -> !graph.tensor<["s0", 8, 2, 8], f32>
  %9 = graph.add %8, %6 : (!graph.tensor<["s0", 8, 2, 8], f32>, !graph.tensor<["s0", 8, 2, 8], f32, [512, 64, 32, 1]>) -> !graph.tensor<["s0", 8, 2, 8], f32>
  %10 = graph.add %9, %7 : (!graph.tensor<["s0", 8, 2, 8], f32>, !graph.tensor<["s0", 8, 2, 8], f32, [512, 64, 32, 1]>) -> !graph.tensor<["s0", 8, 2, 8], f32>
  %11 = graph.slice %10 {dim = 3 : i64, start = 0 : i64, step = 4 : i64} : (!graph.tensor<["s0", 8, 2, 8], f32>) -> !graph.tensor<["s0", 8, 2, 2], f32, [128, 16, 8, 4]>
  %12 = graph.slice %10 {dim = 3 : i64, start = 1 : i64, step = 4 : i64} : (!graph.tensor<["s0", 8, 2, 8], f32>) -> !graph.tensor<["s0", 8, 2, 2], f32, [128, 16, 8, 4]>
  %13 = graph.slice %10 {dim = 3 : i64, start = 2 : i64, step = 4 : i64} : (!graph.tensor<["s0", 8, 2, 8], f32>) -> !graph.tensor<["s0", 8, 2, 2], f32, [128, 16, 8, 4]>
  %14 = graph.slice %10 {dim = 3 : i64, start = 3 : i64, step = 4 : i64} : (!graph.tensor<["s0", 8, 2, 8], f32>) -> !graph.tensor<["s0", 8, 2, 2], f32, [128, 16, 8, 4]>
  %15 = graph.add %11, %12 : (!graph.tensor<["s0", 8, 2, 2], f32, [128, 16, 8, 4]>, !graph.tensor<["s0", 8, 2, 2], f32, [128, 16, 8, 4]>) -> !graph.tensor<["s0", 8, 2, 2], f32>
  %16 = graph.add %15, %13 : (!graph.tensor<["s0", 8, 2, 2], f32>, !graph.tensor<["s0", 8, 2, 2], f32, [128, 16, 8, 4]>) -> !graph.tensor<["s0", 8, 2, 2], f32>
  %17 = graph.add %16, %14 : (!graph.tensor<["s0", 8, 2, 2], f32>, !graph.tensor<["s0", 8, 2, 2], f32, [128, 16, 8, 4]>) -> !graph.tensor<["s0", 8, 2, 2], f32>
  %18 = graph.full {value = 16.0 : f64} : () -> !graph.tensor<[], f32>
  %19 = graph.div %17, %18 : (!graph.tensor<["s0", 8, 2, 2], f32>, !graph.tensor<[], f32>) -> !graph.tensor<["s0", 8, 2, 2], f32>
  graph.return %19 : !graph.tensor<["s0", 8, 2, 2], f32>
}
