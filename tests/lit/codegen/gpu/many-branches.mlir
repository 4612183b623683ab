// Each load under a mask is a branch of every thread: a kernel takes so many.
// RUN: tile-compile %s --target=sm_90 --emit=20-fusion.txt | FileCheck %s
// RUN: tile-compile %s --target=x86-64-v3 --emit=20-fusion.txt | FileCheck %s --check-prefix=CPU

// CHECK: the body would grow beyond
// CPU-NOT: the body would grow beyond
graph.func @graph(%x: !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32> attributes {symbols = []} {
  %s0 = graph.view %x {offset = 0 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p0 = graph.constant_pad %s0 {low = array<i64: 0>, high = array<i64: 39>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %s1 = graph.view %x {offset = 1 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p1 = graph.constant_pad %s1 {low = array<i64: 1>, high = array<i64: 38>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a1 = graph.add %p0, %p1 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s2 = graph.view %x {offset = 2 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p2 = graph.constant_pad %s2 {low = array<i64: 2>, high = array<i64: 37>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a2 = graph.add %a1, %p2 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s3 = graph.view %x {offset = 3 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p3 = graph.constant_pad %s3 {low = array<i64: 3>, high = array<i64: 36>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a3 = graph.add %a2, %p3 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s4 = graph.view %x {offset = 4 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p4 = graph.constant_pad %s4 {low = array<i64: 4>, high = array<i64: 35>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a4 = graph.add %a3, %p4 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s5 = graph.view %x {offset = 5 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p5 = graph.constant_pad %s5 {low = array<i64: 5>, high = array<i64: 34>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a5 = graph.add %a4, %p5 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s6 = graph.view %x {offset = 6 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p6 = graph.constant_pad %s6 {low = array<i64: 6>, high = array<i64: 33>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a6 = graph.add %a5, %p6 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s7 = graph.view %x {offset = 7 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p7 = graph.constant_pad %s7 {low = array<i64: 7>, high = array<i64: 32>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a7 = graph.add %a6, %p7 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s8 = graph.view %x {offset = 8 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p8 = graph.constant_pad %s8 {low = array<i64: 8>, high = array<i64: 31>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a8 = graph.add %a7, %p8 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s9 = graph.view %x {offset = 9 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p9 = graph.constant_pad %s9 {low = array<i64: 9>, high = array<i64: 30>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a9 = graph.add %a8, %p9 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s10 = graph.view %x {offset = 10 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p10 = graph.constant_pad %s10 {low = array<i64: 10>, high = array<i64: 29>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a10 = graph.add %a9, %p10 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s11 = graph.view %x {offset = 11 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p11 = graph.constant_pad %s11 {low = array<i64: 11>, high = array<i64: 28>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a11 = graph.add %a10, %p11 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s12 = graph.view %x {offset = 12 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p12 = graph.constant_pad %s12 {low = array<i64: 12>, high = array<i64: 27>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a12 = graph.add %a11, %p12 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s13 = graph.view %x {offset = 13 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p13 = graph.constant_pad %s13 {low = array<i64: 13>, high = array<i64: 26>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a13 = graph.add %a12, %p13 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s14 = graph.view %x {offset = 14 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p14 = graph.constant_pad %s14 {low = array<i64: 14>, high = array<i64: 25>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a14 = graph.add %a13, %p14 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s15 = graph.view %x {offset = 15 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p15 = graph.constant_pad %s15 {low = array<i64: 15>, high = array<i64: 24>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a15 = graph.add %a14, %p15 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s16 = graph.view %x {offset = 16 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p16 = graph.constant_pad %s16 {low = array<i64: 16>, high = array<i64: 23>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a16 = graph.add %a15, %p16 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s17 = graph.view %x {offset = 17 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p17 = graph.constant_pad %s17 {low = array<i64: 17>, high = array<i64: 22>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a17 = graph.add %a16, %p17 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s18 = graph.view %x {offset = 18 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p18 = graph.constant_pad %s18 {low = array<i64: 18>, high = array<i64: 21>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a18 = graph.add %a17, %p18 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s19 = graph.view %x {offset = 19 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p19 = graph.constant_pad %s19 {low = array<i64: 19>, high = array<i64: 20>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a19 = graph.add %a18, %p19 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s20 = graph.view %x {offset = 20 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p20 = graph.constant_pad %s20 {low = array<i64: 20>, high = array<i64: 19>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a20 = graph.add %a19, %p20 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s21 = graph.view %x {offset = 21 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p21 = graph.constant_pad %s21 {low = array<i64: 21>, high = array<i64: 18>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a21 = graph.add %a20, %p21 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s22 = graph.view %x {offset = 22 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p22 = graph.constant_pad %s22 {low = array<i64: 22>, high = array<i64: 17>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a22 = graph.add %a21, %p22 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s23 = graph.view %x {offset = 23 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p23 = graph.constant_pad %s23 {low = array<i64: 23>, high = array<i64: 16>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a23 = graph.add %a22, %p23 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s24 = graph.view %x {offset = 24 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p24 = graph.constant_pad %s24 {low = array<i64: 24>, high = array<i64: 15>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a24 = graph.add %a23, %p24 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s25 = graph.view %x {offset = 25 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p25 = graph.constant_pad %s25 {low = array<i64: 25>, high = array<i64: 14>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a25 = graph.add %a24, %p25 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s26 = graph.view %x {offset = 26 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p26 = graph.constant_pad %s26 {low = array<i64: 26>, high = array<i64: 13>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a26 = graph.add %a25, %p26 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s27 = graph.view %x {offset = 27 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p27 = graph.constant_pad %s27 {low = array<i64: 27>, high = array<i64: 12>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a27 = graph.add %a26, %p27 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s28 = graph.view %x {offset = 28 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p28 = graph.constant_pad %s28 {low = array<i64: 28>, high = array<i64: 11>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a28 = graph.add %a27, %p28 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s29 = graph.view %x {offset = 29 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p29 = graph.constant_pad %s29 {low = array<i64: 29>, high = array<i64: 10>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a29 = graph.add %a28, %p29 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s30 = graph.view %x {offset = 30 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p30 = graph.constant_pad %s30 {low = array<i64: 30>, high = array<i64: 9>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a30 = graph.add %a29, %p30 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s31 = graph.view %x {offset = 31 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p31 = graph.constant_pad %s31 {low = array<i64: 31>, high = array<i64: 8>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a31 = graph.add %a30, %p31 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s32 = graph.view %x {offset = 32 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p32 = graph.constant_pad %s32 {low = array<i64: 32>, high = array<i64: 7>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a32 = graph.add %a31, %p32 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s33 = graph.view %x {offset = 33 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p33 = graph.constant_pad %s33 {low = array<i64: 33>, high = array<i64: 6>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a33 = graph.add %a32, %p33 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s34 = graph.view %x {offset = 34 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p34 = graph.constant_pad %s34 {low = array<i64: 34>, high = array<i64: 5>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a34 = graph.add %a33, %p34 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s35 = graph.view %x {offset = 35 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p35 = graph.constant_pad %s35 {low = array<i64: 35>, high = array<i64: 4>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a35 = graph.add %a34, %p35 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s36 = graph.view %x {offset = 36 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p36 = graph.constant_pad %s36 {low = array<i64: 36>, high = array<i64: 3>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a36 = graph.add %a35, %p36 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s37 = graph.view %x {offset = 37 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p37 = graph.constant_pad %s37 {low = array<i64: 37>, high = array<i64: 2>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a37 = graph.add %a36, %p37 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s38 = graph.view %x {offset = 38 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p38 = graph.constant_pad %s38 {low = array<i64: 38>, high = array<i64: 1>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a38 = graph.add %a37, %p38 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  %s39 = graph.view %x {offset = 39 : i64} : (!graph.tensor<[40], f32>) -> !graph.tensor<[1], f32>
  %p39 = graph.constant_pad %s39 {low = array<i64: 39>, high = array<i64: 0>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[40], f32>
  %a39 = graph.add %a38, %p39 : (!graph.tensor<[40], f32>, !graph.tensor<[40], f32>) -> !graph.tensor<[40], f32>
  graph.return %a39 : !graph.tensor<[40], f32>
}
