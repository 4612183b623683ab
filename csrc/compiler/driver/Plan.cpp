#include "compiler/driver/Plan.h"

#include "compiler/analysis/Memory.h"
#include "compiler/codegen/common/Kernel.h"
#include "compiler/driver/PlanExprs.h"
#include "compiler/fusion/FusionCost.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::driver {
namespace {

FailureOr<artifact::ElementType> elementTypeOf(Type type) {
  using E = artifact::ElementType;
  if (type.isF64())
    return E::Float64;
  if (type.isF32())
    return E::Float32;
  if (type.isF16())
    return E::Float16;
  if (type.isBF16())
    return E::BFloat16;
  if (isa<Float8E4M3FNType>(type))
    return E::Float8E4M3FN;
  if (isa<Float8E5M2Type>(type))
    return E::Float8E5M2;
  if (isa<Float8E4M3FNUZType>(type))
    return E::Float8E4M3FNUZ;
  if (isa<Float8E5M2FNUZType>(type))
    return E::Float8E5M2FNUZ;
  if (isa<Float8E8M0FNUType>(type))
    return E::Float8E8M0FNU;
  if (isa<Float4E2M1FNType>(type))
    return E::Float4E2M1FNx2;
  if (auto integer = dyn_cast<IntegerType>(type)) {
    bool isUnsigned = integer.isUnsigned();
    switch (integer.getWidth()) {
    case 64:
      return isUnsigned ? E::UInt64 : E::Int64;
    case 32:
      return isUnsigned ? E::UInt32 : E::Int32;
    case 16:
      return isUnsigned ? E::UInt16 : E::Int16;
    case 8:
      return isUnsigned ? E::UInt8 : E::Int8;
    case 1:
      return E::Bool;
    }
  }
  if (auto complex = dyn_cast<ComplexType>(type))
    return complex.getElementType().isF64()   ? E::Complex128
           : complex.getElementType().isF16() ? E::Complex32
                                              : E::Complex64;
  return failure();
}

class Planner {
public:
  Planner(FuncOp func, llvm::function_ref<uint32_t(StringRef)> kernelIndex,
          llvm::function_ref<std::optional<uint32_t>(StringRef)> bodyIndex, artifact::Body &artifact)
      : func(func), kernelIndex(kernelIndex), bodyIndex(bodyIndex), artifact(artifact), exprs(artifact) {}

  LogicalResult run() {
    if (failed(planInputs()))
      return failure();
    findLastUses();
    for (Operation &op : func.getBody().front()) {
      if (failed(planOp(op)))
        return failure();
      freeAfter(op);
    }
    artifact.numSlots = nextSlot;
    if (exprs.tooLarge)
      return func.emitError("unsupported: a size of ")
             << treeSize(exprs.tooLarge) << " nodes, more than a call evaluates";
    planMemory();
    return bindSymbols();
  }

private:
  artifact::SlotId slotOf(Value value) {
    auto [it, isNew] = slots.try_emplace(value, nextSlot);
    if (isNew)
      ++nextSlot;
    return it->second;
  }

  /// The name of a symbol that only what the graph calls can define.
  static std::optional<std::string_view> unbackedSymbol(SizeExpr e) {
    auto name = e.symbol();
    return name && name->starts_with('u') ? name : std::nullopt;
  }

  static bool definesSymbol(Value value) {
    auto type = dyn_cast<GraphTensorType>(value.getType());
    return type && llvm::any_of(type.getSizes(), [](SizeExpr e) { return unbackedSymbol(e).has_value(); });
  }

  LogicalResult planInputs() {
    for (BlockArgument argument : func.getBody().getArguments()) {
      artifact::Input input;
      if (auto type = dyn_cast<GraphTensorType>(argument.getType())) {
        FailureOr<artifact::ElementType> element = elementTypeOf(type.getElementType());
        if (failed(element))
          return func.emitOpError("expected inputs of element types torch has, got ") << type;
        input.slot = slotOf(argument);
        input.type = *element;
        input.sizes = exprs.addRange(type.getSizes());
        input.strides = exprs.addRange(type.getStrides());
      } else {
        input.kind = artifact::Input::Kind::Int;
      }
      artifact.inputs.push_back(std::move(input));
    }
    return success();
  }

  //===-- lifetimes ---------------------------------------------------------------------------------------------===//

