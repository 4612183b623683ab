#include "runtime/memory/BufferPool.h"
#include "runtime/memory/OperatorAllocator.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <pthread.h>
#include <sys/mman.h>
#endif

namespace torch_tile::runtime {
namespace {

constexpr size_t pageBytes = 4096;
constexpr size_t hugePageBytes = 2 << 20;

size_t roundUp(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

} // namespace

BufferPool &BufferPool::get() {
  static auto *pool = new BufferPool();
  return *pool;
}

BufferPool::BufferPool() {
#if defined(__linux__)
  // A child must not inherit the lock of a thread that it does not have.
  pthread_atfork([] { get().mutex.lock(); }, [] { get().mutex.unlock(); },
                 [] {
                   get().isTrimming = false; // the thread is the parent's
                   get().mutex.unlock();
                 });
#else
  limitBytes = 0;
#endif
}

c10::DataPtr BufferPool::allocate(size_t numBytes) {
  void *address = nullptr;
  if (numBytes >= minBytes) {
    std::lock_guard lock(mutex);
    address = limitBytes == 0 ? nullptr : take(roundUp(numBytes, pageBytes));
  }
  if (!address) // where memory is short, torch's allocator says how much was asked for
    return allocateOutsidePool(numBytes);
  c10::profiledCPUMemoryReporter().New(address, numBytes);
  return {address, address, &BufferPool::release, c10::Device(c10::DeviceType::CPU)};
}

void *BufferPool::take(size_t numBytes) {
  ++numRequests;
  void *address = takeKept(numBytes);
  if (!address)
    address = map(numBytes);
  if (numRequests % (maxAge / 4) == 0)
    dropOld();
  return address;
}

void *BufferPool::takeKept(size_t numBytes) {
  auto it = kept.lower_bound(numBytes);
  if (it == kept.end() || it->first > numBytes + numBytes / 8)
    return nullptr;
  auto [size, block] = *it;
  kept.erase(it);
  keptBytes -= size;
  usedBytes += size;
  peakBytes = std::max(peakBytes, usedBytes);
  used.emplace(block.address, size);
  return block.address;
}

void BufferPool::release(void *address) {
  if (address)
    get().releaseIfOwn(address);
}

bool BufferPool::releaseIfOwn(void *address) {
  size_t size;
  {
    std::lock_guard lock(mutex);
    auto it = used.find(address);
    if (it == used.end())
      return false;
    size = it->second;
    used.erase(it);
    usedBytes -= size;
  }
  c10::profiledCPUMemoryReporter().Delete(address);
  std::lock_guard lock(mutex);
  kept.emplace(size, Block{address, size, numRequests, tick});
  keptBytes += size;
  shrink(limitBytes);
  if (!isTrimming && !kept.empty())
    startTrimming();
  return true;
}

void BufferPool::setLimit(size_t numBytes) {
#if defined(__linux__)
  std::lock_guard lock(mutex);
  limitBytes = numBytes;
  shrink(limitBytes);
#endif
}

bool BufferPool::clear() {
  std::lock_guard lock(mutex);
  bool hadAny = !kept.empty();
  shrink(0);
  peakBytes = usedBytes;
  return hadAny;
}

BufferPool::Statistics BufferPool::statistics() {
  std::lock_guard lock(mutex);
  return {usedBytes, keptBytes, peakBytes, numRequests, numMapped};
}

at::Tensor emptyOnCpu(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  return at::Tensor(at::detail::empty_strided_generic(sizes, strides, &BufferPool::get(),
                                                      c10::DispatchKeySet(c10::DispatchKey::CPU), type));
}

#if defined(__linux__)

void *BufferPool::map(size_t numBytes) {
  size_t peak = std::max(peakBytes, usedBytes + numBytes);
  peak += slackBytes;
  shrink(peak - usedBytes - numBytes);
  bool isHuge = numBytes >= hugePageBytes;
  size_t mappedBytes = numBytes + (isHuge ? hugePageBytes : 0);
  void *mapping = MAP_FAILED;
  for (bool isLast : {false, true}) {
    mapping = mmap(nullptr, mappedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping != MAP_FAILED || isLast)
      break;
    shrink(0);
  }
  if (mapping == MAP_FAILED)
    return nullptr;
  auto begin = reinterpret_cast<uintptr_t>(mapping);
  uintptr_t aligned = isHuge ? roundUp(begin, hugePageBytes) : begin;
  if (aligned > begin)
    munmap(mapping, aligned - begin);
  if (uintptr_t end = begin + mappedBytes; end > aligned + numBytes)
    munmap(reinterpret_cast<void *>(aligned + numBytes), end - aligned - numBytes);
  void *address = reinterpret_cast<void *>(aligned);
  if (isHuge)
    madvise(address, numBytes, MADV_HUGEPAGE); // where there are none, pages of the usual size serve
  ++numMapped;
  used.emplace(address, numBytes);
  usedBytes += numBytes;
  peakBytes = std::max(peakBytes, usedBytes);
  return address;
}

void BufferPool::shrink(size_t maxKeptBytes) {
  while (keptBytes > maxKeptBytes) {
    auto oldest = std::min_element(kept.begin(), kept.end(),
                                   [](const auto &a, const auto &b) { return a.second.lastUse < b.second.lastUse; });
    munmap(oldest->second.address, oldest->first);
    keptBytes -= oldest->first;
    kept.erase(oldest);
  }
}

void BufferPool::dropOld() {
  for (auto it = kept.begin(); it != kept.end();) {
    if (numRequests - it->second.lastUse < maxAge) {
      ++it;
      continue;
    }
    munmap(it->second.address, it->first);
    keptBytes -= it->first;
    it = kept.erase(it);
  }
  // What was in use long ago is no reason to keep as much.
  peakBytes = std::max(usedBytes, peakBytes - (peakBytes - usedBytes) / 4);
}

void BufferPool::startTrimming() {
  // Signals are for the threads of the program; the new thread inherits this mask.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([this] { trim(); }).detach();
    isTrimming = true;
  } catch (const std::system_error &) {
    // Where no thread is to be had, later requests drop what is old.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void BufferPool::trim() {
  for (bool isLast = false; !isLast;) {
    std::this_thread::sleep_for(std::chrono::seconds(idleSeconds));
    FreeBlocks idle;
    {
      std::lock_guard lock(mutex);
      ++tick;
      for (auto it = kept.begin(); it != kept.end();) {
        auto current = it++;
        if (tick - current->second.freed < 2)
          continue;
        keptBytes -= current->first;
        idle.insert(kept.extract(current));
      }
      isLast = kept.empty();
      isTrimming = !isLast;
      // What is not used now is no reason to keep as much.
      if (isLast)
        peakBytes = usedBytes;
    }
    for (const auto &[size, block] : idle) // without the lock: it takes milliseconds
      munmap(block.address, size);
  }
}

#else // where the pool is always off

void *BufferPool::map(size_t) { return nullptr; }
void BufferPool::shrink(size_t) {}
void BufferPool::dropOld() {}
void BufferPool::startTrimming() {}
void BufferPool::trim() {}

#endif

} // namespace torch_tile::runtime
