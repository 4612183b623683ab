#include "runtime/fx/Importer.h"

#include "runtime/fx/Nodes.h"
#include "runtime/fx/OpCall.h"
#include "runtime/fx/TypePromotion.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <array>
#include <atomic>

namespace py = pybind11;

namespace torch_tile::runtime::fx {
namespace {

bool isSizeOnly(const std::string &op) {
  static constexpr std::array<std::string_view, 4> ops = {"aten::sym_size.int", "aten::sym_stride.int",
                                                          "aten::sym_numel", "aten::sym_storage_offset"};
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

} // namespace

const Names &names() {
  // Guarded by the GIL and not by the compiler: its guard, held while an import lets other threads run, would wait for
  // the GIL that a waiting thread has. Two at once make two, of which one is kept. It outlives the interpreter.
  static std::atomic<const Names *> all = nullptr;
  if (!all)
    all = new Names();
  return *all;
}

Importer::Importer(py::handle graphModule) : graphModule(graphModule) {}

GraphText Importer::run() {
  // A list first: torch's iterator over nodes starts again after its end, which pybind11's range loop touches twice.
  py::list all(graphModule.attr("graph").attr("nodes"));
  findDevice(all);
  importNodes(all);
  result.text = "graph.func @graph" + header() + body + "}\n";
  int numLines = line + 1; // with the closing brace
  for (size_t k = 0; k < bodies.texts.size(); ++k) {
    const Bodies::Text &text = bodies.texts[k];
    result.text += "graph.func @body" + std::to_string(k) + text.signature + text.body + "}\n";
    for (const auto &[number, name] : text.lines)
      result.lines.emplace_back(numLines + number, name);
    numLines += 3 + static_cast<int>(std::count(text.body.begin(), text.body.end(), '\n'));
  }
  result.text += kernels;
  for (const Sizes::Symbol &symbol : sizes.symbols())
    result.symbols.emplace_back(symbol.name, symbol.torchName);
  return std::move(result);
}

void Importer::importNodes(const py::list &all) {
  for (py::handle node : all) {
    nodeName = path() + node.attr(names().name).cast<std::string>();
    try {
      importNode(node);
    } catch (const UnsupportedGraph &error) {
      throw UnsupportedGraph{"node '" + nodeName + "': " + error.text};
    }
  }
}

c10::Device deviceOf(py::handle tensor) {
  py::object device = tensor.attr("device"); // a fake tensor is of the meta device inside
  return reinterpret_cast<THPDevice *>(device.ptr())->device;
}

void Importer::findDevice(const py::list &all) {
  for (py::handle node : all) {
    py::object meta = metaOf(node);
    if (THPVariable_Check(meta.ptr()) && deviceOf(meta).is_cuda()) {
      device = deviceOf(meta);
      break;
    }
  }
  result.device = device.str();
}

void Importer::importNode(py::handle node) {
  py::str opObject = node.attr(names().op);
  std::string op = opObject;
  if (op == "call_function")
    importCall(node);
  else if (op == "placeholder")
    importPlaceholder(node);
  else if (op == "get_attr")
    importConstant(node);
  else if (op == "output")
    importOutput(node);
  else
    throw UnsupportedGraph{"'" + op + "' in a graph of ATen ops"};
}

//===-- values --------------------------------------------------------------------------------------------------===//

bool Importer::isNode(py::handle object) const {
  return reinterpret_cast<PyObject *>(Py_TYPE(object.ptr())) == names().nodeType.ptr();
}

const NodeValues *Importer::find(py::handle node) const {
  auto it = nodes.find(node.ptr());
  return it == nodes.end() || it->second.leaves.empty() ? nullptr : &it->second;
}

void Importer::define(py::handle node, NodeValues values) { nodes[node.ptr()] = std::move(values); }

py::object Importer::metaOf(py::handle node) const {
  py::object meta = node.attr(names().meta);
  PyObject *value = PyDict_GetItem(meta.ptr(), names().val.ptr());
  return value ? py::reinterpret_borrow<py::object>(value) : py::none();
}

TensorType Importer::makeType(at::ScalarType dtype, std::vector<SizeExpr> dims) {
  auto strides = contiguousStrides(sizes.context, dims);
  return makeType(dtype, std::move(dims), std::move(strides));
}

TensorType Importer::makeType(at::ScalarType dtype, std::vector<SizeExpr> dims, std::vector<SizeExpr> strides) {
  TensorType type;
  type.dtype = dtype;
  type.sizes = std::move(dims);
  type.strides = std::move(strides);
  type.device = device;
  type.text = tensorTypeText(sizes.context, type);
  sizes.addOfTensor(type.sizes);
  sizes.addOfTensor(type.strides);
  return type;
}

TensorType Importer::withDtype(const TensorType &type, at::ScalarType dtype) {
  if (type.dtype == dtype)
    return type;
  bool isExpanded = std::any_of(type.strides.begin(), type.strides.end(), [](SizeExpr e) { return e.isConstant(0); });
  return isExpanded ? makeType(dtype, type.sizes) : makeType(dtype, type.sizes, type.strides);
}

Value Importer::valueOf(py::handle meta) {
  Value value;
  if (meta.is_none())
    return value;
  if (THPVariable_Check(meta.ptr())) {
    const at::Tensor &tensor = THPVariable_Unpack(meta.ptr());
    if (tensor.layout() != at::kStrided)
      throw UnsupportedGraph{"tensor is not strided"};
    if (!elementTypeName(tensor.scalar_type()))
      throw UnsupportedGraph{std::string("dtype ") + c10::toString(tensor.scalar_type()) + " is not representable"};
    value.kind = Value::Kind::Tensor;
    value.meta = meta.ptr();
    if (tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) {
      value.type =
          makeType(tensor.scalar_type(), sizes.readAll(meta.attr("size")()), sizes.readAll(meta.attr("stride")()));
    } else {
      std::vector<SizeExpr> dims, strides;
      for (int64_t size : tensor.sizes())
        dims.push_back(sizes.constant(size));
      for (int64_t stride : tensor.strides())
        strides.push_back(sizes.constant(stride));
      value.type = makeType(tensor.scalar_type(), std::move(dims), std::move(strides));
    }
    value.type.device = deviceOf(meta);
  } else if ((PyLong_Check(meta.ptr()) && !PyBool_Check(meta.ptr())) || isSymInt(meta)) {
    value.kind = Value::Kind::Size;
    value.size = sizes.read(meta);
    value.meta = meta.ptr();
  } else {
    value.kind = Value::Kind::Opaque;
  }
  return value;
}

static void flatten(Importer &importer, py::handle meta, std::vector<Value> &leaves) {
  if (PyTuple_Check(meta.ptr()) || PyList_Check(meta.ptr()))
    for (py::handle item : meta)
      flatten(importer, item, leaves);
  else
    leaves.push_back(importer.valueOf(meta));
}

NodeValues Importer::valuesOf(py::object meta) {
  NodeValues values;
  values.isList = PyTuple_Check(meta.ptr()) || PyList_Check(meta.ptr());
  flatten(*this, meta, values.leaves);
  values.meta = std::move(meta);
  return values;
}

SizeExpr Importer::storageOffset(const Value &value) {
  return sizes.read(py::handle(value.meta).attr("storage_offset")());
}

//===-- nodes ---------------------------------------------------------------------------------------------------===//

void Importer::importPlaceholder(py::handle node) {
  NodeValues values = valuesOf(metaOf(node));
  if (!values.isList && values.leaves[0].kind == Value::Kind::Opaque)
    values.leaves[0] = numberInput(values.meta);
  if (values.isList || values.leaves[0].kind == Value::Kind::None || values.leaves[0].kind == Value::Kind::Opaque)
    throw UnsupportedGraph{"graph input is neither a tensor nor a number"};
  Value &value = values.leaves[0];
  if (value.kind == Value::Kind::Size && isNestedInt(values.meta))
    result.numberInputs.emplace_back(static_cast<int>(inputs.size()), "nested");
  value.name = "%" + std::to_string(nextName++);
  value.isForeignStorage = true;
  inputs.push_back(value);
  if (value.isPythonFloat)
    readFloatOfSizes(node, value);
  define(node, std::move(values));
}

/// Whether a tensor of the device is known to begin between the multiples of 16 bytes at which kernels for GPU move
/// whole words. One that turns out to do so only later is copied.
bool Importer::isUnaligned(const Value &input) const {
  if (!isOnGpu() || !input.isTensor() || !input.meta)
    return false;
  auto meta = py::reinterpret_borrow<py::object>(input.meta);
  if (!THPVariable_Check(meta.ptr()) || !py::hasattr(meta, "storage_offset"))
    return false;
  py::object offset = meta.attr("storage_offset")();
  if (!py::isinstance<py::int_>(offset))
    return false;
  constexpr int64_t wordBytes = 16;
  return offset.cast<int64_t>() * static_cast<int64_t>(c10::elementSize(input.type.dtype)) % wordBytes != 0;
}

/// Why nothing is generated for these dtypes or devices; null if it can be.
static const char *refuseType(const Value &value, Dtypes taken, c10::Device device) {
  if (!value.isTensor())
    return nullptr;
  if (value.type.device != device)
    return device.is_cpu() ? "a tensor is not on the CPU" : "a tensor is not on the device of the graph's kernels";
  bool isTaken = isGenerated(value.type.dtype) || taken == Dtypes::Any ||
                 (taken == Dtypes::Converted && isConverted(value.type.dtype));
  return isTaken ? nullptr : "no kernels are generated for this dtype";
}

void Importer::noteWrite() {
  writesMemory = true;
  deviceCopies.clear(); // of numbers as they were
}

const NodeValues *Importer::onDevice(const NodeValues &values) {
  if (values.isList || values.leaves.size() != 1)
    return nullptr;
  const Value &value = values.leaves[0];
  bool isNumber = value.isTensor() && value.type.rank() == 0 && value.type.device.is_cpu() && !value.isPythonFloat;
  if (!device.is_cuda() || !isNumber)
    return nullptr;
  auto [it, isNew] = deviceCopies.try_emplace(value.name);
  if (isNew) {
    NodeValues copy;
    copy.meta = values.meta;
    Value &moved = copy.leaves.emplace_back();
    moved.kind = Value::Kind::Tensor;
    moved.type = makeType(value.type.dtype, {});
    moved.meta = value.meta;
    std::string attrs = joinAttrs(
        {stringAttr("op", "aten::_to_copy"), stringAttr("overload", ""),
         "args = [#graph.operand<0>, unit, unit, #graph.torch<\"device\", \"" + device.str() + "\">, unit, true, unit]",
         stringAttr("reason", "a number moves to the device")});
    emitOutside("extern", std::span(&value, 1), attrs, copy.leaves);
    root->result.externs.emplace_back(nodeName, "aten::_to_copy", "a number moves to the device");
    it->second = std::move(copy);
  }
  return &it->second;
}

static bool definesSymbol(py::handle node) {
  py::dict meta = node.attr(names().meta);
  return meta.contains("unbacked_bindings") && py::bool_(py::object(meta["unbacked_bindings"]));
}

/// Null once the op's values are set, else the reason why it is called outside.
const char *Importer::importWithRule(Call &call, py::handle node) {
  const OpRule &rule = *call.info.rule;
  // A slice up to a number of unknown sign has a size of its own, which the call defines.
  if (call.info.fullName == "aten::slice.Tensor" && definesSymbol(node))
    return "its size is known only when the graph runs";
  for (const Value &value : call.results.leaves)
    if (const char *reason = refuseType(value, rule.dtypes, device))
      return reason;
  std::vector<std::pair<PyObject *, NodeValues>> moved;
  const char *reason = nullptr;
  for (py::handle input : node.attr("all_input_nodes")) {
    const NodeValues *values = find(input);
    if (!values || reason)
      continue;
    if (const NodeValues *copy = onDevice(*values)) {
      moved.emplace_back(input.ptr(), *values);
      values = copy;
      nodes[input.ptr()] = *copy;
    }
    for (const Value &value : values->leaves)
      if (!reason)
        reason = refuseType(value, rule.dtypes, device);
  }
  call.firstName = nextName;
  if (!reason)
    reason = rule.import(call);
  for (auto &[input, values] : moved)
    nodes[input] = std::move(values);
  return reason;
}

void Importer::importCall(py::handle node) {
  py::object target = node.attr(names().target);
  if (target.is(names().getItem)) {
    importGetItem(node);
    return;
  }
  if (reinterpret_cast<PyObject *>(Py_TYPE(target.ptr())) != names().overloadType.ptr()) {
    if (py::hasattr(target, "tile_text"))
      importKernel(node, target);
    else if (!importScalarCall(node, target)) {
      auto name = py::str(target).cast<std::string>();
      if (const char *reason = importControl(node, name))
        importPyCall(node, name, reason);
    }
    return;
  }
  const OpInfo &op = opInfoOf(target);
  if (isSizeOnly(op.fullName)) {
    define(node, valuesOf(metaOf(node)));
    return;
  }
  if (op.fullName == "aten::_local_scalar_dense" && importItem(node))
    return;
  Call call(*this, node, op, metaOf(node));
  const char *reason = op.rule ? importWithRule(call, node) : "there is no rule for this operator";
  if (!reason) {
    // Set by frontend/shared_roundings.py.
    if (node.attr(names().meta).contains("tile_rounded"))
      for (Value &value : call.results.leaves)
        value.name = emit("rounded", {value}, "", value.type).name;
    define(node, std::move(call.results));
  } else
    importExtern(node, op, call.arguments, reason);
}

size_t countLeaves(py::handle meta) {
  if (!PyTuple_Check(meta.ptr()) && !PyList_Check(meta.ptr()))
    return 1;
  size_t count = 0;
  for (py::handle item : meta)
    count += countLeaves(item);
  return count;
}

void Importer::importGetItem(py::handle node) {
  auto args = node.attr(names().args).cast<py::tuple>();
  const NodeValues *list = find(args[0]);
  if (!list || !list->isList)
    throw UnsupportedGraph{"an item of a value that is no list"};
  auto position = args[1].cast<int64_t>();
  size_t first = 0;
  py::object item;
  int64_t k = 0;
  for (py::handle each : list->meta) {
    if (k++ == position) {
      item = py::reinterpret_borrow<py::object>(each);
      break;
    }
    first += countLeaves(each);
  }
  if (!item)
    throw UnsupportedGraph{"item " + std::to_string(position) + " is beyond the list"};
  NodeValues values;
  values.isList = PyTuple_Check(item.ptr()) || PyList_Check(item.ptr());
  auto begin = list->leaves.begin() + static_cast<ptrdiff_t>(first);
  values.leaves.assign(begin, begin + static_cast<ptrdiff_t>(countLeaves(item)));
  values.meta = std::move(item);
  define(node, std::move(values));
}

GraphText printGraph(py::handle graphModule) { return Importer(graphModule).run(); }

} // namespace torch_tile::runtime::fx
