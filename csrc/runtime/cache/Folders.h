// Folders of the cache: opened by descriptor, made for this user alone, listed.
#pragma once

#include "runtime/cache/FileDescriptor.h"

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

namespace torch_tile::runtime {

struct OpenedFolder {
  FileDescriptor descriptor; // closed where the folder is missing or not to be used
  int error = 0;             // errno where it cannot be opened
  std::string distrust;      // why Trust.h refuses it
};

/// Opens a folder of entries; its last name must be no link.
OpenedFolder openFolder(const std::string &path);

/// Opens it, and makes what is missing of `root`/`name`. Both are for this user alone, whatever the umask.
OpenedFolder makeFolder(const std::string &root, const char *name);

enum class FileRole { Entry, Temporary, Folder, Other };

struct FoundFile {
  std::string name;
  FileRole role;
  uint64_t inode;
  int64_t numBytes;
  struct timespec used;
};

/// What is in an open folder. One descriptor is open meanwhile, however much is there.
std::vector<FoundFile> listFolder(int folder);

/// Whether nobody writes a temporary file any more: its process has ended or, where that cannot be told, the file is an
/// hour old.
bool isAbandoned(const FoundFile &file);

} // namespace torch_tile::runtime
