// The C border: converts arguments, keeps exceptions in, and finds the engine that a package needs.
#include "runner/Engine.h"

#include <dlfcn.h>

#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <string>

using namespace torch_tile;
using namespace torch_tile::runner;
using artifact::Package;
using artifact::PackageInput;
using artifact::Variant;
using runtime::PackageFile;

struct tile_model {
  std::shared_ptr<const PackageFile> file;
  uint32_t variant = 0;
  std::unique_ptr<Engine> engine;
  bool usesTorch = false;
  std::vector<std::vector<int64_t>> least, greatest; // of each input
};

struct tile_results {
  std::vector<Result> items;
};

namespace {

std::string &lastError() {
  thread_local std::string text;
  return text;
}

tile_status fail(tile_status status, const std::string &text) {
  lastError() = text;
  return status;
}

/// What a function does, with whatever it throws as a status.
template <typename Function> tile_status guarded(Function function) noexcept {
  try {
    return function();
  } catch (const std::bad_alloc &) {
    return fail(TILE_FAILED, "no memory");
  } catch (const std::exception &error) {
    return fail(TILE_FAILED, error.what());
  } catch (...) {
    return fail(TILE_FAILED, "an unknown exception");
  }
}

tile_status toTileStatus(const Status &status, tile_status ifInvalid) {
  switch (status.kind) {
  case StatusKind::Ok:
    return TILE_OK;
  case StatusKind::InvalidInput:
    return fail(ifInvalid, status.text);
  case StatusKind::Unsupported:
  case StatusKind::OutOfResources:
    return fail(TILE_UNSUPPORTED, status.text);
  case StatusKind::Internal:
    break;
  }
  return fail(TILE_FAILED, status.text);
}

/// The folder of this library.
std::string ownFolder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<const void *>(&tile_last_error), &info) || !info.dli_fname)
    return ".";
  std::string path = info.dli_fname;
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

/// The library with LibTorch stays open: code of it may run until the process ends.
MakeEngineFn torchEngine(std::string &error) {
  static std::mutex mutex;
  static MakeEngineFn function = nullptr;
  std::lock_guard lock(mutex);
  if (function)
    return function;
  std::string path = ownFolder() + "/libtorch_tile_runtime_torch.so";
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    error = std::string("the model calls operators of PyTorch, or branches or loops, and the library that runs them "
                        "cannot be opened: ") +
            dlerror() +
            "; LD_LIBRARY_PATH has to name the folder of LibTorch (torch/lib of the Python package torch), or the "
            "package torch has to lie beside torch_tile";
    return nullptr;
  }
  void *symbol = dlsym(library, torchEngineSymbol);
  if (!symbol) {
    error = path + " belongs to another version of torch-tile";
    return nullptr;
  }
  std::memcpy(&function, &symbol, sizeof function);
  return function;
}

Status makeEngine(tile_model &model, const EngineOptions &options, bool forceTorch) {
  model.usesTorch = forceTorch || options.deviceType != 1 || model.file->package().variants[model.variant].needsTorch;
  if (!model.usesTorch)
    return makeCoreEngine(model.file, model.variant, options, model.engine);
  std::string error;
  MakeEngineFn make = torchEngine(error);
  if (!make)
    return Status::unsupported("load", error);
  Status status;
  make(model.file, model.variant, options, model.engine, status);
  return status;
}

/// Compute capability of a GPU (90 for 9.0), by the driver; 0 with a reason where there is none.
int capabilityOf(int32_t device, std::string &error) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  auto find = [&](auto &function, const char *name) {
    void *symbol = driver ? dlsym(driver, name) : nullptr;
    std::memcpy(&function, &symbol, sizeof function);
    return symbol != nullptr;
  };
  int (*init)(unsigned);
  int (*getDevice)(int *, int);
  int (*getAttribute)(int *, int, int);
  constexpr int capabilityMajor = 75, capabilityMinor = 76;
  int handle = 0, major = 0, minor = 0;
  bool isFound = find(init, "cuInit") && find(getDevice, "cuDeviceGet") && find(getAttribute, "cuDeviceGetAttribute") &&
                 init(0) == 0 && getDevice(&handle, device) == 0 &&
                 getAttribute(&major, capabilityMajor, handle) == 0 &&
                 getAttribute(&minor, capabilityMinor, handle) == 0;
  if (!isFound)
    error = "there is no CUDA device " + std::to_string(device);
  return isFound ? 10 * major + minor : 0;
}

std::string checkTensor(const tile_tensor &tensor, const std::string &name) {
  std::string argument = "argument `" + name + "` ";
  if (tensor.ndim < 0 || tensor.ndim > 64 || (tensor.ndim > 0 && !tensor.shape))
    return argument + "has " + std::to_string(tensor.ndim) + " dimensions, or no shape";
  bool isEmpty = false;
  for (int32_t dim = 0; dim < tensor.ndim; ++dim) {
    if (tensor.shape[dim] < 0 || (tensor.strides && tensor.strides[dim] < 0))
      return argument + "has a negative size or stride";
    isEmpty |= tensor.shape[dim] == 0;
  }
  if (!tensor.data && !isEmpty)
    return argument + "has no data";
  return tensor.dtype_lanes == 1 ? "" : argument + "has elements of several lanes";
}

} // namespace

