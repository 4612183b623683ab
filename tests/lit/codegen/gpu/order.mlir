// Threads of a block meet at a barrier where one may touch what another has touched, and nowhere else.
// RUN: tile-compile %s --target=sm_90 --emit=60-kernel.ptx | FileCheck %s

// The same elements by the same threads.
// CHECK: // in_place =
// CHECK: .visible .entry
// CHECK-NOT: bar
// CHECK: ret
tile.kernel @in_place(%x: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
  %n = arith.negf %v : tensor<256xf32>
  tile.store %n, %x[%zero] strides [1] : tensor<256xf32>, !tile.ptr<f32>
  tile.return
}

// The same elements, but three quarters of the threads hold copies, which they must have read before the store.
// CHECK: // copies =
// CHECK: .visible .entry
// CHECK: ld.global
// CHECK: bar.sync
// CHECK: st.global
// CHECK: ret
tile.kernel @copies(%x: !tile.ptr<f32>) attributes {tile.threads = 256 : i64} {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<64xf32>
  %n = arith.negf %v : tensor<64xf32>
  tile.store %n, %x[%zero] strides [1] : tensor<64xf32>, !tile.ptr<f32>
  tile.return
}

// A neighbour's: all loads come before any store. A block of one warp needs no more than the warp.
// CHECK: // shifted =
// CHECK: .visible .entry
// CHECK: ld.global
// CHECK: bar.warp.sync
// CHECK: st.global
// CHECK: ret
tile.kernel @shifted(%x: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<64xf32>
  tile.store %v, %x[%one] strides [1] : tensor<64xf32>, !tile.ptr<f32>
  tile.return
}

// A barrier before the loop for what comes before it, and one between its iterations.
// CHECK: // loop =
// CHECK: .visible .entry
// CHECK: st.global
// CHECK: bar.sync
// CHECK: $L__BB
// CHECK: bar.sync
// CHECK: st.global
// CHECK: ret
tile.kernel @loop(%x: !tile.ptr<f32>, %n: i64) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %none = arith.constant dense<0.0> : tensor<256xf32>
  tile.store %none, %x[%zero] strides [1] : tensor<256xf32>, !tile.ptr<f32>
  scf.for %i = %zero to %n step %one : i64 {
    %v = tile.load %x[%i] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    tile.store %v, %x[%i] strides [1] : tensor<256xf32>, !tile.ptr<f32>
  }
  tile.return
}