  /// Results that a launch writes in place are the buffer they are written into.
  void findLastUses() {
    for (Operation &op : func.getBody().front()) {
      if (auto whole = dyn_cast<AssembleOp>(op))
        for (auto [number, part] : llvm::enumerate(whole.getParts()))
          parts[part] = {whole, (unsigned)number};
      if (auto launch = dyn_cast<LaunchOp>(op))
        for (auto [result, input] : llvm::zip(launch.getOutputs(), launch.getWrites()))
          if (input >= 0)
            slots[result] = slotOf(launch.getInputs()[input]);
      auto touch = [&](Value value) {
        if (isa<GraphTensorType>(value.getType()))
          lastUse[slotOf(value)] = &op;
      };
      llvm::for_each(op.getOperands(), touch);
      for (Value result : op.getResults())
        // Calls outside do not keep results that nothing uses.
        if (!result.use_empty() || !isa<ExternOp, PyCallOp>(op) || isKernelCall(&op) || definesSymbol(result))
          touch(result);
    }
    for (auto &[slot, op] : lastUse)
      if (!isa<ReturnOp>(op))
        dies[op].push_back(slot);
    // Inputs that nothing uses go at once.
    for (BlockArgument argument : func.getBody().getArguments())
      if (isa<GraphTensorType>(argument.getType()) && argument.use_empty())
        push(artifact::Free{slotOf(argument)}, {});
  }

  void freeAfter(Operation &op) {
    auto it = dies.find(&op);
    if (it == dies.end())
      return;
    llvm::sort(it->second);
    for (artifact::SlotId slot : it->second)
      push(artifact::Free{slot}, {});
  }

  /// Tells the runtime which slots may share memory.
  void planMemory() {
    std::vector<Value> values(nextSlot);
    for (auto [value, slot] : slots)
      values[slot] = value;
    for (auto [slot, value] : ownOutputs)
      values[slot] = value;
    DenseMap<Value, uint32_t> numbers;
    DenseMap<uint32_t, unsigned> users;
    std::vector<artifact::SharedSlot> all;
    for (artifact::SlotId slot = 0; slot < nextSlot; ++slot) {
      artifact::SharedSlot &shared = all.emplace_back();
      shared.slot = slot;
      for (Value place : analysis::placesOf(values[slot])) {
        uint32_t number = numbers.try_emplace(place, numbers.size()).first->second;
        shared.places.push_back(number);
        ++users[number];
      }
    }
    for (artifact::SharedSlot &shared : all)
      if (llvm::any_of(shared.places, [&](uint32_t place) { return users[place] > 1; }))
        artifact.sharedSlots.push_back(std::move(shared));
  }

  //===-- steps -------------------------------------------------------------------------------------------------===//

  template <typename Action> void push(Action action, std::vector<uint32_t> lines) {
    artifact.steps.push_back({std::move(action), std::move(lines)});
  }

  std::vector<uint32_t> linesOf(Operation &op) {
    SmallVector<int64_t> lines;
    torch_tile::fusion::collectLines(op.getLoc(), lines);
    llvm::sort(lines);
    lines.erase(llvm::unique(lines), lines.end());
    return std::vector<uint32_t>(lines.begin(), lines.end());
  }

  LogicalResult planOp(Operation &op) {
    return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
        .Case([&](LaunchOp launch) { return planLaunch(launch); })
        .Case([&](ExternOp call) {
          if (isKernelCall(call))
            return planKernelCall(call);
          if (call.getOp() == "torch_tile::control")
            return planControl(call);
          artifact::Extern step;
          step.op = call.getOp().str();
          step.overload = call.getOverload().str();
          if (failed(planArguments(call, call.getInputs(), call.getArgs(), step.args)) ||
              failed(planResults(call, call.getOutputs(), step.results)))
            return failure();
          push(std::move(step), linesOf(op));
          return success();
        })
        .Case([&](PyCallOp call) {
          artifact::PyCall step;
          step.callable = (uint32_t)call.getCallable();
          if (failed(planArguments(call, call.getInputs(), call.getArgs(), step.args)) ||
              failed(planResults(call, call.getOutputs(), step.results)))
            return failure();
          push(std::move(step), linesOf(op));
          return success();
        })
        .Case([&](AliasOp alias) {
          planAlias(slotOf(alias.getResult()), slotOf(alias.getSource()), alias.getType(), alias.getOffset().getValue(),
                    linesOf(op));
          return success();
        })
        .Case([&](CheckOp check) {
          push(artifact::Check{exprs.add(check.getCondition().getValue()), check.getMessage().str()}, linesOf(op));
          return success();
        })
        .Case([&](ReturnOp ret) { return planOutputs(ret); })
        .Case([&](AssembleOp whole) -> LogicalResult {
          if (!assembled.contains(whole.getOperation()))
            return whole.emitOpError("expected parts that launches make");
          return success();
        })
        .Case<NoneOp, SizeOp>([](auto) { return success(); })
        .Default([](Operation *other) { return other->emitOpError("has no step in the artifact"); });
  }

