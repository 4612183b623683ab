// graph-reuse-buffers: which scatters write into their operand.
// RUN: tile-opt %s --graph-lower-to-loops --graph-reuse-buffers --split-input-file | FileCheck %s

// A cache that receives the result: two writes in place, and nothing is copied. What reads the result reads the cache.
// CHECK-LABEL: @cache(
// CHECK-SAME:    %[[CACHE:[a-z0-9]+]]: !graph.tensor<[16, 8], f32>
// CHECK-NEXT:    %[[A:.*]] = graph.loops [i0 = 8, reduce r0 = 2] into(%[[CACHE]]
// CHECK:         %[[B:.*]] = graph.loops [i0 = 8, reduce r0 = 2] into(%[[A]]
// CHECK:         graph.loops [i0 = 16, i1 = 8] ->
// CHECK:         graph.load %[[B]]
// CHECK-NOT:     graph.loops
graph.func @cache(%cache: !graph.tensor<[16, 8], f32>, %i: !graph.tensor<[2], i64>, %v: !graph.tensor<[2, 8], f32>) -> !graph.tensor<[16, 8], f32> attributes {symbols = []} {
  %0 = graph.index_put %cache, %v, %i {wrap} : (!graph.tensor<[16, 8], f32>, !graph.tensor<[2, 8], f32>, !graph.tensor<[2], i64>) -> !graph.tensor<[16, 8], f32>
  %1 = graph.index_put %0, %v, %i {wrap, combine = "add"} : (!graph.tensor<[16, 8], f32>, !graph.tensor<[2, 8], f32>, !graph.tensor<[2], i64>) -> !graph.tensor<[16, 8], f32>
  %2 = graph.exp %1 : (!graph.tensor<[16, 8], f32>) -> !graph.tensor<[16, 8], f32>
  %3 = graph.copy_ %cache, %1 : (!graph.tensor<[16, 8], f32>, !graph.tensor<[16, 8], f32>) -> !graph.tensor<[16, 8], f32>
  graph.return %2 : !graph.tensor<[16, 8], f32>
}

// -----

// What the input held is needed once more.
// CHECK-LABEL: @read_later(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: !graph.tensor<[16, 8], f32>
// CHECK-NEXT:    %[[COPY:.*]] = graph.loops [i0 = 16, i1 = 8] ->
// CHECK:         into(%[[COPY]]
// CHECK:         into(%[[X]]
graph.func @read_later(%x: !graph.tensor<[16, 8], f32>, %i: !graph.tensor<[2], i64>, %v: !graph.tensor<[2, 8], f32>) -> !graph.tensor<[16, 8], f32> attributes {symbols = []} {
  %0 = graph.index_put %x, %v, %i {wrap} : (!graph.tensor<[16, 8], f32>, !graph.tensor<[2, 8], f32>, !graph.tensor<[2], i64>) -> !graph.tensor<[16, 8], f32>
  %1 = graph.sub %0, %x : (!graph.tensor<[16, 8], f32>, !graph.tensor<[16, 8], f32>) -> !graph.tensor<[16, 8], f32>
  %2 = graph.copy_ %x, %0 : (!graph.tensor<[16, 8], f32>, !graph.tensor<[16, 8], f32>) -> !graph.tensor<[16, 8], f32>
  graph.return %1 : !graph.tensor<[16, 8], f32>
}

// -----

// The scatter itself reads the input: values written may not be read again.
// CHECK-LABEL: @reads_itself(
// CHECK:         %[[COPY:.*]] = graph.loops [i0 = 16, i1 = 8] ->
// CHECK:         into(%[[COPY]]
graph.func @reads_itself(%x: !graph.tensor<[16, 8], f32>, %i: !graph.tensor<[2], i64>) -> () attributes {symbols = []} {
  %v = graph.slice %x {dim = 0 : i64, start = 0 : i64, end = 2 : i64, step = 1 : i64} : (!graph.tensor<[16, 8], f32>) -> !graph.tensor<[2, 8], f32>
  %0 = graph.index_put %x, %v, %i {wrap} : (!graph.tensor<[16, 8], f32>, !graph.tensor<[2, 8], f32>, !graph.tensor<[2], i64>) -> !graph.tensor<[16, 8], f32>
  %2 = graph.copy_ %x, %0 : (!graph.tensor<[16, 8], f32>, !graph.tensor<[16, 8], f32>) -> !graph.tensor<[16, 8], f32>
  graph.return
}

// -----

