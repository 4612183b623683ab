// On GPU, what takes less to compute than to move is computed in each reader.
// RUN: split-file %s %t
// RUN: tile-compile %t/taps.mlir --target=sm_90 --emit=20-fusion.txt -o - | FileCheck %s --check-prefix=TAPS
// RUN: tile-compile %t/channels.mlir --target=sm_90 --emit=20-fusion.txt -o - | FileCheck %s --check-prefix=CHANNELS
// RUN: tile-compile %t/costly.mlir --target=sm_90 --emit=20-fusion.txt -o - | FileCheck %s --check-prefix=COSTLY
// RUN: tile-compile %t/after.mlir --target=sm_90 --emit=20-fusion.txt -o - | FileCheck %s --check-prefix=AFTER
// RUN: tile-compile %t/sums.mlir --target=sm_90 --emit=20-fusion.txt -o - | FileCheck %s --check-prefix=SUMS
// RUN: tile-compile %t/same-sums.mlir --target=sm_90 --emit=20-fusion.txt -o - | FileCheck %s --check-prefix=SAME
// RUN: tile-compile %t/windows.mlir --target=sm_90 --emit=20-fusion.mlir -o - | FileCheck %s --check-prefix=WINDOWS

// Two taps of a product, and what all channels of an image share.
// TAPS: yes inline line 2 {{.*}}computing it again takes less than moving it
// CHANNELS: yes inline {{.*}}computing it again takes less than moving it

// Nine taps of many operations.
// COSTLY: no  inline {{.*}}too much to compute again

// Windows that overlap read what they view, without a copy.
// WINDOWS: graph.fusion [i0 = 64, i1 = 1023, reduce r0 = 512]
// WINDOWS: graph.load %arg0 ["i0", "i1*256 + r0"]
// WINDOWS-NOT: graph.alias

// What follows a reduction has its results at hand.
// AFTER-NOT: line 3 {{.*}}computing it again
// AFTER-NOT: line 4 {{.*}}computing it again
// AFTER-NOT: line 5 {{.*}}computing it again

// Reductions over different dimensions share no kernel, so neither has the value of the other at hand.
// SUMS: yes inline line 2 {{.*}}computing it again takes less than moving it
// SUMS: no  join {{.*}}reduces other axes
// SAME-NOT: line 2 {{.*}}computing it again
// SAME: yes join {{.*}}shares data

//--- sums.mlir
graph.func @graph(%0: !graph.tensor<[4096, 4096], f32>, %1: !graph.tensor<[4096, 4096], f32>) -> (!graph.tensor<[4096], f32>, !graph.tensor<[4096], f32>) attributes {symbols = []} {
  %2 = graph.div %0, %1 : (!graph.tensor<[4096, 4096], f32>, !graph.tensor<[4096, 4096], f32>) -> !graph.tensor<[4096, 4096], f32>
  %3 = graph.neg %2 : (!graph.tensor<[4096, 4096], f32>) -> !graph.tensor<[4096, 4096], f32>
  %4 = graph.sum %3 {dims = array<i64: 0>} : (!graph.tensor<[4096, 4096], f32>) -> !graph.tensor<[4096], f32>
  %5 = graph.abs %2 : (!graph.tensor<[4096, 4096], f32>) -> !graph.tensor<[4096, 4096], f32>
  %6 = graph.sum %5 {dims = array<i64: 1>} : (!graph.tensor<[4096, 4096], f32>) -> !graph.tensor<[4096], f32>
  graph.return %4, %6 : !graph.tensor<[4096], f32>, !graph.tensor<[4096], f32>
}

//--- same-sums.mlir
graph.func @graph(%0: !graph.tensor<[4096, 4096], f32>, %1: !graph.tensor<[4096, 4096], f32>) -> (!graph.tensor<[4096], f32>, !graph.tensor<[4096], f32>) attributes {symbols = []} {
  %2 = graph.div %0, %1 : (!graph.tensor<[4096, 4096], f32>, !graph.tensor<[4096, 4096], f32>) -> !graph.tensor<[4096, 4096], f32>
  %3 = graph.neg %2 : (!graph.tensor<[4096, 4096], f32>) -> !graph.tensor<[4096, 4096], f32>
  %4 = graph.sum %3 {dims = array<i64: 1>} : (!graph.tensor<[4096, 4096], f32>) -> !graph.tensor<[4096], f32>
  %5 = graph.abs %2 : (!graph.tensor<[4096, 4096], f32>) -> !graph.tensor<[4096, 4096], f32>
  %6 = graph.sum %5 {dims = array<i64: 1>} : (!graph.tensor<[4096, 4096], f32>) -> !graph.tensor<[4096], f32>
  graph.return %4, %6 : !graph.tensor<[4096], f32>, !graph.tensor<[4096], f32>
}

//--- taps.mlir
graph.func @graph(%0: !graph.tensor<[4096, 4097], f32>, %1: !graph.tensor<[4096, 4097], f32>) -> (!graph.tensor<[4096, 4096], f32>) attributes {symbols = []} {
  %2 = graph.mul %0, %1 : (!graph.tensor<[4096, 4097], f32>, !graph.tensor<[4096, 4097], f32>) -> !graph.tensor<[4096, 4097], f32>
  %3 = graph.abs %2 : (!graph.tensor<[4096, 4097], f32>) -> !graph.tensor<[4096, 4097], f32>
  %4 = graph.slice %3 {dim = 1 : i64, start = 1 : i64} : (!graph.tensor<[4096, 4097], f32>) -> !graph.tensor<[4096, 4096], f32, [4097, 1]>
  %5 = graph.slice %3 {dim = 1 : i64, start = 0 : i64} : (!graph.tensor<[4096, 4097], f32>) -> !graph.tensor<[4096, 4096], f32, [4097, 1]>
  %6 = graph.sub %4, %5 : (!graph.tensor<[4096, 4096], f32, [4097, 1]>, !graph.tensor<[4096, 4096], f32, [4097, 1]>) -> !graph.tensor<[4096, 4096], f32>
  graph.return %6 : !graph.tensor<[4096, 4096], f32>
}

