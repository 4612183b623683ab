#include "runtime/cache/Folders.h"

#include "runtime/cache/EntryFile.h"
#include "runtime/cache/Temporaries.h"
#include "runtime/cache/Trust.h"

#include <dirent.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace torch_tile::runtime {
namespace {

constexpr time_t abandonedAfterSeconds = 3600;

/// False where it cannot be made. One that is there stays as it is.
bool makeOwnFolder(const std::string &path) {
  if (::mkdir(path.c_str(), S_IRWXU) != 0)
    return errno == EEXIST;
  // The umask takes bits from the mode of creation.
  FileDescriptor made(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (made.isOpen())
    ::fchmod(made.get(), S_IRWXU);
  return true;
}

FileRole roleOf(const std::string &name, const struct stat &info) {
  if (S_ISDIR(info.st_mode))
    return FileRole::Folder;
  if (name.starts_with(temporaryPrefix))
    return FileRole::Temporary;
  return parseEntryName(name) ? FileRole::Entry : FileRole::Other;
}

} // namespace

OpenedFolder openFolder(const std::string &path) {
  OpenedFolder folder;
  folder.descriptor = FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  if (!folder.descriptor.isOpen() || ::fstat(folder.descriptor.get(), &info) != 0) {
    folder.error = errno;
    return folder;
  }
  folder.distrust = reasonForDistrust(folder.descriptor.get(), info, "0700");
  if (!folder.distrust.empty())
    folder.descriptor = FileDescriptor();
  return folder;
}

OpenedFolder makeFolder(const std::string &root, const char *name) {
  std::string path = root + "/" + name;
  OpenedFolder folder = openFolder(path);
  if (folder.error != ENOENT)
    return folder;
  std::error_code ignored;
  std::filesystem::path parent = std::filesystem::path(root).parent_path();
  if (!parent.empty())
    std::filesystem::create_directories(parent, ignored);
  if (!makeOwnFolder(root) || !makeOwnFolder(path)) {
    folder.error = errno;
    return folder;
  }
  return openFolder(path);
}

std::vector<FoundFile> listFolder(int folder) {
  std::vector<FoundFile> files;
  // A stream of its own: the position of the caller's descriptor stays untouched.
  int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *stream = copy < 0 ? nullptr : ::fdopendir(copy);
  if (!stream) {
    if (copy >= 0)
      ::close(copy);
    return files;
  }
  while (struct dirent *item = ::readdir(stream)) {
    struct stat info;
    std::string name = item->d_name;
    if (name != "." && name != ".." && ::fstatat(folder, item->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0)
      files.push_back({name, roleOf(name, info), info.st_ino, info.st_size, info.st_mtim});
  }
  ::closedir(stream);
  return files;
}

bool isAbandoned(const FoundFile &file) {
  return file.role == FileRole::Temporary &&
         (isWriterGone(file.name) || ::time(nullptr) - file.used.tv_sec > abandonedAfterSeconds);
}

} // namespace torch_tile::runtime
