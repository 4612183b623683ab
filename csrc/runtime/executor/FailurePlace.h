// Where a call of a program has failed.
#pragma once

#include "artifact/Artifact.h"

#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

namespace torch_tile::runtime {

struct FailurePlace {
  std::vector<const artifact::Step *> steps; // and those that ran its body, innermost first
  std::optional<uint32_t> line;              // of the check that failed, where a kernel knows it
};

FailurePlace failurePlace(std::vector<const artifact::Step *> steps, const std::exception &error);

} // namespace torch_tile::runtime
