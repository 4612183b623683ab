// What the schemas of operators say of their arguments and results.
#include "runtime/fx/Importer.h"
#include "runtime/fx/Nodes.h"
#include "runtime/fx/OpTable.h"

#include <algorithm>
#include <array>

namespace py = pybind11;

namespace torch_tile::runtime::fx {
namespace {

/// Operators of torch whose results share memory with an argument although their schema does not say so.
bool isUndeclaredView(const std::string &op) {
  static constexpr std::array<std::string_view, 6> ops = {"aten::_unsafe_view",  "aten::unsafe_split",
                                                          "aten::unsafe_chunk",  "aten::unsafe_split_with_sizes",
                                                          "aten::_reshape_copy", "aten::type_as"};
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

/// What is known of memory: which results are views of which arguments. Schemas of torch's own operators are believed,
/// those of others where they declare something.
std::vector<OpInfo::Return> returnsOf(py::handle schema, const std::string &op) {
  static constexpr std::array<std::string_view, 6> known = {"aten",   "prims",     "mkldnn",
                                                            "onednn", "quantized", "torch_tile"};
  std::string_view space = std::string_view(op).substr(0, op.find("::"));
  bool isBelieved = std::find(known.begin(), known.end(), space) != known.end() && !isUndeclaredView(op);
  std::vector<OpInfo::Return> returns;
  for (py::handle each : schema.attr("returns")) {
    OpInfo::Return &info = returns.emplace_back();
    py::object alias = each.attr("alias_info");
    info.mayBeAnyArgument = alias.is_none() && !isBelieved;
    size_t position = 0;
    for (py::handle argument : schema.attr("arguments")) {
      py::object other = argument.attr("alias_info");
      if (!alias.is_none() && !other.is_none() &&
          py::len(alias.attr("before_set").attr("intersection")(other.attr("before_set"))) > 0)
        info.viewed.push_back(position);
      ++position;
    }
  }
  return returns;
}

} // namespace

const OpInfo &opInfoOf(py::handle overload) {
  static auto *table = new std::unordered_map<PyObject *, std::unique_ptr<OpInfo>>(); // guarded by the GIL
  auto it = table->find(overload.ptr());
  if (it != table->end())
    return *it->second;
  auto info = std::make_unique<OpInfo>();
  info->fullName = overload.attr("_name").cast<std::string>();
  size_t space = info->fullName.find("::");
  size_t dot = info->fullName.find('.', space);
  info->name = info->fullName.substr(0, dot);
  info->overload = dot == std::string::npos ? "" : info->fullName.substr(dot + 1);
  for (py::handle argument : overload.attr("_schema").attr("arguments")) {
    py::object alias = argument.attr("alias_info");
    std::string type = py::str(argument.attr("type")).cast<std::string>();
    info->arguments.push_back({argument.attr("name"), argument.attr("default_value"),
                               !alias.is_none() && alias.attr("is_write").cast<bool>(),
                               type.find("float") != std::string::npos});
  }
  info->returns = returnsOf(overload.attr("_schema"), info->name);
  info->rule = findRule(info->fullName);
  py::object seededTag = py::module_::import("torch").attr("Tag").attr("nondeterministic_seeded");
  for (py::handle tag : overload.attr("tags"))
    info->isSeeded |= tag.equal(seededTag);
  overload.inc_ref(); // the key stays valid
  return *table->emplace(overload.ptr(), std::move(info)).first->second;
}

} // namespace torch_tile::runtime::fx
