#include "runtime/model/PackagedModel.h"

#include "runtime/compiler/KernelTable.h"
#include "runtime/executor/ExternCall.h"
#include "runtime/executor/RefusedInput.h"
#include "runtime/launch/gpu/Assemble.h"
#include "runtime/package/SourceLines.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

namespace torch_tile::runtime {

using namespace artifact;

namespace {

/// Nobody waits for a lock of ours, and inputs are called what the user calls them.
class PackageHost final : public Host {
public:
  PackageHost(const Package &package, const Variant &variant) : package(package), variant(variant) {}
  void release() override {}
  void raiseIfInterrupted() override {}
  std::string describeInput(uint32_t number) const override {
    InputSource source = variant.inputs[number];
    return source.kind == InputSource::Kind::Argument ? "argument `" + package.inputs[source.index].name + "`"
                                                      : "constant '" + package.constants[source.index].name + "'";
  }
  std::vector<c10::IValue> callPython(const PyCall &, const Call &) override {
    TORCH_CHECK(false, "a packaged program calls Python");
  }

private:
  const Package &package;
  const Variant &variant;
};

ElementType toElementType(at::ScalarType type) {
  for (int i = 0; i <= static_cast<int>(ElementType::Float4E2M1FNx2); ++i)
    if (toScalarType(static_cast<ElementType>(i)) == type)
      return static_cast<ElementType>(i);
  TORCH_CHECK(false, "tensors of dtype ", scalarTypeName(type), " are not taken");
}

ArgumentView viewOf(const c10::IValue &value, const std::string &name, c10::Device device) {
  ArgumentView view;
  view.isTensor = value.isTensor();
  if (!view.isTensor) {
    TORCH_CHECK(value.isInt(), "argument `", name, "` expected to be a tensor or an integer, got ", value.tagKind());
    view.value = value.toInt();
    return view;
  }
  const at::Tensor &tensor = value.toTensor();
  if (std::string reason = reasonAgainst(tensor, device); !reason.empty())
    TORCH_CHECK(false, "argument `", name, "` ", reason);
  view.type = toElementType(tensor.scalar_type());
  view.sizes = {tensor.sizes().data(), tensor.sizes().size()};
  view.strides = {tensor.strides().data(), tensor.strides().size()};
  return view;
}

} // namespace

PackagedModel::PackagedModel(std::shared_ptr<const PackageFile> given, uint32_t variant, Artifact artifact)
    : file(std::move(given)), number(variant), source(std::move(artifact)),
      guards(file->package(), file->package().variants[variant], source) {}

Status PackagedModel::load(std::shared_ptr<const PackageFile> file, uint32_t variant, const ProgramOptions &options,
                           std::shared_ptr<PackagedModel> &model) {
  if (Status status = file->checkConstants(); !status.isOk())
    return status;
  Artifact artifact;
  if (Status status = file->readProgram(file->package().variants[variant], artifact); !status.isOk())
    return status;
  std::shared_ptr<PackagedModel> made(new PackagedModel(std::move(file), variant, std::move(artifact)));
  if (Status status = made->link(options); !status.isOk())
    return status;
  model = std::move(made);
  return Status::ok();
}

Status PackagedModel::link(const ProgramOptions &options) {
  std::vector<std::shared_ptr<const LoadedKernel>> kernels;
  for (Kernel &kernel : source.kernels) {
    if (kernel.target != "cpu" && isPtx(kernel.code))
      if (std::string error = assemble(kernel.code, kernel.target); !error.empty())
        return Status::internal("assemble", "kernel '" + kernel.name + "': " + error);
    if (Status status = loadKernel(kernel, kernel.code, kernels.emplace_back()); !status.isOk())
      return status;
    kernel.code = {};
  }
  loaded = std::make_shared<const Program>(source, std::move(kernels), options);
  device = options.device;
  makeConstants();
  return Status::ok();
}

void PackagedModel::makeConstants() {
  const Package &package = file->package();
  for (uint32_t i = 0; i < package.constants.size(); ++i) {
    const PackageConstant &constant = package.constants[i];
    // Each tensor keeps the file mapped, for a result may be one.
    at::Tensor tensor = at::from_blob(
        file->constant(i), constant.sizes, constant.strides, [keep = file](void *) {},
        at::TensorOptions(toScalarType(constant.type)));
    constants.push_back(device.is_cpu() ? tensor : tensor.to(device));
    writesConstants |= constant.isWritten;
  }
  const std::vector<InputSource> &inputs = variant().inputs;
  numPlain = inputs.size();
  while (numPlain > 0 && inputs[numPlain - 1].kind == InputSource::Kind::Constant)
    --numPlain;
  std::vector<at::Tensor> last;
  std::vector<uint32_t> packable;
  for (size_t i = numPlain; i < inputs.size(); ++i) {
    const std::vector<uint32_t> &all = variant().packable;
    if (std::find(all.begin(), all.end(), inputs[i].index) != all.end())
      packable.push_back(static_cast<uint32_t>(i - numPlain));
    last.push_back(constants[inputs[i].index]);
  }
  frozen = std::make_unique<FrozenInputs>(*loaded, std::vector<FrozenInputs::Argument>(), std::move(last), packable);
}

/// The program was compiled for certain strides; an argument of others takes part as a copy, unless it is written.
at::Tensor PackagedModel::withStrides(const at::Tensor &tensor, const Input &input,
                                      const std::vector<int64_t> &values) const {
  bool isSame = true;
  for (size_t i = 0; i < input.strides.size(); ++i)
    isSame &=
        tensor.size(static_cast<int64_t>(i)) == 1 || tensor.stride(static_cast<int64_t>(i)) == values[input.strides[i]];
  if (isSame || tensor.numel() == 0)
    return tensor;
  std::vector<int64_t> strides;
  for (ExprId id : input.strides)
    strides.push_back(values[id]);
  at::Tensor copy = at::empty_strided(tensor.sizes(), strides, tensor.options());
  return copy.copy_(tensor);
}

/// A program is done with an argument or a constant that a result lies in; the next call may write it.
void PackagedModel::copyForeign(std::vector<c10::IValue> &results, std::span<const c10::IValue> arguments) const {
  std::vector<const c10::StorageImpl *> foreign;
  for (const c10::IValue &argument : arguments)
    if (argument.isTensor())
      foreign.push_back(argument.toTensor().storage().unsafeGetStorageImpl());
  for (const at::Tensor &constant : constants)
    foreign.push_back(constant.storage().unsafeGetStorageImpl());
  for (c10::IValue &result : results)
    if (result.isTensor()) {
      const c10::StorageImpl *own = result.toTensor().storage().unsafeGetStorageImpl();
      if (std::find(foreign.begin(), foreign.end(), own) != foreign.end())
        result = result.toTensor().clone();
    }
}

std::vector<c10::IValue> PackagedModel::run(std::span<const c10::IValue> arguments, FailurePlace &failure,
                                            Results wanted) {
  at::NoGradGuard noGrad;
  const std::vector<PackageInput> &expected = file->package().inputs;
  std::vector<ArgumentView> views;
  views.reserve(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i)
    views.push_back(viewOf(arguments[i], i < expected.size() ? expected[i].name : std::to_string(i), device));
  Status status = guards.check(views);
  TORCH_CHECK_VALUE(status.isOk(), status.text);
  std::vector<int64_t> values;
  guards.evaluate(views, values);
  if (device.is_cpu()) { // elsewhere constants are copies
    Status unchanged = file->checkUnchanged();
    TORCH_CHECK(unchanged.isOk(), unchanged.text);
  }

  std::unique_lock<std::mutex> lock(mutex, std::defer_lock);
  if (writesConstants)
    lock.lock();
  PackageHost host(file->package(), variant());
  Call call(*loaded, host, frozen.get());
  const std::vector<InputSource> &inputs = variant().inputs;
  for (uint32_t i = 0; i < numPlain; ++i) {
    if (inputs[i].kind == InputSource::Kind::Constant)
      call.setTensor(i, constants[inputs[i].index]);
    else if (const c10::IValue &value = arguments[inputs[i].index]; value.isInt())
      call.setInt(i, value.toInt());
    else if (loaded->writesInputs())
      call.setTensor(i, value.toTensor());
    else
      call.setTensor(i, withStrides(value.toTensor(), source.inputs[i], values));
  }
  try {
    call.run();
  } catch (const std::exception &error) {
    failure = failurePlace(call.failedSteps(), error);
    throw;
  }
  std::vector<c10::IValue> results = call.results();
  if (wanted == Results::Copies)
    copyForeign(results, arguments);
  return results;
}

std::string PackagedModel::note(const FailurePlace &failure) const {
  return SourceLines::of(*file, variant()).note(loaded->artifact(), failure.steps, failure.line);
}

} // namespace torch_tile::runtime
