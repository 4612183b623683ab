// What happens outside: calls through the dispatcher and calls of Python callables.
#include "runtime/fx/Importer.h"
#include "runtime/fx/Nodes.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <set>

namespace py = pybind11;

namespace torch_tile::runtime::fx {
namespace {

/// An argument the text cannot carry; the call is made through Python then.
struct NotPrintable {};

void appendTorch(std::string &out, std::string_view kind, py::handle object) {
  auto text = py::str(object).cast<std::string>();
  out.append("#graph.torch<\"").append(kind).append("\", \"");
  out.append(text.starts_with("torch.") ? text.substr(6) : text).append("\">");
}

class ArgumentPrinter {
public:
  /// `takesNumbers`: a float that depends on sizes may be passed as the 0-d tensor that holds it, a bool as an integer.
  ArgumentPrinter(const Importer &importer, Sizes &sizes, bool takesNumbers)
      : importer(importer), sizes(sizes), takesNumbers(takesNumbers) {}

  void append(std::string &out, py::handle object, bool isFloat) {
    if (object.is_none()) {
      out += "unit";
    } else if (importer.isNode(object)) {
      appendNode(out, object);
    } else if (PyBool_Check(object.ptr())) {
      out += object.ptr() == Py_True ? "true" : "false";
    } else if (PyFloat_Check(object.ptr()) || (isFloat && PyLong_Check(object.ptr()))) {
      appendFloat(out, object.cast<double>());
    } else if (PyComplex_Check(object.ptr())) {
      appendComplex(out, object);
    } else if (PyLong_Check(object.ptr())) {
      appendExprAttr(out, sizes.read(object));
    } else if (PyUnicode_Check(object.ptr())) {
      appendString(out, object.cast<std::string>());
    } else if (PyTuple_Check(object.ptr()) || PyList_Check(object.ptr())) {
      out += '[';
      bool isFirst = true;
      for (py::handle item : object) {
        out += isFirst ? "" : ", ";
        isFirst = false;
        append(out, item, isFloat);
      }
      out += ']';
    } else {
      appendConstant(out, object);
    }
  }

  std::vector<Value> operands;
  std::vector<int64_t> touched; // numbers of the operands that were printed since it was last emptied

private:
  void appendNode(std::string &out, py::handle node) {
    const NodeValues *values = importer.find(node);
    if (!values)
      throw NotPrintable();
    if (!values->isList) {
      appendValue(out, values->leaves[0]);
      return;
    }
    out += '[';
    for (size_t i = 0; i < values->leaves.size(); ++i) {
      out += i ? ", " : "";
      appendValue(out, values->leaves[i]);
    }
    out += ']';
  }

  void appendValue(std::string &out, const Value &value) {
    switch (value.kind) {
    case Value::Kind::None:
      out += "unit";
      return;
    case Value::Kind::Size:
      if (value.isTruth && !takesNumbers)
        throw NotPrintable();
      appendExprAttr(out, value.size);
      return;
    case Value::Kind::Opaque:
      throw NotPrintable();
    case Value::Kind::Tensor:
      break;
    }
    if (value.isPythonFloat && !takesNumbers)
      throw NotPrintable();
    auto it = std::find_if(operands.begin(), operands.end(), [&](const Value &v) { return v.name == value.name; });
    out.append("#graph.operand<").append(std::to_string(it - operands.begin())).append(">");
    touched.push_back(it - operands.begin());
    if (it == operands.end())
      operands.push_back(value);
  }

  static void appendComplex(std::string &out, py::handle object) {
    out += "#graph.torch<\"complex\", \"";
    for (double part : {PyComplex_RealAsDouble(object.ptr()), PyComplex_ImagAsDouble(object.ptr())}) {
      char digits[32];
      out.append(digits, std::to_chars(digits, std::end(digits), part).ptr);
      out += ' ';
    }
    out.back() = '"';
    out += '>';
  }

  static void appendConstant(std::string &out, py::handle object) {
    std::string_view type = Py_TYPE(object.ptr())->tp_name;
    if (type.starts_with("torch."))
      type.remove_prefix(6);
    if (type != "dtype" && type != "device" && type != "layout" && type != "memory_format")
      throw NotPrintable();
    appendTorch(out, type, object);
  }

