// Taps of a padded window are read where they lie, without branches: what lies in the padding is read from zeros.
// RUN: tile-compile %s --target=sm_90 --emit=20-fusion.txt -o - | FileCheck %s --check-prefix=FUSION
// RUN: tile-compile %s --target=sm_90 --emit=60-kernel.ptx -o - | FileCheck %s

// FUSION: yes inline {{.*}} computing it again takes less than moving it
// CHECK: .global .align 16 .b8 tile_zeros[16]
// CHECK: mov.b64 {{.*}}, tile_zeros
// CHECK-NEXT: selp.b64
// CHECK-NOT: bra
// CHECK: ld.global
// CHECK-NOT: bra
// CHECK: st.global

graph.func @graph(%0: !graph.tensor<[64, 256, 256], f32>) -> (!graph.tensor<[64, 256, 256], f32>) attributes {symbols = []} {
  %1 = graph.constant_pad %0 {low = array<i64: 1, 1, 1>, high = array<i64: 1, 1, 1>, value = 0.0 : f64} : (!graph.tensor<[64, 256, 256], f32>) -> !graph.tensor<[66, 258, 258], f32>
  %2 = graph.view %1 {offset = 259 : i64} : (!graph.tensor<[66, 258, 258], f32>) -> !graph.tensor<[64, 256, 256], f32, [66564, 258, 1]>
  %3 = graph.view %1 {offset = 133387 : i64} : (!graph.tensor<[66, 258, 258], f32>) -> !graph.tensor<[64, 256, 256], f32, [66564, 258, 1]>
  %4 = graph.view %1 {offset = 66822 : i64} : (!graph.tensor<[66, 258, 258], f32>) -> !graph.tensor<[64, 256, 256], f32, [66564, 258, 1]>
  %5 = graph.add %2, %3 : (!graph.tensor<[64, 256, 256], f32, [66564, 258, 1]>, !graph.tensor<[64, 256, 256], f32, [66564, 258, 1]>) -> !graph.tensor<[64, 256, 256], f32>
  %6 = graph.add %5, %4 : (!graph.tensor<[64, 256, 256], f32>, !graph.tensor<[64, 256, 256], f32, [66564, 258, 1]>) -> !graph.tensor<[64, 256, 256], f32>
  graph.return %6 : !graph.tensor<[64, 256, 256], f32>
}
