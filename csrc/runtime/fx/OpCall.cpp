#include "runtime/fx/OpCall.h"
#include "runtime/fx/Casts.h"

#include "runtime/fx/TypePromotion.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

namespace py = pybind11;

namespace torch_tile::runtime::fx {

Call::Call(Importer &importer, py::handle node, const OpInfo &op, py::object meta)
    : importer(importer), info(op), results(importer.valuesOf(std::move(meta))) {
  auto args = node.attr("args").cast<py::tuple>();
  auto kwargs = node.attr("kwargs").cast<py::dict>();
  arguments.reserve(op.arguments.size());
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    if (i < args.size()) {
      arguments.push_back(PyTuple_GET_ITEM(args.ptr(), static_cast<Py_ssize_t>(i)));
      continue;
    }
    PyObject *named = kwargs.size() ? PyDict_GetItem(kwargs.ptr(), op.arguments[i].name.ptr()) : nullptr;
    arguments.push_back(named ? named : op.arguments[i].defaultValue.ptr());
  }
}

const Value *Call::tensorOf(py::handle object) const {
  const NodeValues *values = importer.isNode(object) ? importer.find(object) : nullptr;
  return values && !values->isList && values->leaves[0].isTensor() ? &values->leaves[0] : nullptr;
}

std::optional<Scalar> Call::scalar(size_t i) const {
  if (i >= arguments.size())
    return {};
  py::handle object = arguments[i];
  if (PyBool_Check(object.ptr())) {
    bool value = object.ptr() == Py_True;
    return Scalar{Scalar::Kind::Bool, value, value ? 1.0 : 0.0, {}, false};
  }
  if (PyLong_Check(object.ptr())) {
    SizeExpr value = importer.sizes.read(object);
    return Scalar::of(*value.constant());
  }
  if (PyFloat_Check(object.ptr()))
    return Scalar::of(PyFloat_AS_DOUBLE(object.ptr()));
  if (!importer.isNode(object))
    return {};
  const NodeValues *values = importer.find(object);
  if (!values || values->isList || values->leaves[0].kind != Value::Kind::Size)
    return {};
  SizeExpr size = values->leaves[0].size;
  if (auto constant = size.constant(); constant && !values->leaves[0].isTruth)
    return Scalar::of(*constant);
  return Scalar{Scalar::Kind::Size, 0, 0, size, values->leaves[0].isTruth};
}

SizeExpr Call::sizeOf(py::handle object) const {
  if (!importer.isNode(object))
    return importer.sizes.read(object);
  const NodeValues *values = importer.find(object);
  if (!values || values->isList || values->leaves[0].kind != Value::Kind::Size)
    throw UnsupportedGraph{"expected an integer argument"};
  return values->leaves[0].size;
}

std::vector<SizeExpr> Call::sizeList(size_t i) const {
  std::vector<SizeExpr> list;
  if (isNone(i))
    return list;
  if (!PySequence_Check(arguments[i].ptr()))
    return {sizeOf(arguments[i])};
  for (py::handle item : arguments[i])
    list.push_back(sizeOf(item));
  return list;
}

static int64_t wrapDim(int64_t dim, size_t rank) {
  auto extent = static_cast<int64_t>(std::max<size_t>(rank, 1));
  return dim < 0 ? dim + extent : dim;
}

bool Call::requireSizes(std::span<const SizeExpr> from, std::span<const SizeExpr> to, bool mayBroadcast) {
  if (mayBroadcast ? from.size() > to.size() : from.size() != to.size())
    return false;
  to = to.last(from.size());
  const SizeFacts &facts = importer.sizes.facts();
  SizeExpr one = importer.sizes.constant(1);
  auto mayBeOne = [&](SizeExpr size) { return facts.equal(size, one) != Proof::No; };
  std::vector<std::pair<SizeExpr, SizeExpr>> unknown;
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] == to[d] || (mayBroadcast && from[d].isConstant(1)))
      continue;
    Proof areEqual = facts.equal(from[d], to[d]);
    if (areEqual == Proof::No || (areEqual == Proof::Unknown && mayBroadcast && (mayBeOne(from[d]) || mayBeOne(to[d]))))
      return false;
    if (areEqual == Proof::Unknown)
      unknown.emplace_back(from[d], to[d]);
  }
  for (auto [size, expected] : unknown)
    importer.emitCheck(importer.sizes.equals(size, expected), "a source does not fit its places: expected a size of " +
                                                                  expected.str() + ", got " + size.str());
  return true;
}