  const Importer &importer;
  Sizes &sizes;
  bool takesNumbers;
};

} // namespace

/// The `aliases` of a call: an entry for each leaf of its results. `operandsOf` lists the operands of each argument.
static std::string aliasesAttr(const OpInfo &op, const std::vector<std::vector<int64_t>> &operandsOf,
                               const NodeValues &values) {
  constexpr int64_t newMemory = -1, anyOperand = -2;
  std::vector<int64_t> aliases;
  auto add = [&](const OpInfo::Return &info, size_t numLeaves) {
    std::set<int64_t> operands;
    for (size_t argument : info.viewed)
      operands.insert(operandsOf[argument].begin(), operandsOf[argument].end());
    int64_t alias = info.mayBeAnyArgument || operands.size() > 1 ? anyOperand
                    : operands.empty()                           ? newMemory
                                                                 : *operands.begin();
    aliases.insert(aliases.end(), numLeaves, alias);
  };
  if (op.returns.size() == 1 || !values.isList) {
    add(op.returns.size() == 1 ? op.returns[0] : OpInfo::Return{{}, true}, values.leaves.size());
  } else {
    size_t position = 0;
    for (py::handle item : values.meta)
      add(position < op.returns.size() ? op.returns[position++] : OpInfo::Return{{}, true}, countLeaves(item));
  }
  bool hasViews = std::any_of(aliases.begin(), aliases.end(), [](int64_t alias) { return alias != newMemory; });
  return hasViews ? dimsAttr("aliases", aliases) : std::string();
}

void Importer::importExtern(py::handle node, const OpInfo &op, std::span<const py::handle> arguments,
                            const char *reason) {
  ArgumentPrinter printer(*this, sizes, /*takesNumbers=*/false);
  std::string args;
  std::vector<std::vector<int64_t>> operandsOf;
  std::set<int64_t> written;
  try {
    for (size_t i = 0; i < arguments.size(); ++i) {
      args += i ? ", " : "";
      printer.touched.clear();
      printer.append(args, arguments[i], op.arguments[i].isFloat);
      operandsOf.push_back(printer.touched);
      if (op.arguments[i].isWritten)
        written.insert(printer.touched.begin(), printer.touched.end());
    }
  } catch (const NotPrintable &) {
    importPyCall(node, op.fullName, "an argument is no tensor, number known beforehand, string or dtype");
    return;
  }
  NodeValues values = valuesOf(metaOf(node));
  bool returnsNothing = py::len(node.attr("target").attr("_schema").attr("returns")) == 0;
  if (returnsNothing)
    values.leaves.clear();
  std::vector<int64_t> mutates(written.begin(), written.end());
  bool isOrdered = op.isSeeded || node.attr(names().meta).contains("has_effect");
  if (!mutates.empty())
    noteWrite();
  hasEffect |= isOrdered;
  std::string attrs = joinAttrs({stringAttr("op", op.name), stringAttr("overload", op.overload),
                                 "args = [" + args + "]", mutates.empty() ? "" : dimsAttr("mutates", mutates),
                                 returnsNothing ? "" : aliasesAttr(op, operandsOf, values), isOrdered ? "effect" : "",
                                 stringAttr("reason", reason)});
  emitOutside("extern", printer.operands, attrs, values.leaves);
  root->result.externs.emplace_back(nodeName, op.fullName, reason);
  define(node, std::move(values));
}

void Importer::importKernel(py::handle node, py::handle target) {
  auto parts = node.attr("args").cast<py::tuple>();
  ArgumentPrinter printer(*this, sizes, /*takesNumbers=*/false);
  std::string args;
  std::vector<int64_t> written;
  std::set<int64_t> positions;
  for (py::handle position : parts[2])
    positions.insert(position.cast<int64_t>());
  int64_t position = 0;
  try {
    for (py::handle argument : parts[0]) {
      size_t before = printer.operands.size();
      printer.append(args, argument, /*isFloat=*/false);
      args += ", ";
      if (positions.contains(position++) && isNode(argument))
        for (size_t k = 0; k < printer.operands.size(); ++k)
          if (k >= before || printer.operands[k].name == find(argument)->leaves[0].name)
            written.push_back(static_cast<int64_t>(k));
    }
    printer.append(args, parts[1], /*isFloat=*/false);
  } catch (const NotPrintable &) {
    throw UnsupportedGraph{"an argument of a kernel that is neither a tensor nor a number"};
  }
  NodeValues values = valuesOf(metaOf(node));
  auto name = target.attr("name").cast<std::string>(), text = target.attr("tile_text").cast<std::string>();
  std::string attrs = joinAttrs({stringAttr("op", "torch_tile::kernel"), stringAttr("overload", name),
                                 "args = [" + args + "]", written.empty() ? "" : dimsAttr("mutates", written)});
  emitOutside("extern", printer.operands, attrs, values.leaves);
  if (!written.empty())
    noteWrite();
  if (root->kernels.find(text) == std::string::npos)
    root->kernels += text + "\n";
  define(node, std::move(values));
}

void Importer::importPyCall(py::handle node, const std::string &callee, const char *reason) {
  ArgumentPrinter printer(*this, sizes, /*takesNumbers=*/true);
  std::string args;
  for (py::handle input : node.attr("all_input_nodes")) {
    const NodeValues *values = find(input);
    bool isModule = values && !values->isList && values->leaves[0].kind == Value::Kind::Opaque;
    if (isModule && input.attr("op").cast<std::string_view>() == "get_attr")
      continue; // the callable takes it from the graph module
    if (isModule || !values)
      throw UnsupportedGraph{"'" + callee + "' takes a value that is neither tensor, number nor None"};
    args += args.empty() ? "" : ", ";
    printer.append(args, input, false);
  }
  NodeValues values = valuesOf(metaOf(node));
  std::string attrs =
      joinAttrs({intAttr("callable", static_cast<int64_t>(root->result.pycalls.size())), "args = [" + args + "]"});
  hasEffect = true;
  noteWrite();
  emitOutside("pycall", printer.operands, attrs, values.leaves);
  root->result.pycalls.append(node);
  root->result.externs.emplace_back(nodeName, callee, reason);
  define(node, std::move(values));
}

} // namespace torch_tile::runtime::fx
