// Results of calls that are views: what reads them stays before what writes their memory.
// RUN: tile-opt %s --graph-inline-producers --split-input-file | FileCheck %s --check-prefix=INLINE
// RUN: tile-opt %s --graph-form-groups --split-input-file | FileCheck %s --check-prefix=GROUP
// RUN: tile-opt %s --graph-reuse-buffers --split-input-file | FileCheck %s --check-prefix=REUSE

// %y reads %x through the call's result, so it is neither moved behind the write nor made in its kernel.
// INLINE-LABEL: @overwritten(
// INLINE:         %[[V:.*]] = graph.extern
// INLINE:         %[[Y:.*]] = graph.loops [i0 = 8] ->
// INLINE:           graph.load %[[V]]
// INLINE:         into(
// INLINE:         graph.load %[[Y]]
// GROUP-LABEL:  @overwritten(
// GROUP:          %[[V:.*]] = graph.extern
// GROUP:          graph.fusion
// GROUP:            graph.load %[[V]]
// GROUP:          graph.fusion
// GROUP:            into(
graph.func @overwritten(%x: !graph.tensor<[8], f32>, %w: !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32> attributes {symbols = []} {
  %v = graph.extern(%x) {op = "aten::view", overload = "dtype", args = [#graph.operand<0>, #graph.torch<"dtype", "int32">], aliases = array<i64: 0>} : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], i32>
  %y = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %a = graph.load %v ["-i0 + 7"] : !graph.tensor<[8], i32> -> i32
    %f = arith.sitofp %a : i32 to f32
    graph.yield %f : f32
  }
  %z = graph.loops [i0 = 8] into(%x : !graph.tensor<[8], f32>) at [0] -> (!graph.tensor<[8], f32>) {
    %a = graph.load %w ["i0"] : !graph.tensor<[8], f32> -> f32
    graph.yield %a : f32
  }
  %r = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %a = graph.load %y ["i0"] : !graph.tensor<[8], f32> -> f32
    %b = graph.load %w ["i0"] : !graph.tensor<[8], f32> -> f32
    %s = arith.addf %a, %b : f32
    graph.yield %s : f32
  }
  graph.return %r : !graph.tensor<[8], f32>
}

// -----

// The same of a call that says nothing: it may be a view of any operand.
// INLINE-LABEL: @unknown(
// INLINE:         %[[V:.*]] = graph.extern
// INLINE:         %[[Y:.*]] = graph.loops [i0 = 8] ->
// INLINE:           graph.load %[[V]]
// INLINE:         graph.extern({{.*}}mutates
// INLINE:         graph.load %[[Y]]
// GROUP-LABEL:  @unknown(
graph.func @unknown(%x: !graph.tensor<[8], f32>, %w: !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32> attributes {symbols = []} {
  %v = graph.extern(%w, %x) {op = "user::pick", overload = "", args = [#graph.operand<0>, #graph.operand<1>], aliases = array<i64: -2>} : (!graph.tensor<[8], f32>, !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  %y = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %a = graph.load %v ["i0"] : !graph.tensor<[8], f32> -> f32
    %n = arith.negf %a : f32
    graph.yield %n : f32
  }
  graph.extern(%x) {op = "aten::zero_", overload = "", args = [#graph.operand<0>], mutates = array<i64: 0>} : (!graph.tensor<[8], f32>) -> ()
  %r = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %a = graph.load %y ["i0"] : !graph.tensor<[8], f32> -> f32
    %e = math.exp %a : f32
    graph.yield %e : f32
  }
  graph.return %r : !graph.tensor<[8], f32>
}

// -----

// A call whose result is new memory keeps nothing apart.
// INLINE-LABEL: @new_memory(
// INLINE:         graph.extern(%{{.*}}) {args
// INLINE:         graph.extern({{.*}}mutates
// INLINE:         graph.loops
// INLINE:           arith.negf
// INLINE:           math.exp
// INLINE-NOT:     graph.loops
// INLINE:         graph.return
graph.func @new_memory(%x: !graph.tensor<[8], f32>) -> !graph.tensor<[8], f32> attributes {symbols = []} {
  %v = graph.extern(%x) {op = "aten::sort", overload = "", args = [#graph.operand<0>]} : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], f32>
  %y = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %a = graph.load %v ["i0"] : !graph.tensor<[8], f32> -> f32
    %n = arith.negf %a : f32
    graph.yield %n : f32
  }
  graph.extern(%x) {op = "aten::zero_", overload = "", args = [#graph.operand<0>], mutates = array<i64: 0>} : (!graph.tensor<[8], f32>) -> ()
  %r = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %a = graph.load %y ["i0"] : !graph.tensor<[8], f32> -> f32
    %e = math.exp %a : f32
    graph.yield %e : f32
  }
  graph.return %r : !graph.tensor<[8], f32>
}

// -----

// A scatter does not write into a value that a call's result views.
// REUSE-LABEL: @viewed(
// REUSE:         %[[A:.*]] = graph.loops
// REUSE:         graph.extern(%[[A]])
// REUSE:         %[[COPY:.*]] = graph.loops
// REUSE:         into(%[[COPY]]
graph.func @viewed(%x: !graph.tensor<[8], f32>, %at: !graph.tensor<[2], i64>) -> (!graph.tensor<[8], f32>, !graph.tensor<[8], i32>) attributes {symbols = []} {
  %a = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %e = graph.load %x ["i0"] : !graph.tensor<[8], f32> -> f32
    %n = arith.negf %e : f32
    graph.yield %n : f32
  }
  %v = graph.extern(%a) {op = "aten::view", overload = "dtype", args = [#graph.operand<0>, #graph.torch<"dtype", "int32">], aliases = array<i64: 0>} : (!graph.tensor<[8], f32>) -> !graph.tensor<[8], i32>
  %copy = graph.loops [i0 = 8] -> (!graph.tensor<[8], f32>) {
    %e = graph.load %a ["i0"] : !graph.tensor<[8], f32> -> f32
    graph.yield %e : f32
  }
  %s = graph.loops [reduce r0 = 2] into(%copy : !graph.tensor<[8], f32>) at [0] -> (!graph.tensor<[8], f32>) {
    %i = graph.load %at ["r0"] : !graph.tensor<[2], i64> -> i64
    %k = graph.check_index %i in 8
    %c = arith.constant 1.0 : f32
    graph.write_at ["x0"] (%k)
    graph.yield %c : f32
  }
  graph.return %s, %v : !graph.tensor<[8], f32>, !graph.tensor<[8], i32>
}
