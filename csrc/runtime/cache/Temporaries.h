// Names of files that are being written. A name says which process writes, so that others know when it has ended.
#pragma once

#include <string>

namespace torch_tile::runtime {

inline constexpr const char temporaryPrefix[] = ".writing-";

/// A name that no other thread or process of this machine uses: process, time, counter, and where the process runs.
std::string temporaryName();

/// Whether the process of a temporary file has ended. False where that cannot be told: it runs on another machine or in
/// another container, or the name is of an earlier version.
bool isWriterGone(const std::string &name);

} // namespace torch_tile::runtime
