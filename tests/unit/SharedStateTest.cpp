// State that threads make while others read it. Built twice: as it is, and with the thread sanitizer.
#include "support/OncePerProcess.h"
#include "support/PublishedOnce.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using torch_tile::OncePerProcess;
using torch_tile::PublishedOnce;

static void onThreads(int count, const std::function<void()> &work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back(work);
  for (std::thread &thread : threads)
    thread.join();
}

TEST(PublishedOnce, ReadersSeeAllOrNothing) {
  for (int round = 0; round < 200; ++round) {
    PublishedOnce<std::string> text;
    std::atomic<const std::string *> first = nullptr;
    onThreads(8, [&] {
      const std::string *seen = text.get();
      if (!seen)
        seen = text.publish(std::make_unique<const std::string>(1000, 'a'));
      EXPECT_EQ(seen->size(), 1000u);
      EXPECT_EQ(seen->back(), 'a');
      const std::string *expected = nullptr;
      bool isFirst = first.compare_exchange_strong(expected, seen);
      EXPECT_TRUE(isFirst || expected == seen);
    });
  }
}

TEST(OncePerProcess, RunsOnceAndOthersWait) {
  for (int round = 0; round < 200; ++round) {
    OncePerProcess once;
    std::string made; // not atomic: the sanitizer sees whether it is guarded
    onThreads(8, [&] {
      EXPECT_TRUE(!once.isDone() || made == "made");
      once.run([&] { made += "made"; });
      EXPECT_EQ(made, "made");
    });
  }
}

TEST(OncePerProcess, AFailureIsTriedAgain) {
  OncePerProcess once;
  EXPECT_THROW(once.run([] { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_FALSE(once.isDone());
  int count = 0;
  once.run([&] { ++count; });
  once.run([&] { ++count; });
  EXPECT_EQ(count, 1);
}

TEST(OncePerProcess, AChildDoesNotWaitForItsParentsThread) {
  OncePerProcess once;
  std::atomic<bool> hasBegun = false, mayEnd = false;
  std::thread thread([&] {
    once.run([&] {
      hasBegun = true;
      while (!mayEnd)
        usleep(1000);
    });
  });
  while (!hasBegun)
    usleep(1000);
  pid_t child = fork();
  if (child == 0) {
    int count = 0;
    once.run([&] { ++count; });
    _exit(count == 1 && once.isDone() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  mayEnd = true;
  thread.join();
}
