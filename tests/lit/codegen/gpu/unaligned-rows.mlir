// Rows that begin anywhere in memory: tiles begin at the last multiple of 16 bytes before.
// RUN: split-file %s %t
// RUN: tile-compile %t/held.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=HELD
// RUN: tile-compile %t/held.mlir --target=sm_90 --emit=60-kernel.ptx | FileCheck %s --check-prefix=PTX
// RUN: tile-compile %t/registers.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=REGISTERS
// RUN: tile-compile %t/registers.mlir --target=sm_90 --emit=60-kernel.ptx | FileCheck %s --check-prefix=REGPTX
// RUN: tile-compile %t/pointwise.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=POINTWISE
// RUN: tile-compile %t/pointwise.mlir --target=sm_90 --emit=60-kernel.ptx | FileCheck %s --check-prefix=POINTPTX
// RUN: tile-compile %t/slice.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=SLICE
// RUN: tile-compile %t/dynamic.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=DYNAMIC
// RUN: tile-compile %t/store.mlir --target=sm_90 --emit=60-kernel.ptx | FileCheck %s --check-prefix=STORE
// RUN: tile-compile %t/short.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=SHORT
// RUN: tile-compile %t/short.mlir --target=sm_90 --emit=60-kernel.ptx | FileCheck %s --check-prefix=SHORTPTX
// RUN: tile-compile %t/columns.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=COLUMNS

// The first tile skips what lies before the row, the last one has the rest, in fewer lanes; both are straight code, those
// between them a loop without masks.
// HELD: threads 1024 held bytes 114688 blocks per processor 2 online from multiples of 8 last lanes 2048
// HELD: %[[SKIPPED:.*]] = arith.remui {{.*}}, %c8_i64
// HELD: tile.load %arg0[{{.*}}] strides [1] valid[{{.*}}] {tile.multiple = 8 : i64} : !tile.ptr<bf16> -> tensor<2048xbf16>
// HELD: tile.load %arg0[{{.*}}] strides [1] {tile.multiple = 8 : i64} : !tile.ptr<bf16> -> tensor<8192xbf16>
// HELD: arith.cmpi sge
// HELD: scf.for %[[PLACE:.*]] = %c8192_i64 to %c49152_i64
// HELD-NEXT: arith.subi %[[PLACE]], %[[SKIPPED]]
// HELD-NOT: valid
// HELD: tile.hold {{.*}}, %[[PLACE]] offset 0
// HELD-NOT: arith.cmpi sge
// HELD: scf.yield
// HELD: tile.held %c49152_i64 offset 0 : tensor<2048xbf16>
// HELD: tile.store
// HELD: tile.held %c0_i64
// HELD: tile.store {{.*}} mask

// Element by element in the last piece alone.
// PTX: ld.global.nc.b32
// PTX-COUNT-2: ld.global.nc.b16
// PTX: ld.global.nc.v4
// PTX: ld.global.nc.v4
// PTX-NOT: ld.global.nc.b16
// PTX: ret

// One tile: of a thread's seven pieces six need no mask to be read, and five none to be written.
// REGISTERS: lanes 896 threads 32 programs per block 4 from multiples of 4
// REGISTERS-COUNT-1: tile.load
// REGISTERS-NOT: scf.for
// REGISTERS: tile.return
// REGPTX: ld.global.nc.v4
// REGPTX-NEXT: ld.global.nc.v4
// REGPTX-NEXT: ld.global.nc.v4
// REGPTX-NEXT: ld.global.nc.v4
// REGPTX-NEXT: ld.global.nc.v4
// REGPTX-NEXT: ld.global.nc.v4
// REGPTX: st.global.v4
// REGPTX: st.global.v4
// REGPTX-NEXT: st.global.v4
// REGPTX-NEXT: st.global.v4
// REGPTX-NEXT: st.global.v4
// REGPTX-NEXT: st.global.v4
// REGPTX: ret

// Most blocks have no masks. What begins elsewhere in memory is put together from two words.
// POINTWISE: from multiples of 8
// POINTWISE: scf.if
// POINTWISE-NOT: mask
// POINTWISE: tile.load %arg1{{.*}}tile.surrounded
// POINTWISE-NOT: mask
// POINTWISE: tile.store {{.*}} strides [1] {tile.multiple = 8 : i64}
// POINTWISE: } else {
// POINTWISE: tile.store {{.*}} valid[{{.*}}] mask
// POINTPTX: ld.global.nc.v4
// POINTPTX: ld.global.nc.v4
// POINTPTX: ld.global.nc.v4
// POINTPTX: prmt.b32.f4e
// POINTWISE-NOT: tile.load %arg1{{.*}}tile.multiple

// SLICE: from multiples of 8

// DYNAMIC: from multiples of 8
// DYNAMIC: arith.minsi
// DYNAMIC: scf.for
// DYNAMIC: scf.if

// Rows of less than a warp's pieces: each in single elements of neighbouring threads, several in a warp, without
// barriers.
// SHORT: lanes 224 row axis i0 rows 2 row block 2 threads 32 programs per block 4 pieces of 1
// SHORT-SAME: tile.most_neighbours = 1
// SHORTPTX-NOT: bar
// SHORTPTX-COUNT-14: ld.global.nc.b16
// SHORTPTX-NOT: ld.global
// SHORTPTX-NOT: bar.warp
// SHORTPTX: ret

