#include "runtime/python/Errors.h"

#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace torch_tile::runtime {
namespace {

const char *className(StatusKind kind) {
  switch (kind) {
  case StatusKind::InvalidInput:
    return "InvalidKernelError";
  case StatusKind::Unsupported:
    return "UnsupportedError";
  case StatusKind::OutOfResources:
    return "OutOfResources";
  case StatusKind::Ok:
  case StatusKind::Internal:
    break;
  }
  return "CompileError";
}

} // namespace

void orThrow(const Status &status) {
  if (status.isOk())
    return;
  py::object type = py::module_::import("torch_tile.errors").attr(className(status.kind));
  py::object error = type(status.stage, status.text, status.line);
  PyErr_SetObject(type.ptr(), error.ptr());
  throw py::error_already_set();
}

} // namespace torch_tile::runtime