  /// A new buffer for a result of `op`, or its place in the tensor that it is a part of.
  LogicalResult planBuffer(Operation &op, Value result) {
    auto type = cast<GraphTensorType>(result.getType());
    if (auto it = parts.find(result); it != parts.end()) {
      auto [whole, number] = it->second;
      if (assembled.insert(whole.getOperation()).second && failed(planBuffer(op, whole.getResult())))
        return failure();
      planAlias(slotOf(result), slotOf(whole.getResult()), type, whole.offsetOf(number), linesOf(op));
      return success();
    }
    FailureOr<artifact::ElementType> element = elementTypeOf(type.getElementType());
    if (failed(element))
      return op.emitOpError("expected results of element types torch has, got ") << type;
    artifact::Alloc alloc;
    alloc.slot = slotOf(result);
    alloc.type = *element;
    alloc.sizes = exprs.addRange(type.getSizes());
    alloc.strides = exprs.addRange(type.getStrides());
    push(std::move(alloc), linesOf(op));
    return success();
  }

  /// A call of a kernel that came with the graph. It becomes a launch like any other.
  static bool isKernelCall(Operation *op) {
    auto call = dyn_cast<ExternOp>(op);
    return call && call.getOp() == "torch_tile::kernel";
  }

  /// `overload` names the kernel. There is one argument for each of the kernel's, of which a string is the number of a
  /// result, and at the end the sizes of the grid.
  LogicalResult planKernelCall(ExternOp call) {
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
        bytes = sizes.add(bytes,
                          sizes.mul(type.numElements(), sizes.constant(fusion::elementBytes(type.getElementType()))));
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

  /// `overload` says which control flow it is; `args` are the names of its bodies, how many values are carried and how
  /// many sliced, and the values.
  LogicalResult planControl(ExternOp call) {
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

  LogicalResult planLaunch(LaunchOp launch) {
    artifact::Launch step;
    step.kernel = kernelIndex(launch.getKernel());
    for (Value input : launch.getInputs())
      step.pointers.push_back(slotOf(input));
    for (auto [result, writes] : llvm::zip(launch.getOutputs(), launch.getWrites())) {
      if (writes >= 0) {
        step.written.push_back((uint32_t)writes);
        continue;
      }
      if (failed(planBuffer(*launch, result)))
        return failure();
      step.written.push_back((uint32_t)step.pointers.size());
      step.pointers.push_back(slotOf(result));
    }
    for (SizeExpr e : exprsOf(launch.getIntegers()))
      step.integers.push_back(exprs.add(e));
    step.numPrograms = exprs.add(launch.getPrograms().getValue());
    step.programCostNs = exprs.add(launch.getProgramCost().getValue());
    step.scratchBytes = exprs.add(launch.getScratchBytes().getValue());
    step.bytesMoved = exprs.add(launch.getBytesMoved().getValue());
    push(std::move(step), linesOf(*launch));
    return success();
  }

  /// "1.5 -2": the real and the imaginary part.
  static LogicalResult planComplex(StringRef text, artifact::Value &value) {
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

  LogicalResult planArguments(Operation *op, ValueRange inputs, ArrayAttr args, std::vector<artifact::Value> &list) {
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
                                  value.ref =
                                      exprs.add(GraphDialect::sizes(op->getContext()).constant(integer.getInt()));
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

  LogicalResult planResults(Operation *, ValueRange outputs, std::vector<artifact::Result> &list) {
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

  void planAlias(artifact::SlotId result, artifact::SlotId source, GraphTensorType type, SizeExpr offset,
                 std::vector<uint32_t> lines) {
    artifact::Alias step;
    step.result = result;
    step.source = source;
    step.sizes = exprs.addRange(type.getSizes());
    step.strides = exprs.addRange(type.getStrides());
    step.offset = exprs.add(offset);
    push(std::move(step), std::move(lines));
  }

  artifact::SlotId planTensorOver(Value value, std::vector<uint32_t> lines) {
    artifact::SlotId result = nextSlot++;
    ownOutputs.emplace_back(result, value);
    planAlias(result, slotOf(value), cast<GraphTensorType>(value.getType()),
              GraphDialect::sizes(func.getContext()).constant(0), std::move(lines));
    return result;
  }

  LogicalResult planOutputs(ReturnOp ret) {
    // One tensor object for two outputs, or for an input and an output, would be seen when its shape, its attributes or
    // `requires_grad` is changed.
    llvm::DenseSet<artifact::SlotId> taken, takenByOwn;
    for (Value argument : func.getBody().getArguments())
      if (isa<GraphTensorType>(argument.getType()))
        taken.insert(slotOf(argument));
    for (auto [position, value] : llvm::enumerate(ret.getValues())) {
      artifact::Output output;
      if (isa<NoneType>(value.getType())) {
        output.kind = artifact::Output::Kind::None;
      } else if (auto size = dyn_cast<SizeType>(value.getType())) {
        output.kind = artifact::Output::Kind::Int;
        output.ref = exprs.add(size.getExpr());
      } else {
        output.ref = slotOf(value);
        bool isOwn = ret.getOwn() && llvm::is_contained(*ret.getOwn(), (int64_t)position);
        if (isOwn ? taken.contains(output.ref) : takenByOwn.contains(output.ref))
          output.ref = planTensorOver(value, linesOf(*ret));
        taken.insert(output.ref);
        if (isOwn)
          takenByOwn.insert(output.ref);
      }
      artifact.outputs.push_back(output);
    }
    return success();
  }

  //===-- symbols -----------------------------------------------------------------------------------------------===//

  LogicalResult bindSymbols() {
    using Kind = artifact::SymbolSource::Kind;
    for (const std::string &name : artifact.symbols) {
      std::optional<artifact::SymbolSource> source;
      auto offer = [&](SizeExpr expr, artifact::SymbolSource from) {
        if (!source && expr.symbol() && *expr.symbol() == name)
          source = from;
      };
      auto arguments = func.getBody().getArguments();
      for (auto [k, argument] : llvm::enumerate(arguments))
        if (auto size = dyn_cast<SizeType>(argument.getType()))
          offer(size.getExpr(), {Kind::Scalar, (uint32_t)k, 0});
      for (bool wantStride : {false, true})
        for (auto [k, argument] : llvm::enumerate(arguments))
          if (auto type = dyn_cast<GraphTensorType>(argument.getType()))
            for (auto [dim, e] : llvm::enumerate(wantStride ? type.getStrides() : type.getSizes()))
              offer(e, {wantStride ? Kind::Stride : Kind::Size, (uint32_t)k, (uint32_t)dim});
      if (auto it = externSymbols.find(name); !source && it != externSymbols.end())
        source = artifact::SymbolSource{Kind::ExternResult, it->second.slot, it->second.dim};
      if (!source)
        return func.emitOpError("expected size symbol '") << name << "' to be an input or the size or stride of one";
      artifact.symbolSources.push_back(*source);
    }
    return success();
  }

  FuncOp func;
  llvm::function_ref<uint32_t(StringRef)> kernelIndex;
  llvm::function_ref<std::optional<uint32_t>(StringRef)> bodyIndex;
  artifact::Body &artifact;
  ExprTable exprs;
  DenseMap<Value, artifact::SlotId> slots;
  /// Outputs that are tensors of their own over the memory of a value.
  SmallVector<std::pair<artifact::SlotId, Value>> ownOutputs;
  artifact::SlotId nextSlot = 0;
  DenseMap<artifact::SlotId, Operation *> lastUse;
  struct Part {
    AssembleOp whole;
    unsigned number = 0;
  };
  DenseMap<Value, Part> parts;
  /// Tensors of parts whose memory has been made.
  DenseSet<Operation *> assembled;
  DenseMap<Operation *, SmallVector<artifact::SlotId, 4>> dies;
  struct ExternSymbol {
    artifact::SlotId slot;
    uint32_t dim;
  };
  std::unordered_map<std::string, ExternSymbol> externSymbols;
};

} // namespace

LogicalResult planSteps(FuncOp func, llvm::function_ref<uint32_t(StringRef)> kernelIndex,
                        llvm::function_ref<std::optional<uint32_t>(StringRef)> bodyIndex, artifact::Body &body) {
  return Planner(func, kernelIndex, bodyIndex, body).run();
}

} // namespace torch_tile::driver
