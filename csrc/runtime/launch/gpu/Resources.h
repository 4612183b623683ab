// What code for a GPU needs of a multiprocessor.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace torch_tile::runtime {

struct GpuResources {
  /// Shared memory of a block that the code declares, without that of the launch.
  uint32_t sharedBytes = 0;
  /// Of a thread. Nothing while the code is PTX: its assembler decides.
  std::optional<uint32_t> numRegisters, localBytes;
};

/// Reads a cubin of one kernel, or PTX. Fields of a cubin that this does not know stay empty.
GpuResources readResources(std::span<const uint8_t> code);

} // namespace torch_tile::runtime
