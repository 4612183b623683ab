// Python numbers in a graph: floats and bools that it takes, computes, compares and gives.
#include "runtime/fx/Importer.h"
#include "runtime/fx/Nodes.h"
#include "runtime/fx/OpCall.h"
#include "runtime/fx/TypePromotion.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <unordered_set>

namespace py = pybind11;

namespace torch_tile::runtime::fx {

Value Importer::numberInput(py::handle meta) {
  Value value;
  value.kind = Value::Kind::Opaque;
  bool isFloat = isSymFloat(meta) || PyFloat_Check(meta.ptr()), isBool = isSymBool(meta);
  if (isFloat) {
    value.kind = Value::Kind::Tensor;
    value.type = makeType(at::kDouble, {});
    value.type.device = c10::Device(c10::DeviceType::CPU);
    value.isPythonFloat = true;
  } else if (isBool) {
    value.kind = Value::Kind::Size;
    value.size = sizes.readCondition(meta);
    value.isTruth = true;
  }
  value.meta = meta.ptr();
  if (isFloat || isBool)
    result.numberInputs.emplace_back(static_cast<int>(inputs.size()), isFloat ? "float" : "bool");
  return value;
}

Value Importer::numberOutput(Value value, py::handle meta) {
  if (!meta.is_none() && PyFloat_Check(meta.ptr())) {
    value = full(Scalar::of(meta.cast<double>()), makeType(at::kDouble, {}));
    value.isPythonFloat = true;
  } else if (!meta.is_none() && PyBool_Check(meta.ptr())) {
    value.kind = Value::Kind::Size;
    value.size = sizes.constant(meta.ptr() == Py_True);
    value.isTruth = true;
  }
  if (value.kind == Value::Kind::Size && isNestedInt(meta)) {
    auto isSource = [&](const auto &input) {
      return input.second == "nested" && inputs[static_cast<size_t>(input.first)].size == value.size;
    };
    auto source = std::find_if(result.numberInputs.begin(), result.numberInputs.end(), isSource);
    if (source == result.numberInputs.end())
      throw UnsupportedGraph{"an output that is the length of a jagged tensor which is no input"};
    result.numberOutputs.emplace_back(static_cast<int>(outputs.size()), "input " + std::to_string(source->first));
  }
  if (value.isPythonFloat || value.isTruth)
    result.numberOutputs.emplace_back(static_cast<int>(outputs.size()), value.isTruth ? "bool" : "float");
  return value;
}

bool Importer::importItem(py::handle node) {
  NodeValues values;
  values.meta = metaOf(node);
  const NodeValues *source = find(node.attr(names().args).cast<py::tuple>()[0]);
  bool isFloat = isSymFloat(values.meta), isBool = isSymBool(values.meta);
  if ((!isFloat && !isBool) || !source || !source->leaves[0].isTensor() || !isGenerated(source->leaves[0].type.dtype))
    return false;
  Value value = source->leaves[0];
  if (value.type.rank() > 0)
    value = emit("view", {value}, "", makeType(value.type.dtype, {}));
  value = cast(value, isFloat ? at::kDouble : at::kLong);
  if (isFloat) {
    value.isPythonFloat = true;
    value.meta = values.meta.ptr();
    readFloatOfSizes(node, value);
    values.leaves.push_back(std::move(value));
  } else {
    Value &truth = values.leaves.emplace_back();
    truth.kind = Value::Kind::Size;
    truth.isTruth = true;
    truth.meta = values.meta.ptr();
    emitOutside("extern", {&value, 1},
                joinAttrs({stringAttr("op", "aten::_local_scalar_dense"), stringAttr("overload", ""),
                           "args = [#graph.operand<0>]", stringAttr("reason", "the host asks for the value")}),
                values.leaves);
    result.externs.emplace_back(nodeName, "aten::_local_scalar_dense", "the host asks for the value");
  }
  define(node, std::move(values));
  return true;
}

/// Whether an integer is computed from a float, or from floats that are computed from it.
static bool hasIntegerUser(const Importer &importer, py::handle node) {
  std::vector<py::object> reached{py::reinterpret_borrow<py::object>(node)};
  std::unordered_set<PyObject *> seen;
  while (!reached.empty()) {
    py::object each = std::move(reached.back());
    reached.pop_back();
    for (py::handle user : each.attr("users")) {
      py::object meta = importer.metaOf(user);
      if (isSymInt(meta))
        return true;
      if (isSymFloat(meta) && seen.insert(user.ptr()).second)
        reached.push_back(py::reinterpret_borrow<py::object>(user));
    }
  }
  return false;
}

void Importer::readFloatOfSizes(py::handle node, const Value &value) {
  auto meta = py::reinterpret_borrow<py::object>(value.meta);
  bool isSymbol = isSymFloat(meta) && meta.attr("node").attr("expr").attr("is_Symbol").cast<bool>();
  if (!isSymbol || !hasIntegerUser(*this, node))
    return;
  std::vector<Value> bits(1);
  bits[0].kind = Value::Kind::Tensor;
  bits[0].type = withDtype(value.type, at::kLong);
  auto call = [&](const Value &operand, std::string_view op, std::string_view overload, std::string_view args,
                  std::string_view aliases, std::vector<Value> &results) {
    emitOutside("extern", {&operand, 1},
                joinAttrs({stringAttr("op", op), stringAttr("overload", overload), "args = [" + std::string(args) + "]",
                           std::string(aliases), stringAttr("reason", "a size is computed from a float")}),
                results);
    root->result.externs.emplace_back(nodeName, std::string(op), "a size is computed from a float");
  };
  call(value, "aten::view", "dtype", "#graph.operand<0>, #graph.torch<\"dtype\", \"int64\">",
       dimsAttr("aliases", std::vector<int64_t>{0}), bits);
  std::vector<Value> number(1);
  number[0].kind = Value::Kind::Size;
  number[0].isPythonFloat = true;
  number[0].meta = value.meta;
  call(bits[0], "aten::_local_scalar_dense", "", "#graph.operand<0>", "", number);
}

Value Importer::scalarOperand(py::handle object) {
  TensorType type = makeType(at::kDouble, {});
  if (PyFloat_Check(object.ptr()))
    return full(Scalar::of(object.cast<double>()), type);
  const NodeValues *values = isNode(object) ? find(object) : nullptr;
  if (values && values->leaves[0].isPythonFloat)
    return values->leaves[0];
  SizeExpr size = values && values->leaves[0].kind == Value::Kind::Size ? values->leaves[0].size : sizes.read(object);
  auto constant = size.constant();
  return full(constant ? Scalar::of(*constant) : Scalar{Scalar::Kind::Size, 0, 0, size, false}, type);
}

Value Importer::roundToDigits(const Value &x, py::handle digits) {
  if (!PyLong_Check(digits.ptr()))
    throw UnsupportedGraph{"round() to a number of digits that is not constant"};
  TensorType type = makeType(at::kDouble, {});
  auto count = digits.cast<int64_t>();
  Value scale = full(Scalar::of(std::pow(10.0, static_cast<double>(std::abs(count)))), type);
  bool isFraction = count > 0;
  Value scaled = emit(isFraction ? "mul" : "div", {x, scale}, "", type);
  return emit(isFraction ? "div" : "mul", {emit("round", {scaled}, "", type), scale}, "", type);
}

bool Importer::compareFloats(py::handle node, py::handle target, Value &truth) {
  static constexpr std::array<std::string_view, 6> relations = {"eq", "ne", "lt", "le", "gt", "ge"};
  auto name = target.attr("__name__").cast<std::string>();
  if (std::find(relations.begin(), relations.end(), name) == relations.end())
    return false;
  std::vector<Value> operands;
  for (py::handle argument : node.attr(names().args))
    operands.push_back(scalarOperand(argument));
  truth = emit(name, operands, "", makeType(at::kBool, {}));
  truth.isPythonFloat = true;
  return true;
}

bool Importer::importScalarCall(py::handle node, py::handle target) {
  NodeValues values = valuesOf(metaOf(node));
  if (values.isList)
    return false;
  if (values.leaves[0].kind == Value::Kind::Size) {
    define(node, std::move(values));
    return true;
  }
  if (isSymBool(values.meta)) {
    Value &truth = values.leaves[0];
    try {
      truth.size = sizes.readCondition(values.meta);
      truth.kind = Value::Kind::Size;
      truth.isTruth = true;
    } catch (const UnsupportedGraph &) {
      if (!compareFloats(node, target, truth)) { // fine where nothing but a check uses it
        truth.kind = Value::Kind::Opaque;
      }
    }
    define(node, std::move(values));
    return true;
  }
  if (!isSymFloat(values.meta))
    return false;
  struct Function {
    std::string_view name, op;
  };
  static constexpr std::array<Function, 25> functions = {{{"truediv", "div"},     {"floordiv", "div_floor"},
                                                          {"mod", "remainder"},   {"mul", "mul"},
                                                          {"add", "add"},         {"sub", "sub"},
                                                          {"pow", "pow"},         {"neg", "neg"},
                                                          {"sym_max", "maximum"}, {"sym_min", "minimum"},
                                                          {"_sym_sqrt", "sqrt"},  {"_sym_log2", "log2"},
                                                          {"_sym_sin", "sin"},    {"_sym_cos", "cos"},
                                                          {"_sym_tan", "tan"},    {"_sym_sinh", "sinh"},
                                                          {"_sym_cosh", "cosh"},  {"_sym_tanh", "tanh"},
                                                          {"_sym_asin", "asin"},  {"_sym_acos", "acos"},
                                                          {"_sym_atan", "atan"},  {"_sym_exp", "exp"},
                                                          {"abs", "abs"},         {"round", "round"},
                                                          {"sym_float", ""}}};
  auto name = target.attr("__name__").cast<std::string>();
  auto it = std::find_if(functions.begin(), functions.end(), [&](const Function &f) { return f.name == name; });
  if (it == functions.end())
    throw UnsupportedGraph{"function '" + name + "' of numbers"};
  std::vector<Value> operands;
  for (py::handle argument : node.attr(names().args))
    operands.push_back(scalarOperand(argument));
  Value &value = values.leaves[0];
  if (name == "round" && operands.size() == 2) {
    value = roundToDigits(operands[0], node.attr(names().args).cast<py::tuple>()[1]);
    value.isPythonFloat = true;
    define(node, std::move(values));
    return true;
  }
  value = it->op.empty() ? operands[0] : emit(it->op, operands, "", makeType(at::kDouble, {}));
  value.isPythonFloat = true;
  define(node, std::move(values));
  return true;
}

} // namespace torch_tile::runtime::fx
