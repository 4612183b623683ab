// What `python -m torch_tile cache` shows and does.
#pragma once

#include "runtime/cache/EntryFile.h"

#include <string>
#include <utility>
#include <vector>

namespace torch_tile::runtime {

struct EntryInfo {
  EntryKind kind;
  std::string name;
  int64_t numBytes;
  double usedAt;       // seconds since the epoch
  std::string problem; // why it would not be used; found only by reading it whole
};

/// Entries of a cache folder. `verify` reads each, and lists what else has the name of an entry.
std::vector<EntryInfo> listEntries(const std::string &root, bool verify);

struct Leftover {
  std::string path;
  int64_t numBytes;
};

/// Temporary files that processes have left behind.
std::vector<Leftover> listLeftovers(const std::string &root);

struct Cleared {
  int64_t numFiles = 0;
  int64_t numBytes = 0;
  int64_t numLeftovers = 0; // abandoned temporary files, which are no entries
  int64_t leftoverBytes = 0;
  std::vector<std::string> folders;                      // removed
  std::vector<std::pair<std::string, std::string>> left; // what else was found there, and why it stays
};

/// Removes entries and abandoned temporary files, and the folders of entries once they are empty. Nothing else is
/// touched.
Cleared clearEntries(const std::string &root);

} // namespace torch_tile::runtime
