#include "runtime/cache/Trust.h"

#include <grp.h>
#include <pwd.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

namespace torch_tile::runtime {
namespace {

constexpr size_t mostNameBytes = 1 << 16;

/// Name and primary group of a user; false where the system does not know the user.
bool findUser(uid_t user, std::string &name, gid_t &group) {
  std::vector<char> buffer(mostNameBytes);
  struct passwd entry, *found = nullptr;
  if (::getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) != 0 || !found)
    return false;
  name = found->pw_name;
  group = found->pw_gid;
  return true;
}

/// Whether the group is named as the user and has no other member.
bool isGroupOf(gid_t group, const std::string &user) {
  std::vector<char> buffer(mostNameBytes);
  struct group entry, *found = nullptr;
  if (::getgrgid_r(group, &entry, buffer.data(), buffer.size(), &found) != 0 || !found || user != found->gr_name)
    return false;
  for (char **member = found->gr_mem; *member; ++member)
    if (user != *member)
      return false;
  return true;
}

bool isPrivateGroup(gid_t group) {
  std::string name;
  gid_t primary;
  return findUser(::geteuid(), name, primary) && primary == group && isGroupOf(group, name);
}

/// Read, not set and set back: other threads create files meanwhile.
std::string currentUmask() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("Umask:"))
      return line.substr(line.find_last_not_of("01234567") + 1);
  return "";
}

std::string modeText(const struct stat &info) {
  char text[16];
  std::snprintf(text, sizeof(text), "%04o", static_cast<unsigned>(info.st_mode & 07777));
  return text;
}

} // namespace

std::string describeOwner(const struct stat &info) {
  std::string name;
  gid_t ignored;
  if (!findUser(info.st_uid, name, ignored))
    name = "user " + std::to_string(info.st_uid);
  return "owner " + name + ", mode " + modeText(info);
}

std::string reasonForDistrust(int descriptor, const struct stat &info, const char *expected) {
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return "it belongs to another user (" + describeOwner(info) + ")";
  if (info.st_mode & S_IWOTH)
    return "it is writable by everyone (mode " + modeText(info) + "); expected " + expected;
  if (!(info.st_mode & S_IWGRP))
    return "";
  // With an access list the group's bits are a mask over users and groups that it names.
  bool hasAccessList = ::fgetxattr(descriptor, "system.posix_acl_access", nullptr, 0) > 0;
  if (info.st_uid == ::geteuid() && !hasAccessList && isPrivateGroup(info.st_gid))
    return "";
  std::string umask = currentUmask();
  return "it is group-writable (mode " + modeText(info) + (umask.empty() ? "" : "; your umask is " + umask.substr(1)) +
         "); expected " + expected;
}

} // namespace torch_tile::runtime
