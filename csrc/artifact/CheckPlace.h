// The third word of KernelContext::error where an index is out of range: the dimension that it is for.
#pragma once

#include <cstdint>
#include <optional>

namespace torch_tile {

/// No line of the program: equal layers share kernels.
inline int64_t encodeCheckedDim(int64_t dim) { return dim + 1; }

/// Nothing if it is not known.
inline std::optional<int64_t> decodeCheckedDim(int64_t place) {
  return place > 0 ? std::optional(place - 1) : std::nullopt;
}

} // namespace torch_tile
