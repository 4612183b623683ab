// What the front end says of an exception that a step of a program raises.
#pragma once

#include "runtime/python/python_headers.h"

#include "artifact/Artifact.h"

#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

namespace torch_tile::runtime {

/// Where a call has failed.
struct FailurePlace {
  std::vector<const artifact::Step *> steps; // and those that ran its body, innermost first
  std::optional<uint32_t> line;              // of the check that failed, where a kernel knows it
};

FailurePlace failurePlace(std::vector<const artifact::Step *> steps, const std::exception &error);

/// Calls `describe` with the current exception, the name of the innermost step, and the lines of each step in the graph
/// text. If it gives an exception, that one is raised in place of the current one.
void noteFailure(PyObject *describe, const artifact::Artifact &artifact, const FailurePlace &place);

} // namespace torch_tile::runtime
