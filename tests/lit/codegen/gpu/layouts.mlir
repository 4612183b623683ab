// Tiles over two axes where no single axis follows the memory's order: chosen by what they are predicted to take.
// RUN: split-file %s %t
// RUN: tile-compile %t/group-norm.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=GROUP
// RUN: tile-compile %t/channels.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=CHANNELS
// RUN: tile-compile %t/channels.mlir --target=sm_90 --emit=60-kernel.ptx | FileCheck %s --check-prefix=CHANNELS-PTX
// RUN: tile-compile %t/between.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=BETWEEN
// RUN: tile-compile %t/copy.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=COPY
// RUN: tile-compile %t/tail.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=TAIL
// RUN: tile-compile %t/unaligned.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=UNALIGNED
// RUN: tile-compile %t/unaligned.mlir --target=sm_90 --emit=60-kernel.ptx | FileCheck %s --check-prefix=UNALIGNED-PTX
// RUN: tile-compile %t/rows.mlir --target=sm_90 --emit=30-tile.mlir | FileCheck %s --check-prefix=USUAL

// Groups of 16 channels that lie last, over positions: neighbouring groups are the rows, as they follow one another.
// GROUP: reduce r1 = 16] {{.*}} vector axis r1 lanes 16 row axis i2 rows [[HEIGHT:[0-9]+]]
// GROUP: scf.for
// GROUP: tile.load {{.*}} strides [16, 1] {{.*}} -> tensor<[[HEIGHT]]x16xbf16>
// GROUP: tile.reduce({{.*}}) axis 1 : (tensor<[[HEIGHT]]x16xf32>) -> tensor<[[HEIGHT]]xf32>

// A maximum over channels that lie far apart, and what follows it: rows of 64 neighbours or more side by side, all
// stages in one kernel; threads share the fold of rows in shared memory.
// CHANNELS: tile.kernel {{.*}} vector axis {{m?i[0-9]}} lanes {{[0-9]+}} row axis r0 rows [[HEIGHT:[0-9]+]]
// CHANNELS: tile.reduce({{.*}}) axis 0
// CHANNELS: tile.store
// CHANNELS-PTX: st.shared
// CHANNELS-PTX: bar.sync
// CHANNELS-PTX: ld.shared
// CHANNELS-PTX: bar.sync
// CHANNELS-PTX: st.shared
// CHANNELS-PTX: bar.sync

// Results between short reduced runs are taken together: pieces of the long axis, and 17 results side by side in each.
// BETWEEN: graph.launch @[[FIRST:[a-z_0-9]+]]
// BETWEEN: graph.launch
// BETWEEN: tile.kernel @[[FIRST]]{{.*}}schedule = "axes [{{.*}}i{{[0-9]}} = 17
// BETWEEN-NOT: lanes 4 row axis

// A transposed copy with 24 points along one side.
// COPY: row axis {{.*}} rows
// COPY: tile.trans

// The last program is short: loads have masks in one of two versions of the program alone.
// TAIL: scf.if
// TAIL: tile.load
// TAIL-NOT: valid
// TAIL: } else {
// TAIL: tile.load {{.*}} valid

// What the usual rules bring near the least that memory takes stays as it is.
// USUAL: vector axis r0 lanes 1024 threads 32

// An input that begins between multiples of 16 bytes: pieces are put together from two words where the tile is whole.
// UNALIGNED: tile.kernel {{.*}}tile.unaligned_args = array<i64: 0>
// UNALIGNED-PTX: ld.global.nc.v4.b32
// UNALIGNED-PTX: ld.global.nc.v4.b32
// UNALIGNED-PTX: prmt
// UNALIGNED-PTX: st.global.v4.b32

//--- unaligned.mlir
graph.func @graph(%0: !graph.tensor<[67108800], bf16> {graph.unaligned}) -> (!graph.tensor<[67108800], bf16>) attributes {symbols = []} {
  %1 = graph.neg %0 : (!graph.tensor<[67108800], bf16>) -> !graph.tensor<[67108800], bf16>
  graph.return %1 : !graph.tensor<[67108800], bf16>
}

//--- group-norm.mlir
graph.func @graph(%0: !graph.tensor<[16, 32, 16, 4096], bf16, [2097152, 16, 1, 512]>) -> (!graph.tensor<[16, 32], f32>) attributes {symbols = []} {
  %1 = graph.cast %0 : (!graph.tensor<[16, 32, 16, 4096], bf16, [2097152, 16, 1, 512]>) -> !graph.tensor<[16, 32, 16, 4096], f32, [2097152, 16, 1, 512]>
  %2 = graph.sum %1 {dims = array<i64: 2, 3>} : (!graph.tensor<[16, 32, 16, 4096], f32, [2097152, 16, 1, 512]>) -> !graph.tensor<[16, 32], f32>
  graph.return %2 : !graph.tensor<[16, 32], f32>
}

//--- channels.mlir
graph.func @graph(%0: !graph.tensor<[16, 512, 4096], f32>) -> (!graph.tensor<[16, 512, 4096], f32>) attributes {symbols = []} {
  %1 = graph.amax %0 {dims = array<i64: 1>, keepdim = true} : (!graph.tensor<[16, 512, 4096], f32>) -> !graph.tensor<[16, 1, 4096], f32>
  %2 = graph.sub %0, %1 : (!graph.tensor<[16, 512, 4096], f32>, !graph.tensor<[16, 1, 4096], f32>) -> !graph.tensor<[16, 512, 4096], f32>
  graph.return %2 : !graph.tensor<[16, 512, 4096], f32>
}

//--- between.mlir
graph.func @graph(%0: !graph.tensor<[1315860, 17, 3], f32>) -> (!graph.tensor<[17], f32>) attributes {symbols = []} {
  %1 = graph.sum %0 {dims = array<i64: 0, 2>} : (!graph.tensor<[1315860, 17, 3], f32>) -> !graph.tensor<[17], f32>
  graph.return %1 : !graph.tensor<[17], f32>
}

//--- copy.mlir
graph.func @graph(%0: !graph.tensor<[24, 2796200], bf16, [1, 24]>) -> (!graph.tensor<[24, 2796200], bf16>) attributes {symbols = []} {
  %1 = graph.clone %0 : (!graph.tensor<[24, 2796200], bf16, [1, 24]>) -> !graph.tensor<[24, 2796200], bf16>
  graph.return %1 : !graph.tensor<[24, 2796200], bf16>
}

//--- tail.mlir
graph.func @graph(%0: !graph.tensor<[16, 4194302], f32, [4194304, 1]>) -> (!graph.tensor<[4194302], f32>) attributes {symbols = []} {
  %1 = graph.amax %0 {dims = array<i64: 0>} : (!graph.tensor<[16, 4194302], f32, [4194304, 1]>) -> !graph.tensor<[4194302], f32>
  graph.return %1 : !graph.tensor<[4194302], f32>
}

//--- rows.mlir
graph.func @graph(%0: !graph.tensor<[65536, 1024], f32>) -> (!graph.tensor<[65536], f32>) attributes {symbols = []} {
  %1 = graph.amax %0 {dims = array<i64: 1>} : (!graph.tensor<[65536, 1024], f32>) -> !graph.tensor<[65536], f32>
  graph.return %1 : !graph.tensor<[65536], f32>
}
