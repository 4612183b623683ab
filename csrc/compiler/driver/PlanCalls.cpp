// Steps that call what no kernel of ours does: operators, Python functions, control flow, and kernels that came with
// the graph.
#include "compiler/codegen/common/Kernel.h"
#include "compiler/driver/Planner.h"
#include "compiler/fusion/FusionCost.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::driver {

LogicalResult Planner::planKernelCall(ExternOp call) {
  auto kernel = func->getParentOfType<ModuleOp>().lookupSymbol<tile::KernelOp>(call.getOverload());
  ArrayRef<Attribute> args = call.getArgs().getValue();
  if (!kernel || args.size() != kernel.getArgumentTypes().size() + 1)
    return call.emitOpError("expected a kernel of the module, its arguments and a grid");
  SizeContext &sizes = GraphDialect::sizes(call.getContext());
  for (Value result : call.getOutputs())
    if (failed(planBuffer(*call, result)))
      return failure();
  artifact::Launch step;
  step.kernel = kernelIndex(call.getOverload());
  auto sizeOf = [&](Attribute arg) -> std::optional<SizeExpr> {
    if (auto expr = dyn_cast<ExprAttr>(arg))
      return expr.getValue();
    if (auto flag = dyn_cast<BoolAttr>(arg))
      return sizes.constant(flag.getValue());
    if (auto integer = dyn_cast<IntegerAttr>(arg))
      return sizes.constant(integer.getInt());
    return std::nullopt;
  };
  for (auto [type, arg] : llvm::zip(kernel.getArgumentTypes(), args)) {
    if (auto operand = dyn_cast<OperandAttr>(arg); operand && isa<tile::PtrType>(type)) {
      if (call.getMutates() && llvm::is_contained(*call.getMutates(), operand.getIndex()))
        step.written.push_back((uint32_t)step.pointers.size());
      step.pointers.push_back(slotOf(call.getInputs()[operand.getIndex()]));
    } else if (auto result = dyn_cast<StringAttr>(arg); result && isa<tile::PtrType>(type)) {
      unsigned index = 0;
      if (result.getValue().getAsInteger(10, index) || index >= call.getOutputs().size())
        return call.emitOpError("expected the number of a result, got ") << result;
      step.written.push_back((uint32_t)step.pointers.size());
      step.pointers.push_back(slotOf(call.getOutputs()[index]));
    } else if (auto number = dyn_cast<FloatAttr>(arg); number && isa<FloatType>(type)) {
      APFloat value = number.getValue();
      bool isInexact = false;
      value.convert(cast<FloatType>(type).getFloatSemantics(), APFloat::rmNearestTiesToEven, &isInexact);
      step.integers.push_back(exprs.add(sizes.constant((int64_t)value.bitcastToAPInt().getZExtValue())));
    } else if (auto size = sizeOf(arg); size && type.isIntOrIndex()) {
      step.integers.push_back(exprs.add(*size));
    } else {
      return call.emitOpError("expected a value for an argument of type ") << type << ", got " << arg;
    }
  }
  auto grid = dyn_cast<ArrayAttr>(args.back());
  if (!grid || grid.size() != 3)
    return call.emitOpError("expected a grid of three sizes");
  SizeExpr programs = sizes.constant(1);
  bool isGpu = kernel->hasAttr("tile.threads"), needsGrid = !isGpu && codegen::needsGridSizes(kernel);
  if (isGpu && !llvm::is_sorted(kernel.getArgumentTypes(), [](Type left, Type right) {
        return isa<tile::PtrType>(left) && !isa<tile::PtrType>(right);
      }))
    return call.emitOpError("expected a kernel for a GPU to take its pointers first");
  for (Attribute axis : grid) {
    std::optional<SizeExpr> size = sizeOf(axis);
    if (!size)
      return call.emitOpError("expected a size of the grid, got ") << axis;
    programs = sizes.mul(programs, *size);
    if (needsGrid)
      step.integers.push_back(exprs.add(*size));
    if (isGpu)
      step.grid.push_back(exprs.add(*size));
  }
  SizeExpr bytes = sizes.constant(0);
  for (Value value : llvm::concat<Value>(llvm::to_vector(call.getInputs()), llvm::to_vector(call.getOutputs())))
    if (auto type = dyn_cast<GraphTensorType>(value.getType()))
      bytes =
          sizes.add(bytes, sizes.mul(type.numElements(), sizes.constant(fusion::elementBytes(type.getElementType()))));
  auto number = [&](StringRef name) {
    auto attr = kernel->getAttrOfType<IntegerAttr>(name);
    return exprs.add(sizes.constant(attr ? attr.getInt() : 0));
  };
  step.numPrograms = exprs.add(programs);
  step.programCostNs = number("tile.program_cost_ns");
  step.scratchBytes = number("tile.scratch_bytes");
  step.bytesMoved = exprs.add(bytes);
  push(std::move(step), linesOf(*call));
  return success();
}

