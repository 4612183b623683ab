#include "runtime/python/FailureNote.h"

#include "runtime/launch/cpu/CpuLaunch.h"

#include <torch/csrc/Exceptions.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace py = pybind11;

namespace torch_tile::runtime {

using namespace artifact;

/// What a step does; empty for one that cannot fail.
static std::string stepName(const Artifact &artifact, const Step &step) {
  if (auto *launch = std::get_if<Launch>(&step.action))
    return "kernel " + artifact.kernels[launch->kernel].name;
  if (auto *call = std::get_if<Extern>(&step.action))
    return call->op + (call->overload.empty() ? "" : "." + call->overload);
  if (std::holds_alternative<PyCall>(step.action))
    return "a Python callable of the graph";
  if (std::holds_alternative<Alias>(step.action))
    return "a view";
  if (std::holds_alternative<Check>(step.action))
    return "a check of sizes";
  if (std::holds_alternative<Control>(step.action))
    return "a subgraph";
  return "";
}

FailurePlace failurePlace(std::vector<const Step *> steps, const std::exception &error) {
  FailurePlace place{std::move(steps), {}};
  auto *check = dynamic_cast<const FailedCheck *>(&error);
  if (!check || !check->line || place.steps.empty())
    return place;
  const std::vector<uint32_t> &lines = place.steps.front()->lines;
  if (auto position = static_cast<size_t>(*check->line); position < lines.size())
    place.line = lines[position];
  return place;
}

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
