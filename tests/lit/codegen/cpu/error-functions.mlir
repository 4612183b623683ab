// erf of f32 is inline; erfc, and f64 in registers of 512 bits, are one function for all registers and calls.
// RUN: tile-compile %s --emit=symbols --target=x86-64-v4 | FileCheck %s
// RUN: tile-compile %s --emit=symbols --target=x86-64-v3 | FileCheck %s --check-prefix=V3
// RUN: tile-compile %s --emit=50-kernel.ll --target=x86-64-v4 | FileCheck %s --check-prefix=LLVM

// CHECK: {{^}}single tile_{{[0-9a-f]+}} {{[0-9]+}}{{$}}
// CHECK: {{^}}double tile_{{[0-9a-f]+}} {{[0-9]+}}{{$}}
// V3: {{^}}single tile_{{[0-9a-f]+}} {{[0-9]+}}{{$}}
// V3: {{^}}double tile_{{[0-9a-f]+}} {{[0-9]+}} Sleef_erfcd4_u15 Sleef_erfd4_u10{{$}}

// LLVM: call <16 x float> @tile_erfcf32_16
// LLVM: call <16 x float> @tile_erfcf32_16
tile.kernel @single(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<32xf32>
  %e = math.erf %v : tensor<32xf32>
  %c = math.erfc %e : tensor<32xf32>
  tile.store %c, %out[%zero] strides [1] : tensor<32xf32>, !tile.ptr<f32>
  tile.return
}

// LLVM: call <8 x double> @tile_erff64_8
// LLVM: call <8 x double> @tile_erff64_8
// LLVM: call <8 x double> @tile_erfcf64_8
// LLVM: call <8 x double> @tile_erfcf64_8
tile.kernel @double(%x: !tile.ptr<f64>, %out: !tile.ptr<f64>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f64> -> tensor<16xf64>
  %e = math.erf %v : tensor<16xf64>
  %c = math.erfc %e : tensor<16xf64>
  tile.store %c, %out[%zero] strides [1] : tensor<16xf64>, !tile.ptr<f64>
  tile.return
}
