// What the user should hear of the disk cache, each thing once a process. Python's logging says it: writes happen on a
// thread without Python.
#pragma once

#include <string>
#include <vector>

namespace torch_tile::runtime {

struct Notice {
  bool isWarning;
  std::string text;
};

/// Keeps `text` for takeNotices, unless one of the same `topic` was kept before.
void notice(bool isWarning, const std::string &topic, const std::string &text) noexcept;

/// What was kept since the last call.
std::vector<Notice> takeNotices();

} // namespace torch_tile::runtime
