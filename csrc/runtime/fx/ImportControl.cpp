// Higher-order operators whose subgraphs become functions of their own: branches, loops and shared regions.
//
// A subgraph is printed once for each distinct text, so that equal layers share one function. What it needs besides its
// operands, tensors that its module holds and sizes that none of its operands shows, is passed as further operands.
#include "runtime/fx/Importer.h"
#include "runtime/fx/Nodes.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <array>

namespace py = pybind11;

namespace torch_tile::runtime::fx {
namespace {

/// How the arguments of an operator are laid out: subgraphs, then lists of values.
struct Layout {
  std::string_view op, kind;
  size_t numSubgraphs;
  bool hasPredicate = false; // before the subgraphs
  bool isCarried = false, isSliced = false;
  bool isFlat = false; // a name, then the values one by one
};

constexpr std::array<Layout, 6> layouts = {{
    {"cond", "cond", 2, true},
    {"while_loop", "while", 2, false, true},
    {"while_loop_stack_output", "while_stack", 2, false, true},
    {"scan", "scan", 1, false, true, true},
    {"map_impl", "map", 1, false, false, true},
    {"invoke_subgraph", "call", 1, false, false, false, true},
}};

const Layout *findLayout(std::string_view op) {
  auto it = std::find_if(layouts.begin(), layouts.end(), [&](const Layout &layout) { return layout.op == op; });
  return it == layouts.end() ? nullptr : &*it;
}

bool isExpanded(const Value &value) {
  const TensorType &type = value.type;
  for (size_t i = 0; value.isTensor() && i < type.rank(); ++i)
    if (type.strides[i].isConstant(0) && !type.sizes[i].isConstant(1))
      return true;
  return false;
}

/// Operands of a step and the text of its arguments.
class Arguments {
public:
  std::vector<Value> operands;
  std::string text;

  void add(const Value &value) {
    text += text.empty() ? "" : ", ";
    switch (value.kind) {
    case Value::Kind::None:
      text += "unit";
      return;
    case Value::Kind::Size:
      appendExprAttr(text, value.size);
      return;
    case Value::Kind::Opaque:
      throw UnsupportedGraph{"an operand is neither a tensor nor an integer"};
    case Value::Kind::Tensor:
      break;
    }
    auto it = std::find_if(operands.begin(), operands.end(), [&](const Value &v) { return v.name == value.name; });
    text.append("#graph.operand<").append(std::to_string(it - operands.begin())).append(">");
    if (it == operands.end())
      operands.push_back(value);
  }

