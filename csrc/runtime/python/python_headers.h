// Headers of torch and pybind11 that many files of the extension include. Each file includes what it uses all the same.
#pragma once

#include "runtime/torch_headers.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
