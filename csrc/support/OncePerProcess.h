// std::call_once for work that may be under way on another thread when the process forks.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include <unistd.h>

namespace torch_tile {

/// Runs a function once; callers meanwhile wait for its end. In a child that was forked while another thread ran it,
/// it runs anew: nobody else would end it there. What the function writes must be sound to write again.
class OncePerProcess {
public:
  template <typename Function> void run(Function &&function) {
    const int64_t self = getpid();
    for (int64_t seen = state.load(std::memory_order_acquire); seen != done;
         seen = state.load(std::memory_order_acquire)) {
      if (seen == self) {
        state.wait(seen, std::memory_order_acquire);
        continue;
      }
      if (!state.compare_exchange_strong(seen, self, std::memory_order_acquire))
        continue;
      try {
        function();
      } catch (...) {
        finish(notBegun); // the next caller tries again
        throw;
      }
      finish(done);
    }
  }

  /// Whether the function has come to its end, so that what it wrote may be read.
  bool isDone() const { return state.load(std::memory_order_acquire) == done; }

private:
  static constexpr int64_t notBegun = 0, done = -1;

  void finish(int64_t end) {
    state.store(end, std::memory_order_release);
    state.notify_all();
  }

  std::atomic<int64_t> state = notBegun; // or the process that runs it
};

} // namespace torch_tile
