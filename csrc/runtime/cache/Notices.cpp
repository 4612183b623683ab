#include "runtime/cache/Notices.h"

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <set>
#include <utility>

namespace torch_tile::runtime {
namespace {

// Further topics are dropped.
constexpr size_t mostTopics = 100;

struct Board {
  std::mutex mutex;
  std::set<std::string> topics;
  std::vector<Notice> waiting;
};

// Never destroyed: the writing thread may outlive static destructors. A forked child cannot rely on the parent's lock.
std::atomic<Board *> current = nullptr;

void replaceInChild() { current = new Board; }

Board &board() {
  static std::once_flag once;
  std::call_once(once, [] {
    current = new Board;
    pthread_atfork(nullptr, nullptr, replaceInChild);
  });
  return *current;
}

} // namespace

void notice(bool isWarning, const std::string &topic, const std::string &text) noexcept {
  try {
    Board &b = board();
    std::lock_guard lock(b.mutex);
    if (b.topics.size() < mostTopics && b.topics.insert(topic).second)
      b.waiting.push_back({isWarning, text});
  } catch (...) { // without memory there is nothing to say either
  }
}

std::vector<Notice> takeNotices() {
  Board &b = board();
  std::lock_guard lock(b.mutex);
  return std::exchange(b.waiting, {});
}

} // namespace torch_tile::runtime
