// Who may have written a file of the cache. Entries are code, so this is the one rule for all of them:
//
// - the owner is this user or root;
// - other users cannot write it;
// - a group can write it only if the file is this user's own and the group is the user's private one: the primary
// group,
//   named as the user, without other members. A umask of 002 is made for such groups.
//
// The rule holds for entries and for the folders that hold them, asked of open descriptors, never of names.
#pragma once

#include <sys/stat.h>

#include <string>

namespace torch_tile::runtime {

/// Why the file behind `descriptor` is not to be used; empty if it may be. `expected` is the mode to ask for.
std::string reasonForDistrust(int descriptor, const struct stat &info, const char *expected);

/// For messages: "owner nobody, mode 0664".
std::string describeOwner(const struct stat &info);

} // namespace torch_tile::runtime
