// RUN: tile-opt %s --pass-pipeline='builtin.module(tile.kernel(tile-drop-ties))' | FileCheck %s

// Positions grow from tile to tile, and the search begins with the worst number: no position is compared, and the
// first tile's positions are there from the start.
// CHECK-LABEL: tile.kernel @maximum
// CHECK: %[[LANES:.*]] = tile.iota : tensor<64xi32>
// CHECK: %[[FIRST:.*]] = arith.addi %{{.*}}, %[[LANES]] : tensor<64xi32>
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %[[FIRST]])
// CHECK-NOT: arith.cmpi slt
// CHECK: tile.return
tile.kernel @maximum(%x: !tile.ptr<f32>, %best: !tile.ptr<f32>, %place: !tile.ptr<i32>) {
  %lowest = arith.constant 0xFF800000 : f32
  %none = arith.constant 2147483647 : i32
  %zero = arith.constant 0 : i64
  %end = arith.constant 640 : i64
  %step = arith.constant 64 : i64
  %value = tile.splat %lowest : f32 -> tensor<64xf32>
  %index = tile.splat %none : i32 -> tensor<64xi32>
  %found:2 = scf.for %i = %zero to %end step %step iter_args(%b = %value, %p = %index) -> (tensor<64xf32>, tensor<64xi32>) : i64 {
    %next = tile.load %x[%i] strides [1] : !tile.ptr<f32> -> tensor<64xf32>
    %narrow = arith.trunci %i : i64 to i32
    %start = tile.splat %narrow : i32 -> tensor<64xi32>
    %lane = tile.iota : tensor<64xi32>
    %at = arith.addi %start, %lane : tensor<64xi32>
    %better = arith.cmpf ugt, %next, %b : tensor<64xf32>
    %equal = arith.cmpf oeq, %next, %b : tensor<64xf32>
    %earlier = arith.cmpi slt, %at, %p : tensor<64xi32>
    %tie = arith.andi %equal, %earlier : tensor<64xi1>
    %takes = arith.ori %better, %tie : tensor<64xi1>
    %b2 = arith.select %takes, %next, %b : tensor<64xi1>, tensor<64xf32>
    %p2 = arith.select %takes, %at, %p : tensor<64xi1>, tensor<64xi32>
    scf.yield %b2, %p2 : tensor<64xf32>, tensor<64xi32>
  }
  tile.store %found#0, %best[%zero] strides [1] : tensor<64xf32>, !tile.ptr<f32>
  tile.store %found#1, %place[%zero] strides [1] : tensor<64xi32>, !tile.ptr<i32>
  tile.return
}

// The search begins with 0, which may be better than all: then there is no place.
// CHECK-LABEL: tile.kernel @above_zero
// CHECK: arith.cmpi slt
// CHECK: tile.return
tile.kernel @above_zero(%x: !tile.ptr<f32>, %place: !tile.ptr<i32>) {
  %least = arith.constant 0.0 : f32
  %none = arith.constant 2147483647 : i32
  %zero = arith.constant 0 : i64
  %end = arith.constant 640 : i64
  %step = arith.constant 1 : i64
  %found:2 = scf.for %i = %zero to %end step %step iter_args(%b = %least, %p = %none) -> (f32, i32) : i64 {
    %next = tile.load %x[%i] strides [] : !tile.ptr<f32> -> f32
    %at = arith.trunci %i : i64 to i32
    %better = arith.cmpf ugt, %next, %b : f32
    %equal = arith.cmpf oeq, %next, %b : f32
    %earlier = arith.cmpi slt, %at, %p : i32
    %tie = arith.andi %equal, %earlier : i1
    %takes = arith.ori %better, %tie : i1
    %b2 = arith.select %takes, %next, %b : f32
    %p2 = arith.select %takes, %at, %p : i32
    scf.yield %b2, %p2 : f32, i32
  }
  tile.store %found#1, %place[%zero] strides [] : i32, !tile.ptr<i32>
  tile.return
}

// Positions fall: of equal elements the last one that is met counts.
// CHECK-LABEL: tile.kernel @backwards
// CHECK: arith.cmpi slt
// CHECK: tile.return
tile.kernel @backwards(%x: !tile.ptr<f32>, %place: !tile.ptr<i32>) {
  %lowest = arith.constant 0xFF800000 : f32
  %none = arith.constant 2147483647 : i32
  %zero = arith.constant 0 : i64
  %end = arith.constant 640 : i64
  %step = arith.constant 1 : i64
  %minus = arith.constant -1 : i64
  %found:2 = scf.for %i = %zero to %end step %step iter_args(%b = %lowest, %p = %none) -> (f32, i32) : i64 {
    %negative = arith.muli %i, %minus : i64
    %k = arith.addi %negative, %end : i64
    %next = tile.load %x[%k] strides [] : !tile.ptr<f32> -> f32
    %at = arith.trunci %k : i64 to i32
    %better = arith.cmpf ugt, %next, %b : f32
    %equal = arith.cmpf oeq, %next, %b : f32
    %earlier = arith.cmpi slt, %at, %p : i32
    %tie = arith.andi %equal, %earlier : i1
    %takes = arith.ori %better, %tie : i1
    %b2 = arith.select %takes, %next, %b : f32
    %p2 = arith.select %takes, %at, %p : i32
    scf.yield %b2, %p2 : f32, i32
  }
  tile.store %found#1, %place[%zero] strides [] : i32, !tile.ptr<i32>
  tile.return
}