// Branches one after the other: what waits for a barrier is kept once. (It doubled with each of them.)
// CHECK: // branches =
// CHECK: .visible .entry
// CHECK-NOT: bar
// CHECK: ret
tile.kernel @branches(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %n: i64) attributes {tile.noalias_args} {
  %o0 = arith.constant 0 : i64
  %step = arith.constant 256 : i64
  %p = arith.cmpi slt, %o0, %n : i64
  %s0 = arith.constant dense<0.0> : tensor<256xf32>
  %v0 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o0] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s0 : tensor<256xf32>
  }
  %s1 = arith.addf %s0, %v0 : tensor<256xf32>
  %o1 = arith.addi %o0, %step : i64
  %v1 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o1] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s1 : tensor<256xf32>
  }
  %s2 = arith.addf %s1, %v1 : tensor<256xf32>
  %o2 = arith.addi %o1, %step : i64
  %v2 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o2] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s2 : tensor<256xf32>
  }
  %s3 = arith.addf %s2, %v2 : tensor<256xf32>
  %o3 = arith.addi %o2, %step : i64
  %v3 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o3] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s3 : tensor<256xf32>
  }
  %s4 = arith.addf %s3, %v3 : tensor<256xf32>
  %o4 = arith.addi %o3, %step : i64
  %v4 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o4] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s4 : tensor<256xf32>
  }
  %s5 = arith.addf %s4, %v4 : tensor<256xf32>
  %o5 = arith.addi %o4, %step : i64
  %v5 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o5] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s5 : tensor<256xf32>
  }
  %s6 = arith.addf %s5, %v5 : tensor<256xf32>
  %o6 = arith.addi %o5, %step : i64
  %v6 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o6] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s6 : tensor<256xf32>
  }
  %s7 = arith.addf %s6, %v6 : tensor<256xf32>
  %o7 = arith.addi %o6, %step : i64
  %v7 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o7] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s7 : tensor<256xf32>
  }
  %s8 = arith.addf %s7, %v7 : tensor<256xf32>
  %o8 = arith.addi %o7, %step : i64
  %v8 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o8] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s8 : tensor<256xf32>
  }
  %s9 = arith.addf %s8, %v8 : tensor<256xf32>
  %o9 = arith.addi %o8, %step : i64
  %v9 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o9] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s9 : tensor<256xf32>
  }
  %s10 = arith.addf %s9, %v9 : tensor<256xf32>
  %o10 = arith.addi %o9, %step : i64
  %v10 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o10] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s10 : tensor<256xf32>
  }
  %s11 = arith.addf %s10, %v10 : tensor<256xf32>
  %o11 = arith.addi %o10, %step : i64
  %v11 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o11] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s11 : tensor<256xf32>
  }
  %s12 = arith.addf %s11, %v11 : tensor<256xf32>
  %o12 = arith.addi %o11, %step : i64
  %v12 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o12] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s12 : tensor<256xf32>
  }
  %s13 = arith.addf %s12, %v12 : tensor<256xf32>
  %o13 = arith.addi %o12, %step : i64
  %v13 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o13] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s13 : tensor<256xf32>
  }
  %s14 = arith.addf %s13, %v13 : tensor<256xf32>
  %o14 = arith.addi %o13, %step : i64
  %v14 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o14] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s14 : tensor<256xf32>
  }
  %s15 = arith.addf %s14, %v14 : tensor<256xf32>
  %o15 = arith.addi %o14, %step : i64
  %v15 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o15] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s15 : tensor<256xf32>
  }
  %s16 = arith.addf %s15, %v15 : tensor<256xf32>
  %o16 = arith.addi %o15, %step : i64
  %v16 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o16] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s16 : tensor<256xf32>
  }
  %s17 = arith.addf %s16, %v16 : tensor<256xf32>
  %o17 = arith.addi %o16, %step : i64
  %v17 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o17] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s17 : tensor<256xf32>
  }
  %s18 = arith.addf %s17, %v17 : tensor<256xf32>
  %o18 = arith.addi %o17, %step : i64
  %v18 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o18] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s18 : tensor<256xf32>
  }
  %s19 = arith.addf %s18, %v18 : tensor<256xf32>
  %o19 = arith.addi %o18, %step : i64
  %v19 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o19] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s19 : tensor<256xf32>
  }
  %s20 = arith.addf %s19, %v19 : tensor<256xf32>
  %o20 = arith.addi %o19, %step : i64
  %v20 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o20] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s20 : tensor<256xf32>
  }
  %s21 = arith.addf %s20, %v20 : tensor<256xf32>
  %o21 = arith.addi %o20, %step : i64
  %v21 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o21] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s21 : tensor<256xf32>
  }
  %s22 = arith.addf %s21, %v21 : tensor<256xf32>
  %o22 = arith.addi %o21, %step : i64
  %v22 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o22] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s22 : tensor<256xf32>
  }
  %s23 = arith.addf %s22, %v22 : tensor<256xf32>
  %o23 = arith.addi %o22, %step : i64
  %v23 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o23] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s23 : tensor<256xf32>
  }
  %s24 = arith.addf %s23, %v23 : tensor<256xf32>
  %o24 = arith.addi %o23, %step : i64
  %v24 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o24] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s24 : tensor<256xf32>
  }
  %s25 = arith.addf %s24, %v24 : tensor<256xf32>
  %o25 = arith.addi %o24, %step : i64
  %v25 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o25] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s25 : tensor<256xf32>
  }
  %s26 = arith.addf %s25, %v25 : tensor<256xf32>
  %o26 = arith.addi %o25, %step : i64
  %v26 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o26] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s26 : tensor<256xf32>
  }
  %s27 = arith.addf %s26, %v26 : tensor<256xf32>
  %o27 = arith.addi %o26, %step : i64
  %v27 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o27] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s27 : tensor<256xf32>
  }
  %s28 = arith.addf %s27, %v27 : tensor<256xf32>
  %o28 = arith.addi %o27, %step : i64
  %v28 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o28] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s28 : tensor<256xf32>
  }
  %s29 = arith.addf %s28, %v28 : tensor<256xf32>
  %o29 = arith.addi %o28, %step : i64
  %v29 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o29] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s29 : tensor<256xf32>
  }
  %s30 = arith.addf %s29, %v29 : tensor<256xf32>
  %o30 = arith.addi %o29, %step : i64
  %v30 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o30] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s30 : tensor<256xf32>
  }
  %s31 = arith.addf %s30, %v30 : tensor<256xf32>
  %o31 = arith.addi %o30, %step : i64
  %v31 = scf.if %p -> (tensor<256xf32>) {
    %l = tile.load %x[%o31] strides [1] : !tile.ptr<f32> -> tensor<256xf32>
    scf.yield %l : tensor<256xf32>
  } else {
    scf.yield %s31 : tensor<256xf32>
  }
  %s32 = arith.addf %s31, %v31 : tensor<256xf32>
  %o32 = arith.addi %o31, %step : i64
  tile.store %s32, %y[%o0] strides [1] : tensor<256xf32>, !tile.ptr<f32>
  tile.return
}