extern "C" {

const char *tile_last_error(void) { return lastError().c_str(); }

uint32_t tile_api_version(void) { return TILE_API_VERSION; }

tile_status tile_model_load(const char *path, const tile_load_options *given, tile_model **model) {
  return guarded([&]() -> tile_status {
    if (!path || !model)
      return fail(TILE_INVALID_ARGUMENT, "tile_model_load expected a path and a place for the model, got NULL");
    *model = nullptr;
    tile_load_options options{};
    if (given) {
      if (given->struct_bytes != sizeof options)
        return fail(TILE_INVALID_ARGUMENT, "tile_load_options has " + std::to_string(given->struct_bytes) +
                                               " bytes, expected " + std::to_string(sizeof options));
      options = *given;
    }
    EngineOptions engine;
    engine.deviceType = options.device_type == 0 ? 1 : options.device_type;
    engine.deviceId = options.device_id;
    engine.numThreads = options.num_threads;
    if (engine.deviceType != 1 && engine.deviceType != 2)
      return fail(TILE_INVALID_ARGUMENT,
                  "device type expected 1 (CPU) or 2 (CUDA), got " + std::to_string(engine.deviceType));
    // Some thousands of threads are more than a process may have, which OpenMP answers by ending it.
    constexpr int32_t mostThreads = 1024;
    if (engine.numThreads < 0 || engine.numThreads > mostThreads)
      return fail(TILE_INVALID_ARGUMENT, "num_threads expected 0 to " + std::to_string(mostThreads) + ", got " +
                                             std::to_string(engine.numThreads));
    auto made = std::make_unique<tile_model>();
    if (Status status = PackageFile::open(path, made->file); !status.isOk())
      return toTileStatus(status, TILE_INVALID_PACKAGE);
    std::string error;
    int capability = engine.deviceType == 1 ? 0 : capabilityOf(engine.deviceId, error);
    if (!error.empty())
      return fail(TILE_UNSUPPORTED, error);
    if (Status status = runtime::chooseVariant(made->file->package(), capability, made->variant); !status.isOk())
      return toTileStatus(status, TILE_INVALID_PACKAGE);
    if (Status status = makeEngine(*made, engine, options.force_torch != 0); !status.isOk())
      return toTileStatus(status, TILE_INVALID_PACKAGE);
    for (const PackageInput &input : made->file->package().inputs) {
      std::vector<int64_t> &least = made->least.emplace_back(), &greatest = made->greatest.emplace_back();
      for (PackageInput::Range range : input.sizes) {
        least.push_back(range.min);
        greatest.push_back(range.max);
      }
    }
    *model = made.release();
    return TILE_OK;
  });
}

void tile_model_free(tile_model *model) { delete model; }

const char *tile_model_target(const tile_model *model) {
  return model->file->package().variants[model->variant].target.c_str();
}

int tile_model_uses_torch(const tile_model *model) { return model->usesTorch; }

size_t tile_model_num_inputs(const tile_model *model) { return model->file->package().inputs.size(); }

const char *tile_model_input_name(const tile_model *model, size_t input) {
  const Package &package = model->file->package();
  return input < package.inputs.size() ? package.inputs[input].name.c_str() : nullptr;
}

tile_status tile_model_input_info(const tile_model *model, size_t input, tile_input_info *info) {
  return guarded([&]() -> tile_status {
    const Package &package = model->file->package();
    if (input >= package.inputs.size() || !info)
      return fail(TILE_INVALID_ARGUMENT, "the model has no input " + std::to_string(input));
    const PackageInput &known = package.inputs[input];
    bool isInteger = known.kind == PackageInput::Kind::Int;
    DlType type = isInteger ? DlType{0, 64} : toDlType(known.type);
    *info = {type.code,
             type.bits,
             isInteger,
             isInteger ? 0 : static_cast<int32_t>(known.sizes.size()),
             model->least[input].data(),
             model->greatest[input].data()};
    return TILE_OK;
  });
}

tile_status tile_model_run(tile_model *model, const tile_tensor *inputs, size_t num_inputs, tile_results **results) {
  return guarded([&]() -> tile_status {
    if (!model || !results || (num_inputs > 0 && !inputs))
      return fail(TILE_INVALID_ARGUMENT, "tile_model_run expected a model, inputs and a place for results, got NULL");
    *results = nullptr;
    const Package &package = model->file->package();
    if (num_inputs != package.inputs.size())
      return fail(TILE_INVALID_ARGUMENT, "expected " + std::to_string(package.inputs.size()) + " arguments, got " +
                                             std::to_string(num_inputs));
    for (size_t i = 0; i < num_inputs; ++i)
      if (std::string error = checkTensor(inputs[i], package.inputs[i].name); !error.empty())
        return fail(TILE_INVALID_ARGUMENT, error);
    auto made = std::make_unique<tile_results>();
    if (Status status = model->engine->run({inputs, num_inputs}, made->items); !status.isOk())
      return toTileStatus(status, TILE_INVALID_ARGUMENT);
    for (Result &result : made->items) {
      result.tensor.shape = result.sizes.data();
      result.tensor.strides = result.strides.data();
    }
    *results = made.release();
    return TILE_OK;
  });
}

size_t tile_results_count(const tile_results *results) { return results->items.size(); }

const tile_tensor *tile_results_get(const tile_results *results, size_t index) {
  return index < results->items.size() ? &results->items[index].tensor : nullptr;
}

void tile_results_free(tile_results *results) { delete results; }

} // extern "C"
