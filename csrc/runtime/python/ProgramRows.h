// What an artifact holds, as Python objects for dumps and reports.
#pragma once

#include "artifact/Artifact.h"

#include <pybind11/pybind11.h>

namespace torch_tile::runtime {

/// One dict per distinct kernel; bytes of all its launches, None where they depend on a symbol.
pybind11::list kernelRows(const artifact::Artifact &artifact);
/// One dict per dispatcher call.
pybind11::list externRows(const artifact::Artifact &artifact);
/// For each step the lines of the graph text behind it.
pybind11::list stepLines(const artifact::Artifact &artifact);

} // namespace torch_tile::runtime
