// The program says which slots may share memory: a view by a call, what an unknown call may give back, nothing else.
// RUN: tile-compile %s --emit=55-program.txt | FileCheck %s

// CHECK:      memory of %[[X:[0-9]+]]: [[A:[0-9]+]]{{$}}
// CHECK-NEXT: memory of %[[W:[0-9]+]]: [[B:[0-9]+]]{{$}}
// CHECK-NEXT: memory of %[[V:[0-9]+]]: [[A]]{{$}}
// CHECK-NEXT: memory of %[[Y:[0-9]+]]: [[C:[0-9]+]]{{$}}
// CHECK-NEXT: memory of %[[U:[0-9]+]]: {{[0-9]+}} [[B]] [[C]]{{$}}
// CHECK-NOT:  memory
// CHECK:      %[[V]] [8] = extern aten::view.dtype(%[[X]], int32)
// CHECK:      %[[U]] [8] = extern user::pick(%[[Y]], %[[W]])
graph.func @g(%x: !graph.tensor<[8], f32>, %w: !graph.tensor<[8], f32>) -> (!graph.tensor<[8], f32>, !graph.tensor<[8], i32>) attributes {symbols = []} {
  %v = graph.extern(%x) {op = "aten::view", overload = "dtype", args = [#graph.operand<0>, #graph.torch<"dtype", "int32">], aliases = array<i64: 0>} : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], i32>
  %y = graph.neg %w : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  %u = graph.extern(%y, %w) {op = "user::pick", overload = "", args = [#graph.operand<0>, #graph.operand<1>], aliases = array<i64: -2>} : (!graph.tensor<[8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  %z = graph.exp %u : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  %c = graph.copy_ %x, %w : (!graph.tensor<[8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  graph.return %z, %v : !graph.tensor<[8], f32>, !graph.tensor<[8], i32>
}
