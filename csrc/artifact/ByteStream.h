// Little-endian bytes in and out. The reader accepts any bytes: after the first failure it answers zeros and empty
// ranges.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace torch_tile::artifact {

class ByteWriter {
public:
  void byte(uint8_t value) { bytes.push_back(value); }

  /// LEB128: seven bits a byte, least significant first.
  void unsignedInt(uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      bytes.push_back(static_cast<uint8_t>(value | 0x80));
    bytes.push_back(static_cast<uint8_t>(value));
  }

  /// Zigzag, so that small negative numbers stay short.
  void signedInt(int64_t value) {
    unsignedInt((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
  }

  void float64(double value) {
    auto bits = std::bit_cast<uint64_t>(value);
    for (int i = 0; i < 8; ++i)
      bytes.push_back(static_cast<uint8_t>(bits >> (8 * i)));
  }

  void raw(const void *data, size_t size) {
    auto *begin = static_cast<const uint8_t *>(data);
    bytes.insert(bytes.end(), begin, begin + size);
  }

  void text(std::string_view value) {
    unsignedInt(value.size());
    raw(value.data(), value.size());
  }

  std::vector<uint8_t> take() { return std::move(bytes); }

private:
  std::vector<uint8_t> bytes;
};

class ByteReader {
public:
  explicit ByteReader(std::span<const uint8_t> bytes) : bytes(bytes) {}

  bool hasFailed() const { return !error.empty(); }
  const std::string &failure() const { return error; }
  size_t remaining() const { return bytes.size() - position; }
  bool isAtEnd() const { return position == bytes.size(); }

  /// Keeps the first reason only; everything after it is a consequence.
  void fail(std::string reason) {
    if (error.empty())
      error = std::move(reason) + " at byte " + std::to_string(position);
    position = bytes.size();
  }

  uint8_t byte() {
    if (position == bytes.size()) {
      fail("unexpected end");
      return 0;
    }
    return bytes[position++];
  }

  uint64_t unsignedInt() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      uint8_t next = byte();
      uint64_t bits = next & 0x7f;
      if (shift == 63 && bits > 1)
        break;
      value |= bits << shift;
      if (!(next & 0x80))
        return value;
    }
    fail("number longer than 64 bits");
    return 0;
  }

  int64_t signedInt() {
    uint64_t value = unsignedInt();
    return static_cast<int64_t>((value >> 1) ^ (~(value & 1) + 1));
  }

  uint32_t unsignedInt32() {
    uint64_t value = unsignedInt();
    if (value > UINT32_MAX) {
      fail("number longer than 32 bits");
      return 0;
    }
    return static_cast<uint32_t>(value);
  }

  double float64() {
    std::span<const uint8_t> data = raw(8);
    uint64_t bits = 0;
    for (size_t i = 0; i < data.size(); ++i)
      bits |= static_cast<uint64_t>(data[i]) << (8 * i);
    return std::bit_cast<double>(bits);
  }

  /// Number of elements that follow. Every element takes at least one byte, so a count above the
  /// remaining bytes means corrupt input.
  size_t count() {
    uint64_t value = unsignedInt();
    if (value > remaining()) {
      fail("count of " + std::to_string(value) + " exceeds the bytes left");
      return 0;
    }
    return static_cast<size_t>(value);
  }

  std::span<const uint8_t> raw(size_t size) {
    if (size > remaining()) {
      fail("unexpected end");
      return {};
    }
    std::span<const uint8_t> data = bytes.subspan(position, size);
    position += size;
    return data;
  }

  std::string text() {
    std::span<const uint8_t> data = raw(count());
    return std::string(reinterpret_cast<const char *>(data.data()), data.size());
  }

  /// Reads an enumerator; `last` is the largest one.
  template <typename Enum> Enum enumerator(Enum last, const char *what) {
    uint8_t value = byte();
    if (value > static_cast<uint8_t>(last)) {
      fail(std::string("unknown ") + what + " " + std::to_string(value));
      return Enum();
    }
    return static_cast<Enum>(value);
  }

private:
  std::span<const uint8_t> bytes;
  size_t position = 0;
  std::string error;
};

} // namespace torch_tile::artifact
