// Approximations where they disappear: exponentials of the logistic function and of e^(x - maximum), which one division
// for all elements scales. Any other exponential keeps its accuracy, any other division rounds as eager's.
// RUN: tile-compile %s --target=sm_90 --emit=60-kernel.ptx | FileCheck %s

// CHECK: // logistic =
// CHECK: .entry
// CHECK: ex2.approx.ftz.f32
// CHECK: rcp.approx.ftz.f32
// CHECK-NOT: div.rn
// CHECK: ret;
tile.kernel @logistic(%x: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %one = arith.constant dense<1.0> : tensor<64xf32>
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<64xf32>
  %n = arith.negf %v : tensor<64xf32>
  %e = math.exp %n : tensor<64xf32>
  %s = arith.addf %one, %e : tensor<64xf32>
  %r = arith.divf %one, %s : tensor<64xf32>
  tile.store %r, %x[%zero] strides [1] : tensor<64xf32>, !tile.ptr<f32>
  tile.return
}

// CHECK: // plain =
// CHECK: .entry
// CHECK: ex2.approx.f32
// CHECK-NOT: ftz
// CHECK: div.rn.f32
// CHECK: ret;
tile.kernel @plain(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<64xf32>
  %w = tile.load %y[%zero] strides [1] : !tile.ptr<f32> -> tensor<64xf32>
  %d = arith.subf %v, %w : tensor<64xf32>
  %e = math.exp %d : tensor<64xf32>
  %r = arith.divf %e, %w : tensor<64xf32>
  tile.store %r, %x[%zero] strides [1] : tensor<64xf32>, !tile.ptr<f32>
  tile.return
}

// Lanes of a piece and threads of a row, then back to them: no shared memory.
// CHECK: // rows =
// CHECK-NOT: .shared
// CHECK: .entry
// CHECK: ld.global.nc.v4
// CHECK-COUNT-4: max.NaN.f32
// CHECK: shfl.sync.bfly.b32
// CHECK-NOT: bar
// CHECK: st.global.v4
// CHECK: ret;
tile.kernel @rows(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) attributes {tile.threads = 32 : i64, tile.noalias_args} {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [64, 1] : !tile.ptr<f32> -> tensor<4x64xf32>
  %max = tile.reduce (%v) axis 1 : (tensor<4x64xf32>) -> tensor<4xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }
  %column = tile.expand_dims %max axis 1 : tensor<4xf32> -> tensor<4x1xf32>
  %m = tile.broadcast %column : tensor<4x1xf32> -> tensor<4x64xf32>
  %d = arith.subf %v, %m : tensor<4x64xf32>
  tile.store %d, %y[%zero] strides [64, 1] : tensor<4x64xf32>, !tile.ptr<f32>
  tile.return
}

// Random numbers: the words of one call for four neighbours, and nothing to decide at run time.
// CHECK: // random =
// CHECK: .entry
// CHECK-NOT: setp
// CHECK: xor.b
// CHECK-NOT: setp
// CHECK: ret;
tile.kernel @random(%x: !tile.ptr<f32>, %seed: i64) attributes {tile.threads = 32 : i64} {
  %zero = arith.constant 0 : i64
  %size = arith.constant 128 : i64
  %pid = tile.program_id 0 : i64
  %first = arith.muli %pid, %size : i64
  %base = tile.splat %first : i64 -> tensor<128xi64>
  %iota = tile.iota : tensor<128xi64>
  %counter = arith.addi %base, %iota : tensor<128xi64>
  %u = tile.uniform %seed, %counter {salt = 0 : i64} : tensor<128xi64> -> tensor<128xf32>
  %unit = arith.constant 1 : i64
  tile.store %u, %x[%first] strides [2] : tensor<128xf32>, !tile.ptr<f32>
  tile.return
}

// e^(x - maximum of x) is at most 1: an approximation will do.
// CHECK: // own_maximum =
// CHECK: .entry
// CHECK: ex2.approx.ftz.f32
// CHECK: ret;
tile.kernel @own_maximum(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) attributes {tile.threads = 32 : i64, tile.noalias_args} {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [64, 1] : !tile.ptr<f32> -> tensor<4x64xf32>
  %max = tile.reduce (%v) axis 1 : (tensor<4x64xf32>) -> tensor<4xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }
  %column = tile.expand_dims %max axis 1 : tensor<4xf32> -> tensor<4x1xf32>
  %m = tile.broadcast %column : tensor<4x1xf32> -> tensor<4x64xf32>
  %d = arith.subf %v, %m : tensor<4x64xf32>
  %e = math.exp %d : tensor<4x64xf32>
  tile.store %e, %y[%zero] strides [64, 1] : tensor<4x64xf32>, !tile.ptr<f32>
  tile.return
}

// Of another tile's maximum it may be large.
// CHECK: // other_maximum =
// CHECK: .entry
// CHECK-NOT: ex2.approx.ftz
// CHECK: ex2.approx.f32
// CHECK-NOT: ex2.approx.ftz
// CHECK: ret;
tile.kernel @other_maximum(%x: !tile.ptr<f32>, %w: !tile.ptr<f32>, %y: !tile.ptr<f32>) attributes {tile.threads = 32 : i64, tile.noalias_args} {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [64, 1] : !tile.ptr<f32> -> tensor<4x64xf32>
  %other = tile.load %w[%zero] strides [64, 1] : !tile.ptr<f32> -> tensor<4x64xf32>
  %max = tile.reduce (%other) axis 1 : (tensor<4x64xf32>) -> tensor<4xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }
  %column = tile.expand_dims %max axis 1 : tensor<4xf32> -> tensor<4x1xf32>
  %m = tile.broadcast %column : tensor<4x1xf32> -> tensor<4x64xf32>
  %d = arith.subf %v, %m : tensor<4x64xf32>
  %e = math.exp %d : tensor<4x64xf32>
  tile.store %e, %y[%zero] strides [64, 1] : tensor<4x64xf32>, !tile.ptr<f32>
  tile.return
}

// Nor is it bounded where the maxima of rows lie along columns.
// CHECK: // turned_maximum =
// CHECK: .entry
// CHECK-NOT: ex2.approx.ftz
// CHECK: ex2.approx.f32
// CHECK-NOT: ex2.approx.ftz
// CHECK: ret;
tile.kernel @turned_maximum(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) attributes {tile.threads = 32 : i64, tile.noalias_args} {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [16, 1] : !tile.ptr<f32> -> tensor<16x16xf32>
  %max = tile.reduce (%v) axis 1 : (tensor<16x16xf32>) -> tensor<16xf32> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }
  %row = tile.expand_dims %max axis 0 : tensor<16xf32> -> tensor<1x16xf32>
  %m = tile.broadcast %row : tensor<1x16xf32> -> tensor<16x16xf32>
  %d = arith.subf %v, %m : tensor<16x16xf32>
  %e = math.exp %d : tensor<16x16xf32>
  tile.store %e, %y[%zero] strides [16, 1] : tensor<16x16xf32>, !tile.ptr<f32>
  tile.return
}
