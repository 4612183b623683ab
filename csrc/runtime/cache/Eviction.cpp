#include "runtime/cache/Eviction.h"

#include "runtime/cache/EntryFile.h"
#include "runtime/cache/Folders.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace torch_tile::runtime {
namespace {

struct Candidate {
  int folder;
  FoundFile file;
};

bool isOlder(const Candidate &a, const Candidate &b) {
  return std::pair(a.file.used.tv_sec, a.file.used.tv_nsec) < std::pair(b.file.used.tv_sec, b.file.used.tv_nsec);
}

struct Written {
  std::mutex mutex;
  std::map<std::string, int64_t> bytesSinceListing; // by the cache's folder
};

Written &written() {
  // Never destroyed: the writing thread may outlive static destructors.
  static Written *instance = [] {
    // A child must not inherit the lock of a thread that it does not have.
    pthread_atfork([] { written().mutex.lock(); }, [] { written().mutex.unlock(); }, [] { written().mutex.unlock(); });
    return new Written;
  }();
  return *instance;
}

} // namespace

Evicted evict(const std::string &root, int64_t limitBytes) {
  Evicted result;
  std::vector<FileDescriptor> folders;
  std::vector<Candidate> entries;
  int64_t totalBytes = 0;
  for (EntryKind kind : entryKinds) {
    OpenedFolder opened = openFolder(root + "/" + folderName(kind));
    if (!opened.descriptor.isOpen())
      continue;
    int folder = opened.descriptor.get();
    folders.push_back(std::move(opened.descriptor));
    for (FoundFile &file : listFolder(folder)) {
      if (file.role == FileRole::Folder)
        ::unlinkat(folder, file.name.c_str(), AT_REMOVEDIR); // succeeds for an empty one
      else if (file.role == FileRole::Entry)
        entries.push_back({folder, std::move(file)});
      else if (isAbandoned(file) && ::unlinkat(folder, file.name.c_str(), 0) == 0) {
        ++result.numLeftovers;
        result.leftoverBytes += file.numBytes;
      }
    }
  }
  for (const Candidate &entry : entries)
    totalBytes += entry.file.numBytes;
  // Other processes write too, each up to a sixteenth before it looks again.
  if (limitBytes <= 0 || totalBytes <= limitBytes - limitBytes / 16)
    return result;
  std::sort(entries.begin(), entries.end(), isOlder);
  // Below the limit by a margin, so that the next writes do not evict again at once.
  int64_t target = limitBytes - limitBytes / 5;
  for (const Candidate &entry : entries) {
    if (totalBytes <= target)
      break;
    // Another process may have been quicker; its removal counts as well.
    if (::unlinkat(entry.folder, entry.file.name.c_str(), 0) == 0) {
      ++result.numFiles;
      result.numBytes += entry.file.numBytes;
    }
    totalBytes -= entry.file.numBytes;
  }
  return result;
}

void evictIfDue(const std::string &root, int64_t limitBytes, size_t writtenBytes) {
  if (limitBytes <= 0)
    return;
  {
    Written &since = written();
    std::lock_guard lock(since.mutex);
    auto [entry, isFirst] = since.bytesSinceListing.try_emplace(root, 0);
    entry->second += static_cast<int64_t>(writtenBytes);
    if (!isFirst && entry->second < limitBytes / 16)
      return;
    entry->second = 0;
  }
  evict(root, limitBytes);
}

} // namespace torch_tile::runtime
