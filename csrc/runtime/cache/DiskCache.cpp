#include "runtime/cache/DiskCache.h"

#include "runtime/cache/StoreQueue.h"

#include <dirent.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

namespace torch_tile::runtime {

using artifact::Hash;

namespace {

/// A temporary file this old belongs to a process that was killed.
constexpr time_t abandonedAfterSeconds = 3600;

std::string fileName(const Hash &hash) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string name;
  for (uint8_t byte : hash.bytes) {
    name += digits[byte >> 4];
    name += digits[byte & 15];
  }
  return name;
}

/// Opens, and creates where needed, a folder that only this user can write.
FileDescriptor openFolder(int parent, const char *name) {
  if (::mkdirat(parent, name, S_IRWXU) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
    return FileDescriptor();
  FileDescriptor folder(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  if (!folder.isOpen() || ::fstat(folder.get(), &info) != 0 || !isTrusted(info))
    return FileDescriptor();
  return folder;
}

struct Entry {
  int folder;
  std::string name;
  struct timespec used;
  int64_t sizeBytes;
};

void listEntries(int folder, std::vector<Entry> &entries) {
  // A stream of its own: the position of the cache's descriptor stays untouched.
  int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *stream = copy < 0 ? nullptr : ::fdopendir(copy);
  if (!stream) {
    if (copy >= 0)
      ::close(copy);
    return;
  }
  time_t now = ::time(nullptr);
  while (struct dirent *item = ::readdir(stream)) {
    struct stat info;
    if (::fstatat(folder, item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode))
      continue;
    bool isTemporary = std::strncmp(item->d_name, temporaryPrefix, sizeof(temporaryPrefix) - 1) == 0;
    if (isTemporary && now - info.st_mtim.tv_sec > abandonedAfterSeconds)
      ::unlinkat(folder, item->d_name, 0);
    else if (!isTemporary)
      entries.push_back({folder, item->d_name, info.st_mtim, info.st_size});
  }
  ::closedir(stream);
}

/// The folders inside a folder, opened.
std::vector<FileDescriptor> openFoldersIn(const std::string &path) {
  std::vector<FileDescriptor> folders;
  std::error_code error;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    FileDescriptor folder(::open(it->path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info;
    if (folder.isOpen() && ::fstat(folder.get(), &info) == 0 && isTrusted(info))
      folders.push_back(std::move(folder));
  }
  return folders;
}

} // namespace

DiskCache::DiskCache(const std::string &folder, int64_t limitBytes) : path(folder), limitBytes(limitBytes) {
  std::error_code ignored;
  std::filesystem::path parent = std::filesystem::path(folder).parent_path();
  if (!parent.empty())
    std::filesystem::create_directories(parent, ignored);
  ::mkdir(folder.c_str(), S_IRWXU);
  FileDescriptor root(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.isOpen())
    return;
  graphs = openFolder(root.get(), "graphs");
  kernels = openFolder(root.get(), "kernels");
}

bool DiskCache::read(const FileDescriptor &folder, EntryKind kind, const Hash &key, std::vector<uint8_t> &payload) {
  if (!folder.isOpen())
    return false;
  std::string name = fileName(key);
  ReadOutcome outcome = readEntry(folder.get(), name, kind, key, payload);
  // A writer may put a sound entry here in between, which is then lost: a miss for someone, no more.
  if (outcome == ReadOutcome::Damaged && ::unlinkat(folder.get(), name.c_str(), 0) != 0 && errno == EISDIR)
    ::unlinkat(folder.get(), name.c_str(), AT_REMOVEDIR);
  return outcome == ReadOutcome::Hit;
}

bool DiskCache::write(const FileDescriptor &folder, EntryKind kind, const Hash &key, std::span<const uint8_t> payload) {
  if (!folder.isOpen() || !writeEntry(folder.get(), fileName(key), kind, key, payload))
    return false;
  evictIfDue(payload.size());
  return true;
}

bool DiskCache::readGraph(const Hash &key, std::vector<uint8_t> &artifact) {
  return read(graphs, EntryKind::Graph, key, artifact);
}

bool DiskCache::readKernel(const Hash &hash, std::vector<uint8_t> &code) {
  return read(kernels, EntryKind::Kernel, hash, code);
}

bool DiskCache::containsKernel(const Hash &hash) const {
  struct stat info;
  return kernels.isOpen() && (isStorePending(storeName(hash)) ||
                              ::fstatat(kernels.get(), fileName(hash).c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0);
}

std::string DiskCache::storeName(const Hash &hash) const { return path + "/" + fileName(hash); }

bool DiskCache::writeGraph(const Hash &key, std::span<const uint8_t> artifact) {
  return write(graphs, EntryKind::Graph, key, artifact);
}

bool DiskCache::writeKernel(const Hash &hash, std::span<const uint8_t> code) {
  return write(kernels, EntryKind::Kernel, hash, code);
}

void DiskCache::removeGraph(const Hash &key) {
  if (graphs.isOpen())
    ::unlinkat(graphs.get(), fileName(key).c_str(), 0);
}

void DiskCache::evictIfDue(size_t writtenBytes) {
  // Listing the folders costs milliseconds when they are full, so it happens once a process and then every sixteenth of
  // the limit.
  static std::atomic<int64_t> bytesSinceListing = INT64_MAX / 2;
  if (limitBytes <= 0 || bytesSinceListing.fetch_add(static_cast<int64_t>(writtenBytes)) < limitBytes / 16)
    return;
  bytesSinceListing = 0;
  evict();
}

void DiskCache::evict() {
  std::vector<Entry> entries;
  for (const FileDescriptor *folder : {&graphs, &kernels})
    if (folder->isOpen())
      listEntries(folder->get(), entries);
  // What the front end keeps of AOTAutograd's work (torch_tile/frontend/autograd_cache.py): one folder a key.
  std::vector<FileDescriptor> autograd = openFoldersIn(path + "/autograd");
  for (const FileDescriptor &folder : autograd)
    listEntries(folder.get(), entries);
  int64_t total = 0;
  for (const Entry &entry : entries)
    total += entry.sizeBytes;
  if (total <= limitBytes)
    return;
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  // Below the limit by a margin, so that the next writes do not evict again at once.
  int64_t target = limitBytes - limitBytes / 5;
  for (const Entry &entry : entries) {
    if (total <= target)
      return;
    // Another process may have been quicker; its removal counts as well.
    ::unlinkat(entry.folder, entry.name.c_str(), 0);
    total -= entry.sizeBytes;
  }
}

} // namespace torch_tile::runtime
