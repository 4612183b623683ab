#include "compiler/driver/WorkerPool.h"

#include "llvm/Support/ErrorHandling.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unistd.h>

using namespace torch_tile;

namespace {
/// The jobs of one runJobs call.
struct Batch {
  std::mutex mutex;
  std::condition_variable isDone;
  size_t numLeft = 0;
  std::vector<std::string> errors;
};

struct Job {
  std::shared_ptr<Batch> batch; // shared: a retired thread keeps its reference for good
  size_t index = 0;
  std::function<void()> run;

  void finish(std::string error) {
    std::lock_guard lock(batch->mutex);
    batch->errors[index] = std::move(error);
    if (--batch->numLeft == 0)
      batch->isDone.notify_all();
  }
};

/// Never destroyed: threads may be in LLVM when the process ends.
class Pool {
public:
  const pid_t owner = getpid();

  void submit(std::vector<Job> batch, size_t numThreads) {
    std::lock_guard lock(mutex);
    for (Job &job : batch)
      queue.push_back(std::move(job));
    while (numAlive < numThreads && numIdle < queue.size()) {
      ++numAlive;
      ++numIdle;
      std::thread([this] { work(); }).detach();
    }
    hasWork.notify_all();
  }

  void retireThread() {
    std::lock_guard lock(mutex);
    --numAlive;
  }

private:
  void work();

  std::mutex mutex;
  std::condition_variable hasWork;
  std::deque<Job> queue;
  size_t numAlive = 0, numIdle = 0;
};

thread_local Job *currentJob = nullptr;
thread_local Pool *currentPool = nullptr;
} // namespace

void Pool::work() {
  currentPool = this;
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex);
      hasWork.wait(lock, [&] { return !queue.empty(); });
      --numIdle;
      job = std::move(queue.front());
      queue.pop_front();
    }
    currentJob = &job;
    job.run();
    currentJob = nullptr;
    {
      std::lock_guard lock(mutex);
      ++numIdle;
    }
    job.finish("");
  }
}

/// Called by LLVM in place of exit(1).
static void handleFatalError(void *, const char *reason, bool) {
  Job *job = currentJob;
  if (!job)
    return; // not ours: LLVM goes on to end the process
  currentJob = nullptr;
  currentPool->retireThread();
  job->finish(reason && *reason ? reason : "fatal error in LLVM");
  while (true)
    pause();
}

static Pool &getPool() {
  static std::atomic<Pool *> pool{nullptr};
  static std::once_flag once;
  std::call_once(once, [] { llvm::install_fatal_error_handler(handleFatalError); });
  Pool *current = pool.load();
  while (!current || current->owner != getpid()) {
    auto *fresh = new Pool; // threads do not survive a fork; the parent's pool is left alone
    if (pool.compare_exchange_strong(current, fresh))
      return *fresh;
    delete fresh;
  }
  return *current;
}

std::vector<std::string> torch_tile::runJobs(const std::vector<std::function<void()>> &jobs, int numThreads) {
  auto batch = std::make_shared<Batch>();
  batch->numLeft = jobs.size();
  batch->errors.resize(jobs.size());
  if (jobs.empty())
    return {};
  std::vector<Job> list;
  for (size_t index = 0; index < jobs.size(); ++index)
    list.push_back({batch, index, jobs[index]});
  if (numThreads <= 0)
    numThreads = std::min(8u, std::max(1u, std::thread::hardware_concurrency()));
  getPool().submit(std::move(list), numThreads);
  std::unique_lock lock(batch->mutex);
  batch->isDone.wait(lock, [&] { return batch->numLeft == 0; });
  return batch->errors;
}
