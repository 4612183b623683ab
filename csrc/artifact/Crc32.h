// CRC-32 as zlib computes it.
#pragma once

#include <cstdint>
#include <span>

namespace torch_tile::artifact {

uint32_t crc32(std::span<const uint8_t> bytes);

/// Without instructions for carry-less products, which not every processor has.
uint32_t portableCrc32(std::span<const uint8_t> bytes);

} // namespace torch_tile::artifact
