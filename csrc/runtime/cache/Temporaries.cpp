#include "runtime/cache/Temporaries.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>

namespace torch_tile::runtime {
namespace {

/// Where the numbers of processes mean what they mean here: this boot of this machine, and this namespace of processes.
/// 0 where the system does not say. Asked each time, for a child may have entered another namespace.
uint64_t placeOfProcesses() {
  std::string boot;
  char names[64];
  ssize_t length = ::readlink("/proc/self/ns/pid", names, sizeof(names));
  if (length <= 0 || !std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot))
    return 0;
  uint64_t hash = 0xcbf29ce484222325; // FNV-1a
  for (char c : boot + std::string(names, static_cast<size_t>(length)))
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

} // namespace

std::string temporaryName() {
  static std::atomic<uint64_t> counter = 0;
  char name[128];
  // Containers that share a folder may have processes of the same number: the time tells them apart.
  struct timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  std::snprintf(name, sizeof(name), "%s%ld-%lx-%lu-%016" PRIx64, temporaryPrefix, static_cast<long>(::getpid()),
                static_cast<unsigned long>(now.tv_sec * 1000000000L + now.tv_nsec),
                static_cast<unsigned long>(counter++), placeOfProcesses());
  return name;
}

bool isWriterGone(const std::string &name) {
  long process = 0;
  uint64_t place = 0;
  int length = 0;
  bool isRead = name.starts_with(temporaryPrefix) &&
                std::sscanf(name.c_str() + sizeof(temporaryPrefix) - 1, "%ld-%*[0-9a-f]-%*[0-9]-%16" SCNx64 "%n",
                            &process, &place, &length) == 2;
  if (!isRead || length == 0 || process <= 0 || place == 0 || place != placeOfProcesses())
    return false;
  return ::kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH;
}

} // namespace torch_tile::runtime
