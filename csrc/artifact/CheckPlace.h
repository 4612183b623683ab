// The third word of KernelContext::error where a check fails: the dimension and the source line that it is for.
#pragma once

#include <cstdint>
#include <optional>

namespace torch_tile {

/// More than the dimensions of a tensor, so that dumps show both numbers.
inline constexpr int64_t checkPlaceBase = 100;

/// `line` is a position among the lines of the launch. The line itself differs between equal layers, which share
/// kernels.
inline int64_t encodeCheckPlace(std::optional<int64_t> dim, std::optional<int64_t> line) {
  return (line ? (*line + 1) * checkPlaceBase : 0) + (dim && *dim + 1 < checkPlaceBase ? *dim + 1 : 0);
}

/// Nothing if it is not known.
inline std::optional<int64_t> decodeCheckedDim(int64_t place) {
  return place > 0 && place % checkPlaceBase ? std::optional(place % checkPlaceBase - 1) : std::nullopt;
}

/// Nothing if it is not known.
inline std::optional<int64_t> decodeCheckedLine(int64_t place) {
  return place >= checkPlaceBase ? std::optional(place / checkPlaceBase - 1) : std::nullopt;
}

} // namespace torch_tile
