// Everything that is kept on disk, shared by any number of processes: graphs name kernels by hash, each kernel is
// stored once, so models share kernels; beside them what AOTAutograd made of graphs, and kernels of the tile language.
//
// No fault of the disk is an error here: what cannot be read is a miss, what cannot be written is left out. Notices.h
// has what a user should hear of it.
#pragma once

#include "artifact/Artifact.h"
#include "runtime/cache/EntryFile.h"
#include "runtime/cache/FileDescriptor.h"

#include <mutex>
#include <string>

namespace torch_tile::runtime {

/// One cache. Thread-safe; cheap to make: folders are opened when they are first needed.
class DiskCache {
public:
  /// `limitBytes` bounds the sum of file sizes; 0 stands for no limit. An empty `folder` takes no entries. `layers` are
  /// folders like this one that are only read, in this order, where the folder itself has no entry.
  DiskCache(std::string folder, int64_t limitBytes, std::vector<std::string> layers = {});

  /// An entry of the folder that is damaged or not to be trusted is removed and counts as a miss. Waits for an entry
  /// that is on its way.
  bool read(EntryKind kind, const artifact::Hash &key, std::vector<uint8_t> &payload);
  /// Only whether there is an entry, or one on its way, not whether it is sound.
  bool contains(EntryKind kind, const artifact::Hash &key);
  /// With `replace` off, an entry that is there stays: another process has made the same.
  bool write(EntryKind kind, const artifact::Hash &key, std::span<const uint8_t> payload, bool replace);
  void remove(EntryKind kind, const artifact::Hash &key);

  /// The entry's name for StoreQueue.
  std::string storeName(EntryKind kind, const artifact::Hash &key) const;

private:
  struct Root {
    std::string path;
    FileDescriptor folders[std::size(entryKinds)];
    bool isRefused[std::size(entryKinds)] = {};
  };

  int folderOf(Root &root, EntryKind kind, bool create);
  bool readFrom(Root &root, bool isOwn, EntryKind kind, const artifact::Hash &key, std::vector<uint8_t> &payload);
  bool isIn(Root &root, EntryKind kind, const std::string &name);
  void noteWriteError(int error) const;

  std::mutex mutex; // of the folders below
  Root own;
  std::vector<Root> layers;
  int64_t limitBytes;
};

} // namespace torch_tile::runtime
