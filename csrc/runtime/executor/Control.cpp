// Steps that run nested programs: branches, loops, and calls of what several places share.
#include "runtime/executor/Program.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/stack.h>

namespace torch_tile::runtime {

using namespace artifact;

namespace {

/// The host of the whole call, for a body: its inputs are none of the user's.
class BodyHost final : public Host {
public:
  explicit BodyHost(Host &host) : host(host) {}
  void release() override { host.release(); }
  void raiseIfInterrupted() override { host.raiseIfInterrupted(); }
  std::string describeInput(uint32_t number) const override {
    return "input " + std::to_string(number) + " of a subgraph";
  }
  std::vector<c10::IValue> callPython(const PyCall &step, const Call &call) override {
    return host.callPython(step, call);
  }

private:
  Host &host;
};

/// Collects what iterations give into one tensor for each result.
class Stacks {
public:
  explicit Stacks(int64_t length) : length(length) {}

  void set(int64_t iteration, c10::ArrayRef<c10::IValue> values) {
    if (iteration == 0)
      for (const c10::IValue &value : values)
        all.push_back(value.isTensor() ? allocate(value.toTensor()) : at::Tensor());
    for (size_t i = 0; i < values.size(); ++i)
      if (all[i].defined()) {
        TORCH_CHECK(values[i].isTensor(), "result ", i, " of a subgraph is a tensor in its first iteration alone");
        all[i].select(0, iteration).copy_(values[i].toTensor());
      }
  }
  void appendTo(std::vector<c10::IValue> &results) {
    for (at::Tensor &tensor : all)
      results.push_back(tensor.defined() ? c10::IValue(std::move(tensor)) : c10::IValue());
  }

private:
  at::Tensor allocate(const at::Tensor &item) const {
    std::vector<int64_t> sizes = {length};
    sizes.insert(sizes.end(), item.sizes().begin(), item.sizes().end());
    return at::empty(sizes, item.options());
  }

  int64_t length;
  std::vector<at::Tensor> all;
};

} // namespace

c10::IValue Call::argument(const Value &value) const {
  switch (value.kind) {
  case Value::Kind::Tensor:
    return slots[value.ref];
  case Value::Kind::Int:
    return values[value.ref];
  case Value::Kind::Bool:
    return static_cast<int64_t>(value.number != 0);
  default:
    return {};
  }
}

void Call::fitInputs() {
  for (const Program::InputCheck &check : program.tensorInputs) {
    at::Tensor &tensor = slots[check.slot];
    if (C10_LIKELY(!tensor.defined() || matches(tensor, check.shape)))
      continue;
    Dims sizes, strides;
    for (ExprId id : check.shape.sizeIds)
      sizes.push_back(values[id]);
    for (ExprId id : check.shape.strideIds)
      strides.push_back(values[id]);
    if (tensor.sizes() != at::IntArrayRef(sizes))
      continue; // checkInputs says what is wrong
    for (uint32_t written : program.writtenInputs)
      TORCH_CHECK(program.tensorInputs[written].number != check.number, host.describeInput(check.number),
                  " is written and has strides ", tensor.strides(), ", expected ", at::IntArrayRef(strides));
    at::Tensor copy = at::empty_strided(sizes, strides, tensor.options());
    tensor = copy.copy_(tensor);
  }
}

Call::Values Call::results() const {
  Values results;
  for (const Output &output : program.source.outputs) {
    if (output.kind == Output::Kind::Int)
      results.emplace_back(value(output.ref));
    else if (output.kind == Output::Kind::Tensor && tensor(output.ref).defined())
      results.emplace_back(tensor(output.ref));
    else
      results.emplace_back();
  }
  return results;
}

Call::Values Call::runBody(uint32_t number, Values args) {
  const Program &body = *program.bodies[number];
  BodyHost bodyHost(host);
  Call call(body, bodyHost);
  call.isReleased = isReleased;
  call.lastCheck = lastCheck;
  call.isNested = true;
  const std::vector<Input> &inputs = body.source.inputs;
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].kind == Input::Kind::Tensor) {
      TORCH_CHECK(args[i].isTensor(), bodyHost.describeInput(i), " expected a tensor, got ", args[i].tagKind());
      call.setTensor(i, std::move(args[i]).toTensor());
    } else {
      TORCH_CHECK(args[i].isInt() || args[i].isBool(), bodyHost.describeInput(i), " expected an integer, got ",
                  args[i].tagKind());
      call.setInt(i, args[i].isBool() ? args[i].toBool() : args[i].toInt());
    }
  }
  args.clear();
  try {
    call.run();
  } catch (...) {
    failedStepsOfBody = call.failedSteps();
    throw;
  }
  isReleased = call.isReleased;
  lastCheck = call.lastCheck;
  if (gpu)
    gpu->refreshStream();
  return call.results();
}

