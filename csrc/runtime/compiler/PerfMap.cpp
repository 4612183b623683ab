#include "runtime/compiler/PerfMap.h"

#include <c10/util/Exception.h>

#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>

namespace torch_tile::runtime {
namespace {

std::atomic<bool> isWanted = false;

struct Map {
  std::mutex mutex;
  std::string lines; // of the whole process, which a forked child writes to a file of its own
  pid_t writer = 0;
  size_t numWritten = 0;
};

/// To append to. Everybody may make files in /tmp, so what lies there already must be a file of this user.
FILE *openOwn(const std::string &path) {
  int descriptor =
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, S_IRUSR | S_IWUSR);
  if (descriptor < 0)
    return nullptr;
  struct stat facts;
  FILE *file = nullptr;
  if (fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == geteuid() && facts.st_nlink == 1)
    file = fdopen(descriptor, "a");
  if (!file)
    close(descriptor);
  return file;
}

Map &map() {
  // Never destroyed: kernels may be loaded until the end.
  static Map *instance = [] {
    // A child must not inherit the lock of a thread that it does not have.
    pthread_atfork([] { map().mutex.lock(); }, [] { map().mutex.unlock(); }, [] { map().mutex.unlock(); });
    return new Map;
  }();
  return *instance;
}

template <typename T> bool readAt(std::span<const uint8_t> code, uint64_t offset, T &value) {
  if (offset > code.size() || code.size() - offset < sizeof(T))
    return false;
  std::memcpy(&value, code.data() + offset, sizeof(T));
  return true;
}

std::string_view nameAt(std::span<const uint8_t> code, const Elf64_Shdr &strings, uint64_t offset) {
  uint64_t begin = strings.sh_offset + offset;
  if (begin >= code.size())
    return {};
  auto text = reinterpret_cast<const char *>(code.data() + begin);
  return {text, strnlen(text, code.size() - begin)};
}

/// Calls `found(symbol, name)` for each function of an ELF object of 64 bits.
template <typename Found> void forEachFunction(std::span<const uint8_t> code, Found found) {
  Elf64_Ehdr header;
  if (!readAt(code, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return;
  for (uint32_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section, strings;
    if (!readAt(code, header.e_shoff + uint64_t(i) * sizeof(section), section) || section.sh_type != SHT_SYMTAB ||
        !readAt(code, header.e_shoff + uint64_t(section.sh_link) * sizeof(strings), strings))
      continue;
    Elf64_Sym symbol;
    for (uint64_t at = 0; at + sizeof(symbol) <= section.sh_size; at += sizeof(symbol))
      if (readAt(code, section.sh_offset + at, symbol) && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
        found(symbol, nameAt(code, strings, symbol.st_name));
  }
}

} // namespace

void setPerfMap(bool isEnabled) { isWanted = isEnabled; }

void addToPerfMap(const void *function, const std::string &symbol, const std::string &name,
                  std::span<const uint8_t> code) {
  if (!isWanted.load(std::memory_order_relaxed))
    return;
  Elf64_Sym entry{};
  forEachFunction(code, [&](const Elf64_Sym &each, std::string_view called) {
    if (called == symbol)
      entry = each;
  });
  std::string lines;
  auto add = [&](uint64_t address, uint64_t size, const std::string &text) {
    char numbers[48];
    std::snprintf(numbers, sizeof(numbers), "%llx %llx ", static_cast<unsigned long long>(address),
                  static_cast<unsigned long long>(size));
    lines += numbers + text + "\n";
  };
  // Functions of one section keep their distances.
  auto address = reinterpret_cast<uint64_t>(function);
  forEachFunction(code, [&](const Elf64_Sym &each, std::string_view called) {
    if (each.st_shndx == entry.st_shndx && each.st_size > 0)
      add(address + (each.st_value - entry.st_value), each.st_size,
          called == symbol ? "tile::" + name : "tile::" + name + "::" + std::string(called));
  });

  Map &m = map();
  std::lock_guard lock(m.mutex);
  if (m.writer != getpid()) {
    m.writer = getpid();
    m.numWritten = 0;
  }
  m.lines += lines;
  std::string path = "/tmp/perf-" + std::to_string(m.writer) + ".map";
  if (FILE *file = openOwn(path)) {
    std::fwrite(m.lines.data() + m.numWritten, 1, m.lines.size() - m.numWritten, file);
    std::fclose(file);
    m.numWritten = m.lines.size();
  } else {
    TORCH_WARN_ONCE("torch_tile: kernels have no names in perf: ", path,
                    " cannot be written, or is a link, a pipe or another user's file");
  }
}

} // namespace torch_tile::runtime
