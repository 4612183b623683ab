// How many programs a launch has and what they cost, without torch.
#pragma once

#include <algorithm>
#include <cstdint>

namespace torch_tile::runtime {

struct CpuGrid {
  int64_t numPrograms;
  int64_t programCostNs;
  int64_t scratchBytes;

  int64_t totalCostNs() const {
    int64_t total;
    bool hasOverflow = __builtin_mul_overflow(numPrograms, std::max<int64_t>(programCostNs, 1), &total);
    return hasOverflow ? INT64_MAX : total;
  }
};

/// Below this total a launch stays on the calling thread.
inline constexpr int64_t serialCostNs = 20000;

} // namespace torch_tile::runtime
