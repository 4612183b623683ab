// Tensors and modules that the graph module holds.
#include "runtime/fx/Importer.h"
#include "runtime/fx/Nodes.h"
#include "runtime/fx/TypePromotion.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

namespace py = pybind11;

namespace torch_tile::runtime::fx {

/// Read from memory: under the fake tensor mode of the compile no op on a real tensor would do.
static Scalar readScalar(const at::Tensor &tensor) {
  const void *data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
  case at::kDouble:
    return Scalar::of(*static_cast<const double *>(data));
  case at::kFloat:
    return Scalar::of(static_cast<double>(*static_cast<const float *>(data)));
  case at::kHalf:
    return Scalar::of(static_cast<double>(static_cast<float>(*static_cast<const at::Half *>(data))));
  case at::kBFloat16:
    return Scalar::of(static_cast<double>(static_cast<float>(*static_cast<const at::BFloat16 *>(data))));
  case at::kLong:
    return Scalar::of(*static_cast<const int64_t *>(data));
  case at::kInt:
    return Scalar::of(int64_t{*static_cast<const int32_t *>(data)});
  case at::kShort:
    return Scalar::of(int64_t{*static_cast<const int16_t *>(data)});
  case at::kChar:
    return Scalar::of(int64_t{*static_cast<const int8_t *>(data)});
  case at::kByte:
  case at::kBool:
    return Scalar::of(int64_t{*static_cast<const uint8_t *>(data)});
  default:
    throw UnsupportedGraph{"a number of this dtype"};
  }
}

/// A tensor held by the module becomes an input more, or a number where it is 0-d; modules are for the callables alone.
/// Numbers are part of the text that programs are kept by. What is frozen may have another value in the next process,
/// so on the CPU it stays a tensor; on the GPU, where a tensor would be copied by each call, freezing takes down what
/// has been read (`Constants.read_numbers`).
void Importer::importConstant(py::handle node) {
  py::object object = py::reinterpret_borrow<py::object>(graphModule);
  auto path = node.attr(names().target).cast<std::string>();
  for (size_t start = 0; start <= path.size();) {
    size_t end = std::min(path.find('.', start), path.size());
    object = object.attr(path.substr(start, end - start).c_str());
    start = end + 1;
  }
  NodeValues values;
  values.meta = object;
  Value &value = values.leaves.emplace_back();
  if (!THPVariable_Check(object.ptr())) {
    value.kind = Value::Kind::Opaque;
    define(node, std::move(values));
    return;
  }
  value = valueOf(object);
  const at::Tensor &tensor = THPVariable_Unpack(object.ptr());
  bool isReal = !py::hasattr(object, "fake_mode");
  bool isUsedOnDevice = true;
  if (device.is_cuda())
    for (py::handle user : node.attr("users")) {
      py::object meta = metaOf(user);
      isUsedOnDevice &= THPVariable_Check(meta.ptr()) && deviceOf(meta) == device;
    }
  bool isNumber = isReal && tensor.dim() == 0 && value.type.device.is_cpu();
  if (isNumber && device.is_cpu())
    isNumber = !node.attr("meta").contains("is_frozen");
  if (isNumber && isUsedOnDevice && isGenerated(value.type.dtype)) {
    Scalar scalar = readScalar(tensor);
    PyObject *meta = value.meta;
    value.type.device = device;
    value = full(scalar, value.type);
    value.meta = meta;
  } else {
    value = constantInput(object);
  }
  define(node, std::move(values));
}

Value Importer::constantInput(const py::object &tensor) {
  auto known = std::find_if(captured.constants.begin(), captured.constants.end(),
                            [&](const py::object &each) { return each.is(tensor); });
  if (known != captured.constants.end())
    return constantInputs[static_cast<size_t>(known - captured.constants.begin())];
  Value value = valueOf(tensor);
  value.name = "%" + std::to_string(nextName++);
  value.isForeignStorage = true;
  inputs.push_back(value);
  captured.constants.push_back(tensor);
  constantInputs.push_back(value);
  if (!parent)
    result.constants.append(tensor);
  return value;
}

} // namespace torch_tile::runtime::fx
