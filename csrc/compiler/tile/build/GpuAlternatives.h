// Other schedules of a nest for GPU, for those who measure which one is the fastest.
#pragma once

#include "compiler/tile/build/Schedule.h"

namespace torch_tile::tile_build {

struct Alternative {
  Walk walk;
  Schedule schedule;
};

/// Schedules that differ by more than a detail, best first by prediction; what is chosen without measuring may be one.
std::vector<Alternative> gpuAlternatives(mlir::graph::FusionOp fusion, const SizeFacts &facts, int64_t sharedBytes);

} // namespace torch_tile::tile_build