// So are columns; a slice of an even length has pairs.
// COLUMNS: {{lanes 128 threads 128|pieces of 1}}
// COLUMNS: pieces of 2

// STORE: st.global.b32
// STORE: ret

//--- held.mlir
graph.func @graph(%0: !graph.tensor<[4096, 50257], bf16>) -> !graph.tensor<[4096, 50257], bf16> attributes {symbols = []} {
  %1 = graph.softmax %0 {dim = 1 : i64} : (!graph.tensor<[4096, 50257], bf16>) -> !graph.tensor<[4096, 50257], bf16>
  graph.return %1 : !graph.tensor<[4096, 50257], bf16>
}

//--- registers.mlir
graph.func @graph(%0: !graph.tensor<[65536, 769], f32>) -> !graph.tensor<[65536, 769], f32> attributes {symbols = []} {
  %1 = graph.softmax %0 {dim = 1 : i64} : (!graph.tensor<[65536, 769], f32>) -> !graph.tensor<[65536, 769], f32>
  graph.return %1 : !graph.tensor<[65536, 769], f32>
}

//--- pointwise.mlir
graph.func @graph(%0: !graph.tensor<[4096, 50257], bf16>, %1: !graph.tensor<[50257], bf16>) -> !graph.tensor<[4096, 50257], bf16> attributes {symbols = []} {
  %2 = graph.add %0, %1 : (!graph.tensor<[4096, 50257], bf16>, !graph.tensor<[50257], bf16>) -> !graph.tensor<[4096, 50257], bf16>
  graph.return %2 : !graph.tensor<[4096, 50257], bf16>
}

//--- slice.mlir
graph.func @graph(%0: !graph.tensor<[4096, 2048], bf16>) -> !graph.tensor<[4096], bf16> attributes {symbols = []} {
  %1 = graph.slice %0 {dim = 1 : i64, start = 3 : i64} : (!graph.tensor<[4096, 2048], bf16>) -> !graph.tensor<[4096, 2045], bf16, [2048, 1]>
  %2 = graph.amax %1 {dims = array<i64: 1>} : (!graph.tensor<[4096, 2045], bf16, [2048, 1]>) -> !graph.tensor<[4096], bf16>
  graph.return %2 : !graph.tensor<[4096], bf16>
}

//--- dynamic.mlir
graph.func @graph(%0: !graph.tensor<["s0", "s1"], bf16>, %1: !graph.size<"s0">, %2: !graph.size<"s1">) -> !graph.tensor<["s0"], bf16>
    attributes {symbols = [#graph.symbol<"s0", min = 2, max = 9223372036854775807, hint = 4096>, #graph.symbol<"s1", min = 2, max = 9223372036854775807, hint = 50257>]} {
  %3 = graph.amax %0 {dims = array<i64: 1>} : (!graph.tensor<["s0", "s1"], bf16>) -> !graph.tensor<["s0"], bf16>
  graph.return %3 : !graph.tensor<["s0"], bf16>
}

//--- store.mlir
tile.kernel @masked(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %n: i64) attributes {tile.threads = 32 : i64, tile.aligned_args, tile.noalias_args} {
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<128xf32>
  %i = tile.iota : tensor<128xi32>
  %m = arith.trunci %n : i64 to i32
  %s = tile.splat %m : i32 -> tensor<128xi32>
  %mask = arith.cmpi sge, %i, %s : tensor<128xi32>
  tile.store %v, %y[%zero] strides [1] mask %mask : tensor<128xi1> : tensor<128xf32>, !tile.ptr<f32>
  tile.return
}

//--- short.mlir
graph.func @graph(%0: !graph.tensor<[786432, 197], bf16>) -> !graph.tensor<[786432, 197], bf16> attributes {symbols = []} {
  %1 = graph.softmax %0 {dim = 1 : i64} : (!graph.tensor<[786432, 197], bf16>) -> !graph.tensor<[786432, 197], bf16>
  graph.return %1 : !graph.tensor<[786432, 197], bf16>
}

//--- columns.mlir
graph.func @graph(%0: !graph.tensor<[65536, 1001], f32>, %1: !graph.tensor<[65536, 1002], f32>) -> (!graph.tensor<[1001], f32>, !graph.tensor<[1000], f32>) attributes {symbols = []} {
  %2 = graph.sum %0 {dims = array<i64: 0>} : (!graph.tensor<[65536, 1001], f32>) -> !graph.tensor<[1001], f32>
  %3 = graph.slice %1 {dim = 1 : i64, start = 2 : i64} : (!graph.tensor<[65536, 1002], f32>) -> !graph.tensor<[65536, 1000], f32, [1002, 1]>
  %4 = graph.sum %3 {dims = array<i64: 0>} : (!graph.tensor<[65536, 1000], f32, [1002, 1]>) -> !graph.tensor<[1000], f32>
  graph.return %2, %4 : !graph.tensor<[1001], f32>, !graph.tensor<[1000], f32>
}
