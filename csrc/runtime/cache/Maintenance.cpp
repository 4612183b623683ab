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
      bool isInTheWay = verify && file.role == FileRole::Folder && parseEntryName(file.name);
      if (file.role != FileRole::Entry && !isInTheWay)
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

std::vector<Leftover> listLeftovers(const std::string &root) {
  std::vector<Leftover> leftovers;
  for (EntryKind kind : entryKinds) {
    std::string path = root + "/" + folderName(kind);
    OpenedFolder folder = openFolder(path);
    if (!folder.descriptor.isOpen())
      continue;
    for (const FoundFile &file : listFolder(folder.descriptor.get()))
      if (isAbandoned(file))
        leftovers.push_back({path + "/" + file.name, file.numBytes});
  }
  return leftovers;
}

Cleared clearEntries(const std::string &root) {
  Cleared result;
  for (EntryKind kind : entryKinds) {
    std::string path = root + "/" + folderName(kind);
    // Another user's folder, or a link, is not ours to empty.
    OpenedFolder folder = openFolder(path);
    if (!folder.descriptor.isOpen()) {
      if (folder.error != ENOENT)
        result.left.emplace_back(path, "it is not ours");
      continue;
    }
    for (const FoundFile &file : listFolder(folder.descriptor.get())) {
      bool isTemporary = file.role == FileRole::Temporary, isBeingWritten = isTemporary && !isAbandoned(file);
      if (isBeingWritten || (!isTemporary && file.role != FileRole::Entry)) {
        result.left.emplace_back(path + "/" + file.name,
                                 isBeingWritten ? "a process may be writing it" : "it is not ours");
        continue;
      }
      if (::unlinkat(folder.descriptor.get(), file.name.c_str(), 0) != 0) {
        result.left.emplace_back(path + "/" + file.name, std::strerror(errno));
        continue;
      }
      ++(isTemporary ? result.numLeftovers : result.numFiles);
      (isTemporary ? result.leftoverBytes : result.numBytes) += file.numBytes;
    }
    if (::rmdir(path.c_str()) == 0)
      result.folders.push_back(path);
  }
  return result;
}

} // namespace torch_tile::runtime
