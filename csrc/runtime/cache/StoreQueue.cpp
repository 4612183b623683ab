#include "runtime/cache/StoreQueue.h"

#include "runtime/cache/Notices.h"
#include "support/FaultPoint.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

namespace torch_tile::runtime {
namespace {

struct Job {
  std::vector<std::string> names;
  std::function<void()> run;
};

struct Queue {
  std::mutex mutex;
  std::condition_variable isIdle;
  std::deque<Job> jobs; // the front one runs
  bool hasThread = false;
};

// Never destroyed, for the thread may outlive static destructors. A forked child starts with an empty queue: the thread
// is not there, and the lock may have been held.
std::atomic<Queue *> current = nullptr;

void replaceInChild() { current = new Queue; }

Queue &queue() {
  static std::once_flag once;
  std::call_once(once, [] {
    current = new Queue;
    pthread_atfork(nullptr, nullptr, replaceInChild);
  });
  return *current;
}

void work(Queue &q) {
  std::unique_lock lock(q.mutex);
  while (!q.jobs.empty()) {
    Job &job = q.jobs.front(); // a deque moves no element when others are added behind
    lock.unlock();
    try {
      FaultPoints::reach("store");
      job.run();
    } catch (const std::exception &error) {
      notice(false, "store", std::string("an entry is not stored in the disk cache: ") + error.what());
    } catch (...) { // a cache entry is worth no user's process
    }
    lock.lock();
    q.jobs.pop_front();
  }
  // No thread waits idly: the next job starts another.
  q.hasThread = false;
  q.isIdle.notify_all();
}

} // namespace

void postStore(std::vector<std::string> names, std::function<void()> job) {
  Queue &q = queue();
  std::unique_lock lock(q.mutex);
  q.jobs.push_back({std::move(names), std::move(job)});
  if (q.hasThread)
    return;
  q.hasThread = true;
  try {
    std::thread(work, std::ref(q)).detach();
  } catch (const std::system_error &) {
    // Where no thread is to be had, this one writes.
    lock.unlock();
    work(q);
  }
}

bool isStorePending(const std::string &name) {
  Queue &q = queue();
  std::lock_guard lock(q.mutex);
  return std::any_of(q.jobs.begin(), q.jobs.end(), [&](const Job &job) {
    return std::find(job.names.begin(), job.names.end(), name) != job.names.end();
  });
}

void drainStores() {
  Queue &q = queue();
  std::unique_lock lock(q.mutex);
  q.isIdle.wait(lock, [&] { return !q.hasThread; });
}

} // namespace torch_tile::runtime
