#include "compiler/driver/WorkerPool.h"

#include "llvm/Support/ErrorHandling.h"

#include <atomic>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

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
