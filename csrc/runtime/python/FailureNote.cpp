#include "runtime/python/FailureNote.h"

#include "runtime/package/SourceLines.h"

#include <torch/csrc/Exceptions.h>

#include <string>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace torch_tile::runtime {

using namespace artifact;

/// An exception that `describe` gives, or None; null if it fails.
static PyObject *describeFailure(PyObject *describe, PyObject *error, const std::string &name,
                                 const std::vector<std::vector<uint32_t>> &lines) {
  HANDLE_TH_ERRORS
  auto result = py::handle(describe)(py::handle(error), name, lines);
  return result.release().ptr();
  END_HANDLE_TH_ERRORS
}

void noteFailure(PyObject *describe, const Artifact &artifact, const FailurePlace &place) {
  if (!PyErr_ExceptionMatches(PyExc_Exception))
    return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  std::vector<std::vector<uint32_t>> lines;
  for (const Step *step : place.steps)
    lines.push_back(step->lines);
  if (place.line)
    lines.front() = {*place.line};
  PyObject *other = describeFailure(describe, value, stepName(artifact, *place.steps.front()), lines);
  if (!other)
    PyErr_Clear(); // the user's exception is what matters
  if (other && PyExceptionInstance_Check(other)) {
    Py_DECREF(type);
    Py_DECREF(value);
    type = Py_NewRef(PyExceptionInstance_Class(other));
    value = Py_NewRef(other);
  }
  Py_XDECREF(other);
  PyErr_Restore(type, value, traceback);
}

} // namespace torch_tile::runtime
