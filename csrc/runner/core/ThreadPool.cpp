#include "runner/core/ThreadPool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace torch_tile::runner {
namespace {

/// One parallelFor. Whoever takes part draws ranges until none is left.
struct Job {
  const std::function<void(int64_t, int64_t)> *body;
  int64_t count, grain;
  int32_t mostHelpers;
  std::atomic<int64_t> next{0}, done{0};
  int32_t helpers = 0; // under the pool's mutex
  std::mutex mutex;
  std::condition_variable finished;

  bool hasWork() const { return next.load(std::memory_order_relaxed) < count; }

  void work() {
    int64_t own = 0;
    for (int64_t begin; (begin = next.fetch_add(grain)) < count;) {
      int64_t end = std::min(begin + grain, count);
      (*body)(begin, end);
      own += end - begin;
    }
    if (own > 0 && done.fetch_add(own) + own == count) {
      std::lock_guard lock(mutex);
      finished.notify_all();
    }
  }

  void wait() {
    std::unique_lock lock(mutex);
    finished.wait(lock, [&] { return done.load() == count; });
  }
};

class Pool {
public:
  /// Of this process: a forked child has none of its parent's threads, and the lock may have been one's. Never
  /// destroyed: threads may run until the process ends.
  static Pool &get() {
    static std::atomic<Pool *> shared = nullptr;
    Pool *current = shared.load();
    while (!current || current->owner != getpid()) {
      auto *fresh = new Pool;
      if (shared.compare_exchange_strong(current, fresh))
        return *fresh;
      delete fresh;
    }
    return *current;
  }

  void run(const std::shared_ptr<Job> &job) {
    {
      std::lock_guard lock(mutex);
      start(job->mostHelpers);
      jobs.push_back(job);
    }
    for (int32_t i = 0; i < job->mostHelpers; ++i)
      wake.notify_one();
    job->work();
    {
      std::lock_guard lock(mutex);
      std::erase(jobs, job);
    }
    job->wait();
  }

private:
  /// As many as some call wanted; fewer where the system gives none, for the caller works in any case.
  void start(int32_t wanted) {
    try {
      for (; numThreads < wanted; ++numThreads)
        std::thread([this] { serve(); }).detach();
    } catch (const std::system_error &) {
    }
  }

  std::shared_ptr<Job> take() {
    for (const std::shared_ptr<Job> &job : jobs)
      if (job->helpers < job->mostHelpers && job->hasWork()) {
        ++job->helpers;
        return job;
      }
    return nullptr;
  }

  void serve() {
    std::unique_lock lock(mutex);
    while (true) {
      std::shared_ptr<Job> job = take();
      if (!job) {
        wake.wait(lock);
        continue;
      }
      lock.unlock();
      job->work();
      job.reset();
      lock.lock();
    }
  }

  const pid_t owner = getpid();
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::shared_ptr<Job>> jobs;
  int32_t numThreads = 0;
};

} // namespace

int32_t defaultNumThreads() {
  if (const char *given = std::getenv("OMP_NUM_THREADS"))
    if (int number = std::atoi(given); number > 0)
      return number;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    return std::max(1, CPU_COUNT(&allowed));
  return std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency()));
}

void parallelFor(int64_t count, int64_t grain, int32_t numThreads, const std::function<void(int64_t, int64_t)> &body) {
  if (count <= 0)
    return;
  grain = std::max<int64_t>(1, grain);
  // A few ranges a thread even out threads that are held up.
  grain = std::max(grain, (count + 4 * numThreads - 1) / (4 * std::max(1, numThreads)));
  int64_t ranges = (count + grain - 1) / grain;
  if (numThreads <= 1 || ranges <= 1)
    return body(0, count);
  auto job = std::make_shared<Job>();
  job->body = &body;
  job->count = count;
  job->grain = grain;
  job->mostHelpers = static_cast<int32_t>(std::min<int64_t>(numThreads - 1, ranges - 1));
  Pool::get().run(job);
}

} // namespace torch_tile::runner
