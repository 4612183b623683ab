#include "runtime/launch/gpu/Resources.h"

#include <charconv>
#include <cstring>
#include <string_view>

namespace torch_tile::runtime {
namespace {

/// Bytes of an ELF file, read where there are enough of them.
class Bytes {
public:
  explicit Bytes(std::span<const uint8_t> all) : all(all) {}

  template <typename T> T at(uint64_t offset) const {
    T value{};
    if (offset <= all.size() && sizeof value <= all.size() - offset)
      std::memcpy(&value, all.data() + offset, sizeof value);
    return value;
  }
  std::string_view textAt(uint64_t offset) const {
    if (offset >= all.size())
      return {};
    const char *begin = reinterpret_cast<const char *>(all.data() + offset);
    return {begin, strnlen(begin, all.size() - offset)};
  }
  std::span<const uint8_t> range(uint64_t offset, uint64_t size) const {
    return offset <= all.size() && size <= all.size() - offset ? all.subspan(offset, size) : std::span<const uint8_t>();
  }

private:
  std::span<const uint8_t> all;
};

/// Section `.nv.info`: records of a format, an attribute, and a size or a value; of those with a size, the second word
/// is that of a function.
void readInfo(std::span<const uint8_t> section, GpuResources &result) {
  constexpr uint8_t sized = 4, frameSize = 0x11, registerCount = 0x2f;
  Bytes bytes(section);
  for (uint64_t offset = 0; offset + 4 <= section.size(); offset += 4) {
    auto format = bytes.at<uint8_t>(offset), attribute = bytes.at<uint8_t>(offset + 1);
    if (format != sized)
      continue;
    auto size = bytes.at<uint16_t>(offset + 2);
    if (size == 8 && attribute == registerCount)
      result.numRegisters = bytes.at<uint32_t>(offset + 8);
    if (size == 8 && attribute == frameSize)
      result.localBytes = bytes.at<uint32_t>(offset + 8);
    offset += size;
  }
}

GpuResources readCubin(std::span<const uint8_t> code) {
  // Where ELF for 64 bits has the table of sections: its offset, an entry's size, their count, that of the names.
  constexpr uint64_t tableAt = 0x28, entrySizeAt = 0x3a, countAt = 0x3c, namesAt = 0x3e;
  // On newer architectures each block also has what the system keeps there.
  constexpr uint32_t reservedBytes = 1024;
  Bytes bytes(code);
  auto table = bytes.at<uint64_t>(tableAt), entrySize = static_cast<uint64_t>(bytes.at<uint16_t>(entrySizeAt));
  auto field = [&](uint64_t section, uint64_t offset) { return table + section * entrySize + offset; };
  uint64_t names = bytes.at<uint64_t>(field(bytes.at<uint16_t>(namesAt), 0x18));
  GpuResources result;
  bool hasReserved = false;
  for (uint64_t section = 0, count = bytes.at<uint16_t>(countAt); section < count; ++section) {
    std::string_view name = bytes.textAt(names + bytes.at<uint32_t>(field(section, 0)));
    auto offset = bytes.at<uint64_t>(field(section, 0x18)), size = bytes.at<uint64_t>(field(section, 0x20));
    if (name == ".nv.info")
      readInfo(bytes.range(offset, size), result);
    else if (name.starts_with(".nv.shared.reserved."))
      hasReserved = true;
    else if (name.starts_with(".nv.shared."))
      result.sharedBytes = static_cast<uint32_t>(size);
  }
  if (hasReserved && result.sharedBytes >= reservedBytes)
    result.sharedBytes -= reservedBytes;
  return result;
}

/// Declarations like `.shared .align 16 .b8 name[4096];`.
GpuResources readPtx(std::string_view text) {
  GpuResources result;
  for (size_t at = 0; (at = text.find(".shared .align", at)) != std::string_view::npos;) {
    std::string_view line = text.substr(at, text.find('\n', at) - at);
    at += line.size();
    size_t open = line.find('[');
    uint32_t size = 0;
    if (open != std::string_view::npos)
      std::from_chars(line.data() + open + 1, line.data() + line.size(), size);
    result.sharedBytes += size;
  }
  return result;
}

} // namespace

GpuResources readResources(std::span<const uint8_t> code) {
  constexpr uint8_t elf[] = {0x7f, 'E', 'L', 'F'};
  if (code.size() > sizeof elf && std::memcmp(code.data(), elf, sizeof elf) == 0)
    return readCubin(code);
  return readPtx({reinterpret_cast<const char *>(code.data()), code.size()});
}

} // namespace torch_tile::runtime
