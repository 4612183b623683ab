// One file of the cache: header, checksum, payload. Whatever a file holds, reading it gives the payload that was
// written or nothing.
#pragma once

#include "artifact/Artifact.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace torch_tile::runtime {

enum class EntryKind : uint32_t { Graph = 1, Kernel = 2, Autograd = 3, Language = 4, Tuning = 5 };
inline constexpr EntryKind entryKinds[] = {EntryKind::Graph, EntryKind::Kernel, EntryKind::Autograd,
                                           EntryKind::Language, EntryKind::Tuning};

/// The folder that holds entries of this kind.
const char *folderName(EntryKind kind);

/// The name of an entry, and the key behind a name.
std::string entryName(const artifact::Hash &key);
std::optional<artifact::Hash> parseEntryName(const std::string &name);

enum class ReadOutcome {
  Hit,
  Missing,
  Damaged,   // truncated, corrupted, foreign, of another format, or no file
  Distrusted // somebody else may have written it, or it is no file
};

struct EntryRead {
  ReadOutcome outcome;
  std::string reason; // against using it
  uint64_t inode = 0; // of what was found; 0 if nothing was
};

/// Reads `name` in the directory `folder`: a plain file that Trust.h allows. `use` marks it as just used.
EntryRead readEntry(int folder, const std::string &name, EntryKind kind, const artifact::Hash &key, bool use,
                    std::vector<uint8_t> &payload);

/// Removes `name` if it still is the file of that inode: a writer may have put a sound entry there since. False if the
/// file stays: a folder with something in it, or a disk that is only read.
bool removeEntry(int folder, const std::string &name, uint64_t inode);

/// Writes a temporary file and moves it into place, so that no reader and no crash ever meets half an entry. With
/// `replace` off, an entry that is there stays. Returns 0 or an errno, leaving nothing behind where the disk does not
/// take it.
int writeEntry(int folder, const std::string &name, EntryKind kind, const artifact::Hash &key,
               std::span<const uint8_t> payload, bool replace);

} // namespace torch_tile::runtime
