// Conditions on sizes that hold or end the call.
#include "runtime/fx/OpCall.h"

#include <limits>

namespace py = pybind11;

namespace torch_tile::runtime::fx {

/// aten._assert_scalar(condition, message)
const char *importAssertScalar(Call &call) {
  Importer &importer = call.importer;
  py::handle argument = call.argument(0);
  const NodeValues *values = importer.isNode(argument) ? importer.find(argument) : nullptr;
  SizeExpr condition;
  if (values && values->leaves[0].kind == Value::Kind::Size && !values->leaves[0].isTruth)
    condition = values->leaves[0].size; // any integer but 0 is true
  else if (PyLong_Check(argument.ptr()) && !PyBool_Check(argument.ptr()))
    condition = importer.sizes.read(argument);
  else
    condition = importer.sizes.readCondition(values ? py::handle(values->meta) : argument);
  // Where a slice that ATen cuts begins in memory is nobody's size: ATen has checked it.
  if (importer.sizes.isDefined(condition))
    importer.emitCheck(condition, call.text(1));
  return nullptr;
}

/// aten.sym_constrain_range(size, *, min, max); the bounds are optional.
const char *importConstrainRange(Call &call) {
  Importer &importer = call.importer;
  SizeContext &context = importer.sizes.context;
  SizeExpr size = call.size(0), one = context.constant(1);
  auto emitAtLeast = [&](SizeExpr a, SizeExpr b) {
    SizeExpr above = context.add(context.sub(a, b), one);
    importer.emitCheck(context.min(one, context.max(context.constant(0), above)),
                       "invalid value range for " + size.str() + " between [" + call.text(1) + ", " + call.text(2) +
                           "]");
  };
  // The ends of int64 are no bounds, and no difference to them is sure to be an int64.
  if (!call.isNone(1) && call.size(1).constant().value_or(0) > std::numeric_limits<int64_t>::min() / 2)
    emitAtLeast(size, call.size(1));
  if (!call.isNone(2) && call.size(2).constant().value_or(0) < std::numeric_limits<int64_t>::max() / 2)
    emitAtLeast(call.size(2), size);
  return nullptr;
}

} // namespace torch_tile::runtime::fx