// The result is an output as well: a tensor of its own.
// CHECK-LABEL: @returned(
// CHECK:         %[[COPY:.*]] = graph.loops [i0 = 16, i1 = 8] ->
// CHECK:         %[[WRITTEN:.*]] = graph.loops {{.*}} into(%[[COPY]]
// CHECK:         graph.return %[[WRITTEN]]
graph.func @returned(%x: !graph.tensor<[16, 8], f32>, %i: !graph.tensor<[2], i64>, %v: !graph.tensor<[2, 8], f32>) -> !graph.tensor<[16, 8], f32> attributes {symbols = []} {
  %0 = graph.index_put %x, %v, %i {wrap} : (!graph.tensor<[16, 8], f32>, !graph.tensor<[2, 8], f32>, !graph.tensor<[2], i64>) -> !graph.tensor<[16, 8], f32>
  %2 = graph.copy_ %x, %0 : (!graph.tensor<[16, 8], f32>, !graph.tensor<[16, 8], f32>) -> !graph.tensor<[16, 8], f32>
  graph.return %0 : !graph.tensor<[16, 8], f32>
}

// -----

// A value that loops made and that is read before only becomes the destination; one that is read after keeps its elements.
// CHECK-LABEL: @made(
// CHECK:         %[[E:.*]] = graph.loops [i0 = 16, i1 = 8] ->
// CHECK:         math.exp
// CHECK:         graph.loops {{.*}} into(%[[E]]
// CHECK:         %[[N:.*]] = graph.loops [i0 = 16, i1 = 8] ->
// CHECK:         arith.negf
// CHECK:         %[[COPY:.*]] = graph.loops
// CHECK:         graph.load %[[N]]
// CHECK:         into(%[[COPY]]
graph.func @made(%x: !graph.tensor<[16, 8], f32>, %i: !graph.tensor<[2], i64>, %v: !graph.tensor<[2, 8], f32>)
    -> (!graph.tensor<[16, 8], f32>, !graph.tensor<[16, 8], f32>, !graph.tensor<[16, 8], f32>) attributes {symbols = []} {
  %e = graph.exp %x : (!graph.tensor<[16, 8], f32>) -> !graph.tensor<[16, 8], f32>
  %0 = graph.index_put %e, %v, %i {wrap} : (!graph.tensor<[16, 8], f32>, !graph.tensor<[2, 8], f32>, !graph.tensor<[2], i64>) -> !graph.tensor<[16, 8], f32>
  %n = graph.neg %x : (!graph.tensor<[16, 8], f32>) -> !graph.tensor<[16, 8], f32>
  %1 = graph.index_put %n, %v, %i {wrap} : (!graph.tensor<[16, 8], f32>, !graph.tensor<[2, 8], f32>, !graph.tensor<[2], i64>) -> !graph.tensor<[16, 8], f32>
  graph.return %0, %1, %n : !graph.tensor<[16, 8], f32>, !graph.tensor<[16, 8], f32>, !graph.tensor<[16, 8], f32>
}

// -----

// A call that reads the value before the write keeps nothing of it; one that reads it later does.
// CHECK-LABEL: @read_by_calls(
// CHECK:         %[[E:.*]] = graph.loops [i0 = 16, i1 = 8] ->
// CHECK:         math.exp
// CHECK:         graph.extern(%[[E]])
// CHECK:         %[[FIRST:.*]] = graph.loops {{.*}} into(%[[E]]
// CHECK:         %[[COPY:.*]] = graph.loops
// CHECK:         graph.load %[[FIRST]]
// CHECK:         into(%[[COPY]]
// CHECK:         graph.extern(%[[FIRST]])
graph.func @read_by_calls(%x: !graph.tensor<[16, 8], f32>, %i: !graph.tensor<[2], i64>, %v: !graph.tensor<[2, 8], f32>)
    -> (!graph.tensor<[16, 8], f32>, !graph.tensor<[16, 8], f32>, !graph.tensor<[16, 8], f32>) attributes {symbols = []} {
  %e = graph.exp %x : (!graph.tensor<[16, 8], f32>) -> !graph.tensor<[16, 8], f32>
  %s = graph.extern(%e) {op = "aten::sort", overload = "", args = [#graph.operand<0>]} : (!graph.tensor<[16, 8], f32>) -> !graph.tensor<[16, 8], f32>
  %0 = graph.index_put %e, %v, %i {wrap} : (!graph.tensor<[16, 8], f32>, !graph.tensor<[2, 8], f32>, !graph.tensor<[2], i64>) -> !graph.tensor<[16, 8], f32>
  %1 = graph.index_put %0, %v, %i {wrap} : (!graph.tensor<[16, 8], f32>, !graph.tensor<[2, 8], f32>, !graph.tensor<[2], i64>) -> !graph.tensor<[16, 8], f32>
  %t = graph.extern(%0) {op = "aten::sort", overload = "", args = [#graph.operand<0>]} : (!graph.tensor<[16, 8], f32>) -> !graph.tensor<[16, 8], f32>
  graph.return %s, %1, %t : !graph.tensor<[16, 8], f32>, !graph.tensor<[16, 8], f32>, !graph.tensor<[16, 8], f32>
}
