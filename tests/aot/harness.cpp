// Runs a package on the inputs in files and writes its results; also what the C interface must refuse.
//
//   harness MODEL FOLDER [threads]     inputs FOLDER/in<k>.bin, shapes in FOLDER/shapes.txt ("code bits dims...")
//   harness --errors MODEL             a model of two float32 arguments [2..64, 24]
#include <torch_tile/runtime.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Input {
  std::vector<char> bytes;
  std::vector<int64_t> shape;
  int code = 2, bits = 32;
};

std::vector<char> readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<Input> readInputs(const std::string &folder) {
  std::vector<Input> inputs;
  std::ifstream shapes(folder + "/shapes.txt");
  for (std::string line; std::getline(shapes, line);) {
    std::istringstream words(line);
    Input &input = inputs.emplace_back();
    words >> input.code >> input.bits;
    for (int64_t dim; words >> dim;)
      input.shape.push_back(dim);
    input.bytes = readFile(folder + "/in" + std::to_string(inputs.size() - 1) + ".bin");
  }
  return inputs;
}

size_t extentOf(const tile_tensor &tensor) {
  size_t extent = 1;
  for (int32_t dim = 0; dim < tensor.ndim; ++dim) {
    if (tensor.shape[dim] == 0)
      return 0;
    extent += static_cast<size_t>((tensor.shape[dim] - 1) * tensor.strides[dim]);
  }
  return extent;
}

/// A line for each result, "code bits sizes strides", and its memory in FOLDER/out<k>.bin.
void writeResults(const torch_tile::Results &results, const std::string &folder) {
  std::ofstream shapes(folder + "/results.txt");
  for (size_t i = 0; i < results.size(); ++i) {
    const tile_tensor &tensor = results[i];
    if (tensor.ndim < 0) {
      shapes << "none\n";
      continue;
    }
    shapes << int(tensor.dtype_code) << ' ' << int(tensor.dtype_bits);
    for (int32_t dim = 0; dim < tensor.ndim; ++dim)
      shapes << ' ' << tensor.shape[dim];
    for (int32_t dim = 0; dim < tensor.ndim; ++dim)
      shapes << ' ' << tensor.strides[dim];
    shapes << '\n';
    std::ofstream file(folder + "/out" + std::to_string(i) + ".bin", std::ios::binary);
    file.write(static_cast<const char *>(tensor.data),
               static_cast<std::streamsize>(extentOf(tensor) * tensor.dtype_bits / 8));
  }
}

int runModel(const std::string &path, const std::string &folder, int numThreads) {
  torch_tile::Model model(path);
  std::vector<Input> inputs = readInputs(folder);
  auto call = [&] {
    std::vector<torch_tile::Tensor> tensors;
    for (Input &input : inputs)
      tensors.emplace_back(static_cast<void *>(input.bytes.data()), input.shape, static_cast<uint8_t>(input.code),
                           static_cast<uint8_t>(input.bits));
    return model.run(tensors);
  };
  std::printf("%s %d\n", model.target().c_str(), model.usesTorch());
  if (numThreads > 0) {
    std::vector<std::thread> threads;
    for (int i = 0; i < numThreads; ++i)
      threads.emplace_back([&] {
        for (int round = 0; round < 20; ++round)
          call();
      });
    for (std::thread &thread : threads)
      thread.join();
  }
  writeResults(call(), folder);
  return 0;
}

template <typename Function> void expectError(const char *what, Function function) {
  try {
    function();
    std::printf("%s: no error\n", what);
  } catch (const torch_tile::Error &error) {
    std::printf("%s: %d %s\n", what, static_cast<int>(error.status()), error.what());
  }
}

int showErrors(const std::string &path) {
  torch_tile::Model model(path);
  std::vector<float> x(65 * 24), y(65 * 24);
  auto run = [&](std::vector<torch_tile::Tensor> inputs) { model.run(inputs); };
  expectError("rows", [&] { run({{x.data(), {65, 24}}, {y.data(), {65, 24}}}); });
  expectError("unequal", [&] { run({{x.data(), {6, 24}}, {y.data(), {7, 24}}}); });
  expectError("rank", [&] { run({{x.data(), {24}}, {y.data(), {7, 24}}}); });
  expectError("number", [&] { run({{x.data(), {6, 24}}}); });
  std::vector<double> wide(6 * 24);
  expectError("dtype", [&] { run({{wide.data(), {6, 24}}, {y.data(), {6, 24}}}); });
  expectError("negative", [&] { run({{x.data(), {-6, 24}}, {y.data(), {6, 24}}}); });
  expectError("data", [&] { run({torch_tile::Tensor(static_cast<float *>(nullptr), {6, 24}), {y.data(), {6, 24}}}); });
  expectError("file", [&] { torch_tile::Model other(path + ".not"); });
  tile_load_options options{};
  expectError("options", [&] { torch_tile::Model other(path, &options); });
  options.struct_bytes = sizeof options;
  options.device_type = 7;
  expectError("device", [&] { torch_tile::Model other(path, &options); });
  options.device_type = 1;
  options.num_threads = 100000;
  expectError("threads", [&] { torch_tile::Model other(path, &options); });
  std::printf("status %d\n", tile_model_load(nullptr, nullptr, nullptr));
  tile_input_info info = model.inputInfo(1);
  std::printf("input %s %d %d %d %ld %ld\n", model.inputName(1).c_str(), info.dtype_code, info.dtype_bits, info.ndim,
              static_cast<long>(info.least[0]), static_cast<long>(info.greatest[0]));
  return model.inputName(2).empty() ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  try {
    if (argc == 3 && std::strcmp(argv[1], "--errors") == 0)
      return showErrors(argv[2]);
    if (argc < 3)
      return 2;
    return runModel(argv[1], argv[2], argc > 3 ? std::atoi(argv[3]) : 0);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
