#include "runtime/python/PyCallArguments.h"

#include <torch/csrc/autograd/python_variable.h>

namespace py = pybind11;

namespace torch_tile::runtime {

using artifact::Value;

py::object toPython(const Value &value, const Call &call) {
  switch (value.kind) {
  case Value::Kind::None:
    break;
  case Value::Kind::Tensor:
    if (!call.tensor(value.ref).defined())
      return py::none();
    return py::reinterpret_steal<py::object>(THPVariable_Wrap(call.tensor(value.ref)));
  case Value::Kind::Int:
    return py::int_(call.value(value.ref));
  case Value::Kind::Float:
    return py::float_(value.number);
  case Value::Kind::Bool:
    return py::bool_(value.number != 0);
  case Value::Kind::String:
    return py::str(value.text);
  case Value::Kind::DType:
  case Value::Kind::Layout:
  case Value::Kind::MemoryFormat:
    return py::module_::import("torch").attr(value.text.c_str());
  case Value::Kind::Device:
    return py::module_::import("torch").attr("device")(value.text);
  case Value::Kind::Complex:
    return py::reinterpret_steal<py::object>(PyComplex_FromDoubles(value.items[0].number, value.items[1].number));
  case Value::Kind::List: {
    py::list list;
    for (const Value &item : value.items)
      list.append(toPython(item, call));
    return list;
  }
  }
  return py::none();
}

void flattenResult(py::handle result, std::vector<c10::IValue> &flat) {
  if (result.is_none()) {
    flat.emplace_back();
  } else if (THPVariable_Check(result.ptr())) {
    flat.emplace_back(THPVariable_Unpack(result.ptr()));
  } else if (PyLong_Check(result.ptr())) {
    flat.emplace_back(result.cast<int64_t>());
  } else if (py::isinstance<py::list>(result) || py::isinstance<py::tuple>(result)) {
    for (py::handle item : result)
      flattenResult(item, flat);
  } else {
    TORCH_CHECK_TYPE(false, "a Python callable in a compiled graph expected to return tensors, ints and None, got ",
                     Py_TYPE(result.ptr())->tp_name);
  }
}

} // namespace torch_tile::runtime
