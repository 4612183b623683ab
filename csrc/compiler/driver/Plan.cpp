#include "compiler/driver/Plan.h"

#include "compiler/analysis/Memory.h"
#include "compiler/driver/Planner.h"
#include "compiler/fusion/FusionCost.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::graph;

namespace torch_tile::driver {

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

LogicalResult Planner::run() {
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

LogicalResult Planner::planInputs() {
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

void Planner::findLastUses() {
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

void Planner::freeAfter(Operation &op) {
  auto it = dies.find(&op);
  if (it == dies.end())
    return;
  llvm::sort(it->second);
  for (artifact::SlotId slot : it->second)
    push(artifact::Free{slot}, {});
}

void Planner::planMemory() {
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

std::vector<uint32_t> Planner::linesOf(Operation &op) {
  SmallVector<int64_t> lines;
  torch_tile::fusion::collectLines(op.getLoc(), lines);
  llvm::sort(lines);
  lines.erase(llvm::unique(lines), lines.end());
  return std::vector<uint32_t>(lines.begin(), lines.end());
}

LogicalResult Planner::planOp(Operation &op) {
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

LogicalResult Planner::planBuffer(Operation &op, Value result) {
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

LogicalResult Planner::planLaunch(LaunchOp launch) {
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

void Planner::planAlias(artifact::SlotId result, artifact::SlotId source, GraphTensorType type, SizeExpr offset,
                        std::vector<uint32_t> lines) {
  artifact::Alias step;
  step.result = result;
  step.source = source;
  step.sizes = exprs.addRange(type.getSizes());
  step.strides = exprs.addRange(type.getStrides());
  step.offset = exprs.add(offset);
  push(std::move(step), std::move(lines));
}

artifact::SlotId Planner::planTensorOver(Value value, std::vector<uint32_t> lines) {
  artifact::SlotId result = nextSlot++;
  ownOutputs.emplace_back(result, value);
  planAlias(result, slotOf(value), cast<GraphTensorType>(value.getType()),
            GraphDialect::sizes(func.getContext()).constant(0), std::move(lines));
  return result;
}

LogicalResult Planner::planOutputs(ReturnOp ret) {
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

LogicalResult Planner::bindSymbols() {
  using Kind = artifact::SymbolSource::Kind;
  for (const std::string &name : artifact.symbols) {
    std::optional<artifact::SymbolSource> source;
    auto offer = [&](SizeExpr expr, artifact::SymbolSource from) {
      if (source || !expr.symbol() || *expr.symbol() != name)
        return;
      SizeRange range = func.facts().range(expr);
      from.least = range.min;
      from.greatest = range.max;
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

LogicalResult planSteps(FuncOp func, llvm::function_ref<uint32_t(StringRef)> kernelIndex,
                        llvm::function_ref<std::optional<uint32_t>(StringRef)> bodyIndex, artifact::Body &body) {
  return Planner(func, kernelIndex, bodyIndex, body).run();
}

} // namespace torch_tile::driver
