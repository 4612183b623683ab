// One file of the cache: header, checksum, payload. Whatever a file holds, reading it gives the payload that was
// written or nothing.
#pragma once

#include "artifact/Artifact.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace torch_tile::runtime {

enum class EntryKind : uint32_t { Graph = 1, Kernel = 2 };

enum class ReadOutcome {
  Hit,
  Missing,
  Damaged, // truncated, corrupted, foreign, or of another format: to be removed
};

/// Reads `name` in the directory `folder` and marks it as just used. The file must be a plain one that nobody but its
/// owner, who must be this user or root, can write.
ReadOutcome readEntry(int folder, const std::string &name, EntryKind kind, const artifact::Hash &key,
                      std::vector<uint8_t> &payload);

/// Writes a temporary file and moves it into place, so that no reader and no crash ever meets half an entry. Returns
/// false, leaving nothing behind, where the disk does not take it.
bool writeEntry(int folder, const std::string &name, EntryKind kind, const artifact::Hash &key,
                std::span<const uint8_t> payload);

/// Temporary files carry this prefix; one may outlive a process that was killed.
inline constexpr const char temporaryPrefix[] = ".writing-";

} // namespace torch_tile::runtime
