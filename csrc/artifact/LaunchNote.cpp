#include "artifact/LaunchNote.h"

#include <algorithm>
#include <charconv>
#include <string_view>

using namespace torch_tile;

static constexpr std::string_view prefix = "\n// launch with shared bytes: ";

std::string artifact::launchNote(uint32_t sharedBytes) {
  return sharedBytes == 0 ? "" : std::string(prefix) + std::to_string(sharedBytes) + "\n";
}

uint32_t artifact::sharedBytesOf(std::span<const uint8_t> code) {
  constexpr size_t maxDigits = 10, end = 1;
  std::string_view text(reinterpret_cast<const char *>(code.data()), code.size());
  if (text.empty() || text.back() != '\n')
    return 0;
  text.remove_prefix(text.size() - std::min(text.size(), prefix.size() + maxDigits + end));
  size_t start = text.rfind(prefix);
  if (start == std::string_view::npos)
    return 0;
  text.remove_prefix(start + prefix.size());
  uint32_t bytes = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  return error == std::errc() && rest + end == text.data() + text.size() ? bytes : 0;
}
