#include "runtime/python/Bindings.h"

#include "runtime/fx/GraphText.h"
#include "runtime/fx/Value.h"
#include "runtime/python/Errors.h"
#include "support/FaultPoint.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace torch_tile::runtime {
namespace {

fx::GraphText printGraphForPython(const py::object &graphModule) {
  FaultPoints::reach("import");
  Status status;
  try {
    return fx::printGraph(graphModule);
  } catch (const fx::UnsupportedGraph &error) {
    status = Status::unsupported("import", error.text);
  }
  orThrow(status);
  throw py::type_error("unreachable: a failed status throws");
}

} // namespace

void bindFx(py::module_ &m) {
  py::class_<fx::GraphText>(m, "GraphText", py::module_local())
      .def_readonly("text", &fx::GraphText::text)
      .def_readonly("lines", &fx::GraphText::lines)
      .def_readonly("symbols", &fx::GraphText::symbols)
      .def_readonly("pycalls", &fx::GraphText::pycalls)
      .def_readonly("constants", &fx::GraphText::constants)
      .def_readonly("number_inputs", &fx::GraphText::numberInputs)
      .def_readonly("number_outputs", &fx::GraphText::numberOutputs)
      .def_readonly("device", &fx::GraphText::device)
      .def_readonly("externs", &fx::GraphText::externs);
  m.def("print_graph", &printGraphForPython, py::arg("graph_module"));
}

} // namespace torch_tile::runtime
