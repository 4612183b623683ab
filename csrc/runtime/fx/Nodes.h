// What the importer asks of FX nodes and of the values in their metadata.
#pragma once

#include <pybind11/pybind11.h>

#include <string_view>

namespace torch_tile::runtime::fx {

inline bool isOfType(pybind11::handle object, std::string_view name) { return Py_TYPE(object.ptr())->tp_name == name; }
inline bool isSymInt(pybind11::handle object) { return isOfType(object, "SymInt"); }
/// The length that tells a jagged tensor's ragged dimension from others: a name more than a number.
inline bool isNestedInt(pybind11::handle object) {
  return isSymInt(object) && object.attr("node").attr("is_nested_int")().cast<bool>();
}
inline bool isSymFloat(pybind11::handle object) { return isOfType(object, "SymFloat"); }
inline bool isSymBool(pybind11::handle object) { return isOfType(object, "SymBool"); }

/// Attribute names asked of every node, interned once.
struct Names {
  pybind11::str op = intern("op"), target = intern("target"), name = intern("name"), args = intern("args"),
                kwargs = intern("kwargs"), meta = intern("meta"), val = intern("val");
  pybind11::object nodeType = pybind11::module_::import("torch.fx").attr("Node");
  pybind11::object getItem = pybind11::module_::import("operator").attr("getitem");
  pybind11::object overloadType = pybind11::module_::import("torch._ops").attr("OpOverload");

  static pybind11::str intern(const char *text) {
    return pybind11::reinterpret_steal<pybind11::str>(PyUnicode_InternFromString(text));
  }
};

const Names &names();

} // namespace torch_tile::runtime::fx
