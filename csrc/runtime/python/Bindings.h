// The parts of torch_tile._C, one function each.
#pragma once

#include <pybind11/pybind11.h>

namespace torch_tile::runtime {

/// FX graphs to graph dialect text (runtime/fx).
void bindFx(pybind11::module_ &m);

/// The disk cache (runtime/cache).
void bindCache(pybind11::module_ &m);

/// Packages (artifact/Package.h): compiled models in files.
void bindPackage(pybind11::module_ &m);

} // namespace torch_tile::runtime
