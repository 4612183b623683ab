// A kernel that stands for itself: what a launcher needs to know to run it on a grid, to and from bytes.
#pragma once

#include "artifact/Artifact.h"
#include "support/Status.h"

#include <span>

namespace torch_tile::artifact {

struct StandaloneKernel {
  Kernel kernel;
  /// One letter per argument, in order: `p` a pointer; `i` an integer; `d`, `f`, `h`, `b` a double, float, half or
  /// bfloat16, whose bits travel as an integer.
  std::string arguments;
  /// Sizes of the grid follow the integers.
  bool needsGrid = false;
  int64_t scratchBytes = 0;
  int64_t programCostNs = 0;
};

std::vector<uint8_t> serialize(const StandaloneKernel &kernel);
Status deserialize(std::span<const uint8_t> bytes, StandaloneKernel &kernel);

} // namespace torch_tile::artifact
