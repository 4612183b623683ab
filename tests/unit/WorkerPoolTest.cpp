#include "compiler/driver/WorkerPool.h"
#include "compiler/driver/Guard.h"

#include "llvm/Support/ErrorHandling.h"

#include <atomic>
#include <csignal>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using torch_tile::raiseFault;
using torch_tile::runContained;
using torch_tile::runJobs;

TEST(WorkerPool, RunsEveryJob) {
  std::atomic<int> sum = 0;
  std::vector<std::function<void()>> jobs;
  for (int i = 1; i <= 100; ++i)
    jobs.push_back([&sum, i] { sum += i; });
  for (const std::string &error : runJobs(jobs, 3))
    EXPECT_EQ(error, "");
  EXPECT_EQ(sum, 5050);
  EXPECT_TRUE(runJobs({}, 3).empty());
}

TEST(WorkerPool, SurvivesLlvmsFatalErrors) {
  std::atomic<int> numRun = 0;
  for (int round = 0; round < 5; ++round) {
    auto errors =
        runJobs({[&] { ++numRun; }, [] { llvm::report_fatal_error("cannot select this"); }, [&] { ++numRun; }}, 2);
    EXPECT_EQ(errors[0], "");
    EXPECT_NE(errors[1].find("cannot select this"), std::string::npos);
    EXPECT_EQ(errors[2], "");
  }
  EXPECT_EQ(numRun, 10);
}

namespace {
struct Fault {
  const char *kind, *says;
};
class Faults : public testing::TestWithParam<Fault> {};
} // namespace

TEST_P(Faults, EndTheirJobAlone) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer has its own memory, stacks and signals";
#endif
  std::atomic<int> numRun = 0;
  for (int round = 0; round < 5; ++round) {
    auto errors = runJobs({[&] { ++numRun; }, [] { raiseFault(GetParam().kind); }, [&] { ++numRun; }}, 1);
    EXPECT_EQ(errors[0], "");
    EXPECT_NE(errors[1].find(GetParam().says), std::string::npos) << errors[1];
    EXPECT_EQ(errors[2], "");
  }
  EXPECT_EQ(numRun, 10);
}

TEST_P(Faults, AreContainedBesideOthers) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer has its own memory, stacks and signals";
#endif
  std::vector<std::thread> threads;
  std::atomic<int> numEnded = 0, numRun = 0;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        numEnded += !runContained([] { raiseFault(GetParam().kind); }).empty();
        EXPECT_EQ(runContained([&] { numRun += runJobs({[] {}}, 2).size(); }), "");
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(numEnded, 40);
  EXPECT_EQ(numRun, 40);
}

INSTANTIATE_TEST_SUITE_P(WorkerPool, Faults,
                         testing::Values(Fault{"exception", "injected fault"}, Fault{"bad_alloc", "out of memory"},
                                         Fault{"logic_error", "injected fault"}, Fault{"fatal", "injected fault"},
                                         Fault{"assert", "assertion failed: !\"injected fault\""},
                                         Fault{"abort", "abort() was called"}, Fault{"segv", "invalid memory access"},
                                         Fault{"overflow", "end of the stack"}),
                         [](const auto &info) { return std::string(info.param.kind); });

TEST(WorkerPool, FaultsElsewhereEndTheProcess) {
  EXPECT_DEATH(raiseFault("segv"), "");
  EXPECT_DEATH(raiseFault("abort"), "");
  // While a job is guarded on another thread too.
  EXPECT_DEATH(runContained([] { std::thread([] { raiseFault("segv"); }).join(); }), "");
}

TEST(WorkerPool, HandlersAreThoseOfBefore) {
  struct sigaction before{}, after{};
  sigaction(SIGSEGV, nullptr, &before);
  EXPECT_NE(runContained([] { raiseFault("segv"); }), "");
  sigaction(SIGSEGV, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

TEST(WorkerPool, DeepRecursionFits) {
  std::function<int(int)> descend = [&](int depth) {
    volatile char frame[256] = {};
    return depth == 0 ? frame[0] : descend(depth - 1) + frame[0];
  };
  EXPECT_EQ(runContained([&] { EXPECT_EQ(descend(100000), 0); }), "");
}

TEST(WorkerPool, AChildHasNoneOfItsParentsJobs) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer has its own memory, stacks and signals";
#endif
  std::atomic<bool> hasBegun = false, mayEnd = false;
  std::thread thread([&] {
    runContained([&] {
      hasBegun = true;
      while (!mayEnd)
        usleep(1000);
    });
  });
  while (!hasBegun)
    usleep(1000);
  pid_t child = fork();
  if (child == 0) {
    bool isContained = true;
    for (int i = 0; i < 300; ++i) // more often than there are places
      isContained &= !runContained([] { raiseFault("segv"); }).empty() && runContained([] {}).empty();
    _exit(isContained ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  mayEnd = true;
  thread.join();
}

TEST(WorkerPool, StartsAfreshInAForkedChild) {
  std::atomic<int> numRun = 0;
  runJobs({[&] { ++numRun; }}, 2);
  pid_t child = fork();
  if (child == 0) {
    runJobs({[&] { ++numRun; }, [&] { ++numRun; }}, 2);
    _exit(numRun == 3 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
