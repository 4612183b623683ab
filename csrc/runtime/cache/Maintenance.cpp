#include "runtime/cache/Maintenance.h"

#include "runtime/cache/Folders.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace torch_tile::runtime {

std::vector<EntryInfo> listEntries(const std::string &root, bool verify) {
  std::vector<EntryInfo> entries;
  for (EntryKind kind : entryKinds) {
    OpenedFolder folder = openFolder(root + "/" + folderName(kind));
    if (!folder.descriptor.isOpen()) {
      if (folder.error != ENOENT)
        entries.push_back({kind, "", 0, 0, folder.distrust.empty() ? std::strerror(folder.error) : folder.distrust});
      continue;
    }
    for (const FoundFile &file : listFolder(folder.descriptor.get())) {
      if (file.role != FileRole::Entry)
        continue;
      EntryInfo info{kind, file.name, file.numBytes,
                     static_cast<double>(file.used.tv_sec) + 1e-9 * static_cast<double>(file.used.tv_nsec), ""};
      std::vector<uint8_t> payload;
      if (verify)
        info.problem =
            readEntry(folder.descriptor.get(), file.name, kind, *parseEntryName(file.name), false, payload).reason;
      entries.push_back(std::move(info));
    }
  }
  return entries;
}

Cleared clearEntries(const std::string &root) {
  Cleared result;
  for (EntryKind kind : entryKinds) {
    std::string path = root + "/" + folderName(kind);
    // Another user's folder, or a link, is not ours to empty.
    OpenedFolder folder = openFolder(path);
    if (!folder.descriptor.isOpen()) {
      if (folder.error != ENOENT)
        result.left.push_back(path);
      continue;
    }
    for (const FoundFile &file : listFolder(folder.descriptor.get())) {
      bool isOurs = file.role == FileRole::Entry || file.role == FileRole::Temporary;
      if (!isOurs || ::unlinkat(folder.descriptor.get(), file.name.c_str(), 0) != 0) {
        result.left.push_back(path + "/" + file.name);
        continue;
      }
      ++result.numFiles;
      result.numBytes += file.numBytes;
    }
    if (::rmdir(path.c_str()) == 0)
      result.folders.push_back(path);
  }
  return result;
}

} // namespace torch_tile::runtime
