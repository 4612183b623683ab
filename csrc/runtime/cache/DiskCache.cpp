#include "runtime/cache/DiskCache.h"

#include "runtime/cache/Eviction.h"
#include "runtime/cache/Folders.h"
#include "runtime/cache/Notices.h"
#include "runtime/cache/StoreQueue.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace torch_tile::runtime {

using artifact::Hash;

DiskCache::DiskCache(std::string folder, int64_t limitBytes, std::vector<std::string> layerPaths)
    : limitBytes(limitBytes) {
  own.path = std::move(folder);
  for (std::string &path : layerPaths)
    layers.emplace_back().path = std::move(path);
}

int DiskCache::folderOf(Root &root, EntryKind kind, bool create) {
  std::lock_guard lock(mutex);
  auto index = static_cast<size_t>(kind) - 1;
  if (root.folders[index].isOpen() || root.isRefused[index] || root.path.empty())
    return root.folders[index].get();
  std::string path = root.path + "/" + folderName(kind);
  OpenedFolder opened = create ? makeFolder(root.path, folderName(kind)) : openFolder(path);
  bool isMissing = opened.error == ENOENT || opened.error == ENOTDIR;
  root.isRefused[index] = !opened.descriptor.isOpen() && (create || !isMissing);
  if (!opened.distrust.empty())
    notice(true, "distrusted folder " + root.path, "cache folder " + path + " ignored: " + opened.distrust);
  else if (root.isRefused[index])
    notice(!isMissing && opened.error != EACCES && opened.error != EROFS, "folder " + root.path,
           "cache folder " + path + " ignored: " + std::strerror(opened.error));
  root.folders[index] = std::move(opened.descriptor);
  return root.folders[index].get();
}

bool DiskCache::readFrom(Root &root, bool isOwn, EntryKind kind, const Hash &key, std::vector<uint8_t> &payload) {
  int folder = folderOf(root, kind, false);
  if (folder < 0)
    return false;
  std::string name = entryName(key);
  EntryRead found = readEntry(folder, name, kind, key, isOwn, payload);
  if (found.outcome == ReadOutcome::Hit || found.outcome == ReadOutcome::Missing)
    return found.outcome == ReadOutcome::Hit;
  std::string text = "cache entry " + root.path + "/" + folderName(kind) + "/" + name + " ignored: " + found.reason;
  if (isOwn && !removeEntry(folder, name, found.inode))
    text += "; it cannot be removed, so every process compiles anew what belongs there";
  bool isDistrusted = found.outcome == ReadOutcome::Distrusted;
  notice(isDistrusted, (isDistrusted ? "distrusted entry " : "damaged entry ") + root.path, text);
  return false;
}

bool DiskCache::read(EntryKind kind, const Hash &key, std::vector<uint8_t> &payload) {
  // What is on its way is there in milliseconds, and takes longer to make again.
  if (isStorePending(storeName(kind, key)))
    drainStores();
  try {
    return readFrom(own, true, kind, key, payload) || std::any_of(layers.begin(), layers.end(), [&](Root &layer) {
             return readFrom(layer, false, kind, key, payload);
           });
  } catch (const std::bad_alloc &) { // an entry of a gigabyte on a small machine
    payload = {};
    return false;
  }
}

bool DiskCache::isIn(Root &root, EntryKind kind, const std::string &name) {
  struct stat info;
  int folder = folderOf(root, kind, false);
  return folder >= 0 && ::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
}

bool DiskCache::contains(EntryKind kind, const Hash &key) {
  std::string name = entryName(key);
  return isStorePending(storeName(kind, key)) || isIn(own, kind, name) ||
         std::any_of(layers.begin(), layers.end(), [&](Root &layer) { return isIn(layer, kind, name); });
}

bool DiskCache::write(EntryKind kind, const Hash &key, std::span<const uint8_t> payload, bool replace) {
  int folder = folderOf(own, kind, true);
  if (folder < 0)
    return false;
  std::string name = entryName(key);
  if (!replace && isIn(own, kind, name))
    return true;
  int error = writeEntry(folder, name, kind, key, payload, replace);
  if (error != 0 && error != EEXIST) {
    noteWriteError(error);
    return false;
  }
  if (error == 0)
    evictIfDue(own.path, limitBytes, payload.size());
  return true;
}

void DiskCache::noteWriteError(int error) const {
  bool isFull = error == ENOSPC || error == EDQUOT;
  std::string text = "cache folder " + own.path + " takes no entries: " + std::strerror(error);
  if (isFull)
    text += "; what is compiled is not kept until there is room";
  notice(isFull, "write " + own.path, text);
}

void DiskCache::remove(EntryKind kind, const Hash &key) {
  struct stat info;
  std::string name = entryName(key);
  int folder = folderOf(own, kind, false);
  if (folder >= 0 && ::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0)
    removeEntry(folder, name, info.st_ino);
}

std::string DiskCache::storeName(EntryKind kind, const Hash &key) const {
  return own.path + "/" + folderName(kind) + "/" + entryName(key);
}

} // namespace torch_tile::runtime
