// Serves a packaged BERT from several threads, without Python.
//
//   serve FOLDER [requests for each thread = 8] [threads = 4] [threads within one call = 1]
//
// FOLDER is what export.py wrote. Every result is compared with the one that Python's runner gave.
#include <torch_tile/runtime.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double msSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

template <typename T> std::vector<T> readAll(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw std::runtime_error("cannot read " + path);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<T> values(bytes.size() / sizeof(T));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char *>(values.data()));
  return values;
}

struct Request {
  std::vector<int64_t> ids, mask;
  std::vector<int64_t> shape;
};

/// Largest difference from what was expected.
double serve(const torch_tile::Model &model, const Request &request, const std::vector<float> &expected) {
  torch_tile::Results results = model.run(
      {torch_tile::Tensor(request.ids.data(), request.shape), torch_tile::Tensor(request.mask.data(), request.shape)});
  const float *hidden = results.data<float>(0);
  double difference = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    difference = std::max(difference, std::fabs(static_cast<double>(hidden[i]) - static_cast<double>(expected[i])));
  return difference;
}

} // namespace

int main(int argc, char **argv) {
  Clock::time_point start = Clock::now();
  if (argc < 2) {
    std::fprintf(stderr, "usage: serve FOLDER [requests = 8] [threads = 4] [threads within one call = 1]\n");
    return 2;
  }
  try {
    std::string folder = argv[1];
    int numRequests = argc > 2 ? std::atoi(argv[2]) : 8, numThreads = argc > 3 ? std::atoi(argv[3]) : 4;
    tile_load_options options{};
    options.struct_bytes = sizeof options;
    options.num_threads =
        argc > 4 ? std::atoi(argv[4]) : 1; // one call uses one thread, so that requests do not compete

    torch_tile::Model model(folder + "/bert.tile", &options);
    Request request{readAll<int64_t>(folder + "/ids.bin"), readAll<int64_t>(folder + "/mask.bin"), {}};
    std::vector<float> expected = readAll<float>(folder + "/loaded.bin");
    request.shape = {static_cast<int64_t>(request.ids.size()) / 64, 64};
    std::printf("loaded in %.1f ms for %s%s\n", msSince(start), model.target().c_str(),
                model.usesTorch() ? ", with LibTorch" : "");
    double largest = serve(model, request, expected);
    std::printf("first result after %.1f ms\n", msSince(start));

    Clock::time_point begin = Clock::now();
    for (int i = 0; i < numRequests; ++i)
      largest = std::max(largest, serve(model, request, expected));
    double single = numRequests / msSince(begin) * 1e3;

    std::vector<double> differences(static_cast<size_t>(numThreads));
    std::atomic<int> failures{0};
    std::vector<std::thread> threads;
    begin = Clock::now();
    for (double &difference : differences)
      threads.emplace_back([&] {
        try {
          for (int i = 0; i < numRequests; ++i)
            difference = std::max(difference, serve(model, request, expected));
        } catch (const std::exception &error) {
          std::fprintf(stderr, "%s\n", error.what());
          ++failures;
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    double together = numThreads * numRequests / msSince(begin) * 1e3;
    for (double difference : differences)
      largest = std::max(largest, difference);
    std::printf("one thread %.1f requests/s, %d threads %.1f requests/s (%.2f times), %u processors\n", single,
                numThreads, together, together / single, std::thread::hardware_concurrency());
    std::printf("largest difference from Python %g\n", largest);
    return failures == 0 && largest < 1e-5 ? 0 : 1;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
