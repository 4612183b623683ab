// The C interface of runtime.h for C++17: owners, containers and exceptions. All of it is inline, so the exceptions are
// the program's own and none crosses the library's border.
#ifndef TORCH_TILE_RUNTIME_HPP
#define TORCH_TILE_RUNTIME_HPP

#include "torch_tile/runtime.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace torch_tile {

class Error : public std::runtime_error {
public:
  Error(tile_status status, const std::string &text) : std::runtime_error(text), code(status) {}
  tile_status status() const { return code; }

private:
  tile_status code;
};

/// DLPack's code and bits of an element type.
template <typename T> struct DataType;
template <> struct DataType<float> {
  static constexpr uint8_t code = 2, bits = 32;
};
template <> struct DataType<double> {
  static constexpr uint8_t code = 2, bits = 64;
};
template <> struct DataType<int64_t> {
  static constexpr uint8_t code = 0, bits = 64;
};
template <> struct DataType<int32_t> {
  static constexpr uint8_t code = 0, bits = 32;
};
template <> struct DataType<int16_t> {
  static constexpr uint8_t code = 0, bits = 16;
};
template <> struct DataType<int8_t> {
  static constexpr uint8_t code = 0, bits = 8;
};
template <> struct DataType<uint8_t> {
  static constexpr uint8_t code = 1, bits = 8;
};
template <> struct DataType<bool> {
  static constexpr uint8_t code = 6, bits = 8;
};

/// A row-major tensor over memory that somebody else owns.
class Tensor {
public:
  template <typename T>
  Tensor(T *data, std::vector<int64_t> shape)
      : Tensor(const_cast<void *>(static_cast<const void *>(data)), std::move(shape),
               DataType<std::remove_const_t<T>>::code, DataType<std::remove_const_t<T>>::bits) {}
  /// Of any element type, by DLPack's code and bits; `deviceType` 1 is the CPU, 2 CUDA.
  Tensor(void *data, std::vector<int64_t> shape, uint8_t code, uint8_t bits, int32_t deviceType = 1,
         int32_t deviceId = 0)
      : sizes(std::move(shape)), raw{} {
    raw.data = data;
    raw.device_type = deviceType;
    raw.device_id = deviceId;
    raw.dtype_code = code;
    raw.dtype_bits = bits;
    raw.dtype_lanes = 1;
  }

  const std::vector<int64_t> &shape() const { return sizes; }
  tile_tensor view() const {
    tile_tensor tensor = raw;
    tensor.ndim = static_cast<int32_t>(sizes.size());
    tensor.shape = sizes.data();
    return tensor;
  }

private:
  std::vector<int64_t> sizes;
  tile_tensor raw;
};

/// What a call gave; owns the memory of its tensors.
class Results {
public:
  explicit Results(tile_results *results) : results(results, &tile_results_free) {}

  size_t size() const { return tile_results_count(results.get()); }
  const tile_tensor &operator[](size_t index) const {
    const tile_tensor *tensor = tile_results_get(results.get(), index);
    if (!tensor)
      throw Error(TILE_INVALID_ARGUMENT, "result " + std::to_string(index) + " of " + std::to_string(size()));
    return *tensor;
  }
  /// The elements of a result on the CPU.
  template <typename T> const T *data(size_t index) const {
    const tile_tensor &tensor = (*this)[index];
    if (tensor.dtype_code != DataType<T>::code || tensor.dtype_bits != DataType<T>::bits)
      throw Error(TILE_INVALID_ARGUMENT, "result " + std::to_string(index) + " is of another element type");
    return reinterpret_cast<const T *>(static_cast<const char *>(tensor.data) + tensor.byte_offset);
  }
  std::vector<int64_t> shape(size_t index) const {
    const tile_tensor &tensor = (*this)[index];
    return std::vector<int64_t>(tensor.shape, tensor.shape + (tensor.ndim > 0 ? tensor.ndim : 0));
  }

private:
  std::unique_ptr<tile_results, decltype(&tile_results_free)> results;
};

/// A loaded package. Threads may share one.
class Model {
public:
  explicit Model(const std::string &path, const tile_load_options *options = nullptr)
      : model(nullptr, &tile_model_free) {
    tile_model *loaded = nullptr;
    check(tile_model_load(path.c_str(), options, &loaded));
    model.reset(loaded);
  }

  Results run(const std::vector<Tensor> &inputs) const {
    std::vector<tile_tensor> views;
    views.reserve(inputs.size());
    for (const Tensor &input : inputs)
      views.push_back(input.view());
    return run(views.data(), views.size());
  }
  Results run(const tile_tensor *inputs, size_t count) const {
    tile_results *results = nullptr;
    check(tile_model_run(model.get(), inputs, count, &results));
    return Results(results);
  }

  std::string target() const { return tile_model_target(model.get()); }
  bool usesTorch() const { return tile_model_uses_torch(model.get()) != 0; }
  size_t numInputs() const { return tile_model_num_inputs(model.get()); }
  std::string inputName(size_t input) const {
    const char *name = tile_model_input_name(model.get(), input);
    return name ? name : "";
  }
  tile_input_info inputInfo(size_t input) const {
    tile_input_info info;
    check(tile_model_input_info(model.get(), input, &info));
    return info;
  }

private:
  static void check(tile_status status) {
    if (status != TILE_OK)
      throw Error(status, tile_last_error());
  }
  std::unique_ptr<tile_model, decltype(&tile_model_free)> model;
};

} // namespace torch_tile

#endif
