// Tensors from no tensor data.
#include "runtime/fx/OpCall.h"
#include "runtime/fx/TypePromotion.h"

#include <cmath>

namespace py = pybind11;

namespace torch_tile::runtime::fx {

static const char *setFull(Call &call, std::optional<Scalar> value) {
  if (!value)
    return "the fill value is not a number";
  if (!isInRange(*value, call.type().dtype))
    return kOutOfRange;
  call.set(call.importer.full(*value, call.type()));
  return nullptr;
}

/// A tensor filled with a 0-d tensor (aten.fill.Tensor) or a number.
static const char *setFilled(Call &call, size_t i) {
  const Value *value = call.tensor(i);
  if (!value)
    return setFull(call, call.scalar(i));
  Importer &importer = call.importer;
  Value converted = importer.cast(*value, call.type().dtype);
  std::vector<SizeExpr> strides(call.type().rank(), importer.sizes.constant(0));
  Value expanded = importer.emit("expand", {converted}, "",
                                 importer.makeType(call.type().dtype, call.type().sizes, std::move(strides)));
  call.set(importer.emit("clone", {expanded}, "", call.type()));
  return nullptr;
}

const char *importFull(Call &call) { return setFilled(call, 1); }
const char *importNewFull(Call &call) { return setFilled(call, 2); }
const char *importZeros(Call &call) { return setFull(call, Scalar::of(int64_t{0})); }
const char *importOnes(Call &call) { return setFull(call, Scalar::of(int64_t{1})); }
const char *importScalarTensor(Call &call) { return setFilled(call, 0); }

/// prims.scalar_tensor, which decompositions make of the numbers of a call: those were converted without a check.
const char *importNumberTensor(Call &call) {
  std::optional<Scalar> value = call.scalar(0);
  if (!value || (value->kind == Scalar::Kind::Float && !c10::isFloatingType(call.type().dtype)))
    return "the value is not a number of the dtype";
  call.set(call.importer.full(*value, call.type()));
  return nullptr;
}

static std::string iotaAttr(std::string_view name, const Scalar &value, bool isFloat, Importer &importer) {
  if (!value.isConstant())
    return sizeAttr(name, value.size);
  return isFloat ? floatAttr(name, value.number) : sizeAttr(name, importer.sizes.constant(value.integer));
}

static const char *setIota(Call &call, std::optional<Scalar> start, std::optional<Scalar> step) {
  if (!start || !step)
    return "start or step is not a number";
  bool isFloat = c10::isFloatingType(call.type().dtype);
  if (!isFloat && (start->kind == Scalar::Kind::Float || step->kind == Scalar::Kind::Float))
    return "a float range of integers";
  if (isFloat && (!start->isConstant() || !step->isConstant()))
    return "a float range from symbolic sizes";
  Importer &importer = call.importer;
  auto isWhole = [](const Scalar &value) {
    return value.isConstant() && value.number == std::trunc(value.number) && std::abs(value.number) < 0x1p53;
  };
  bool isRounded = isFloat && !(isWhole(*start) && isWhole(*step));
  std::string attrs =
      joinAttrs({iotaAttr("start", *start, isFloat, importer), iotaAttr("step", *step, isFloat, importer)});
  // ATen's processor code computes in f64 and rounds at the end, that of GPUs in f32.
  at::ScalarType dtype = call.type().dtype, computed = isRounded && !importer.isOnGpu() ? at::kDouble : dtype;
  call.set(importer.cast(importer.emit("iota", {}, attrs, importer.withDtype(call.type(), computed)), dtype));
  return nullptr;
}

/// arange(end), arange(start, end) or arange(start, end, step), each with options that the result type tells.
const char *importArange(Call &call) {
  bool hasStart = call.info.overload.starts_with("start");
  bool hasStep = call.info.overload == "start_step";
  return setIota(call, hasStart ? call.scalar(0) : Scalar::of(int64_t{0}),
                 hasStep ? call.scalar(2) : Scalar::of(int64_t{1}));
}

/// prims.iota(length, start, step, ...)
const char *importPrimsIota(Call &call) { return setIota(call, call.scalar(1), call.scalar(2)); }

/// torch_tile.philox_uniform(seed, salt, sizes, dtype)
const char *importPhilox(Call &call) {
  const Value *seed = call.tensor(0);
  std::optional<Scalar> salt = call.scalar(1);
  if (!seed || !salt || !salt->isConstant())
    return "the salt is not constant";
  Importer &importer = call.importer;
  call.set(
      importer.emit("philox", {*seed}, intAttr("salt", salt->integer), importer.withDtype(call.type(), at::kFloat)));
  return nullptr;
}

} // namespace torch_tile::runtime::fx
