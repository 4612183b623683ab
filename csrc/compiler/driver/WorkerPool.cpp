#include "compiler/driver/WorkerPool.h"

#include "compiler/driver/FaultSignals.h"
#include "compiler/driver/Guard.h"

#include "llvm/Support/ErrorHandling.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <unistd.h>
#include <utility>

using namespace torch_tile;

namespace {
/// Passes over expressions and LLVM's over code recurse as deep as these go. Memory is taken as it is used.
constexpr size_t stackBytes = 64 << 20;

/// The jobs of one call.
struct Batch {
  std::mutex mutex;
  std::condition_variable isDone;
  size_t numLeft = 0;
  std::vector<std::string> errors;
};

struct Job {
  std::shared_ptr<Batch> batch;
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
  void submit(std::vector<Job> batch, size_t maxThreads) {
    std::deque<Job> refused;
    {
      std::lock_guard lock(mutex);
      for (Job &job : batch)
        queue.push_back(std::move(job));
      while (numAlive < maxThreads && numIdle < queue.size() && startThread())
        continue;
      refused = takeUnlessServed();
      hasWork.notify_all();
    }
    refuse(refused);
  }

private:
  /// With the lock held, as the next.
  bool startThread();
  /// All jobs, where there is no thread for them.
  std::deque<Job> takeUnlessServed() { return numAlive == 0 ? std::exchange(queue, {}) : std::deque<Job>(); }
  static void refuse(std::deque<Job> &jobs) {
    for (Job &job : jobs)
      job.finish("no thread could be started");
  }
  void work();
  static void *enter(void *self) {
    static_cast<Pool *>(self)->work();
    return nullptr;
  }

  std::mutex mutex;
  std::condition_variable hasWork;
  std::deque<Job> queue;
  size_t numAlive = 0, numIdle = 0;
};

/// Those of one process: threads do not survive a fork, so a child has its own, and the parent's are left alone.
struct Pools {
  const pid_t owner = getpid();
  Pool kernels, compiles;
};
} // namespace

bool Pool::startThread() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, stackBytes);
  // Signals are for the threads of the program; the new thread inherits this mask. Those of faults cannot wait.
  sigset_t none, before;
  sigfillset(&none);
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP})
    sigdelset(&none, signal);
  pthread_sigmask(SIG_SETMASK, &none, &before);
  pthread_t thread;
  bool isStarted = pthread_create(&thread, &attributes, &Pool::enter, this) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  numAlive += isStarted;
  numIdle += isStarted;
  return isStarted;
}

void Pool::work() {
  prepareThread();
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex);
      hasWork.wait(lock, [&] { return !queue.empty(); });
      --numIdle;
      job = std::move(queue.front());
      queue.pop_front();
    }
    std::string error = runGuarded(job.run);
    bool isLost = !error.empty();
    std::deque<Job> refused;
    {
      std::lock_guard lock(mutex);
      numIdle += !isLost;
      numAlive -= isLost;
      if (isLost && !queue.empty() && numIdle == 0)
        startThread();
      refused = takeUnlessServed();
    }
    job.finish(std::move(error));
    refuse(refused);
    if (isLost)
      return;
  }
}

/// Called by LLVM in place of exit(1), and where memory is out.
static void handleFatalError(void *, const char *reason, bool) {
  endGuardedJob(reason && *reason ? reason : "fatal error in LLVM");
  // Not a job of ours: LLVM goes on to end the process.
}

static Pools &getPools() {
  static std::atomic<Pools *> pools{nullptr};
  Pools *current = pools.load();
  while (!current || current->owner != getpid()) {
    auto *fresh = new Pools;
    if (!current) {
      static std::once_flag once;
      std::call_once(once, [] {
        llvm::install_fatal_error_handler(handleFatalError);
        llvm::install_bad_alloc_error_handler(handleFatalError);
      });
    }
    if (pools.compare_exchange_strong(current, fresh))
      return *fresh;
    delete fresh;
  }
  return *current;
}

static std::vector<std::string> runIn(Pool &pool, const std::vector<std::function<void()>> &jobs, size_t maxThreads) {
  FaultSignals signals;
  auto batch = std::make_shared<Batch>();
  batch->numLeft = jobs.size();
  batch->errors.resize(jobs.size());
  std::vector<Job> list;
  for (size_t index = 0; index < jobs.size(); ++index)
    list.push_back({batch, index, jobs[index]});
  pool.submit(std::move(list), maxThreads);
  std::unique_lock lock(batch->mutex);
  batch->isDone.wait(lock, [&] { return batch->numLeft == 0; });
  return std::move(batch->errors);
}

std::vector<std::string> torch_tile::runJobs(const std::vector<std::function<void()>> &jobs, int numThreads) {
  if (jobs.empty())
    return {};
  if (numThreads <= 0)
    numThreads = std::min(8u, std::max(1u, std::thread::hardware_concurrency()));
  return runIn(getPools().kernels, jobs, numThreads);
}

std::string torch_tile::runContained(std::function<void()> job) {
  return runIn(getPools().compiles, {std::move(job)}, SIZE_MAX).front();
}
