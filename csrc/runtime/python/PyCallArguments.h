// Arguments of a Python callable, from the running program to Python objects and back.
#pragma once

#include "runtime/executor/Program.h"

#include <pybind11/pybind11.h>

namespace torch_tile::runtime {

/// The Python object for one argument. The caller holds the GIL.
pybind11::object toPython(const artifact::Value &value, const Call &call);

/// Appends tensors, ints and None found in nested lists and tuples, in order. Throws TypeError for anything else.
void flattenResult(pybind11::handle result, std::vector<c10::IValue> &flat);

} // namespace torch_tile::runtime