LogicalResult Planner::planControl(ExternOp call) {
  artifact::Control step;
  using Kind = artifact::Control::Kind;
  auto kind = llvm::StringSwitch<std::optional<Kind>>(call.getOverload())
                  .Case("call", Kind::Call)
                  .Case("cond", Kind::Cond)
                  .Case("while", Kind::While)
                  .Case("while_stack", Kind::WhileStack)
                  .Case("map", Kind::Map)
                  .Case("scan", Kind::Scan)
                  .Default(std::nullopt);
  ArrayRef<Attribute> args = call.getArgs().getValue();
  auto names = args.size() == 4 ? dyn_cast<ArrayAttr>(args[0]) : ArrayAttr();
  auto given = args.size() == 4 ? dyn_cast<ArrayAttr>(args[3]) : ArrayAttr();
  if (!kind || !names || !given)
    return call.emitOpError("expected control flow: names of bodies, two counts and values");
  step.kind = *kind;
  for (Attribute name : names) {
    auto text = dyn_cast<StringAttr>(name);
    std::optional<uint32_t> index = text ? bodyIndex(text.getValue()) : std::nullopt;
    if (!index)
      return call.emitOpError("expected the name of a function, got ") << name;
    step.bodies.push_back(*index);
  }
  for (auto [count, attr] : {std::pair(&step.numCarried, args[1]), std::pair(&step.numSliced, args[2])}) {
    auto number = dyn_cast<IntegerAttr>(attr);
    if (!number || number.getInt() < 0 || number.getInt() > UINT32_MAX)
      return call.emitOpError("expected a count, got ") << attr;
    *count = (uint32_t)number.getInt();
  }
  if (failed(planArguments(call, call.getInputs(), given, step.args)) ||
      failed(planResults(call, call.getOutputs(), step.results)))
    return failure();
  push(std::move(step), linesOf(*call));
  return success();
}

LogicalResult Planner::planComplex(StringRef text, artifact::Value &value) {
  auto [real, imaginary] = text.split(' ');
  value.kind = artifact::Value::Kind::Complex;
  for (StringRef part : {real, imaginary}) {
    artifact::Value &number = value.items.emplace_back();
    number.kind = artifact::Value::Kind::Float;
    if (part.getAsDouble(number.number))
      return failure();
  }
  return success();
}

LogicalResult Planner::planArguments(Operation *op, ValueRange inputs, ArrayAttr args,
                                     std::vector<artifact::Value> &list) {
  for (Attribute arg : args) {
    artifact::Value &value = list.emplace_back();
    using Kind = artifact::Value::Kind;
    LogicalResult known = llvm::TypeSwitch<Attribute, LogicalResult>(arg)
                              .Case([&](OperandAttr operand) {
                                if (operand.getIndex() < 0 || (size_t)operand.getIndex() >= inputs.size())
                                  return failure();
                                Value input = inputs[operand.getIndex()];
                                if (auto size = dyn_cast<SizeType>(input.getType())) {
                                  value.kind = Kind::Int;
                                  value.ref = exprs.add(size.getExpr());
                                } else {
                                  value.kind = Kind::Tensor;
                                  value.ref = slotOf(input);
                                }
                                return success();
                              })
                              .Case([&](ExprAttr expr) {
                                value.kind = Kind::Int;
                                value.ref = exprs.add(expr.getValue());
                                return success();
                              })
                              .Case([&](TorchAttr torch) {
                                StringRef kind = torch.getKind().getValue();
                                if (kind == "complex")
                                  return planComplex(torch.getValue(), value);
                                value.kind = kind == "dtype"           ? Kind::DType
                                             : kind == "device"        ? Kind::Device
                                             : kind == "layout"        ? Kind::Layout
                                             : kind == "memory_format" ? Kind::MemoryFormat
                                                                       : Kind::None;
                                value.text = torch.getValue().str();
                                return success(value.kind != Kind::None);
                              })
                              .Case([&](UnitAttr) { return success(); })
                              .Case([&](BoolAttr flag) {
                                value.kind = Kind::Bool;
                                value.number = flag.getValue();
                                return success();
                              })
                              .Case([&](IntegerAttr integer) {
                                value.kind = Kind::Int;
                                value.ref = exprs.add(GraphDialect::sizes(op->getContext()).constant(integer.getInt()));
                                return success();
                              })
                              .Case([&](FloatAttr number) {
                                value.kind = Kind::Float;
                                value.number = number.getValueAsDouble();
                                return success();
                              })
                              .Case([&](StringAttr text) {
                                value.kind = Kind::String;
                                value.text = text.getValue().str();
                                return success();
                              })
                              .Case([&](ArrayAttr items) {
                                value.kind = Kind::List;
                                return planArguments(op, inputs, items, value.items);
                              })
                              .Default([](Attribute) { return failure(); });
    if (failed(known))
      return op->emitOpError("expected an argument that the runtime can pass, got ") << arg;
  }
  return success();
}

LogicalResult Planner::planResults(Operation *, ValueRange outputs, std::vector<artifact::Result> &list) {
  for (Value output : outputs) {
    artifact::Result &result = list.emplace_back();
    if (auto size = dyn_cast<SizeType>(output.getType())) {
      // A number made at run time: an unbacked symbol.
      if (auto name = size.getExpr().symbol())
        externSymbols.try_emplace(std::string(*name), ExternSymbol{slotOf(output), 0});
      result.used = true;
      result.slot = slotOf(output);
      continue;
    }
    auto type = dyn_cast<GraphTensorType>(output.getType());
    if (!type || (output.use_empty() && !definesSymbol(output)))
      continue;
    for (auto [dim, size] : llvm::enumerate(type.getSizes()))
      if (auto name = unbackedSymbol(size))
        externSymbols.try_emplace(std::string(*name), ExternSymbol{slotOf(output), (uint32_t)dim});
    result.used = true;
    result.slot = slotOf(output);
    result.sizes = exprs.addRange(type.getSizes());
    result.strides = exprs.addRange(type.getStrides());
    FailureOr<artifact::ElementType> element = elementTypeOf(type.getElementType());
    result.hasType = succeeded(element);
    if (result.hasType)
      result.type = *element;
  }
  return success();
}

} // namespace torch_tile::driver