  /// A node of one value, or a Python number.
  void add(Importer &importer, py::handle object, bool isPredicate = false) {
    if (!importer.isNode(object)) {
      if (!PyBool_Check(object.ptr()) && !PyLong_Check(object.ptr()))
        throw UnsupportedGraph{"an operand is neither a tensor nor an integer"};
      if (PyBool_Check(object.ptr()) && !isPredicate)
        throw UnsupportedGraph{"an operand is a bool"};
      Value value;
      value.kind = Value::Kind::Size;
      value.size =
          PyBool_Check(object.ptr()) ? importer.sizes.constant(object.ptr() == Py_True) : importer.sizes.read(object);
      return add(value);
    }
    const NodeValues *values = importer.find(object);
    if (!values || values->isList)
      throw UnsupportedGraph{"an operand is a list"};
    const Value &value = values->leaves[0];
    if ((value.isTruth && !isPredicate) || value.isPythonFloat)
      throw UnsupportedGraph{"an operand is a float or a bool"};
    add(value);
  }
};

} // namespace

Importer::Mark Importer::mark() const { return {result.externs.size(), result.pycalls.size(), bodies.texts.size()}; }

void Importer::goBack(const Mark &mark) {
  result.externs.resize(mark.numExterns);
  bodies.texts.resize(mark.numTexts);
  if (PyList_SetSlice(result.pycalls.ptr(), static_cast<Py_ssize_t>(mark.numCallables), PY_SSIZE_T_MAX, nullptr) != 0)
    throw py::error_already_set();
}

//===-- subgraphs -----------------------------------------------------------------------------------------------===//

Importer::Importer(py::handle graphModule, Importer &parent, const std::string &name)
    : parent(&parent), root(parent.root), subgraphName(name), graphModule(graphModule), device(parent.device) {}

std::string Importer::path() const { return parent ? parent->path() + subgraphName + "." : std::string(); }

bool Importer::Captured::contains(const Captured &other) const {
  auto hasConstant = [&](const py::object &tensor) {
    return std::any_of(constants.begin(), constants.end(), [&](const py::object &each) { return each.is(tensor); });
  };
  auto hasSymbol = [&](const Sizes::Symbol &symbol) {
    return std::any_of(symbols.begin(), symbols.end(),
                       [&](const Sizes::Symbol &each) { return each.torchName == symbol.torchName; });
  };
  return std::all_of(other.constants.begin(), other.constants.end(), hasConstant) &&
         std::all_of(other.symbols.begin(), other.symbols.end(), hasSymbol);
}

void Importer::Captured::add(const Captured &other) {
  for (const py::object &tensor : other.constants)
    if (Captured one{{tensor}, {}}; !contains(one))
      constants.push_back(tensor);
  for (const Sizes::Symbol &symbol : other.symbols)
    if (Captured one{{}, {symbol}}; !contains(one))
      symbols.push_back(symbol);
}

void Importer::takeCaptured(const Captured &given) {
  for (const py::object &tensor : given.constants)
    constantInput(tensor);
}

void Importer::bindSymbols(const Captured &given) {
  std::vector<Sizes::Symbol> missing = given.symbols;
  for (const Sizes::Symbol &symbol : std::vector<Sizes::Symbol>(sizes.symbols())) {
    SizeExpr size = sizes.context.symbol(symbol.name);
    bool isInput = std::any_of(inputs.begin(), inputs.end(), [&](const Value &input) {
      auto isSame = [&](SizeExpr each) { return each == size; };
      return input.kind == Value::Kind::Size
                 ? isSame(input.size)
                 : std::any_of(input.type.sizes.begin(), input.type.sizes.end(), isSame) ||
                       std::any_of(input.type.strides.begin(), input.type.strides.end(), isSame);
    });
    bool isDefinedHere = symbol.name.starts_with('u') && sizes.isDefined(size);
    bool isGiven = std::any_of(given.symbols.begin(), given.symbols.end(),
                               [&](const Sizes::Symbol &each) { return each.torchName == symbol.torchName; });
    if (!isInput && !isDefinedHere && !isGiven)
      missing.push_back(symbol);
  }
  for (const Sizes::Symbol &symbol : missing) {
    Value value;
    value.kind = Value::Kind::Size;
    value.size = sizes.adopt(symbol);
    value.name = "%" + std::to_string(nextName++);
    inputs.push_back(value);
    captured.symbols.push_back(symbol);
  }
}

Importer::Subgraph Importer::importSubgraph(py::handle node, const Captured &given, bool isCondition) {
  const NodeValues *module = find(node);
  if (!module || module->leaves[0].kind != Value::Kind::Opaque || !py::hasattr(module->meta, "graph"))
    throw UnsupportedGraph{"a subgraph is no graph"};
  Importer inner(module->meta, *this, node.attr("target").cast<std::string>());
  py::list all(inner.graphModule.attr("graph").attr("nodes"));
  size_t numPlaceholders = 0;
  while (numPlaceholders < all.size() && all[numPlaceholders].attr("op").cast<std::string_view>() == "placeholder")
    ++numPlaceholders;
  auto part = [&](size_t begin, size_t end) {
    return py::list(all[py::slice(static_cast<py::ssize_t>(begin), static_cast<py::ssize_t>(end), 1)]);
  };
  inner.importNodes(part(0, numPlaceholders));
  inner.takeCaptured(given);
  inner.importNodes(part(numPlaceholders, all.size()));
  inner.bindSymbols(given);
  if (!inner.result.numberInputs.empty())
    throw UnsupportedGraph{"a subgraph takes a float or a bool"};
  if (!inner.result.numberOutputs.empty() && !(isCondition && inner.result.numberOutputs[0].second == "bool"))
    throw UnsupportedGraph{"a subgraph returns a float or a bool"};
  Bodies::Text text{inner.header(), std::move(inner.body), std::move(inner.result.lines)};
  std::vector<Bodies::Text> &texts = root->bodies.texts;
  auto known = std::find_if(texts.begin(), texts.end(), [&](const Bodies::Text &each) {
    return each.signature == text.signature && each.body == text.body;
  });
  Subgraph subgraph{"body" + std::to_string(known - texts.begin()), std::move(inner.outputs), std::move(inner.captured),
                    inner.hasEffect, inner.writesMemory};
  if (known == texts.end())
    texts.push_back(std::move(text));
  return subgraph;
}

std::vector<Importer::Subgraph> Importer::importSubgraphs(const std::vector<py::handle> &nodes, bool isFirstCondition) {
  Captured all;
  const Mark begin = root->mark();
  for (;;) {
    std::vector<Subgraph> subgraphs;
    Captured found = all;
    for (py::handle node : nodes) {
      subgraphs.push_back(importSubgraph(node, all, isFirstCondition && subgraphs.empty()));
      found.add(subgraphs.back().captured);
    }
    if (nodes.size() == 1 || all.contains(found))
      return subgraphs;
    // Each takes what the others capture, too.
    all = std::move(found);
    root->goBack(begin);
  }
}

//===-- operators -----------------------------------------------------------------------------------------------===//

const char *Importer::importControl(py::handle node, const std::string &op) {
  const Layout *layout = findLayout(op);
  if (!layout)
    return "not an operator of the dispatcher";
  auto args = node.attr("args").cast<py::tuple>();
  size_t first = layout->hasPredicate ? 1 : 0;
  const Mark begin = root->mark();
  try {
    std::vector<py::handle> modules;
    for (size_t i = 0; i < layout->numSubgraphs; ++i)
      modules.push_back(args[first + i]);
    std::vector<Subgraph> subgraphs = importSubgraphs(modules, layout->isCarried && layout->numSubgraphs == 2);
    Arguments arguments;
    if (layout->hasPredicate)
      arguments.add(*this, args[0], /*isPredicate=*/true);
    size_t counts[3] = {};
    if (layout->isFlat) {
      for (size_t i = first + modules.size() + 1; i < args.size(); ++i)
        arguments.add(*this, args[i]);
    } else {
      size_t numLists = 0;
      for (size_t i = first + modules.size(); i < args.size() && numLists < 3; ++i) {
        for (py::handle item : args[i]) {
          const NodeValues *given = isNode(item) ? find(item) : nullptr;
          if (layout->isCarried && numLists == 0 && given && !given->isList && isExpanded(given->leaves[0]))
            throw UnsupportedGraph{"a carried operand is expanded"}; // what replaces it has elements of its own
          arguments.add(*this, item);
          ++counts[numLists];
        }
        ++numLists;
      }
    }
    for (const py::object &tensor : subgraphs[0].captured.constants)
      arguments.add(constantInput(tensor));
    for (const Sizes::Symbol &symbol : subgraphs[0].captured.symbols) {
      if (!sizes.find(symbol.torchName))
        throw UnsupportedGraph{"a size of a subgraph is none of the graph's"};
      Value value;
      value.kind = Value::Kind::Size;
      value.size = sizes.adopt(symbol);
      arguments.add(value);
    }
    size_t numCarried = layout->isCarried ? counts[0] : 0;
    size_t numSliced = layout->isSliced ? counts[layout->isCarried ? 1 : 0] : 0;
    if (layout->isSliced && numSliced == 0)
      throw UnsupportedGraph{"nothing is sliced"};

    NodeValues values = valuesOf(metaOf(node));
    if (values.leaves.size() != subgraphs.back().outputs.size())
      throw UnsupportedGraph{"the results are not those of the subgraph"};
    std::string names;
    bool isOrdered = false, writes = false;
    for (const Subgraph &subgraph : subgraphs) {
      names += (names.empty() ? "\"" : ", \"") + subgraph.name + "\"";
      isOrdered |= subgraph.hasEffect;
      writes |= subgraph.writesMemory;
    }
    // Results of which nothing is known may be views of operands.
    bool isNewMemory = layout->isSliced && !layout->isCarried;
    std::vector<int64_t> aliases(values.leaves.size(), isNewMemory ? -1 : -2), mutates;
    for (size_t k = 0; k < arguments.operands.size() && writes; ++k)
      if (arguments.operands[k].isTensor())
        mutates.push_back(static_cast<int64_t>(k));
    std::string attrs = joinAttrs({stringAttr("op", "torch_tile::control"), stringAttr("overload", layout->kind),
                                   "args = [[" + names + "], " + std::to_string(numCarried) + ", " +
                                       std::to_string(numSliced) + ", [" + arguments.text + "]]",
                                   mutates.empty() ? "" : dimsAttr("mutates", mutates), dimsAttr("aliases", aliases),
                                   isOrdered ? "effect" : ""});
    hasEffect |= isOrdered;
    if (writes)
      noteWrite();
    emitOutside("extern", arguments.operands, attrs, values.leaves);
    define(node, std::move(values));
    return nullptr;
  } catch (const UnsupportedGraph &error) {
    root->goBack(begin);
    reasons.push_back(error.text);
    return reasons.back().c_str();
  }
}

} // namespace torch_tile::runtime::fx
