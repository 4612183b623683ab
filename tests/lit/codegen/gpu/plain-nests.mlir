// Copies and norms of few tensors: tiles that follow what memory moves.
// RUN: split-file %s %t
// RUN: tile-compile %t/parts.mlir --target=sm_90 --emit=30-tile.mlir -o - | FileCheck %s --check-prefix=PARTS
// RUN: tile-compile %t/roll.mlir --target=sm_90 --emit=30-tile.mlir -o - | FileCheck %s --check-prefix=ROLL
// RUN: tile-compile %t/order.mlir --target=sm_90 --emit=30-tile.mlir -o - | FileCheck %s --check-prefix=ORDER
// RUN: tile-compile %t/columns.mlir --target=sm_90 --emit=30-tile.mlir -o - | FileCheck %s --check-prefix=COLUMNS

// Each part of a `cat` reads its share of the points, so rows are copied as they lie.
// PARTS: vector axis i1 lanes 1024 threads 256 from multiples of 4

// Neighbours are read along one axis and written along the other; programs that write parts of one sector follow one
// another.
// ROLL: vector axis i0 lanes {{16|32}} row axis i1 rows {{64|128}}

// Axes that are one in the result are the lanes, beside the axis along which neighbours are read.
// ORDER: axes [i0 = 5, flat = 13420344] {{.*}} vector axis flat lanes 128 row axis i0 rows 5

// Columns lie along the lanes; none is held across threads.
// COLUMNS: vector axis mi1

//--- parts.mlir
module {
  graph.func @graph(%arg0: !graph.tensor<[768, 87381], f32>) -> !graph.tensor<[1152, 87381], f32> attributes {symbols = []} {
    %0 = graph.fusion [i0 = 1152, i1 = 87381] -> (!graph.tensor<[1152, 87381], f32>) {
      %1 = graph.loops [i0 = 1152, i1 = 87381] at_axes ["i0", "i1"] -> (!graph.tensor<[1152, 87381], f32>) {
        %cst = arith.constant 0.000000e+00 : f32
        %2 = graph.index_value "i0"
        %c384_i64 = arith.constant 384 : i64
        %3 = arith.cmpi slt, %2, %c384_i64 : i64
        %4 = graph.load %arg0 ["i0", "i1"] mask %3 other %cst : f32 : !graph.tensor<[768, 87381], f32> -> f32
        %true = arith.constant true
        %5 = arith.xori %3, %true : i1
        %6 = graph.load %arg0 ["i0 - 384", "i1"] mask %5 other %cst : f32 : !graph.tensor<[768, 87381], f32> -> f32
        %7 = arith.select %5, %6, %4 : f32
        graph.yield %7 : f32
      }
      graph.yield %1 : !graph.tensor<[1152, 87381], f32>
    }
    graph.return %0 : !graph.tensor<[1152, 87381], f32>
  }
}

//--- roll.mlir
module {
  graph.func @graph(%arg0: !graph.tensor<[528416, 127], f32, [1, 528416]>) -> !graph.tensor<[528416, 127], f32> attributes {symbols = []} {
    %0 = graph.fusion [i0 = 528416, i1 = 127] -> (!graph.tensor<[528416, 127], f32>) {
      %1 = graph.loops [i0 = 528416, i1 = 127] at_axes ["i0", "i1"] -> (!graph.tensor<[528416, 127], f32>) {
        %cst = arith.constant 0.000000e+00 : f32
        %2 = graph.index_value "i0"
        %c1_i64 = arith.constant 1 : i64
        %3 = arith.cmpi slt, %2, %c1_i64 : i64
        %4 = graph.load %arg0 [528415, "i1"] mask %3 other %cst : f32 : !graph.tensor<[528416, 127], f32, [1, 528416]> -> f32
        %true = arith.constant true
        %5 = arith.xori %3, %true : i1
        %6 = graph.load %arg0 ["i0 - 1", "i1"] mask %5 other %cst : f32 : !graph.tensor<[528416, 127], f32, [1, 528416]> -> f32
        %7 = arith.select %5, %6, %4 : f32
        %cst_0 = arith.constant 2.000000e+00 : f32
        %8 = arith.mulf %7, %cst_0 : f32
        graph.yield %8 : f32
      }
      graph.yield %1 : !graph.tensor<[528416, 127], f32>
    }
    graph.return %0 : !graph.tensor<[528416, 127], f32>
  }
}

