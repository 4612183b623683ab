// Keeps a cache folder below its limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace torch_tile::runtime {

struct Evicted {
  int64_t numFiles = 0;
  int64_t numBytes = 0;
  int64_t numLeftovers = 0; // abandoned temporary files, which are no entries
  int64_t leftoverBytes = 0;
};

/// Removes the least recently used entries, of any kind, until the folder is a fifth below the limit, if it is close to
/// it; with them abandoned temporary files and empty folders. 0 stands for no limit. What is being written counts once
/// it is an entry.
Evicted evict(const std::string &root, int64_t limitBytes);

/// To be called after each write: listing the folders costs milliseconds when they are full, so it happens at the first
/// write of a process to this folder and then every sixteenth of the limit.
void evictIfDue(const std::string &root, int64_t limitBytes, size_t writtenBytes);

} // namespace torch_tile::runtime
