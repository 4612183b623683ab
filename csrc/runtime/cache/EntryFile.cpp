#include "runtime/cache/EntryFile.h"

#include "runtime/cache/FileDescriptor.h"
#include "runtime/compiler/CompilerLibrary.h"

#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace torch_tile::runtime {
namespace {

struct Header {
  char magic[8];
  uint32_t formatVersion;
  EntryKind kind;
  uint64_t payloadBytes;
  uint8_t key[32];
  uint8_t checksum[32]; // of the header before this field and the payload
};
static_assert(sizeof(Header) == 88, "the header is written as it lies in memory");

constexpr char magic[8] = {'T', 'T', 'C', 'A', 'C', 'H', 'E', '\n'};
constexpr uint32_t formatVersion = 1;
constexpr int64_t maxEntryBytes = int64_t(1) << 30;

artifact::Hash checksum(const Header &header, std::span<const uint8_t> payload) {
  std::vector<uint8_t> bytes(offsetof(Header, checksum) + payload.size());
  std::memcpy(bytes.data(), &header, offsetof(Header, checksum));
  if (!payload.empty())
    std::memcpy(bytes.data() + offsetof(Header, checksum), payload.data(), payload.size());
  return CompilerLibrary::get().hash(bytes);
}

bool readAll(int file, std::span<uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::read(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return true;
}

bool writeAll(int file, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return true;
}

std::string temporaryName() {
  static std::atomic<uint64_t> counter = 0;
  char name[80];
  std::snprintf(name, sizeof(name), "%s%ld-%lu", temporaryPrefix, static_cast<long>(::getpid()),
                static_cast<unsigned long>(counter++));
  return name;
}

} // namespace

ReadOutcome readEntry(int folder, const std::string &name, EntryKind kind, const artifact::Hash &key,
                      std::vector<uint8_t> &payload) {
  // O_NONBLOCK: a pipe planted under this name must not hang the reader.
  FileDescriptor file(::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file.isOpen())
    return errno == ELOOP ? ReadOutcome::Damaged : ReadOutcome::Missing;
  struct stat info;
  // The open file is asked, not its name: the name may point elsewhere by now.
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || !isTrusted(info))
    return ReadOutcome::Damaged;
  Header header;
  if (info.st_size < static_cast<off_t>(sizeof(header)) || info.st_size > maxEntryBytes ||
      !readAll(file.get(), {reinterpret_cast<uint8_t *>(&header), sizeof(header)}))
    return ReadOutcome::Damaged;
  if (std::memcmp(header.magic, magic, sizeof(magic)) != 0 || header.formatVersion != formatVersion ||
      header.kind != kind || std::memcmp(header.key, key.bytes, sizeof(header.key)) != 0 ||
      header.payloadBytes != static_cast<uint64_t>(info.st_size) - sizeof(header))
    return ReadOutcome::Damaged;
  payload.resize(header.payloadBytes);
  if (!readAll(file.get(), payload) ||
      std::memcmp(checksum(header, payload).bytes, header.checksum, sizeof(header.checksum)) != 0) {
    payload.clear();
    return ReadOutcome::Damaged;
  }
  ::futimens(file.get(), nullptr); // fails on a read-only disk, where nothing is evicted either
  return ReadOutcome::Hit;
}

bool writeEntry(int folder, const std::string &name, EntryKind kind, const artifact::Hash &key,
                std::span<const uint8_t> payload) {
  Header header{};
  std::memcpy(header.magic, magic, sizeof(magic));
  header.formatVersion = formatVersion;
  header.kind = kind;
  header.payloadBytes = payload.size();
  std::memcpy(header.key, key.bytes, sizeof(header.key));
  std::memcpy(header.checksum, checksum(header, payload).bytes, sizeof(header.checksum));

  std::string temporary = temporaryName();
  // A process of the same number on another machine may share this folder; its leftovers make O_EXCL fail, which costs
  // only this entry.
  FileDescriptor file(
      ::openat(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.isOpen())
    return false;
  bool isWritten = writeAll(file.get(), {reinterpret_cast<const uint8_t *>(&header), sizeof(header)}) &&
                   writeAll(file.get(), payload) && ::fsync(file.get()) == 0 &&
                   ::renameat(folder, temporary.c_str(), folder, name.c_str()) == 0;
  if (!isWritten)
    ::unlinkat(folder, temporary.c_str(), 0);
  return isWritten;
}

} // namespace torch_tile::runtime