bool Call::isTrue(const c10::IValue &condition) {
  if (condition.isInt())
    return condition.toInt() != 0;
  TORCH_CHECK(condition.isTensor(), "a condition expected to be a tensor or a number, got ", condition.tagKind());
  const at::Tensor &tensor = condition.toTensor();
  if (tensor.is_cpu() && tensor.scalar_type() == at::kBool && tensor.numel() == 1)
    return *tensor.const_data_ptr<bool>();
  if (!isReleased)
    releaseHost(); // it may wait for a device
  return tensor.item().toBool();
}

Call::Values Call::runWhile(const Control &control, Values args) {
  bool isStacking = control.kind == Control::Kind::WhileStack;
  uint32_t numCarried = control.numCarried;
  std::vector<std::vector<at::Tensor>> all(isStacking ? numCarried : 0);
  int64_t iteration = 0;
  const Values others(args.begin() + numCarried, args.end());
  for (; isTrue(runBody(control.bodies[0], args)[0]); ++iteration) {
    args = runBody(control.bodies[1], std::move(args));
    for (uint32_t i = 0; isStacking && i < numCarried; ++i)
      if (args[i].isTensor())
        all[i].push_back(args[i].toTensor());
    args.insert(args.end(), others.begin(), others.end());
    checkInterrupts();
  }
  args.resize(numCarried);
  for (uint32_t i = 0; i < numCarried; ++i) {
    if (!args[i].isTensor())
      continue;
    if (iteration == 0)
      args[i] = isStacking ? args[i].toTensor().unsqueeze(0).clone() : args[i].toTensor().clone();
    else if (isStacking)
      args[i] = at::stack(all[i]);
  }
  return args;
}

Call::Values Call::runSliced(const Control &control, Values args) {
  uint32_t numCarried = control.numCarried, end = numCarried + control.numSliced;
  int64_t length = -1;
  std::vector<at::Tensor> whole;
  for (uint32_t i = numCarried; i < end; ++i) {
    whole.push_back(args[i].toTensor());
    TORCH_CHECK(whole.back().dim() > 0, "a subgraph expected slices of a tensor, got one without dimensions");
    TORCH_CHECK(length < 0 || whole.back().size(0) == length, "a subgraph expected ", length, " slices, got ",
                whole.back().size(0));
    length = whole.back().size(0);
  }
  TORCH_CHECK_INDEX(length > 0, "a subgraph expected slices along dimension 0, which is empty");
  Stacks stacks(length);
  for (int64_t k = 0; k < length; ++k) {
    for (uint32_t i = numCarried; i < end; ++i)
      args[i] = whole[i - numCarried].select(0, k);
    Values results = runBody(control.bodies[0], args);
    for (uint32_t i = 0; i < numCarried; ++i)
      args[i] = std::move(results[i]);
    stacks.set(k, c10::ArrayRef<c10::IValue>(results).slice(numCarried));
    checkInterrupts();
  }
  args.resize(numCarried);
  stacks.appendTo(args);
  return args;
}

void Call::runControl(const Program::ControlStep &step) {
  const Control &control = *step.control;
  Values args, results;
  bool isCond = control.kind == Control::Kind::Cond;
  for (size_t i = isCond; i < control.args.size(); ++i)
    args.push_back(argument(control.args[i]));
  switch (control.kind) {
  case Control::Kind::Call:
    results = runBody(control.bodies[0], std::move(args));
    break;
  case Control::Kind::Cond:
    results = runBody(control.bodies[isTrue(argument(control.args[0])) ? 0 : 1], std::move(args));
    break;
  case Control::Kind::While:
  case Control::Kind::WhileStack:
    results = runWhile(control, std::move(args));
    break;
  case Control::Kind::Map:
  case Control::Kind::Scan:
    results = runSliced(control, std::move(args));
    break;
  }
  setResults(control.results, step.late, results, "a subgraph");
}

} // namespace torch_tile::runtime
