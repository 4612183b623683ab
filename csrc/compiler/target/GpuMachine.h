// What a GPU can do in a nanosecond: the numbers from which schedules are predicted.
#pragma once

#include <cstdint>

namespace torch_tile::target {

/// The defaults are those of an H200: memory as a copy of 1 GiB measures it, and latencies by chains of dependent
/// loads. Rates of caches, instructions and what is hidden of latencies are fitted to 5,238 measured schedules of 190
/// kernels.
struct GpuMachine {
  int64_t multiprocessors = 132;
  /// Threads and blocks that one of them holds, and registers of 32 bits.
  int64_t threads = 2048, blocks = 32, registers = 64 << 10;
  double cyclesPerNs = 1.7;
  /// Of a multiprocessor's first-level cache for each line of 128 bytes that a warp's access touches.
  double lineCycles = 2;
  /// Bytes per nanosecond from memory, and from the second-level cache.
  double memoryRate = 4200, cacheRate = 8600;
  /// Capacity of the second-level cache, and of the first-level one of a multiprocessor beside what is shared.
  int64_t cacheBytes = 50 << 20, localBytes = 160 << 10;
  /// Of the second-level cache, what one buffer may take and be found there again while others stream through it.
  double residentShare = 0.4;
  /// Moved again for each byte of blocks of `memoryBlockBytes` that are written in parts, at times that are far apart:
  /// memory reads them, too. Likewise for each in sectors that programs under way together write, and for each that a
  /// program does not use of the blocks that it reads.
  double partStores = 2, sharedStores = 1, unusedLoads = 0.5;
  /// What the second-level cache reads from memory at once.
  int64_t memoryBlockBytes = 64;
  /// The share of a block's time in which nothing else runs on its multiprocessor if it is there alone: it waits at its
  /// start, at its end and at barriers.
  double loneBlockShare = 0.15;
  /// Memory takes longer by this power of the share of a multiprocessor's threads that are under way, in nests of few
  /// tensors: reductions and copies.
  double idleReducingPower = 0.15, idleCopyingPower = 0.1;
  /// Longer for each element of a thread, whose registers keep other threads away; and, where rows are held from stage
  /// to stage, for each beyond the first four.
  double elementShare = 0.05 / 16, heldShare = 0.15 / 16;
  /// Likewise in kernels of many accesses, or of such as indices choose: a thread has values of each for every element.
  double busyElementShare = 0.01;
  /// Likewise in tiles over two axes, for each doubling of a thread's elements from so many on.
  double doublingShare = 0.2;
  int64_t freeElements = 8;
  /// From issuing a load until its data is there.
  double loadNs = 700;
  /// From the start of one block to that of the next, on whatever multiprocessors.
  double blockStartNs = 1.1;
  /// How much longer kernels without reductions take where no access is contiguous along the lanes of a tile.
  double acrossShare = 0.06;
  /// Longer for tiles over two axes in blocks of fewer threads.
  int64_t fewThreads = 128;
  double fewThreadsShare = 0.1;
  /// A block's start and end; folding what threads of a block, or of a warp with one row, hold into one result.
  double blockNs = 600, foldNs = 330, warpFoldNs = 80;
  /// From one dependent access of shared memory to the next, with a combination between.
  double sharedStepNs = 17;
  /// Of what programs wait for, the share that others on their multiprocessor do not hide.
  double waitShare = 0.45;
  /// Lanes that one multiprocessor computes in a cycle, and the share of the cycles in which it issues instructions.
  int64_t lanes = 128;
  double issueShare = 0.5;
};

} // namespace torch_tile::target
