// What `python -m torch_tile cache` shows and does.
#pragma once

#include "runtime/cache/EntryFile.h"

#include <string>
#include <vector>

namespace torch_tile::runtime {

struct EntryInfo {
  EntryKind kind;
  std::string name;
  int64_t numBytes;
  double usedAt;       // seconds since the epoch
  std::string problem; // why it would not be used; found only by reading it whole
};

/// Entries of a cache folder. `verify` reads each.
std::vector<EntryInfo> listEntries(const std::string &root, bool verify);

struct Cleared {
  int64_t numFiles = 0;
  int64_t numBytes = 0;
  std::vector<std::string> folders; // removed
  std::vector<std::string> left;    // found there and not ours
};

/// Removes entries and temporary files, and the folders of entries once they are empty. Nothing else is touched.
Cleared clearEntries(const std::string &root);

} // namespace torch_tile::runtime
