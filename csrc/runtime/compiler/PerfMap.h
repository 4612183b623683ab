// Names of kernels for `perf`, which finds none in memory that no file is mapped to.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace torch_tile::runtime {

/// From now on kernels that are loaded get a line in /tmp/perf-PID.map, or no more of them do.
void setPerfMap(bool isEnabled);

/// `function` is where `symbol` of the ELF object `code` has been put.
void addToPerfMap(const void *function, const std::string &symbol, const std::string &name,
                  std::span<const uint8_t> code);

} // namespace torch_tile::runtime
