// How long each launch of a kernel takes, by what torch tells observers of functions.
#pragma once

#include <c10/core/Device.h>

#include <pybind11/pybind11.h>

#include <string>
#include <utility>
#include <vector>

namespace torch_tile::runtime {

/// Calls `call`, and gives name and time in microseconds of each launch in it whose kernel has one of the names, in
/// order. On a CUDA device the time is that between two events of the current stream, else that of the host's clock.
std::vector<std::pair<std::string, double>>
timeLaunches(const pybind11::function &call, const std::vector<std::string> &names, const std::string &device);

} // namespace torch_tile::runtime
