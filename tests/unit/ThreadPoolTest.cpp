// Threads of the runner's core: ranges cover the whole, calls are independent, a forked child has threads of its own.
#include "runner/core/ThreadPool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace torch_tile::runner;

/// Whether a call of two ranges has both under way at the same time, within some seconds.
static bool runsTogether() {
  std::atomic<int> numPresent = 0;
  std::atomic<bool> wereTogether = false;
  parallelFor(2, 1, 2, [&](int64_t, int64_t) {
    ++numPresent;
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!wereTogether && std::chrono::steady_clock::now() < end) {
      if (numPresent == 2)
        wereTogether = true;
      usleep(100);
    }
  });
  return wereTogether;
}

TEST(ThreadPool, RangesCoverTheWholeOnce) {
  std::vector<std::atomic<int>> seen(1000);
  parallelFor(1000, 7, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      ++seen[static_cast<size_t>(i)];
  });
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](const auto &count) { return count == 1; }));
}

TEST(ThreadPool, AForkedChildHasThreadsOfItsOwn) {
  ASSERT_TRUE(runsTogether());
  pid_t child = fork();
  if (child == 0)
    _exit(runsTogether() ? 0 : 1);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(ThreadPool, AForkInTheMiddleOfCalls) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer has its own memory, stacks and signals";
#endif
  std::atomic<bool> mayEnd = false;
  std::thread thread([&] {
    while (!mayEnd)
      parallelFor(64, 1, 4, [](int64_t, int64_t) {});
  });
  for (int i = 0; i < 20 && !HasFailure(); ++i) {
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      for (int k = 0; k < 20; ++k)
        parallelFor(64, 1, 4, [](int64_t, int64_t) {});
      _exit(0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  mayEnd = true;
  thread.join();
}
