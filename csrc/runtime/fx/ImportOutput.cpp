// What a graph returns.
#include "runtime/fx/Importer.h"
#include "runtime/fx/Nodes.h"
#include "runtime/fx/Printing.h"

#include <algorithm>

namespace py = pybind11;

namespace torch_tile::runtime::fx {

/// Whether torch gives a tensor of its own over the memory of another one.
static bool isViewOf(py::handle node) {
  py::object target = node.attr(names().target);
  if (target.is(names().getItem))
    return isViewOf(node.attr(names().args).cast<py::tuple>()[0]);
  if (!py::isinstance(target, names().overloadType))
    return false;
  const OpInfo &op = opInfoOf(target);
  auto isWritten = [](const OpInfo::Argument &each) { return each.isWritten; };
  auto isView = [](const OpInfo::Return &each) { return !each.viewed.empty(); };
  // Schemas say of lists of views only that they may be views of anything.
  if (op.name.starts_with("aten::split") || op.name == "aten::chunk" || op.name == "aten::unbind")
    return true;
  return std::none_of(op.arguments.begin(), op.arguments.end(), isWritten) &&
         std::any_of(op.returns.begin(), op.returns.end(), isView);
}

void Importer::importOutput(py::handle node) {
  auto args = node.attr(names().args).cast<py::tuple>();
  std::vector<py::handle> items;
  std::vector<int64_t> own;
  if (PyTuple_Check(args[0].ptr()) || PyList_Check(args[0].ptr()))
    for (py::handle item : py::object(args[0]))
      items.push_back(item);
  else
    items.push_back(args[0]);
  for (py::handle item : items) {
    Value value;
    if (isNode(item)) {
      const NodeValues *values = find(item);
      if (!values || values->isList)
        throw UnsupportedGraph{"an output that is a list"};
      value = numberOutput(values->leaves[0], values->meta);
    } else {
      value = numberOutput(valueOf(item), item);
    }
    if (value.kind == Value::Kind::None) {
      startLine(value.name, 1);
      body += "graph.none : none";
      endLine();
    } else if (value.kind == Value::Kind::Size) {
      startLine(value.name, 1);
      body += "graph.size {expr = ";
      appendExprAttr(body, value.size);
      body += "} : () -> !graph.size<";
      appendSize(body, value.size);
      body += '>';
      endLine();
    } else if (value.name.empty()) {
      throw UnsupportedGraph{"an output that is neither a value of the graph, a number nor None"};
    }
    if (value.isTensor() && isNode(item) && isViewOf(item))
      own.push_back(static_cast<int64_t>(outputs.size()));
    outputs.push_back(std::move(value));
  }
  body += "  graph.return";
  if (!own.empty())
    body += " {" + dimsAttr("own", own) + "}";
  if (!outputs.empty()) {
    body += ' ';
    appendOperands(body, outputs);
    std::string types;
    appendTypes(types, outputs);
    body.append(" : ").append(types, 1, types.size() - 2);
  }
  endLine();
}

} // namespace torch_tile::runtime::fx
