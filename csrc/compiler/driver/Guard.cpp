// Built with exceptions, unlike the rest of the compiler: some come from the C++ library, through frames that know
// none.
#include "compiler/driver/Guard.h"

#include "llvm/Support/ErrorHandling.h"

#include <array>
#include <atomic>
#include <cassert>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <pthread.h>
#include <stdexcept>
#include <utility>

using namespace torch_tile;

namespace {
/// A guarded job that runs. `reason` is an array, for a signal handler fills it.
struct GuardedJob {
  sigjmp_buf end;
  char reason[512] = {};
  const char *lastStage = nullptr;
};

/// Found by thread and without thread-local storage, which a signal handler on a foreign thread must not touch first.
struct Slot {
  std::atomic<pthread_t> thread{};
  GuardedJob *job = nullptr;
};
std::array<Slot, 256> slots;
} // namespace

static Slot *findSlot(pthread_t thread) {
  for (Slot &slot : slots)
    if (slot.thread.load(std::memory_order_relaxed) == thread)
      return &slot;
  return nullptr;
}

static Slot *takeSlot() {
  for (Slot &slot : slots) {
    pthread_t nobody{};
    if (slot.thread.compare_exchange_strong(nobody, pthread_self()))
      return &slot;
  }
  return nullptr;
}

void torch_tile::endGuardedJob(const char *reason) {
  Slot *slot = findSlot(pthread_self());
  if (!slot || !slot->job)
    return;
  GuardedJob *job = std::exchange(slot->job, nullptr);
  size_t length = 0;
  for (const char *stage = job->lastStage; stage && *stage && length < 64; ++stage)
    job->reason[length++] = *stage;
  for (const char *text = length ? " was done, then: " : ""; *text; ++text)
    job->reason[length++] = *text;
  for (; *reason && length + 1 < sizeof(job->reason); ++reason)
    job->reason[length++] = *reason;
  siglongjmp(job->end, 1);
}

void torch_tile::forgetJobsOfParent() {
  for (Slot &slot : slots) {
    if (slot.thread == pthread_self())
      continue;
    slot.job = nullptr;
    slot.thread = pthread_t{};
  }
}

void torch_tile::noteStage(const char *stage) {
  if (Slot *slot = findSlot(pthread_self()); slot && slot->job)
    slot->job->lastStage = stage;
}

/// Exceptions end a job in the same way, but from here.
static void runCatching(const std::function<void()> &job) {
  char text[256] = {};
  try {
    return job();
  } catch (const std::bad_alloc &) {
    std::snprintf(text, sizeof(text), "out of memory");
  } catch (const std::exception &error) {
    std::snprintf(text, sizeof(text), "exception: %s", error.what());
  } catch (...) {
    std::snprintf(text, sizeof(text), "exception of unknown type");
  }
  endGuardedJob(text);
}

std::string torch_tile::runGuarded(const std::function<void()> &job) {
  GuardedJob guarded;
  Slot *slot = takeSlot();
  if (!slot)
    return "more compiles at a time than there is room for";
  // `slot` does not change after this line, so a jump back finds it as it is.
  if (sigsetjmp(guarded.end, /*savemask=*/1) == 0) {
    slot->job = &guarded;
    runCatching(job);
  }
  slot->job = nullptr;
  slot->thread = pthread_t{};
  return guarded.reason;
}

void torch_tile::prepareThread() {
  // Threads never end but after a fault, when nothing that they had may be freed.
  constexpr size_t sizeBytes = 64 << 10;
  stack_t stack{};
  stack.ss_sp = std::malloc(sizeBytes);
  stack.ss_size = sizeBytes;
  if (stack.ss_sp)
    sigaltstack(&stack, nullptr);
}

/// Recursion that no compiler turns into a loop, and that has no end.
#ifdef __clang__
#pragma clang diagnostic ignored "-Winfinite-recursion"
#endif
static int recurse(volatile int *depth) {
  volatile char frame[1024];
  frame[0] = static_cast<char>(*depth);
  *depth = *depth + 1;
  return recurse(depth) + frame[0];
}

void torch_tile::raiseFault(std::string_view kind) {
  if (kind == "bad_alloc")
    throw std::bad_alloc();
  if (kind == "logic_error")
    throw std::logic_error("injected fault");
  if (kind == "fatal")
    llvm::report_fatal_error("injected fault");
  if (kind == "assert")
    assert(!"injected fault");
  if (kind == "abort")
    std::abort();
  if (kind == "segv")
    *reinterpret_cast<volatile int *>(16) = 0;
  volatile int depth = 0;
  if (kind == "overflow")
    recurse(&depth);
  throw std::runtime_error("injected fault");
}