int64_t Call::dim(size_t i, size_t rank) const { return wrapDim(arguments[i].cast<int64_t>(), rank); }

std::vector<int64_t> Call::dims(size_t i, size_t rank) const {
  std::vector<int64_t> list;
  if (isNone(i))
    return list;
  if (PyLong_Check(arguments[i].ptr()))
    return {dim(i, rank)};
  for (py::handle item : arguments[i])
    list.push_back(wrapDim(item.cast<int64_t>(), rank));
  std::sort(list.begin(), list.end());
  return list;
}

void Call::name(Value value, size_t i) {
  Value &result = results.leaves[i];
  if (value.type.dtype != result.type.dtype)
    value = castTo(importer, value, result.type);
  value.meta = result.meta;
  result = std::move(value);
}

void Call::set(Value value, size_t i) {
  if (std::stoi(value.name.substr(1)) < firstName && value.type.dtype == type(i).dtype)
    value = importer.emit("clone", {value}, "", type(i));
  name(std::move(value), i);
}

void Call::setView(Value value, const Value &base, size_t i) {
  value.isForeignStorage = base.isForeignStorage;
  name(std::move(value), i);
}

void Call::setPointwise(std::string_view op, std::span<const Value> operands, at::ScalarType dtype,
                        std::string_view attrs) {
  set(importer.emit(op, operands, attrs, importer.withDtype(type(), dtype)));
}

Value Call::pointwise(std::string_view op, std::initializer_list<Value> operands, at::ScalarType dtype) {
  return importer.emit(op, operands, "", importer.withDtype(type(), dtype));
}

bool Operands::add(size_t i) {
  if (const Value *value = call.tensor(i))
    items.push_back({*value, {}});
  else if (std::optional<Scalar> scalar = call.scalar(i))
    items.push_back({{}, scalar});
  else
    return false;
  return true;
}

at::ScalarType Operands::promoted() const {
  TypePromotion promotion;
  for (const Item &item : items) {
    if (!item.scalar && item.value.isPythonFloat)
      promotion.addFloat();
    else if (!item.scalar)
      promotion.addTensor(item.value.type.dtype, item.value.type.rank());
    else if (item.scalar->kind == Scalar::Kind::Bool || item.scalar->isTruth)
      promotion.addBool();
    else if (item.scalar->kind == Scalar::Kind::Float)
      promotion.addFloat();
    else
      promotion.addInt();
  }
  return promotion.result();
}

at::ScalarType Operands::widened(at::ScalarType dtype) const {
  if (!c10::isReducedFloatingType(dtype))
    return dtype;
  bool isEveryNumberExact = std::all_of(items.begin(), items.end(), [&](const Item &item) {
    if (!item.scalar)
      return !item.value.isPythonFloat;
    return item.scalar->isConstant() && isExact(item.scalar->number, dtype);
  });
  return isEveryNumberExact ? dtype : at::kFloat;
}

/// A copy on the device has what is said of the tensor that it was made of.
static bool wasOnCpu(const Value &value) {
  return value.meta && THPVariable_Check(value.meta) &&
         py::handle(value.meta).attr("device").attr("type").cast<std::string_view>() == "cpu";
}

at::ScalarType Operands::widenedFactor(at::ScalarType dtype) const {
  if (!c10::isReducedFloatingType(dtype))
    return dtype;
  for (size_t i = call.importer.isOnGpu() ? 0 : 1; i < std::min<size_t>(items.size(), 2); ++i) {
    const auto &[value, scalar] = items[i];
    if (!scalar && value.type.rank() == 0 && value.type.dtype != dtype && wasOnCpu(value))
      return at::kFloat;
  }
  return widened(dtype);
}

bool Operands::areInRange(at::ScalarType dtype) const {
  return std::ranges::all_of(items, [&](const Item &item) { return !item.scalar || isInRange(*item.scalar, dtype); });
}

std::vector<Value> Operands::castTo(at::ScalarType dtype) {
  std::vector<Value> values;
  for (const Item &item : items)
    values.push_back(item.scalar ? call.importer.full(*item.scalar, call.importer.scalarType(dtype))
                                 : call.importer.cast(item.value, dtype));
  return values;
}

} // namespace torch_tile::runtime::fx
