// The Python type of a loaded program: called with one list, which it empties, so that inputs die at their last use.
#pragma once

#include "runtime/compiler/CompileGraph.h"
#include "runtime/executor/TensorState.h"

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace torch_tile::runtime {

/// Adds the type `Program` to the module.
void bindProgram(pybind11::module_ &m);

/// A Program object. `callables` is a list of the functions that PyCall steps name.
pybind11::object makeProgram(CompiledGraph compiled, const pybind11::list &callables);

/// The same program for calls in which some arguments never change (FrozenInputs.h): `arguments` by position. A call
/// in which one of them has changed goes to `otherwise`, with a list.
pybind11::object freezeProgram(const pybind11::object &program,
                               const std::vector<std::pair<uint32_t, TensorState>> &arguments,
                               std::vector<at::Tensor> constants, const std::vector<uint32_t> &packable,
                               pybind11::object otherwise);

/// From now on calls of `program`, which has frozen arguments, do what those of `other` do; where that is None, all of
/// them go to `otherwise`. What was made of the old values is freed.
void rebindProgram(const pybind11::object &program, const pybind11::object &other);

/// What a call does, as tuples of kind, step, slot, other, amount and position (executor/Program.h, PlannedStep).
/// Symbols that are not named are 64.
pybind11::list plannedSteps(const pybind11::object &program, const std::map<std::string, int64_t> &symbols);

} // namespace torch_tile::runtime