// Tiles that lie apart, in one iteration and from one to the next.
// CHECK: // apart =
// CHECK: .visible .entry
// CHECK-NOT: bar
// CHECK: st.global
// CHECK-NOT: bar
// CHECK: ret
tile.kernel @apart(%x: !tile.ptr<f32>, %n: i64) {
  %zero = arith.constant 0 : i64
  %next = arith.constant 256 : i64
  %step = arith.constant 512 : i64
  %none = arith.constant dense<0.0> : tensor<256xf32>
  %id = tile.program_id 0 : i64
  %row = arith.muli %id, %n : i64
  scf.for %i = %zero to %n step %step : i64 {
    %a = arith.addi %row, %i : i64
    %j = arith.addi %i, %next : i64
    %b = arith.addi %row, %j : i64
    tile.store %none, %x[%a] strides [1] : tensor<256xf32>, !tile.ptr<f32>
    tile.store %none, %x[%b] strides [1] : tensor<256xf32>, !tile.ptr<f32>
  }
  tile.return
}

// One element of the first tile is the second's as well; those of the next iteration are apart from both.
// CHECK: // overlapping =
// CHECK: .visible .entry
// CHECK-NOT: bar
// CHECK: st.global.v4
// CHECK: bar.sync
// CHECK: st.global.v4
// CHECK-NOT: bar
// CHECK: ret
tile.kernel @overlapping(%x: !tile.ptr<f32>, %n: i64) {
  %zero = arith.constant 0 : i64
  %next = arith.constant 255 : i64
  %step = arith.constant 512 : i64
  %none = arith.constant dense<0.0> : tensor<256xf32>
  scf.for %i = %zero to %n step %step : i64 {
    %j = arith.addi %i, %next : i64
    tile.store %none, %x[%i] strides [1] : tensor<256xf32>, !tile.ptr<f32>
    tile.store %none, %x[%j] strides [1] : tensor<256xf32>, !tile.ptr<f32>
  }
  tile.return
}

// Stores that interleave: their elements never meet.
// CHECK: // interleaved =
// CHECK: .visible .entry
// CHECK-NOT: bar
// CHECK: ret
tile.kernel @interleaved(%x: !tile.ptr<f32>, %v: f32) {
  %zero = arith.constant 0 : i64
  %two = arith.constant 2 : i64
  %t = tile.splat %v : f32 -> tensor<64x2xf32>
  tile.store %t, %x[%zero] strides [4, 1] : tensor<64x2xf32>, !tile.ptr<f32>
  tile.store %t, %x[%two] strides [4, 1] : tensor<64x2xf32>, !tile.ptr<f32>
  tile.return
}

// These do, in one element of each row.
// CHECK: // interleaved_and_meeting =
// CHECK: .visible .entry
// CHECK: bar
// CHECK: ret
tile.kernel @interleaved_and_meeting(%x: !tile.ptr<f32>, %v: f32) {
  %zero = arith.constant 0 : i64
  %three = arith.constant 3 : i64
  %t = tile.splat %v : f32 -> tensor<64x2xf32>
  tile.store %t, %x[%zero] strides [4, 1] : tensor<64x2xf32>, !tile.ptr<f32>
  tile.store %t, %x[%three] strides [4, 1] : tensor<64x2xf32>, !tile.ptr<f32>
  tile.return
}