//--- channels.mlir
graph.func @graph(%0: !graph.tensor<[64, 512, 512], f32>, %1: !graph.tensor<[64, 3, 512, 512], f32>) -> (!graph.tensor<[64, 3, 512, 512], f32>) attributes {symbols = []} {
  %2 = graph.mul %0, %0 : (!graph.tensor<[64, 512, 512], f32>, !graph.tensor<[64, 512, 512], f32>) -> !graph.tensor<[64, 512, 512], f32>
  %3 = graph.add %2, %0 : (!graph.tensor<[64, 512, 512], f32>, !graph.tensor<[64, 512, 512], f32>) -> !graph.tensor<[64, 512, 512], f32>
  %4 = graph.mul %3, %2 : (!graph.tensor<[64, 512, 512], f32>, !graph.tensor<[64, 512, 512], f32>) -> !graph.tensor<[64, 512, 512], f32>
  %5 = graph.view %4 : (!graph.tensor<[64, 512, 512], f32>) -> !graph.tensor<[64, 1, 512, 512], f32>
  %6 = graph.mul %1, %5 : (!graph.tensor<[64, 3, 512, 512], f32>, !graph.tensor<[64, 1, 512, 512], f32>) -> !graph.tensor<[64, 3, 512, 512], f32>
  graph.return %6 : !graph.tensor<[64, 3, 512, 512], f32>
}

//--- costly.mlir
graph.func @graph(%0: !graph.tensor<[4096, 4098], f32>) -> (!graph.tensor<[4096, 4096], f32>) attributes {symbols = []} {
  %1 = graph.sin %0 : (!graph.tensor<[4096, 4098], f32>) -> !graph.tensor<[4096, 4098], f32>
  %2 = graph.slice %1 {dim = 1 : i64, start = 0 : i64} : (!graph.tensor<[4096, 4098], f32>) -> !graph.tensor<[4096, 4096], f32, [4098, 1]>
  %3 = graph.slice %1 {dim = 1 : i64, start = 1 : i64} : (!graph.tensor<[4096, 4098], f32>) -> !graph.tensor<[4096, 4096], f32, [4098, 1]>
  %4 = graph.slice %1 {dim = 1 : i64, start = 2 : i64} : (!graph.tensor<[4096, 4098], f32>) -> !graph.tensor<[4096, 4096], f32, [4098, 1]>
  %5 = graph.add %2, %3 : (!graph.tensor<[4096, 4096], f32, [4098, 1]>, !graph.tensor<[4096, 4096], f32, [4098, 1]>) -> !graph.tensor<[4096, 4096], f32>
  %6 = graph.add %5, %4 : (!graph.tensor<[4096, 4096], f32>, !graph.tensor<[4096, 4096], f32, [4098, 1]>) -> !graph.tensor<[4096, 4096], f32>
  graph.return %6 : !graph.tensor<[4096, 4096], f32>
}

//--- windows.mlir
graph.func @graph(%0: !graph.tensor<[64, 262144], f32>) -> (!graph.tensor<[64, 1023], f32>) attributes {symbols = []} {
  %1 = graph.mul %0, %0 : (!graph.tensor<[64, 262144], f32>, !graph.tensor<[64, 262144], f32>) -> !graph.tensor<[64, 262144], f32>
  %2 = graph.unfold %1 {dim = 1 : i64, step = 256 : i64} : (!graph.tensor<[64, 262144], f32>) -> !graph.tensor<[64, 1023, 512], f32, [262144, 256, 1]>
  %3 = graph.sum %2 {dims = array<i64: 2>} : (!graph.tensor<[64, 1023, 512], f32, [262144, 256, 1]>) -> !graph.tensor<[64, 1023], f32>
  graph.return %3 : !graph.tensor<[64, 1023], f32>
}

//--- after.mlir
graph.func @graph(%0: !graph.tensor<[65536, 8], f32>) -> (!graph.tensor<[65536, 8], f32>) attributes {symbols = []} {
  %1 = graph.mul %0, %0 : (!graph.tensor<[65536, 8], f32>, !graph.tensor<[65536, 8], f32>) -> !graph.tensor<[65536, 8], f32>
  %2 = graph.sum %1 {dims = array<i64: 1>, keepdim = true} : (!graph.tensor<[65536, 8], f32>) -> !graph.tensor<[65536, 1], f32>
  %3 = graph.sqrt %2 : (!graph.tensor<[65536, 1], f32>) -> !graph.tensor<[65536, 1], f32>
  %4 = graph.reciprocal %3 : (!graph.tensor<[65536, 1], f32>) -> !graph.tensor<[65536, 1], f32>
  %5 = graph.mul %0, %4 : (!graph.tensor<[65536, 8], f32>, !graph.tensor<[65536, 1], f32>) -> !graph.tensor<[65536, 8], f32>
  graph.return %5 : !graph.tensor<[65536, 8], f32>
}
