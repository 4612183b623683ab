// The Python type of a loaded program: called with one list, which it empties, so that inputs die at their last use.
#pragma once

#include "runtime/compiler/CompileGraph.h"

#include <pybind11/pybind11.h>

namespace torch_tile::runtime {

/// Adds the type `Program` to the module.
void bindProgram(pybind11::module_ &m);

/// A Program object. `callables` is a list of the functions that PyCall steps name.
pybind11::object makeProgram(CompiledGraph compiled, const pybind11::list &callables);

} // namespace torch_tile::runtime
