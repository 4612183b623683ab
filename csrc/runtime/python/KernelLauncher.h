// Standalone kernels for Python: compiling, and launching on a grid.
#pragma once

#include <pybind11/pybind11.h>

namespace torch_tile::runtime {

void bindKernels(pybind11::module_ &m);

} // namespace torch_tile::runtime
