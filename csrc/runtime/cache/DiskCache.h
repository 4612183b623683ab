// Artifacts and kernels on disk, shared by any number of processes. Two levels: an entry per graph names kernels by
// hash, and each kernel is stored once, so models share kernels.
//
// No fault of the disk is an error here: what cannot be read is a miss, what cannot be written is left out.
#pragma once

#include "artifact/Artifact.h"
#include "runtime/cache/EntryFile.h"
#include "runtime/cache/FileDescriptor.h"

#include <string>

namespace torch_tile::runtime {

class DiskCache {
public:
  /// `limitBytes` bounds the sum of file sizes; 0 stands for no limit.
  DiskCache(const std::string &folder, int64_t limitBytes);

  /// A damaged entry is removed and counts as a miss.
  bool readGraph(const artifact::Hash &key, std::vector<uint8_t> &artifact);
  bool readKernel(const artifact::Hash &hash, std::vector<uint8_t> &code);
  /// Only whether there is an entry, or one on its way, not whether it is sound.
  bool containsKernel(const artifact::Hash &hash) const;
  /// The kernel's name for StoreQueue.
  std::string storeName(const artifact::Hash &hash) const;

  bool writeGraph(const artifact::Hash &key, std::span<const uint8_t> artifact);
  bool writeKernel(const artifact::Hash &hash, std::span<const uint8_t> code);

  void removeGraph(const artifact::Hash &key);

private:
  bool read(const FileDescriptor &folder, EntryKind kind, const artifact::Hash &key, std::vector<uint8_t> &payload);
  bool write(const FileDescriptor &folder, EntryKind kind, const artifact::Hash &key, std::span<const uint8_t> payload);
  void evictIfDue(size_t writtenBytes);
  void evict();

  FileDescriptor graphs, kernels; // closed where the folder is missing or not to be trusted
  std::string path;
  int64_t limitBytes;
};

} // namespace torch_tile::runtime
