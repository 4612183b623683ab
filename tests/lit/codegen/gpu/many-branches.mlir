// Each load under a mask chooses its address: a kernel takes so many.
// RUN: tile-compile %s --target=sm_90 --emit=20-fusion.txt | FileCheck %s
// RUN: tile-compile %s --target=x86-64-v3 --emit=20-fusion.txt | FileCheck %s --check-prefix=CPU

// CHECK: the body would grow beyond
// CPU-NOT: the body would grow beyond
graph.func @graph(%x: !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32> attributes {symbols = []} {
  %s0 = graph.view %x {offset = 0 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p0 = graph.constant_pad %s0 {low = array<i64: 0>, high = array<i64: 79>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %s1 = graph.view %x {offset = 1 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p1 = graph.constant_pad %s1 {low = array<i64: 1>, high = array<i64: 78>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a1 = graph.add %p0, %p1 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s2 = graph.view %x {offset = 2 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p2 = graph.constant_pad %s2 {low = array<i64: 2>, high = array<i64: 77>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a2 = graph.add %a1, %p2 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s3 = graph.view %x {offset = 3 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p3 = graph.constant_pad %s3 {low = array<i64: 3>, high = array<i64: 76>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a3 = graph.add %a2, %p3 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s4 = graph.view %x {offset = 4 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p4 = graph.constant_pad %s4 {low = array<i64: 4>, high = array<i64: 75>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a4 = graph.add %a3, %p4 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s5 = graph.view %x {offset = 5 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p5 = graph.constant_pad %s5 {low = array<i64: 5>, high = array<i64: 74>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a5 = graph.add %a4, %p5 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s6 = graph.view %x {offset = 6 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p6 = graph.constant_pad %s6 {low = array<i64: 6>, high = array<i64: 73>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a6 = graph.add %a5, %p6 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s7 = graph.view %x {offset = 7 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p7 = graph.constant_pad %s7 {low = array<i64: 7>, high = array<i64: 72>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a7 = graph.add %a6, %p7 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s8 = graph.view %x {offset = 8 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p8 = graph.constant_pad %s8 {low = array<i64: 8>, high = array<i64: 71>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a8 = graph.add %a7, %p8 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s9 = graph.view %x {offset = 9 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p9 = graph.constant_pad %s9 {low = array<i64: 9>, high = array<i64: 70>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a9 = graph.add %a8, %p9 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s10 = graph.view %x {offset = 10 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p10 = graph.constant_pad %s10 {low = array<i64: 10>, high = array<i64: 69>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a10 = graph.add %a9, %p10 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s11 = graph.view %x {offset = 11 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p11 = graph.constant_pad %s11 {low = array<i64: 11>, high = array<i64: 68>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a11 = graph.add %a10, %p11 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s12 = graph.view %x {offset = 12 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p12 = graph.constant_pad %s12 {low = array<i64: 12>, high = array<i64: 67>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a12 = graph.add %a11, %p12 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s13 = graph.view %x {offset = 13 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p13 = graph.constant_pad %s13 {low = array<i64: 13>, high = array<i64: 66>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a13 = graph.add %a12, %p13 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s14 = graph.view %x {offset = 14 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p14 = graph.constant_pad %s14 {low = array<i64: 14>, high = array<i64: 65>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a14 = graph.add %a13, %p14 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s15 = graph.view %x {offset = 15 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p15 = graph.constant_pad %s15 {low = array<i64: 15>, high = array<i64: 64>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a15 = graph.add %a14, %p15 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s16 = graph.view %x {offset = 16 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p16 = graph.constant_pad %s16 {low = array<i64: 16>, high = array<i64: 63>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a16 = graph.add %a15, %p16 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s17 = graph.view %x {offset = 17 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p17 = graph.constant_pad %s17 {low = array<i64: 17>, high = array<i64: 62>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a17 = graph.add %a16, %p17 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s18 = graph.view %x {offset = 18 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p18 = graph.constant_pad %s18 {low = array<i64: 18>, high = array<i64: 61>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a18 = graph.add %a17, %p18 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s19 = graph.view %x {offset = 19 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p19 = graph.constant_pad %s19 {low = array<i64: 19>, high = array<i64: 60>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a19 = graph.add %a18, %p19 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s20 = graph.view %x {offset = 20 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p20 = graph.constant_pad %s20 {low = array<i64: 20>, high = array<i64: 59>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a20 = graph.add %a19, %p20 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s21 = graph.view %x {offset = 21 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p21 = graph.constant_pad %s21 {low = array<i64: 21>, high = array<i64: 58>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a21 = graph.add %a20, %p21 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s22 = graph.view %x {offset = 22 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p22 = graph.constant_pad %s22 {low = array<i64: 22>, high = array<i64: 57>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a22 = graph.add %a21, %p22 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s23 = graph.view %x {offset = 23 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p23 = graph.constant_pad %s23 {low = array<i64: 23>, high = array<i64: 56>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a23 = graph.add %a22, %p23 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s24 = graph.view %x {offset = 24 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p24 = graph.constant_pad %s24 {low = array<i64: 24>, high = array<i64: 55>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a24 = graph.add %a23, %p24 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s25 = graph.view %x {offset = 25 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p25 = graph.constant_pad %s25 {low = array<i64: 25>, high = array<i64: 54>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a25 = graph.add %a24, %p25 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s26 = graph.view %x {offset = 26 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p26 = graph.constant_pad %s26 {low = array<i64: 26>, high = array<i64: 53>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a26 = graph.add %a25, %p26 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s27 = graph.view %x {offset = 27 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p27 = graph.constant_pad %s27 {low = array<i64: 27>, high = array<i64: 52>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a27 = graph.add %a26, %p27 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s28 = graph.view %x {offset = 28 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p28 = graph.constant_pad %s28 {low = array<i64: 28>, high = array<i64: 51>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a28 = graph.add %a27, %p28 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s29 = graph.view %x {offset = 29 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p29 = graph.constant_pad %s29 {low = array<i64: 29>, high = array<i64: 50>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a29 = graph.add %a28, %p29 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s30 = graph.view %x {offset = 30 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p30 = graph.constant_pad %s30 {low = array<i64: 30>, high = array<i64: 49>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a30 = graph.add %a29, %p30 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s31 = graph.view %x {offset = 31 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p31 = graph.constant_pad %s31 {low = array<i64: 31>, high = array<i64: 48>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a31 = graph.add %a30, %p31 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s32 = graph.view %x {offset = 32 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p32 = graph.constant_pad %s32 {low = array<i64: 32>, high = array<i64: 47>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a32 = graph.add %a31, %p32 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s33 = graph.view %x {offset = 33 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p33 = graph.constant_pad %s33 {low = array<i64: 33>, high = array<i64: 46>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a33 = graph.add %a32, %p33 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s34 = graph.view %x {offset = 34 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p34 = graph.constant_pad %s34 {low = array<i64: 34>, high = array<i64: 45>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a34 = graph.add %a33, %p34 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s35 = graph.view %x {offset = 35 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p35 = graph.constant_pad %s35 {low = array<i64: 35>, high = array<i64: 44>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a35 = graph.add %a34, %p35 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s36 = graph.view %x {offset = 36 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p36 = graph.constant_pad %s36 {low = array<i64: 36>, high = array<i64: 43>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a36 = graph.add %a35, %p36 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s37 = graph.view %x {offset = 37 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p37 = graph.constant_pad %s37 {low = array<i64: 37>, high = array<i64: 42>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a37 = graph.add %a36, %p37 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s38 = graph.view %x {offset = 38 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p38 = graph.constant_pad %s38 {low = array<i64: 38>, high = array<i64: 41>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a38 = graph.add %a37, %p38 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s39 = graph.view %x {offset = 39 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p39 = graph.constant_pad %s39 {low = array<i64: 39>, high = array<i64: 40>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a39 = graph.add %a38, %p39 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s40 = graph.view %x {offset = 40 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p40 = graph.constant_pad %s40 {low = array<i64: 40>, high = array<i64: 39>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a40 = graph.add %a39, %p40 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s41 = graph.view %x {offset = 41 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p41 = graph.constant_pad %s41 {low = array<i64: 41>, high = array<i64: 38>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a41 = graph.add %a40, %p41 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s42 = graph.view %x {offset = 42 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p42 = graph.constant_pad %s42 {low = array<i64: 42>, high = array<i64: 37>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a42 = graph.add %a41, %p42 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s43 = graph.view %x {offset = 43 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p43 = graph.constant_pad %s43 {low = array<i64: 43>, high = array<i64: 36>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a43 = graph.add %a42, %p43 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s44 = graph.view %x {offset = 44 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p44 = graph.constant_pad %s44 {low = array<i64: 44>, high = array<i64: 35>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a44 = graph.add %a43, %p44 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s45 = graph.view %x {offset = 45 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p45 = graph.constant_pad %s45 {low = array<i64: 45>, high = array<i64: 34>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a45 = graph.add %a44, %p45 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s46 = graph.view %x {offset = 46 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p46 = graph.constant_pad %s46 {low = array<i64: 46>, high = array<i64: 33>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a46 = graph.add %a45, %p46 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s47 = graph.view %x {offset = 47 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p47 = graph.constant_pad %s47 {low = array<i64: 47>, high = array<i64: 32>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a47 = graph.add %a46, %p47 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s48 = graph.view %x {offset = 48 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p48 = graph.constant_pad %s48 {low = array<i64: 48>, high = array<i64: 31>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a48 = graph.add %a47, %p48 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s49 = graph.view %x {offset = 49 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p49 = graph.constant_pad %s49 {low = array<i64: 49>, high = array<i64: 30>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a49 = graph.add %a48, %p49 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s50 = graph.view %x {offset = 50 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p50 = graph.constant_pad %s50 {low = array<i64: 50>, high = array<i64: 29>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a50 = graph.add %a49, %p50 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s51 = graph.view %x {offset = 51 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p51 = graph.constant_pad %s51 {low = array<i64: 51>, high = array<i64: 28>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a51 = graph.add %a50, %p51 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s52 = graph.view %x {offset = 52 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p52 = graph.constant_pad %s52 {low = array<i64: 52>, high = array<i64: 27>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a52 = graph.add %a51, %p52 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s53 = graph.view %x {offset = 53 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p53 = graph.constant_pad %s53 {low = array<i64: 53>, high = array<i64: 26>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a53 = graph.add %a52, %p53 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s54 = graph.view %x {offset = 54 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p54 = graph.constant_pad %s54 {low = array<i64: 54>, high = array<i64: 25>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a54 = graph.add %a53, %p54 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s55 = graph.view %x {offset = 55 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p55 = graph.constant_pad %s55 {low = array<i64: 55>, high = array<i64: 24>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a55 = graph.add %a54, %p55 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s56 = graph.view %x {offset = 56 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p56 = graph.constant_pad %s56 {low = array<i64: 56>, high = array<i64: 23>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a56 = graph.add %a55, %p56 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s57 = graph.view %x {offset = 57 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p57 = graph.constant_pad %s57 {low = array<i64: 57>, high = array<i64: 22>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a57 = graph.add %a56, %p57 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s58 = graph.view %x {offset = 58 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p58 = graph.constant_pad %s58 {low = array<i64: 58>, high = array<i64: 21>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a58 = graph.add %a57, %p58 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s59 = graph.view %x {offset = 59 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p59 = graph.constant_pad %s59 {low = array<i64: 59>, high = array<i64: 20>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a59 = graph.add %a58, %p59 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s60 = graph.view %x {offset = 60 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p60 = graph.constant_pad %s60 {low = array<i64: 60>, high = array<i64: 19>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a60 = graph.add %a59, %p60 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s61 = graph.view %x {offset = 61 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p61 = graph.constant_pad %s61 {low = array<i64: 61>, high = array<i64: 18>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a61 = graph.add %a60, %p61 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s62 = graph.view %x {offset = 62 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p62 = graph.constant_pad %s62 {low = array<i64: 62>, high = array<i64: 17>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a62 = graph.add %a61, %p62 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s63 = graph.view %x {offset = 63 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p63 = graph.constant_pad %s63 {low = array<i64: 63>, high = array<i64: 16>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a63 = graph.add %a62, %p63 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s64 = graph.view %x {offset = 64 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p64 = graph.constant_pad %s64 {low = array<i64: 64>, high = array<i64: 15>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a64 = graph.add %a63, %p64 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s65 = graph.view %x {offset = 65 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p65 = graph.constant_pad %s65 {low = array<i64: 65>, high = array<i64: 14>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a65 = graph.add %a64, %p65 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s66 = graph.view %x {offset = 66 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p66 = graph.constant_pad %s66 {low = array<i64: 66>, high = array<i64: 13>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a66 = graph.add %a65, %p66 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s67 = graph.view %x {offset = 67 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p67 = graph.constant_pad %s67 {low = array<i64: 67>, high = array<i64: 12>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a67 = graph.add %a66, %p67 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s68 = graph.view %x {offset = 68 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p68 = graph.constant_pad %s68 {low = array<i64: 68>, high = array<i64: 11>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a68 = graph.add %a67, %p68 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s69 = graph.view %x {offset = 69 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p69 = graph.constant_pad %s69 {low = array<i64: 69>, high = array<i64: 10>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a69 = graph.add %a68, %p69 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s70 = graph.view %x {offset = 70 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p70 = graph.constant_pad %s70 {low = array<i64: 70>, high = array<i64: 9>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a70 = graph.add %a69, %p70 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s71 = graph.view %x {offset = 71 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p71 = graph.constant_pad %s71 {low = array<i64: 71>, high = array<i64: 8>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a71 = graph.add %a70, %p71 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s72 = graph.view %x {offset = 72 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p72 = graph.constant_pad %s72 {low = array<i64: 72>, high = array<i64: 7>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a72 = graph.add %a71, %p72 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s73 = graph.view %x {offset = 73 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p73 = graph.constant_pad %s73 {low = array<i64: 73>, high = array<i64: 6>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a73 = graph.add %a72, %p73 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s74 = graph.view %x {offset = 74 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p74 = graph.constant_pad %s74 {low = array<i64: 74>, high = array<i64: 5>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a74 = graph.add %a73, %p74 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s75 = graph.view %x {offset = 75 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p75 = graph.constant_pad %s75 {low = array<i64: 75>, high = array<i64: 4>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a75 = graph.add %a74, %p75 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s76 = graph.view %x {offset = 76 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p76 = graph.constant_pad %s76 {low = array<i64: 76>, high = array<i64: 3>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a76 = graph.add %a75, %p76 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s77 = graph.view %x {offset = 77 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p77 = graph.constant_pad %s77 {low = array<i64: 77>, high = array<i64: 2>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a77 = graph.add %a76, %p77 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s78 = graph.view %x {offset = 78 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p78 = graph.constant_pad %s78 {low = array<i64: 78>, high = array<i64: 1>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a78 = graph.add %a77, %p78 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  %s79 = graph.view %x {offset = 79 : i64} : (!graph.tensor<[80], f32>) -> !graph.tensor<[1], f32>
  %p79 = graph.constant_pad %s79 {low = array<i64: 79>, high = array<i64: 0>, value = 0.0 : f64} : (!graph.tensor<[1], f32>) -> !graph.tensor<[80], f32>
  %a79 = graph.add %a78, %p79 : (!graph.tensor<[80], f32>, !graph.tensor<[80], f32>) -> !graph.tensor<[80], f32>
  graph.return %a79 : !graph.tensor<[80], f32>
}
