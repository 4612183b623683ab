// Errors name the stage and the line of the graph text.
// RUN: not tile-compile %s 2>&1 | FileCheck %s

// CHECK: error: {{.*}}errors.mlir:[[# @LINE + 2]]: parse: {{.*}}custom op 'graph.no_such_op' is unknown
graph.func @graph(%0: !graph.tensor<[4], f32>) -> !graph.tensor<[4], f32> {
  %1 = graph.no_such_op %0 : (!graph.tensor<[4], f32>) -> !graph.tensor<[4], f32>
  graph.return %1 : !graph.tensor<[4], f32>
}