//--- order.mlir
module {
  graph.func @graph(%arg0: !graph.tensor<[127, 1554, 17, 5, 4], f32, [85, 10795, 5, 1, 16775430]>) -> !graph.tensor<[5, 1554, 127, 4, 17], f32> attributes {symbols = []} {
    %0 = graph.fusion [i0 = 5, i1 = 1554, i2 = 127, i3 = 4, i4 = 17] -> (!graph.tensor<[5, 1554, 127, 4, 17], f32>) {
      %1 = graph.loops [i0 = 5, i1 = 1554, i2 = 127, i3 = 4, i4 = 17] at_axes ["i0", "i1", "i2", "i3", "i4"] -> (!graph.tensor<[5, 1554, 127, 4, 17], f32>) {
        %2 = graph.load %arg0 ["i2", "i1", "i4", "i0", "i3"] : !graph.tensor<[127, 1554, 17, 5, 4], f32, [85, 10795, 5, 1, 16775430]> -> f32
        graph.yield %2 : f32
      }
      graph.yield %1 : !graph.tensor<[5, 1554, 127, 4, 17], f32>
    }
    graph.return %0 : !graph.tensor<[5, 1554, 127, 4, 17], f32>
  }
}


//--- columns.mlir
module {
  graph.func @graph(%arg0: !graph.tensor<[127, 2752, 8, 24], bf16>) -> !graph.tensor<[127, 2752, 8, 24], bf16> attributes {symbols = []} {
    %0 = graph.fusion [i0 = 2752, i1 = 8, i2 = 24, reduce r0 = 127] -> (!graph.tensor<[127, 2752, 8, 24], bf16>) {
      %1 = graph.loops [i0 = 1, i1 = 2752, i2 = 8, i3 = 24, reduce r0 = 127] at_axes [0, "i0", "i1", "i2", "r0"] -> (!graph.tensor<[1, 2752, 8, 24], f32>) {
        %4 = graph.load %arg0 ["r0", "i1", "i2", "i3"] : !graph.tensor<[127, 2752, 8, 24], bf16> -> bf16
        %5 = arith.extf %4 : bf16 to f32
        graph.yield %5 : f32
      } combine [0xFF800000 : f32] {
      ^bb0(%arg1: f32, %arg2: f32):
        %4 = arith.maximumf %arg1, %arg2 : f32
        graph.yield %4 : f32
      }
      %2 = graph.loops [i0 = 1, i1 = 2752, i2 = 8, i3 = 24, reduce r0 = 127] at_axes [0, "i0", "i1", "i2", "r0"] -> (!graph.tensor<[1, 2752, 8, 24], f32>) {
        %4 = graph.load %arg0 ["r0", "i1", "i2", "i3"] : !graph.tensor<[127, 2752, 8, 24], bf16> -> bf16
        %5 = arith.extf %4 : bf16 to f32
        %6 = graph.load %1 [0, "i1", "i2", "i3"] : !graph.tensor<[1, 2752, 8, 24], f32> -> f32
        %7 = arith.subf %5, %6 : f32
        %8 = math.exp %7 {graph.at_most_zero} : f32
        graph.yield %8 : f32
      } combine [0.000000e+00 : f32] {
      ^bb0(%arg1: f32, %arg2: f32):
        %4 = arith.addf %arg1, %arg2 : f32
        graph.yield %4 : f32
      }
      %3 = graph.loops [i0 = 127, i1 = 2752, i2 = 8, i3 = 24] at_axes ["r0", "i0", "i1", "i2"] -> (!graph.tensor<[127, 2752, 8, 24], bf16>) {
        %4 = graph.load %arg0 ["i0", "i1", "i2", "i3"] : !graph.tensor<[127, 2752, 8, 24], bf16> -> bf16
        %5 = arith.extf %4 : bf16 to f32
        %6 = graph.load %1 [0, "i1", "i2", "i3"] : !graph.tensor<[1, 2752, 8, 24], f32> -> f32
        %7 = arith.subf %5, %6 : f32
        %8 = math.exp %7 {graph.at_most_zero} : f32
        %9 = graph.load %2 [0, "i1", "i2", "i3"] : !graph.tensor<[1, 2752, 8, 24], f32> -> f32
        %10 = arith.divf %8, %9 : f32
        %11 = arith.truncf %10 : f32 to bf16
        graph.yield %11 : bf16
      }
      graph.yield %3 : !graph.tensor<[127, 2752, 8, 24], bf16>
    }
    graph.return %0 : !graph.tensor<[127, 2752, 8, 24], bf16>
  }
}
