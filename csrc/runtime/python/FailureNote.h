// What the front end says of an exception that a step of a program raises.
#pragma once

#include "runtime/python/python_headers.h"

#include "artifact/Artifact.h"
#include "runtime/executor/FailurePlace.h"

namespace torch_tile::runtime {

/// Calls `describe` with the current exception, the name of the innermost step, and the lines of each step in the graph
/// text. If it gives an exception, that one is raised in place of the current one.
void noteFailure(PyObject *describe, const artifact::Artifact &artifact, const FailurePlace &place);

} // namespace torch_tile::runtime
