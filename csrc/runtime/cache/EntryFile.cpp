#include "runtime/cache/EntryFile.h"

#include "runtime/cache/FileDescriptor.h"
#include "runtime/cache/Temporaries.h"
#include "runtime/cache/Trust.h"
#include "runtime/compiler/CompilerLibrary.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <ctime>

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
constexpr uint32_t formatVersion = 2;
constexpr int64_t maxEntryBytes = int64_t(1) << 30;
/// Uses within this time are one: writing down each costs a warm start as much as reading.
constexpr time_t secondsBetweenUses = 60;

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

/// 0 or an errno.
int writeAll(int file, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return count < 0 ? errno : EIO;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return 0;
}

/// Why there is something that cannot be opened: a link, a socket or device, or another user's file.
EntryRead whyUnopened(int folder, const std::string &name, int error) {
  struct stat info;
  bool isOfFile = error == ELOOP || error == ENXIO || error == ENODEV || error == EACCES;
  // Whatever else fails (no descriptor left, no memory) tells nothing against the entry.
  if (!isOfFile || ::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return {ReadOutcome::Missing, ""};
  std::string reason = S_ISLNK(info.st_mode) ? "it is a symbolic link" : std::strerror(error);
  if (error == EACCES)
    reason += " (" + describeOwner(info) + ")";
  return {ReadOutcome::Distrusted, reason, info.st_ino};
}

/// Puts the written file under its name, with `replace` off only if the name is free.
int moveIntoPlace(int folder, const std::string &temporary, const std::string &name, bool replace) {
  if (!replace && ::linkat(folder, temporary.c_str(), folder, name.c_str(), 0) == 0) {
    ::unlinkat(folder, temporary.c_str(), 0);
    return 0;
  }
  if (!replace && errno == EEXIST)
    return EEXIST;
  // File systems without links: the later writer wins.
  return ::renameat(folder, temporary.c_str(), folder, name.c_str()) == 0 ? 0 : errno;
}

} // namespace

const char *folderName(EntryKind kind) {
  switch (kind) {
  case EntryKind::Graph:
    return "graphs";
  case EntryKind::Kernel:
    return "kernels";
  case EntryKind::Autograd:
    return "autograd";
  case EntryKind::Language:
    return "language";
  case EntryKind::Tuning:
    return "tuning";
  }
  return "";
}

std::string entryName(const artifact::Hash &key) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string name;
  for (uint8_t byte : key.bytes) {
    name += digits[byte >> 4];
    name += digits[byte & 15];
  }
  return name;
}

std::optional<artifact::Hash> parseEntryName(const std::string &name) {
  artifact::Hash key;
  if (name.size() != 2 * sizeof(key.bytes) || name.find_first_not_of("0123456789abcdef") != std::string::npos)
    return std::nullopt;
  auto digit = [](char c) { return static_cast<uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10); };
  for (size_t i = 0; i < sizeof(key.bytes); ++i)
    key.bytes[i] = static_cast<uint8_t>(digit(name[2 * i]) << 4 | digit(name[2 * i + 1]));
  return key;
}

EntryRead readEntry(int folder, const std::string &name, EntryKind kind, const artifact::Hash &key, bool use,
                    std::vector<uint8_t> &payload) {
  // O_NONBLOCK: a pipe planted under this name must not hang the reader.
  FileDescriptor file(::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.isOpen())
    return errno == ENOENT ? EntryRead{ReadOutcome::Missing, ""} : whyUnopened(folder, name, errno);
  struct stat info;
  // The open file is asked, not its name: the name may point elsewhere by now.
  if (::fstat(file.get(), &info) != 0)
    return {ReadOutcome::Missing, ""};
  if (S_ISDIR(info.st_mode))
    return {ReadOutcome::Distrusted, "it is a folder", info.st_ino};
  if (!S_ISREG(info.st_mode))
    return {ReadOutcome::Damaged, "it is no regular file", info.st_ino};
  if (std::string reason = reasonForDistrust(file.get(), info, "0600"); !reason.empty())
    return {ReadOutcome::Distrusted, reason, info.st_ino};
  EntryRead damaged{ReadOutcome::Damaged, "it is damaged", info.st_ino};
  Header header;
  if (info.st_size < static_cast<off_t>(sizeof(header)) || info.st_size > maxEntryBytes ||
      !readAll(file.get(), {reinterpret_cast<uint8_t *>(&header), sizeof(header)}))
    return damaged;
  if (std::memcmp(header.magic, magic, sizeof(magic)) != 0 || header.formatVersion != formatVersion ||
      header.kind != kind || std::memcmp(header.key, key.bytes, sizeof(header.key)) != 0 ||
      header.payloadBytes != static_cast<uint64_t>(info.st_size) - sizeof(header))
    return damaged;
  payload.resize(header.payloadBytes);
  if (!readAll(file.get(), payload) ||
      std::memcmp(checksum(header, payload).bytes, header.checksum, sizeof(header.checksum)) != 0) {
    payload.clear();
    return damaged;
  }
  if (use && ::time(nullptr) - info.st_mtim.tv_sec > secondsBetweenUses)
    ::futimens(file.get(), nullptr); // fails on a read-only disk, where nothing is evicted either
  return {ReadOutcome::Hit, ""};
}

bool removeEntry(int folder, const std::string &name, uint64_t inode) {
  std::string aside = temporaryName();
  struct stat info;
  if (inode == 0 || ::renameat(folder, name.c_str(), folder, aside.c_str()) != 0)
    return inode != 0 && errno == ENOENT;
  if (::fstatat(folder, aside.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return true;
  bool isSame = info.st_ino == inode;
  if (isSame && ::unlinkat(folder, aside.c_str(), S_ISDIR(info.st_mode) ? AT_REMOVEDIR : 0) == 0)
    return true;
  // A writer's new entry, or a folder with something in it, goes back. Meanwhile it was a miss for someone, no more.
  ::renameat(folder, aside.c_str(), folder, name.c_str());
  return !isSame;
}

int writeEntry(int folder, const std::string &name, EntryKind kind, const artifact::Hash &key,
               std::span<const uint8_t> payload, bool replace) {
  Header header{};
  std::memcpy(header.magic, magic, sizeof(magic));
  header.formatVersion = formatVersion;
  header.kind = kind;
  header.payloadBytes = payload.size();
  std::memcpy(header.key, key.bytes, sizeof(header.key));
  std::memcpy(header.checksum, checksum(header, payload).bytes, sizeof(header.checksum));

  std::string temporary = temporaryName();
  FileDescriptor file(
      ::openat(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.isOpen())
    return errno;
  // The umask takes bits from the mode of creation.
  int error = ::fchmod(file.get(), S_IRUSR | S_IWUSR) == 0 ? 0 : errno;
  if (error == 0)
    error = writeAll(file.get(), {reinterpret_cast<const uint8_t *>(&header), sizeof(header)});
  if (error == 0)
    error = writeAll(file.get(), payload);
  if (error == 0 && ::fsync(file.get()) != 0)
    error = errno;
  if (error == 0)
    error = moveIntoPlace(folder, temporary, name, replace);
  if (error != 0)
    ::unlinkat(folder, temporary.c_str(), 0);
  return error;
}

} // namespace torch_tile::runtime
