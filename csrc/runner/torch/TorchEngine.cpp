// Programs within LibTorch: libtorch_tile_runtime_torch.so, which libtorch_tile_runtime.so opens when it needs it.
#include "runner/Engine.h"
#include "runtime/executor/ExternCall.h"
#include "runtime/executor/SharedMemory.h"
#include "runtime/memory/OperatorAllocator.h"
#include "runtime/model/PackagedModel.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>

#include <dlfcn.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

namespace torch_tile::runner {
namespace {

using namespace artifact;
using runtime::PackagedModel;
using runtime::PackageFile;

class TorchEngine final : public Engine {
public:
  TorchEngine(std::shared_ptr<const PackageFile> file, std::shared_ptr<PackagedModel> model, int32_t numThreads)
      : file(std::move(file)), model(std::move(model)), numThreads(numThreads) {}

  Status run(std::span<const tile_tensor> inputs, std::vector<Result> &results) noexcept override {
    runtime::FailurePlace failure;
    auto internal = [&](std::string text) {
      std::string note = failure.steps.empty() ? "" : model->note(failure);
      return Status::internal("call", text + (note.empty() ? "" : "\n" + note));
    };
    try {
      useThreads();
      std::vector<c10::IValue> arguments;
      for (size_t i = 0; i < inputs.size(); ++i)
        arguments.push_back(toArgument(inputs[i], file->package().inputs[i]));
      shareStorages(arguments);
      for (c10::IValue &value : model->run(arguments, failure, PackagedModel::Results::Copies))
        results.push_back(toResult(std::move(value)));
      return Status::ok();
    } catch (const runtime::OverlappingInputs &error) {
      return Status::invalidInput("call", error.what());
    } catch (const c10::ValueError &error) {
      return Status::invalidInput("call", error.what_without_backtrace());
    } catch (const c10::Error &error) {
      return internal(error.what_without_backtrace());
    } catch (const std::bad_alloc &) {
      return Status::internal("call", "no memory");
    } catch (const std::exception &error) {
      return internal(error.what());
    }
  }

private:
  /// torch counts threads for each thread that calls.
  void useThreads() const {
    thread_local int32_t current = 0;
    if (numThreads > 0 && numThreads != current) {
      at::set_num_threads(numThreads);
      current = numThreads;
    }
  }

  static c10::IValue toArgument(const tile_tensor &given, const PackageInput &input) {
    void *data = static_cast<char *>(given.data) + given.byte_offset;
    ElementType type;
    TORCH_CHECK_VALUE(fromDlType({given.dtype_code, given.dtype_bits}, type), "argument `", input.name,
                      "` has an element type that is not taken: code ", given.dtype_code, " of ", given.dtype_bits,
                      " bits");
    if (input.kind == PackageInput::Kind::Int) {
      TORCH_CHECK_VALUE(type == ElementType::Int64 && given.ndim == 0 && given.device_type == 1, "argument `",
                        input.name, "` expected an int64 without dimensions on the CPU");
      return *static_cast<const int64_t *>(data);
    }
    TORCH_CHECK_VALUE(given.device_type == 1 || given.device_type == 2, "argument `", input.name,
                      "` is on a device of type ", given.device_type, ", expected 1 (CPU) or 2 (CUDA)");
    auto rank = static_cast<size_t>(given.ndim);
    c10::Device device = given.device_type == 1
                             ? c10::Device(c10::kCPU)
                             : c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(given.device_id));
    auto options = at::TensorOptions(runtime::toScalarType(type)).device(device);
    at::IntArrayRef sizes(given.shape, rank);
    if (given.strides)
      return at::from_blob(data, sizes, at::IntArrayRef(given.strides, rank), options);
    return at::from_blob(data, sizes, options);
  }

