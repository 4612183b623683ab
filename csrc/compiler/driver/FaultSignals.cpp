#include "compiler/driver/FaultSignals.h"

#include "compiler/driver/Guard.h"

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#include <csignal>
#include <cstdint>
#include <iterator>
#include <link.h>
#include <mutex>
#include <pthread.h>
#include <ucontext.h>
#include <utility>

using namespace torch_tile;

namespace {
constexpr int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};

struct Range {
  uintptr_t begin = 0, end = 0;
  bool contains(uintptr_t address) const { return begin <= address && address < end; }
};

std::mutex mutex;
int numUsers = 0;
struct sigaction before[std::size(signals)];
Range ownCode;
} // namespace

static void handleFault(int signal, siginfo_t *info, void *context);

/// The segment of instructions that this function is in.
static Range findOwnCode() {
  Range range;
  dl_iterate_phdr(
      [](dl_phdr_info *object, size_t, void *result) {
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const ElfW(Phdr) &segment = object->dlpi_phdr[i];
          uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
          Range found{begin, begin + segment.p_memsz};
          if (segment.p_type == PT_LOAD && found.contains(reinterpret_cast<uintptr_t>(&handleFault))) {
            *static_cast<Range *>(result) = found;
            return 1;
          }
        }
        return 0;
      },
      &range);
  return range;
}

static uintptr_t instructionOf(void *context) {
  const mcontext_t &machine = static_cast<ucontext_t *>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<uintptr_t>(machine.gregs[REG_RIP]);
#else
  return machine.pc;
#endif
}

static const char *describe(int signal) {
  switch (signal) {
  case SIGILL:
    return "an illegal instruction in the compiler";
  case SIGFPE:
    return "an arithmetic fault in the compiler";
  default:
    return "an invalid memory access or the end of the stack in the compiler";
  }
}

static void handleFault(int signal, siginfo_t *info, void *context) {
  // Faults elsewhere (in malloc, say) may come with locks held that the whole process needs.
  if (ownCode.contains(instructionOf(context)))
    endGuardedJob(describe(signal));
  const struct sigaction *old = &before[0];
  for (size_t i = 0; i < std::size(signals); ++i)
    if (signals[i] == signal)
      old = &before[i];
  if (old->sa_flags & SA_SIGINFO)
    old->sa_sigaction(signal, info, context);
  else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN)
    old->sa_handler(signal);
  else
    ::signal(signal, SIG_DFL); // the instruction runs again, and ends the process as it would have
}

static void restore() {
  for (size_t i = 0; i < std::size(signals); ++i) {
    struct sigaction current{};
    sigaction(signals[i], nullptr, &current);
    // Somebody may have put a handler before ours meanwhile; ours then hands on what comes to it.
    if ((current.sa_flags & SA_SIGINFO) && current.sa_sigaction == handleFault)
      sigaction(signals[i], &before[i], nullptr);
  }
}

FaultSignals::FaultSignals() {
  // A forked child has none of the threads whose jobs are guarded.
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); },
                   [] {
                     if (std::exchange(numUsers, 0) > 0)
                       restore();
                     forgetJobsOfParent();
                     mutex.unlock();
                   });
  });
  std::lock_guard lock(mutex);
  if (numUsers++ > 0)
    return;
  if (ownCode.begin == 0)
    ownCode = findOwnCode();
  struct sigaction action{};
  action.sa_sigaction = handleFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < std::size(signals); ++i)
    sigaction(signals[i], &action, &before[i]);
}

FaultSignals::~FaultSignals() {
  std::lock_guard lock(mutex);
  if (--numUsers == 0)
    restore();
}

#else

torch_tile::FaultSignals::FaultSignals() {}
torch_tile::FaultSignals::~FaultSignals() {}

#endif
