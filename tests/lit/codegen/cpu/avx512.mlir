// Instructions that other processors lack: scaling by a power of two ends exp, in lanes whose result is not 0; bf16 is
// rounded by one conversion unless a lane is subnormal or NaN.
// RUN: tile-compile %s --emit=60-kernel.s --target=znver5 | FileCheck %s --check-prefixes=CHECK,NEW
// RUN: tile-compile %s --emit=60-kernel.s --target=x86-64-v4 | FileCheck %s --check-prefixes=CHECK,V4
// RUN: tile-compile %s --emit=60-kernel.s --target=x86-64-v3 | FileCheck %s --check-prefix=V3

// CHECK-LABEL: # exponential
// CHECK: vcmp{{.*}}ps {{.*}}, %k[[KEPT:[0-9]]]
// CHECK: vscalefps {{.*}} {%k[[KEPT]]} {z}
// V3-LABEL: # exponential
// V3-NOT: vscalef
tile.kernel @exponential(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<32xf32>
  %e = math.exp %v : tensor<32xf32>
  tile.store %e, %out[%zero] strides [1] : tensor<32xf32>, !tile.ptr<f32>
  tile.return
}

// CHECK-LABEL: # rounding
// NEW-DAG: vfpclassps
// NEW-DAG: vcvtne2ps2bf16
// V4-NOT: vcvtne
// V3-LABEL: # rounding
// V3-NOT: vcvtne
tile.kernel @rounding(%x: !tile.ptr<f32>, %out: !tile.ptr<bf16>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<32xf32>
  %e = arith.truncf %v : tensor<32xf32> to tensor<32xbf16>
  tile.store %e, %out[%zero] strides [1] : tensor<32xbf16>, !tile.ptr<bf16>
  tile.return
}

// f64: the same, for exp, sine and cosine; what large angles take is the library's.

// CHECK-LABEL: # wide
// CHECK-NOT: Sleef_exp
// CHECK: vscalefpd
// CHECK: Sleef_sind8_u10
// V3-LABEL: # wide
// V3: Sleef_expd4_u10
tile.kernel @wide(%x: !tile.ptr<f64>, %out: !tile.ptr<f64>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f64> -> tensor<16xf64>
  %e = math.exp %v : tensor<16xf64>
  %s = math.sin %e : tensor<16xf64>
  tile.store %s, %out[%zero] strides [1] : tensor<16xf64>, !tile.ptr<f64>
  tile.return
}