  /// Arguments that overlap in memory get one storage: the program refuses them if it writes one of them.
  static void shareStorages(std::vector<c10::IValue> &arguments) {
    struct Range {
      char *begin, *end;
      c10::IValue *argument;
    };
    std::vector<Range> ranges;
    for (c10::IValue &argument : arguments) {
      if (!argument.isTensor() || argument.toTensor().numel() == 0)
        continue;
      const at::Tensor &tensor = argument.toTensor();
      int64_t last = 0;
      for (int64_t dim = 0; dim < tensor.dim(); ++dim)
        last += (tensor.size(dim) - 1) * tensor.stride(dim);
      char *begin = static_cast<char *>(tensor.data_ptr());
      ranges.push_back({begin, begin + (last + 1) * static_cast<int64_t>(tensor.itemsize()), &argument});
    }
    std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) { return a.begin < b.begin; });
    for (size_t first = 0, next; first < ranges.size(); first = next) {
      char *end = ranges[first].end;
      for (next = first + 1; next < ranges.size() && ranges[next].begin < end; ++next)
        end = std::max(end, ranges[next].end);
      if (next == first + 1)
        continue;
      char *begin = ranges[first].begin;
      c10::Device device = ranges[first].argument->toTensor().device();
      at::Tensor whole = at::from_blob(begin, {end - begin}, at::TensorOptions(at::kByte).device(device));
      for (size_t k = first; k < next; ++k) {
        at::Tensor tensor = ranges[k].argument->toTensor();
        auto size = static_cast<int64_t>(tensor.itemsize());
        TORCH_CHECK_VALUE((ranges[k].begin - begin) % size == 0,
                          "arguments of several element types share memory, and lie between each other's elements");
        at::Tensor part = at::empty({0}, tensor.options());
        part.set_(whole.storage(), (ranges[k].begin - begin) / size, tensor.sizes(), tensor.strides());
        *ranges[k].argument = part;
      }
    }
  }

  static Result toResult(c10::IValue value) {
    Result result;
    if (value.isNone()) {
      result.tensor.ndim = -1;
      return result;
    }
    at::Tensor tensor = value.isInt() ? at::scalar_tensor(value.toInt(), at::kLong) : value.toTensor();
    auto owner = std::make_shared<at::Tensor>(tensor);
    result.sizes = tensor.sizes().vec();
    result.strides = tensor.strides().vec();
    result.tensor.data = tensor.data_ptr();
    result.tensor.device_type = tensor.is_cuda() ? 2 : 1;
    result.tensor.device_id = tensor.is_cuda() ? tensor.get_device() : 0;
    result.tensor.ndim = static_cast<int32_t>(tensor.dim());
    DlType type = dlTypeOf(tensor.scalar_type());
    result.tensor.dtype_code = type.code;
    result.tensor.dtype_bits = type.bits;
    result.tensor.dtype_lanes = 1;
    result.owner = std::move(owner);
    return result;
  }

  static DlType dlTypeOf(at::ScalarType type) {
    for (int i = 0; i <= static_cast<int>(ElementType::Float4E2M1FNx2); ++i)
      if (runtime::toScalarType(static_cast<ElementType>(i)) == type)
        return toDlType(static_cast<ElementType>(i));
    return {0, 0};
  }

  std::shared_ptr<const PackageFile> file;
  std::shared_ptr<PackagedModel> model;
  int32_t numThreads;
};

Status make(std::shared_ptr<const PackageFile> file, uint32_t variant, const EngineOptions &options,
            std::unique_ptr<Engine> &engine) {
  static std::once_flag once;
  std::call_once(once, [] { runtime::installOperatorAllocator(); });
  runtime::ProgramOptions program;
  if (options.deviceType == 2) {
    // Nothing of ours names a symbol of it, and without it torch knows no CUDA.
    TORCH_CHECK(dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL), "LibTorch without CUDA: ", dlerror());
    program.device = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(options.deviceId));
  }
  std::shared_ptr<PackagedModel> model;
  if (Status status = PackagedModel::load(file, variant, program, model); !status.isOk())
    return status;
  engine = std::make_unique<TorchEngine>(std::move(file), std::move(model), options.numThreads);
  return Status::ok();
}

} // namespace
} // namespace torch_tile::runner

extern "C" {

TILE_API void torch_tile_make_torch_engine_4(std::shared_ptr<const torch_tile::runtime::PackageFile> file,
                                             uint32_t variant, const torch_tile::runner::EngineOptions &options,
                                             std::unique_ptr<torch_tile::runner::Engine> &engine,
                                             torch_tile::Status &status) {
  try {
    status = torch_tile::runner::make(std::move(file), variant, options, engine);
  } catch (const c10::Error &error) {
    status = torch_tile::Status::internal("load", error.what_without_backtrace());
  } catch (const std::exception &error) {
    status = torch_tile::Status::internal("load", error.what());
  }
}
}
