// Some programs of a kernel's grid on the calling thread, without torch.
#pragma once

#include "artifact/CheckPlace.h"
#include "artifact/KernelAbi.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>

namespace torch_tile::runtime {

/// Work for one task. Handing tasks to a pool costs about 1.5 us, so smaller ones would not gain.
inline constexpr int64_t taskCostNs = 10000;

/// Memory of one thread for kernels, grown on demand and kept until the thread ends.
class Scratch {
public:
  ~Scratch() { std::free(memory); }

  void *get(int64_t wantedBytes) {
    if (wantedBytes <= sizeBytes)
      return memory;
    std::free(memory);
    sizeBytes = 0;
    int64_t rounded = (wantedBytes + 4095) / 4096 * 4096;
    memory = std::aligned_alloc(64, static_cast<size_t>(rounded));
    if (memory)
      sizeBytes = rounded;
    return memory;
  }

private:
  void *memory = nullptr;
  int64_t sizeBytes = 0;
};

inline void *threadScratch(int64_t sizeBytes) {
  if (sizeBytes <= 0)
    return nullptr;
  thread_local Scratch scratch;
  return scratch.get(sizeBytes);
}

/// What went wrong in a range of programs; code -1 stands for memory that could not be had.
struct KernelFailure {
  int32_t code = 0;
  int64_t details[3] = {};

  bool isIndexError() const { return code == static_cast<int32_t>(KernelError::IndexOutOfRange); }
  /// The position among the lines of the launch, if the check tells.
  std::optional<int64_t> line() const {
    bool isCheck = isIndexError() || code == static_cast<int32_t>(KernelError::DivisionByZero);
    return isCheck ? decodeCheckedLine(details[2]) : std::nullopt;
  }
  std::string text() const {
    if (isIndexError()) {
      std::optional<int64_t> dim = decodeCheckedDim(details[2]);
      return "index " + std::to_string(details[0]) + " is out of bounds for dimension " +
             (dim ? std::to_string(*dim) + " " : "") + "with size " + std::to_string(details[1]);
    }
    if (code == static_cast<int32_t>(KernelError::DivisionByZero))
      return "ZeroDivisionError";
    if (code == -1)
      return "no memory for the scratch space of a kernel";
    if (code == static_cast<int32_t>(KernelError::Assertion)) {
      auto message = reinterpret_cast<const char *>(details[0]);
      return std::string("a kernel's assertion failed") + (message ? ": " : "") + (message ? message : "");
    }
    return "a kernel failed with unknown code " + std::to_string(code);
  }
};

inline KernelFailure runRange(KernelFn kernel, const KernelArgs &args, int64_t scratchBytes, int64_t begin,
                              int64_t end) noexcept {
  KernelContext context{threadScratch(scratchBytes), {}};
  KernelFailure failure;
  if (scratchBytes > 0 && !context.scratch) {
    failure.code = -1;
    return failure;
  }
  failure.code = kernel(&args, &context, begin, end);
  std::copy(std::begin(context.error), std::end(context.error), std::begin(failure.details));
  return failure;
}

} // namespace torch_tile::runtime
