// Copies of tensors, and writes of them into inputs of the graph.
#include "runtime/fx/OpCall.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace py = pybind11;

namespace torch_tile::runtime::fx {

static constexpr const char *kNoTensor = "expected a tensor operand";

const char *importClone(Call &call) {
  const Value *x = call.tensor(0);
  if (!x)
    return kNoTensor;
  call.set(call.importer.emit("clone", {*x}, "", call.type()));
  return nullptr;
}

/// `x` as the tensor of `type`: converted, broadcast, copied.
static Value copyAs(Importer &importer, const Value &x, const TensorType &type) {
  Value value = importer.cast(x, type.dtype);
  if (value.type.sizes != type.sizes) {
    size_t missing = type.rank() - value.type.rank();
    std::vector<SizeExpr> strides(missing, importer.sizes.constant(0));
    for (size_t i = 0; i < value.type.rank(); ++i)
      strides.push_back(value.type.sizes[i] == type.sizes[missing + i] ? value.type.strides[i]
                                                                       : importer.sizes.constant(0));
    value = importer.emit("expand", {value}, "", importer.makeType(type.dtype, type.sizes, std::move(strides)));
  }
  return importer.emit("clone", {value}, "", type);
}

const char *importCopy(Call &call) {
  const Value *source = call.tensor(1);
  if (!source)
    return kNoTensor;
  call.set(copyAs(call.importer, *source, call.type()));
  return nullptr;
}

/// Views that are memory of their operand at every stage: those that part_writes/paths.py follows.
static constexpr std::array<std::string_view, 13> views = {
    "aten.slice.Tensor",      "aten.select.int",      "aten.diagonal.default", "aten.as_strided.default",
    "aten.view.default",      "aten.permute.default", "aten.t.default",        "aten.transpose.int",
    "aten.unsqueeze.default", "aten.squeeze.default", "aten.squeeze.dim",      "aten.squeeze.dims",
    "aten.alias.default"};

/// Whether a node is a graph input, or a view of one.
static bool isPartOfInput(py::handle node) {
  auto op = node.attr("op").cast<std::string>();
  if (op != "call_function")
    return op == "placeholder";
  auto name = py::str(node.attr("target")).cast<std::string>();
  return std::find(views.begin(), views.end(), name) != views.end() &&
         isPartOfInput(node.attr("args").attr("__getitem__")(0));
}

const char *importCopyInto(Call &call) {
  const Value *dest = call.tensor(0), *source = call.tensor(1);
  if (!dest || !source)
    return kNoTensor;
  if (!isPartOfInput(call.argument(0)))
    return "its destination is not an input of the graph or a part of one";
  const Value operands[] = {*dest, *source};
  Value value = call.importer.emit("copy_", operands, "", dest->type);
  call.setView(std::move(value), *dest);
  return nullptr;
}

} // namespace torch_tile::runtime::fx
