// A value that several threads may make at the same time and all read: the first one made is kept.
#pragma once

#include <atomic>
#include <memory>

namespace torch_tile {

/// Readers see nothing or the whole value. No lock is held while a value is made, so making it may wait for locks that
/// other callers hold (Python's, for one).
template <typename T> class PublishedOnce {
public:
  PublishedOnce() = default;
  PublishedOnce(const PublishedOnce &) = delete;
  PublishedOnce &operator=(const PublishedOnce &) = delete;
  ~PublishedOnce() { delete value.load(std::memory_order_acquire); }

  /// Null if there is none yet.
  const T *get() const { return value.load(std::memory_order_acquire); }

  /// Keeps `made` if there is no value yet; answers the one that is kept, which lives as long as this object.
  const T *publish(std::unique_ptr<const T> made) {
    const T *current = nullptr;
    if (value.compare_exchange_strong(current, made.get(), std::memory_order_acq_rel))
      return made.release();
    return current;
  }

private:
  std::atomic<const T *> value = nullptr;
};

} // namespace torch_tile
