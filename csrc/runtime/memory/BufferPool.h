// Memory of large tensors on the CPU. The operating system gives fresh memory a page at a time, which can cost more
// than the kernel that fills it; here it comes in huge pages, and what a program frees its next call gets back.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>

namespace torch_tile::runtime {

/// Blocks that are mapped one by one. Freed ones are kept for later requests of about their size, within two bounds:
/// `limit`, and what has been in use at one time, so that keeping never raises the peak by more than `slack`. With less
/// slack, training maps blocks anew in each step, which costs more than the kernels that fill them.
class BufferPool final : public c10::Allocator {
public:
  /// Smaller buffers cost little and are left to torch's allocator, to which all requests go when the pool is off.
  static constexpr size_t minBytes = 256 << 10;
  static constexpr size_t slackBytes = 32 << 20;
  static constexpr size_t defaultLimitBytes = 1 << 30;
  /// Blocks that so many requests in a row had no use for are given back to the system.
  static constexpr uint64_t maxAge = 4096;
  /// So are blocks that were free for one to two of these, whatever else happens.
  static constexpr int idleSeconds = 5;

  struct Statistics {
    size_t usedBytes, keptBytes, peakBytes;
    uint64_t numRequests, numMapped;
  };

  /// Lives until the process ends: tensors may outlive everything else.
  static BufferPool &get();

  c10::DataPtr allocate(size_t numBytes) override;
  void copy_data(void *dest, const void *src, size_t count) const override { default_copy_data(dest, src, count); }

  /// Free memory kept at most; 0 turns the pool off. What is kept beyond it goes at once.
  void setLimit(size_t numBytes);
  /// Gives all free blocks back to the system; false if there are none.
  bool clear();
  Statistics statistics();
  /// Frees a block; false if it is none of the pool's.
  bool releaseIfOwn(void *address);

private:
  struct Block {
    void *address;
    size_t numBytes;
    uint64_t lastUse; // number of the request that was the latest when it became free
    uint64_t freed;   // by `tick`
  };
  using FreeBlocks = std::multimap<size_t, Block>; // by size

  BufferPool();
  static void release(void *address);
  /// A block of `numBytes`, which are whole pages; null where there is no memory.
  void *take(size_t numBytes);
  /// A kept block of at least `numBytes`, and not much more, or null.
  void *takeKept(size_t numBytes);
  void *map(size_t numBytes);
  /// Unmaps the free blocks that waited longest until `keptBytes` is at most this.
  void shrink(size_t maxKeptBytes);
  void dropOld();
  /// Starts a thread that gives idle blocks back and ends with the last of them. A sleeping thread is all that an idle
  /// process pays; no clock is read in a call.
  void startTrimming();
  void trim();

  std::mutex mutex;
  FreeBlocks kept;
  std::unordered_map<void *, size_t> used;
  size_t limitBytes = defaultLimitBytes;
  size_t usedBytes = 0, keptBytes = 0, peakBytes = 0; // peak of what was in use
  uint64_t numRequests = 0, numMapped = 0;
  uint64_t tick = 0; // of the trimming thread
  bool isTrimming = false;
};

/// Uninitialised, on the CPU.
at::Tensor emptyOnCpu(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);

} // namespace torch_tile::runtime
